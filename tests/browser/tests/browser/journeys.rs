//! From the first page to the last.

use countersign_browser::{Browser, Stage};
use domain::Role;

use crate::log_in;

#[test]
fn a_person_sees_a_run_move_approves_it_and_sees_its_evidence_verified() {
    let stage = Stage::open(&["acme"]);
    let browser = Browser::open();
    log_in(&stage, &browser, ("acme", "grace"), &[Role::Approver, Role::Operator]);

    // The list is open before there is a run, and is not loaded again.
    browser.go(&stage.at("/runs"));
    browser.wait_for("No run fits that.");
    browser.wait_for("Live.");
    browser.run("window.loadedOnce = true");
    let run = stage.start("acme", "ada", "first");
    browser.wait_for(run.as_str());
    browser.wait_for("waiting approval");
    assert_eq!(browser.run("return window.loadedOnce"), true);

    let asked = stage.asked("acme", &run);
    browser.go(&stage.at("/approvals"));
    browser.click(&format!("a[href='/approvals/{asked}']"));
    browser.wait_for("What exactly is approved");
    let shown = browser.text();
    for expected in ["servicenow.update", "db-oncall", "\"target\":", "Can it be taken back?"] {
        assert!(shown.contains(expected), "{expected} is not in {shown}");
    }

    // A second window shows the run while the first one answers.
    let watching = Browser::open();
    log_in(&stage, &watching, ("acme", "vera"), &[Role::Viewer]);
    watching.go(&stage.at(&format!("/runs/{run}")));
    watching.wait_for("Why it waits");
    watching.wait_for("Live.");
    watching.run("window.loadedOnce = true");

    browser.type_into("#yes-reason", "it is the database");
    browser.click("button[value=approve]");
    browser.wait_for("nothing more can be said to it");
    watching.wait_for("succeeded after");
    watching.wait_for("grace said yes: it is the database");
    assert_eq!(watching.run("return window.loadedOnce"), true);

    browser.go(&stage.at(&format!("/evidence/{run}")));
    browser.wait_for("Verified just now");
    let shown = browser.text();
    assert_eq!(shown.matches('✓').count(), evidence::Check::ALL.len() + 1, "{shown}");
    let sha = browser.run(
        "const done = await fetch(location.pathname + '/bundle').then((file) => file.arrayBuffer());
         const hash = await crypto.subtle.digest('SHA-256', done);
         return [...new Uint8Array(hash)].map((byte) => byte.toString(16).padStart(2, '0')).join('')",
    );
    assert!(shown.contains(sha.as_str().unwrap()), "the file that is downloaded has the recorded sha256");
    for window in [&browser, &watching] {
        assert_eq!(refused(window), [""; 0]);
    }
}

#[test]
fn a_person_starts_a_run_in_the_console_and_another_approves_it() {
    let stage = Stage::open(&["acme"]);
    let (otto, grace) = (Browser::open(), Browser::open());
    log_in(&stage, &otto, ("acme", "otto"), &[Role::Operator, Role::Approver]);
    otto.go(&stage.at("/workflows"));
    otto.click("a[href='/workflows/triage-incident']");
    otto.wait_for("Start a run");
    otto.run("document.querySelector('#start-input').value = ''");
    otto.type_into("#start-input", &Stage::sample().to_string());
    otto.click("form[action$='/start'] button");
    // It leads to the run, which moves while it is looked at.
    otto.wait_for("Why it waits");
    otto.wait_for("Live.");
    otto.run("window.loadedOnce = true");

    log_in(&stage, &grace, ("acme", "grace"), &[Role::Approver]);
    grace.go(&stage.at("/approvals"));
    grace.click("a[href^='/approvals/']");
    grace.wait_for("What exactly is approved");
    grace.click("button[value=approve]");
    grace.wait_for("nothing more can be said to it");
    otto.wait_for("succeeded after");
    assert_eq!(otto.run("return window.loadedOnce"), true);
    for window in [&otto, &grace] {
        assert_eq!(refused(window), [""; 0]);
    }
}

#[test]
fn a_person_rejects_with_a_reason_and_the_run_says_so() {
    let stage = Stage::open(&["acme"]);
    let browser = Browser::open();
    let run = stage.start("acme", "ada", "first");
    let asked = stage.asked("acme", &run);
    log_in(&stage, &browser, ("acme", "grace"), &[Role::Approver]);
    browser.go(&stage.at(&format!("/approvals/{asked}")));
    browser.type_into("#no-reason", "wrong group");
    browser.click("button[value=reject]");
    browser.wait_for("rejected at");
    browser.go(&stage.at(&format!("/runs/{run}")));
    browser.wait_for("failed terminal");
    assert!(browser.text().contains("grace said no: wrong group"), "{}", browser.text());
    assert_eq!(refused(&browser), [""; 0]);
}

#[test]
fn whoever_types_a_reason_is_not_interrupted_by_what_happens() {
    let stage = Stage::open(&["acme"]);
    let browser = Browser::open();
    let run = stage.start("acme", "ada", "first");
    stage.asked("acme", &run);
    log_in(&stage, &browser, ("acme", "otto"), &[Role::Operator]);
    browser.go(&stage.at(&format!("/runs/{run}")));
    browser.click("#say-cancel summary");
    browser.type_into("#reason-cancel", "it is the ");
    stage.pause("acme", "anne", &run);
    browser.wait_for("Not updated while you type.");
    browser.type_into("#reason-cancel", "wrong one");
    browser.click("#say-cancel button");
    browser.wait_for("stopped: it is the wrong one");
    assert!(browser.text().contains("paused: wait"), "{}", browser.text());
}

#[test]
fn a_person_of_another_tenant_is_shown_what_they_would_be_shown_of_nothing() {
    let stage = Stage::open(&["acme", "umbrella"]);
    let browser = Browser::open();
    let run = stage.start("acme", "ada", "first");
    let asked = stage.asked("acme", &run);
    // Without a session there is only the way in.
    browser.go(&stage.at(&format!("/runs/{run}")));
    browser.wait_for("API key");
    log_in(&stage, &browser, ("umbrella", "eve"), &[Role::Admin]);
    let page = |path: String| {
        browser.go(&stage.at(&path));
        browser.wait_for("Not found");
        browser.run("return document.documentElement.outerHTML")
    };
    assert_eq!(page(format!("/runs/{run}")), page("/runs/unknown".to_owned()));
    assert_eq!(page(format!("/evidence/{run}")), page("/evidence/unknown".to_owned()));
    assert_eq!(page(format!("/approvals/{asked}")), page("/approvals/unknown".to_owned()));
    browser.go(&stage.at("/runs"));
    assert!(!browser.text().contains(run.as_str()));
}

/// What the browser refused to do for the sake of the policy. What it did not find it may complain about.
fn refused(browser: &Browser) -> Vec<String> {
    let complaints = browser.complaints();
    complaints.into_iter().filter(|complaint| complaint.contains("Content Security Policy")).collect()
}
