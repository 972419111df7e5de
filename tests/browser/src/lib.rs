//! The console in a real browser.
//!
//! A [`Stage`] is everything behind the pages: the console and the API on the embedded store, a worker, and the
//! systems outside, simulated. A [`Browser`] is Chromium, driven over the protocol that all browsers speak
//! (`WebDriver`), by as much of it as is needed here.
#![expect(clippy::expect_used, clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

pub mod browser;
pub mod http;
pub mod stage;

pub use browser::{Browser, Look};
pub use stage::Stage;
