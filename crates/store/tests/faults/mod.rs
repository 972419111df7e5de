//! Fault injection below the AWS SDK, for every place that sends a request.

pub(crate) mod connection;
pub(crate) mod content;
pub(crate) mod fixture;
pub(crate) mod matrix;
pub(crate) mod sites;
