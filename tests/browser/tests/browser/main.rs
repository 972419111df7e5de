//! What people do in the console, in a real Chromium.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod axe;
mod dev;
#[path = "../../../../crates/console/tests/login/issuer.rs"]
#[expect(
    dead_code,
    clippy::unwrap_used,
    reason = "here it only does what it should; a test fails by panicking"
)]
mod issuer;
mod journeys;
mod login;
mod looks;

use countersign_browser::{Browser, Stage};
use domain::Role;

/// Logs `person` in, as they would.
fn log_in(stage: &Stage, browser: &Browser, (tenant, person): (&str, &str), roles: &[Role]) {
    let key = stage.key(tenant, person, roles);
    browser.go(&stage.at("/login"));
    browser.type_into("#key", &key);
    browser.click("button[type=submit]");
    browser.wait_for(&format!("{person} at {tenant}"));
}
