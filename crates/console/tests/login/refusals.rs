//! Refused logins.

use axum::http::StatusCode;
use domain::Millis;
use serde_json::{Value, json};

use crate::browser::{Browser, Page};
use crate::env::LoginEnv;
use crate::issuer::{Behavior, Kind};

const LOGIN: &str = "countersign-login";

/// The callback address to which the provider redirects `browser`.
async fn callback(env: &LoginEnv, browser: &Browser) -> String {
    browser.go_until(env.at("/login/oidc?next=/runs"), "/login/oidc/callback").await
}

/// Asserts that the login failed with `status` and `text`, and that the page offers another login.
#[track_caller]
fn assert_refused(page: &Page, browser: &Browser, status: StatusCode, text: &str) {
    assert_eq!(page.status, status, "{}", page.body);
    assert!(page.body.contains(text), "{text:?} is not in {}", page.body);
    assert!(page.body.contains("Log in with Example") && page.body.contains("name=\"key\""), "{}", page.body);
    assert_eq!((browser.cookie("countersign"), browser.cookie(LOGIN)), (None, None));
}

const UNKNOWN_LOGIN: &str = "The login was not started in this browser, or it has expired.";

const INVALID_TOKEN: &str = "The token of Example &amp; Co was rejected.";

#[tokio::test]
async fn login_of_another_browser_cannot_be_finished() {
    let env = LoginEnv::new().await;
    let (mallory, grace) = (Browser::new(), Browser::new());
    let theirs = callback(&env, &mallory).await;
    let page = grace.get(&theirs).await;
    assert_refused(&page, &grace, StatusCode::BAD_REQUEST, UNKNOWN_LOGIN);
    // The same if she has started a login herself.
    callback(&env, &grace).await;
    let page = grace.get(&theirs).await;
    assert_refused(&page, &grace, StatusCode::BAD_REQUEST, UNKNOWN_LOGIN);
    assert_eq!(env.issuer.tokens(), 0, "no code was exchanged");
}

#[tokio::test]
async fn invalid_state_is_refused() {
    let env = LoginEnv::new().await;
    for state in ["state=", "state=made-up", "other=1"] {
        let browser = Browser::new();
        let good = callback(&env, &browser).await;
        let (start, rest) = good.split_once("state=").unwrap();
        let rest = rest.split_once('&').unwrap().1;
        let page = browser.get(format!("{start}{state}&{rest}")).await;
        assert_refused(&page, &browser, StatusCode::BAD_REQUEST, UNKNOWN_LOGIN);
    }
}

#[tokio::test]
async fn forged_login_cookie_is_refused() {
    let env = LoginEnv::new().await;
    let browser = Browser::new();
    let good = callback(&env, &browser).await;
    let cookie = browser.cookie(LOGIN).unwrap();
    let other = {
        let other = Browser::new();
        callback(&env, &other).await;
        other.cookie(LOGIN).unwrap()
    };
    let swapped = format!("{}.{}", cookie.split_once('.').unwrap().0, other.split_once('.').unwrap().1);
    for value in ["", ".", "e30.00", swapped.as_str(), &cookie[1..]] {
        browser.put(&env.url, LOGIN, value);
        let page = browser.get(&good).await;
        assert_refused(&page, &browser, StatusCode::BAD_REQUEST, UNKNOWN_LOGIN);
    }
    browser.put(&env.url, LOGIN, &cookie);
    assert_eq!(browser.go(&good).await.url.path(), "/runs", "the original cookie is valid");
}

#[tokio::test]
async fn login_can_be_finished_once() {
    let env = LoginEnv::new().await;
    let browser = Browser::new();
    let good = callback(&env, &browser).await;
    let cookie = browser.cookie(LOGIN).unwrap();
    assert_eq!(browser.go(&good).await.url.path(), "/runs");
    let again = Browser::new();
    let page = again.get(&good).await;
    assert_refused(&page, &again, StatusCode::BAD_REQUEST, UNKNOWN_LOGIN);
    again.put(&env.url, LOGIN, &cookie);
    let page = again.get(&good).await;
    assert_refused(&page, &again, StatusCode::BAD_REQUEST, UNKNOWN_LOGIN);
    assert_eq!(env.issuer.tokens(), 1);
}

#[tokio::test]
async fn reused_code_shows_the_providers_error() {
    let env = LoginEnv::new().await;
    let (first, second) = (Browser::new(), Browser::new());
    let (used, fresh) = (callback(&env, &first).await, callback(&env, &second).await);
    let code = |url: &str| url.split_once("code=").unwrap().1.to_owned();
    first.get(&used).await;
    // The code of another login: already used, and issued for another verifier.
    let mixed = fresh.replace(&code(&fresh), &code(&used));
    let page = second.get(&mixed).await;
    assert_refused(
        &page,
        &second,
        StatusCode::UNAUTHORIZED,
        "Example &amp; Co returned an error: invalid_grant.",
    );
    let (third, fourth) = (Browser::new(), Browser::new());
    let (stolen, own) = (callback(&env, &third).await, callback(&env, &fourth).await);
    let mixed = own.replace(&code(&own), &code(&stolen));
    let page = fourth.get(&mixed).await;
    assert_refused(
        &page,
        &fourth,
        StatusCode::UNAUTHORIZED,
        "Example &amp; Co returned an error: invalid_grant.",
    );
}

