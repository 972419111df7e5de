//! Who is not let in.

use axum::http::StatusCode;
use domain::Millis;
use serde_json::{Value, json};

use crate::browser::{Browser, Page};
use crate::issuer::{Kind, Manner};
use crate::scene::Scene;

const LOGIN: &str = "countersign-login";

/// Where the provider leads `browser` back to.
async fn back(scene: &Scene, browser: &Browser) -> String {
    browser.go_until(scene.at("/login/oidc?next=/runs"), "/login/oidc/callback").await
}

/// The page lets nobody in, and says so with `status` and `words`; the browser can try again from there.
#[track_caller]
fn refused(page: &Page, browser: &Browser, status: StatusCode, words: &str) {
    assert_eq!(page.status, status, "{}", page.body);
    assert!(page.body.contains(words), "{words:?} is not in {}", page.body);
    assert!(page.body.contains("Log in with Example") && page.body.contains("name=\"key\""), "{}", page.body);
    assert_eq!((browser.cookie("countersign"), browser.cookie(LOGIN)), (None, None));
}

const NOT_BEGUN: &str = "This login was not begun in this browser, or has ended already.";

const NOT_BELIEVED: &str = "What Example &amp; Co says of you is not believed here.";

#[tokio::test]
async fn a_login_that_another_browser_began_is_not_finished_in_this_one() {
    let scene = Scene::new().await;
    let (mallory, grace) = (Browser::new(), Browser::new());
    let of_tenant = back(&scene, &mallory).await;
    let page = grace.get(&of_tenant).await;
    refused(&page, &grace, StatusCode::BAD_REQUEST, NOT_BEGUN);
    // Nor if she has begun one herself.
    back(&scene, &grace).await;
    let page = grace.get(&of_tenant).await;
    refused(&page, &grace, StatusCode::BAD_REQUEST, NOT_BEGUN);
    assert_eq!(scene.issuer.tokens(), 0, "nothing was exchanged");
}

#[tokio::test]
async fn a_state_that_is_made_up_or_missing_is_refused() {
    let scene = Scene::new().await;
    for state in ["state=", "state=made-up", "other=1"] {
        let browser = Browser::new();
        let good = back(&scene, &browser).await;
        let (start, rest) = good.split_once("state=").unwrap();
        let rest = rest.split_once('&').unwrap().1;
        let page = browser.get(format!("{start}{state}&{rest}")).await;
        refused(&page, &browser, StatusCode::BAD_REQUEST, NOT_BEGUN);
    }
}

#[tokio::test]
async fn a_cookie_that_is_not_ours_or_changed_is_refused() {
    let scene = Scene::new().await;
    let browser = Browser::new();
    let good = back(&scene, &browser).await;
    let cookie = browser.cookie(LOGIN).unwrap();
    let other = {
        let other = Browser::new();
        back(&scene, &other).await;
        other.cookie(LOGIN).unwrap()
    };
    let swapped = format!("{}.{}", cookie.split_once('.').unwrap().0, other.split_once('.').unwrap().1);
    for value in ["", ".", "e30.00", swapped.as_str(), &cookie[1..]] {
        browser.put(&scene.url, LOGIN, value);
        let page = browser.get(&good).await;
        refused(&page, &browser, StatusCode::BAD_REQUEST, NOT_BEGUN);
    }
    browser.put(&scene.url, LOGIN, &cookie);
    assert_eq!(browser.go(&good).await.url.path(), "/runs", "and what was given is good");
}

#[tokio::test]
async fn a_login_is_finished_once_even_with_its_cookie_kept() {
    let scene = Scene::new().await;
    let browser = Browser::new();
    let good = back(&scene, &browser).await;
    let cookie = browser.cookie(LOGIN).unwrap();
    assert_eq!(browser.go(&good).await.url.path(), "/runs");
    let again = Browser::new();
    let page = again.get(&good).await;
    refused(&page, &again, StatusCode::BAD_REQUEST, NOT_BEGUN);
    again.put(&scene.url, LOGIN, &cookie);
    let page = again.get(&good).await;
    refused(&page, &again, StatusCode::BAD_REQUEST, NOT_BEGUN);
    assert_eq!(scene.issuer.tokens(), 1);
}

