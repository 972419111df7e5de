//! Fakes of the external systems, for tests, the demo and `countersign dev`.

pub mod aws_secrets;
pub mod github;
pub mod model;
pub mod pagerduty;
pub mod server;
pub mod servicenow;
mod sigv4;
pub mod slack;
pub mod vault;
