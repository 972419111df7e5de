//! The console in Chromium.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod accessibility;
mod axe;
mod dev;
#[path = "../../../../crates/console/tests/login/issuer.rs"]
#[expect(
    dead_code,
    clippy::unwrap_used,
    reason = "only the default behavior is used here; a test fails by panicking"
)]
mod issuer;

mod flows;
mod login;

use countersign_browser::{Browser, BrowserEnv};
use domain::Role;

fn log_in(env: &BrowserEnv, browser: &Browser, (tenant, person): (&str, &str), roles: &[Role]) {
    let key = env.key(tenant, person, roles);
    browser.go(&env.at("/login"));
    browser.type_into("#key", &key);
    browser.click("button[type=submit]");
    browser.wait_for(&format!("{person} at {tenant}"));
}