#[tokio::test]
async fn a_code_that_was_used_elsewhere_is_refused_by_the_provider_and_that_is_said() {
    let scene = Scene::new().await;
    let (first, second) = (Browser::new(), Browser::new());
    let (used, fresh) = (back(&scene, &first).await, back(&scene, &second).await);
    let code = |url: &str| url.split_once("code=").unwrap().1.to_owned();
    first.get(&used).await;
    // The code of one login, brought to another: used up, and made for another verifier.
    let mixed = fresh.replace(&code(&fresh), &code(&used));
    let page = second.get(&mixed).await;
    refused(&page, &second, StatusCode::UNAUTHORIZED, "Example &amp; Co says invalid_grant.");
    let (third, fourth) = (Browser::new(), Browser::new());
    let (stolen, own) = (back(&scene, &third).await, back(&scene, &fourth).await);
    let mixed = own.replace(&code(&own), &code(&stolen));
    let page = fourth.get(&mixed).await;
    refused(&page, &fourth, StatusCode::UNAUTHORIZED, "Example &amp; Co says invalid_grant.");
}

#[tokio::test]
async fn a_login_that_takes_too_long_is_refused() {
    let scene = Scene::new().await;
    let browser = Browser::new();
    let good = back(&scene, &browser).await;
    scene.watch.forward(Millis::mins(10));
    let page = browser.get(&good).await;
    refused(&page, &browser, StatusCode::BAD_REQUEST, NOT_BEGUN);
}

#[tokio::test]
async fn an_answer_of_another_issuer_is_refused() {
    let scene = Scene::new().await;
    let browser = Browser::new();
    let good = back(&scene, &browser).await;
    let (start, rest) = good.split_once("iss=").unwrap();
    let page = browser
        .get(format!("{start}iss=https%3A%2F%2Fevil.example&{}", rest.split_once('&').unwrap().1))
        .await;
    refused(&page, &browser, StatusCode::BAD_REQUEST, NOT_BEGUN);
}

/// Lets the provider say `instead`, signed in this way; nobody is let in by that.
async fn disbelieved(scene: &Scene, kind: Kind, instead: Value) {
    scene.issuer.behave(Manner { kind, instead: instead.clone(), refuses: None });
    let browser = Browser::new();
    let good = back(scene, &browser).await;
    let page = browser.get(&good).await;
    assert_eq!(page.status, StatusCode::UNAUTHORIZED, "{kind:?} {instead}: {}", page.body);
    refused(&page, &browser, StatusCode::UNAUTHORIZED, NOT_BELIEVED);
}

#[tokio::test]
async fn a_token_for_another_login_is_refused() {
    let scene = Scene::new().await;
    for nonce in [json!("another"), json!(""), json!(null), json!(["a"])] {
        disbelieved(&scene, Kind::Rs256, json!({ "nonce": nonce })).await;
    }
}

#[tokio::test]
async fn a_token_for_others_or_of_others_is_refused() {
    let scene = Scene::new().await;
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
        disbelieved(&scene, Kind::Rs256, instead).await;
    }
}

#[tokio::test]
async fn a_token_whose_time_is_over_is_refused() {
    let scene = Scene::new().await;
    for exp in [json!(1_000_000_000), json!(null), json!("never")] {
        disbelieved(&scene, Kind::Rs256, json!({ "exp": exp })).await;
    }
}

#[tokio::test]
async fn a_token_that_nobody_signed_or_anybody_could_is_refused() {
    let scene = Scene::new().await;
    for kind in [Kind::Unsigned, Kind::Hs256, Kind::Other] {
        disbelieved(&scene, kind, json!({})).await;
    }
}

#[tokio::test]
async fn somebody_without_a_role_in_the_tenant_is_told_so() {
    let scene = Scene::new().await;
    for roles in [json!([]), json!("root"), json!(null), json!({ "acme": "admin" })] {
        scene
            .issuer
            .behave(Manner { instead: json!({ "roles": roles, "org": "umbrella" }), ..Manner::default() });
        let browser = Browser::new();
        let page = browser.go(scene.at("/login/oidc")).await;
        let words = "Example &amp; Co gives grace no role in tenant umbrella.";
        refused(&page, &browser, StatusCode::FORBIDDEN, words);
    }
}

#[tokio::test]
async fn what_the_provider_says_is_wrong_is_shown_plainly_and_as_text() {
    let scene = Scene::new().await;
    let said = "<script>alert(1)</script>\u{202e}".to_owned() + &"x".repeat(1_000);
    scene.issuer.behave(Manner { refuses: Some(("access_denied".to_owned(), said)), ..Manner::default() });
    let browser = Browser::new();
    let good = back(&scene, &browser).await;
    let page = browser.get(&good).await;
    let words = "Example &amp; Co says access_denied: &lt;script&gt;alert(1)&lt;/script&gt;⟨U+202E⟩xxx";
    refused(&page, &browser, StatusCode::UNAUTHORIZED, words);
    assert!(!page.body.contains("<script>alert") && !page.body.contains(&"x".repeat(400)), "{}", page.body);
    // Nobody else puts words on our page.
    let stranger = Browser::new();
    let page = stranger.get(&good).await;
    assert!(!page.body.contains("access_denied"), "{}", page.body);
}
