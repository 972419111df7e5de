//! `http.request` against a server that answers, stalls, drips, hangs up and forgets.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests and their helpers may")]

extern crate countersign_connectors as connectors;

mod answer;
mod outcomes;
mod promises;
#[path = "../support/mod.rs"]
mod support;