#[tokio::test]
async fn expired_login_is_refused() {
    let env = LoginEnv::new().await;
    let browser = Browser::new();
    let good = callback(&env, &browser).await;
    env.clock.advance(Millis::mins(10));
    let page = browser.get(&good).await;
    assert_refused(&page, &browser, StatusCode::BAD_REQUEST, UNKNOWN_LOGIN);
}

#[tokio::test]
async fn response_of_another_issuer_is_refused() {
    let env = LoginEnv::new().await;
    let browser = Browser::new();
    let good = callback(&env, &browser).await;
    let (start, rest) = good.split_once("iss=").unwrap();
    let page = browser
        .get(format!("{start}iss=https%3A%2F%2Fevil.example&{}", rest.split_once('&').unwrap().1))
        .await;
    assert_refused(&page, &browser, StatusCode::BAD_REQUEST, UNKNOWN_LOGIN);
}

/// Asserts that a token with the claims `instead`, signed in this way, is refused.
async fn assert_token_refused(env: &LoginEnv, kind: Kind, instead: Value) {
    env.issuer.behave(Behavior { kind, instead: instead.clone(), error: None });
    let browser = Browser::new();
    let good = callback(env, &browser).await;
    let page = browser.get(&good).await;
    assert_eq!(page.status, StatusCode::UNAUTHORIZED, "{kind:?} {instead}: {}", page.body);
    assert_refused(&page, &browser, StatusCode::UNAUTHORIZED, INVALID_TOKEN);
}

#[tokio::test]
async fn token_with_another_nonce_is_refused() {
    let env = LoginEnv::new().await;
    for nonce in [json!("another"), json!(""), json!(null), json!(["a"])] {
        assert_token_refused(&env, Kind::Rs256, json!({ "nonce": nonce })).await;
    }
}

#[tokio::test]
async fn token_with_wrong_claims_is_refused() {
    let env = LoginEnv::new().await;
    for instead in [
        json!({ "aud": "others" }),
        json!({ "aud": [] }),
        json!({ "aud": ["countersign console", "others"] }),
        json!({ "azp": "others" }),
        json!({ "iss": "https://evil.example" }),
        json!({ "sub": null }),
        json!({ "org": "not a name" }),
        json!({ "name": null }),
    ] {
        assert_token_refused(&env, Kind::Rs256, instead).await;
    }
}

#[tokio::test]
async fn expired_token_is_refused() {
    let env = LoginEnv::new().await;
    for exp in [json!(1_000_000_000), json!(null), json!("never")] {
        assert_token_refused(&env, Kind::Rs256, json!({ "exp": exp })).await;
    }
}

#[tokio::test]
async fn token_without_a_valid_signature_is_refused() {
    let env = LoginEnv::new().await;
    for kind in [Kind::Unsigned, Kind::Hs256, Kind::Other] {
        assert_token_refused(&env, kind, json!({})).await;
    }
}

#[tokio::test]
async fn user_without_a_role_is_refused() {
    let env = LoginEnv::new().await;
    for roles in [json!([]), json!("root"), json!(null), json!({ "acme": "admin" })] {
        env.issuer.behave(Behavior {
            instead: json!({ "roles": roles, "org": "umbrella" }),
            ..Behavior::default()
        });
        let browser = Browser::new();
        let page = browser.go(env.at("/login/oidc")).await;
        let words = "Example &amp; Co gives grace no role in tenant umbrella.";
        assert_refused(&page, &browser, StatusCode::FORBIDDEN, words);
    }
}

#[tokio::test]
async fn provider_error_is_shown_as_escaped_text() {
    let env = LoginEnv::new().await;
    let description = "<script>alert(1)</script>\u{202e}".to_owned() + &"x".repeat(1_000);
    env.issuer
        .behave(Behavior { error: Some(("access_denied".to_owned(), description)), ..Behavior::default() });
    let browser = Browser::new();
    let good = callback(&env, &browser).await;
    let page = browser.get(&good).await;
    let words =
        "Example &amp; Co returned an error: access_denied: &lt;script&gt;alert(1)&lt;/script&gt;⟨U+202E⟩xxx";
    assert_refused(&page, &browser, StatusCode::UNAUTHORIZED, words);
    assert!(!page.body.contains("<script>alert") && !page.body.contains(&"x".repeat(400)), "{}", page.body);
    // Without the login cookie the error is not shown.
    let other = Browser::new();
    let page = other.get(&good).await;
    assert!(!page.body.contains("access_denied"), "{}", page.body);
}
