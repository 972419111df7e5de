//! Logging in with an identity provider on another site, which is where browsers keep cookies back.

use api::auth::login::{CALLBACK, Login, LoginSettings};
use api::auth::{OidcSettings, Signed};
use countersign_browser::{Browser, Stage};

use crate::issuer::{CLIENT, Issuer, SECRET};

/// To a browser another site than 127.0.0.1.
const ELSEWHERE: &str = "localhost";

async fn login(url: &str) -> Option<Login> {
    let issuer = Issuer::start(ELSEWHERE, format!("{url}{CALLBACK}")).await;
    let oidc = OidcSettings {
        issuer: issuer.url.clone(),
        audience: CLIENT.to_owned(),
        key_set: None,
        signed: vec![Signed::Rs256],
        tenant_claim: "org".to_owned(),
        person_claim: "name".to_owned(),
        roles_claim: "roles".to_owned(),
    };
    let settings = LoginSettings {
        oidc,
        name: "Example".to_owned(),
        client_secret: Some(SECRET.into()),
        url: url.parse().ok()?,
        scopes: Vec::new(),
    };
    Login::new(settings).ok()
}

#[test]
fn a_person_logs_in_with_a_provider_elsewhere_and_out_again() {
    let stage = Stage::open_with(&["acme"], login);
    let browser = Browser::open();
    browser.go(&stage.at("/approvals"));
    browser.wait_for("Log in with Example");
    browser.click("a[href='/login/oidc?next=/approvals']");
    browser.wait_for("grace at acme");
    browser.wait_for_address("/approvals");
    browser.wait_for("Live.");
    browser.go(&stage.at("/runs"));
    browser.wait_for("grace at acme");
    browser.click("form[action='/logout'] button");
    browser.wait_for("Log in with Example");
    browser.go(&stage.at("/runs"));
    browser.wait_for_address("/login?next=/runs");
    assert_eq!(browser.complaints(), [""; 0]);
}
