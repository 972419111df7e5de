//! The engine on an embedded store. One binary, because each would compile the engine again.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod backout;
mod caches;
mod concurrency;
mod connections;
mod duties;
mod forecast;
mod governance;
mod http_env;
mod inbox;
mod journal;
mod outcomes;
mod reads;
mod receipts;
mod run_commands;
mod schedules;
mod threats;
