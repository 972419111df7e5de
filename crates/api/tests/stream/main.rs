//! The live stream with a real server, real connections and a worker.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod access;
mod ends;
mod env;
mod listen;
mod replay;
mod tenant;
