//! Every page, on a handle and on a telephone, by day and by night.

use countersign_browser::{Browser, Look, Stage};
use domain::Role;

use crate::{axe, log_in};

#[test]
fn every_page_can_be_read_by_everybody_at_any_width_by_day_and_by_night() {
    let stage = Stage::open(&["acme"]);
    let browser = Browser::open();
    let answered = stage.start("acme", "ada", "first");
    let asked = stage.asked("acme", &answered);
    log_in(&stage, &browser, ("acme", "grace"), &[Role::Admin]);
    browser.go(&stage.at(&format!("/approvals/{asked}")));
    browser.click("button[value=approve]");
    browser.wait_for("nothing more can be said to it");
    browser.go(&stage.at(&format!("/evidence/{answered}")));
    browser.wait_for("Verified just now");
    let waiting = stage.start("acme", "ada", "second");
    let asked = stage.asked("acme", &waiting);

    let pages = [
        ("overview", "/".to_owned()),
        ("runs", "/runs".to_owned()),
        ("run-waiting", format!("/runs/{waiting}")),
        ("run-over", format!("/runs/{answered}")),
        ("approvals", "/approvals".to_owned()),
        ("approval", format!("/approvals/{asked}")),
        ("workflows", "/workflows".to_owned()),
        ("workflow", "/workflows/triage-incident".to_owned()),
        ("version", "/workflows/triage-incident/versions/1".to_owned()),
        ("evidence", format!("/evidence/{answered}")),
        ("health", "/health".to_owned()),
        ("not-found", "/runs/unknown".to_owned()),
        ("login", "/login".to_owned()),
    ];
    let mut findings = Vec::new();
    for look in Look::ALL {
        browser.look(look);
        for (name, path) in &pages {
            browser.go(&stage.at(path));
            browser.wait_for("Countersign");
            browser.picture(&format!("{name}-{}", look.name()));
            let found = axe::findings(&browser);
            findings.extend(found.into_iter().map(|found| format!("{name} {}: {found}", look.name())));
            let wide = browser.run("return document.documentElement.scrollWidth").as_u64().unwrap();
            assert!(wide <= u64::from(look.width), "{name} is {wide} wide at {}", look.width);
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

/// More than any page has.
const THINGS_MAX: usize = 60;

#[test]
fn everything_is_reached_with_the_keyboard_and_the_focus_is_seen() {
    let stage = Stage::open(&["acme"]);
    let browser = Browser::open();
    let run = stage.start("acme", "ada", "first");
    stage.asked("acme", &run);
    log_in(&stage, &browser, ("acme", "otto"), &[Role::Admin]);
    browser.go(&stage.at(&format!("/runs/{run}")));
    let mut reached = Vec::new();
    for _ in 0..THINGS_MAX {
        browser.press_tab();
        if browser.run("return document.activeElement === document.body") == true {
            // Before the first one the window may not have the focus yet; past the last one its own bar has it.
            if reached.is_empty() {
                continue;
            }
            break;
        }
        let focus = browser.run(
            "const at = document.activeElement;
             const style = getComputedStyle(at);
             return [at.textContent.trim() || at.getAttribute('aria-label'), style.outlineStyle !== 'none'];",
        );
        let name = focus[0].as_str().unwrap_or_default().to_owned();
        assert_eq!(focus[1], true, "nobody sees that {name} has the focus");
        reached.push(name);
    }
    assert_eq!(reached.first().map(String::as_str), Some("Skip to the content"));
    for expected in ["Approvals", "Log out", "Read and answer", "Cancel the run"] {
        assert!(reached.iter().any(|name| name.contains(expected)), "{expected} is not among {reached:?}");
    }
    assert!(reached.iter().any(|name| name.contains("asks people")), "no bar of the timeline: {reached:?}");
}
