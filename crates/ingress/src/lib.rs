//! The entry points for other systems: signed webhooks, Slack interactions and Slack commands.
//!
//! A handler authenticates the raw bytes, parses them, calls the engine, and replies. It decides nothing itself, and
//! replies 2xx only after the event is durable. The Lambda functions and `countersign serve` share this code.

#[cfg(feature = "configured")]
pub mod configured;
mod response;
#[cfg(feature = "served")]
pub mod routes;
pub mod slack;
pub mod webhook;
