//! Every tool with an effect, told the same story: run twice, failed once, its reply lost once, undone, and
//! undone twice. The other side counts what really happened.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests and their helpers may")]

extern crate countersign_connectors as connectors;

mod engine;
mod github;
mod model;
mod not_configured;
mod servicenow;
mod slack;
mod story;
mod subject;
