//! The live stream, as its listeners have it: a real server, real connections, and a worker that moves the runs.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod doors;
mod ends;
mod listen;
mod replay;
mod scene;
mod tenant;
