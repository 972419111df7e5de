//! What comes in from outside.
//!
//! A handler checks the raw bytes, reads them, asks the engine, and replies. It holds no rules, and what it
//! accepts is durable before it says so. The same code is served on a laptop and behind a gateway.

#[cfg(any(feature = "lambda", feature = "served"))]
pub mod described;
pub mod http;
#[cfg(feature = "lambda")]
pub mod lambda;
#[cfg(feature = "served")]
pub mod served;
pub mod slack;
pub mod sweep;
pub mod webhook;
