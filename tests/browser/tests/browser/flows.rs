//! User flows through the console.

use countersign_browser::{Browser, BrowserEnv};
use domain::Role;

use crate::log_in;

#[test]
fn approver_follows_a_run_from_start_to_evidence() {
    let env = BrowserEnv::new(&["acme"]);
    let browser = Browser::open();
    log_in(&env, &browser, ("acme", "grace"), &[Role::Approver, Role::Operator]);

    // The list is open before the run starts, and is updated without a reload.
    browser.go(&env.at("/runs"));
    browser.wait_for("No runs match.");
    browser.wait_for("Live.");
    browser.run("window.loadedOnce = true");
    let run = env.start("acme", "ada", "first");
    browser.wait_for(run.as_str());
    browser.wait_for("waiting approval");
    assert_eq!(browser.run("return window.loadedOnce"), true);

    let approval = env.approval("acme", &run);
    browser.go(&env.at("/approvals"));
    browser.click(&format!("a[href='/approvals/{approval}']"));
    browser.wait_for("Exact content");
    let text = browser.text();
    for expected in ["servicenow.update", "db-oncall", "\"target\":", "Can it be undone?"] {
        assert!(text.contains(expected), "{expected} is not in {text}");
    }

    // A second window shows the run while the first one decides.
    let watching = Browser::open();
    log_in(&env, &watching, ("acme", "vera"), &[Role::Viewer]);
    watching.go(&env.at(&format!("/runs/{run}")));
    watching.wait_for("Why it waits");
    watching.wait_for("Live.");
    watching.run("window.loadedOnce = true");

    browser.type_into("#approve-reason", "it is the database");
    browser.click("button[value=approve]");
    browser.wait_for("This approval is closed.");
    watching.wait_for("succeeded after");
    watching.wait_for("grace approved: it is the database");
    assert_eq!(watching.run("return window.loadedOnce"), true);

    browser.go(&env.at(&format!("/evidence/{run}")));
    browser.wait_for("Verified just now");
    let text = browser.text();
    assert_eq!(text.matches('✓').count(), evidence::Check::ALL.len() + 1, "{text}");
    let sha = browser.run(
        "const done = await fetch(location.pathname + '/bundle').then((file) => file.arrayBuffer());
         const hash = await crypto.subtle.digest('SHA-256', done);
         return [...new Uint8Array(hash)].map((byte) => byte.toString(16).padStart(2, '0')).join('')",
    );
    assert!(text.contains(sha.as_str().unwrap()), "the downloaded bundle does not have the recorded sha256");
    for window in [&browser, &watching] {
        assert_eq!(policy_violations(window), [""; 0]);
    }
}

#[test]
fn run_is_started_and_approved_in_the_console() {
    let env = BrowserEnv::new(&["acme"]);
    let (otto, grace) = (Browser::open(), Browser::open());
    log_in(&env, &otto, ("acme", "otto"), &[Role::Operator, Role::Approver]);
    otto.go(&env.at("/workflows"));
    otto.click("a[href='/workflows/triage-incident']");
    otto.wait_for("Start a run");
    otto.run("document.querySelector('#start-input').value = ''");
    otto.type_into("#start-input", &BrowserEnv::sample().to_string());
    otto.click("form[action$='/start'] button");
    // The browser is redirected to the run, whose page is updated live.
    otto.wait_for("Why it waits");
    otto.wait_for("Live.");
    otto.run("window.loadedOnce = true");

    log_in(&env, &grace, ("acme", "grace"), &[Role::Approver]);
    grace.go(&env.at("/approvals"));
    grace.click("a[href^='/approvals/']");
    grace.wait_for("Exact content");
    grace.click("button[value=approve]");
    grace.wait_for("This approval is closed.");
    otto.wait_for("succeeded after");
    assert_eq!(otto.run("return window.loadedOnce"), true);
    for window in [&otto, &grace] {
        assert_eq!(policy_violations(window), [""; 0]);
    }
}

#[test]
fn run_shows_the_reason_of_a_rejection() {
    let env = BrowserEnv::new(&["acme"]);
    let browser = Browser::open();
    let run = env.start("acme", "ada", "first");
    let approval = env.approval("acme", &run);
    log_in(&env, &browser, ("acme", "grace"), &[Role::Approver]);
    browser.go(&env.at(&format!("/approvals/{approval}")));
    browser.type_into("#reject-reason", "wrong group");
    browser.click("button[value=reject]");
    browser.wait_for("rejected at");
    browser.go(&env.at(&format!("/runs/{run}")));
    browser.wait_for("failed terminal");
    assert!(browser.text().contains("rejected by grace: wrong group"), "{}", browser.text());
    assert_eq!(policy_violations(&browser), [""; 0]);
}

#[test]
fn live_update_does_not_interrupt_typing() {
    let env = BrowserEnv::new(&["acme"]);
    let browser = Browser::open();
    let run = env.start("acme", "ada", "first");
    env.approval("acme", &run);
    log_in(&env, &browser, ("acme", "otto"), &[Role::Operator]);
    browser.go(&env.at(&format!("/runs/{run}")));
    browser.click("#action-cancel summary");
    browser.type_into("#reason-cancel", "it is the ");
    env.pause("acme", "anne", &run);
    browser.wait_for("Not updated while you type.");
    browser.type_into("#reason-cancel", "wrong one");
    browser.click("#action-cancel button");
    browser.wait_for("canceled: it is the wrong one");
    assert!(browser.text().contains("paused: wait"), "{}", browser.text());
}

#[test]
fn other_tenants_pages_look_like_unknown_ones() {
    let env = BrowserEnv::new(&["acme", "umbrella"]);
    let browser = Browser::open();
    let run = env.start("acme", "ada", "first");
    let approval = env.approval("acme", &run);
    // Without a session there is only the login page.
    browser.go(&env.at(&format!("/runs/{run}")));
    browser.wait_for("API key");
    log_in(&env, &browser, ("umbrella", "eve"), &[Role::Admin]);
    let page = |path: String| {
        browser.go(&env.at(&path));
        browser.wait_for("Not found");
        browser.run("return document.documentElement.outerHTML")
    };
    assert_eq!(page(format!("/runs/{run}")), page("/runs/unknown".to_owned()));
    assert_eq!(page(format!("/evidence/{run}")), page("/evidence/unknown".to_owned()));
    assert_eq!(page(format!("/approvals/{approval}")), page("/approvals/unknown".to_owned()));
    browser.go(&env.at("/runs"));
    assert!(!browser.text().contains(run.as_str()));
}

/// The violations of the content security policy. Missing pages are expected errors.
fn policy_violations(browser: &Browser) -> Vec<String> {
    let errors = browser.errors();
    errors.into_iter().filter(|error| error.contains("Content Security Policy")).collect()
}
