//! The systems outside, simulated.

pub mod github;
pub mod model;
pub mod server;
pub mod servicenow;
pub mod slack;
