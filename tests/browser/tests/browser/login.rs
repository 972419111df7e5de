//! Login with an identity provider on another site, where browsers do not send `SameSite=Strict` cookies.

use api::auth::login::{CALLBACK, Login, LoginSettings};
use api::auth::{OidcSettings, TokenAlgorithm};
use countersign_browser::{Browser, BrowserEnv};

use crate::issuer::{CLIENT, Issuer, SECRET};

/// A different site than 127.0.0.1 for a browser.
const OTHER_SITE: &str = "localhost";

async fn login(url: &str) -> Option<Login> {
    let issuer = Issuer::start(OTHER_SITE, format!("{url}{CALLBACK}")).await;
    let oidc = OidcSettings {
        issuer: issuer.url.clone(),
        audience: CLIENT.to_owned(),
        jwks_url: None,
        signed: vec![TokenAlgorithm::Rs256],
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
fn oidc_login_and_logout_across_sites() {
    let env = BrowserEnv::with_login(&["acme"], login);
    let browser = Browser::open();
    browser.go(&env.at("/approvals"));
    browser.wait_for("Log in with Example");
    browser.click("a[href='/login/oidc?next=/approvals']");
    browser.wait_for("grace at acme");
    browser.wait_for_address("/approvals");
    browser.wait_for("Live.");
    browser.go(&env.at("/runs"));
    browser.wait_for("grace at acme");
    browser.click("form[action='/logout'] button");
    browser.wait_for("Log in with Example");
    browser.go(&env.at("/runs"));
    browser.wait_for_address("/login?next=/runs");
    assert_eq!(browser.errors(), [""; 0]);
}
