//! Every tool with an effect passes the same tests: run twice, failed once, reply lost once, undone, undone twice. The
//! fake external system counts what really happened.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests and their helpers may")]

extern crate countersign_connectors as connectors;

mod driver;
mod effects;
mod github;
mod model;
mod servicenow;
mod slack;
mod subject;
mod unconnected;
