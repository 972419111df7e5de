//! The console in a real browser.
//!
//! A [`BrowserEnv`] runs the console and the API on the embedded store, a worker, and fakes of the external systems. A
//! [`Browser`] is Chromium, driven over the `WebDriver` protocol.
#![expect(clippy::expect_used, clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

pub mod browser;
pub mod env;
pub mod http;

pub use browser::{Browser, Viewport};
pub use env::BrowserEnv;
