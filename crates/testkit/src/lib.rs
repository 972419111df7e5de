//! The shared harness of the tests. Every function panics where a test would.
//!
//! An engine on a store in memory, with a run that is advanced to its end:
//!
//! ```no_run
//! # use countersign_testkit as testkit;
//! # async fn example() {
//! let env = testkit::engine().standard_tools().env();
//! let run = env.start(testkit::TRANSFORM, "key").await;
//! env.advance(&run).await;
//! # }
//! ```
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod clock;
mod engine;
mod env;
mod fault;
mod http;
mod keys;
pub mod ledger;
mod log;
mod random;
mod runs;
mod tool;
mod wait;

pub use clock::TestClock;
pub use engine::{EngineBuilder, engine, memory, open, signing_key};
pub use env::TestEnv;
pub use fault::{CallCounts, Fault, Faults};
pub use http::{HttpStub, StubEnding, StubReply, StubRequest};
pub use keys::{api_key, key_text};
pub use log::CapturedLog;
pub use random::Random;
pub use runs::{
    ASK, TRANSFORM, acme, ada, advance, apply, approvals, approve, dead_letters, event, messages, plan,
    record, request, start, status, vote,
};
pub use tool::{ExternalRecord, SetRecord, action};
pub use wait::{eventually, eventually_some};
