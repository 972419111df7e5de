//! `http.request` against servers that reply, stall, send slowly and close the connection.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests and their helpers may")]

extern crate countersign_connectors as connectors;

mod effect_classes;
mod outcomes;
#[path = "../support/mod.rs"]
mod support;
