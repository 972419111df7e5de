//! Faults below the SDK, for every place that sends a request.

pub(crate) mod kept;
pub(crate) mod line;
pub(crate) mod matrix;
pub(crate) mod sites;
pub(crate) mod story;
