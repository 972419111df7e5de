//! Fakes of the external systems, for tests, the demo and `countersign dev`.

pub mod github;
pub mod model;
pub mod server;
pub mod servicenow;
pub mod slack;
