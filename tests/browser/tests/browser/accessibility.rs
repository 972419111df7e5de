//! Every page in every viewport: layout, accessibility and keyboard use.

use countersign_browser::{Browser, BrowserEnv, Viewport};
use domain::Role;

use crate::{axe, log_in};

#[test]
fn pages_are_accessible_at_every_width_and_theme() {
    let env = BrowserEnv::new(&["acme"]);
    let browser = Browser::open();
    let decided = env.start("acme", "ada", "first");
    let approval = env.approval("acme", &decided);
    log_in(&env, &browser, ("acme", "grace"), &[Role::Admin]);
    browser.go(&env.at(&format!("/approvals/{approval}")));
    browser.click("button[value=approve]");
    browser.wait_for("This approval is closed.");
    browser.go(&env.at(&format!("/evidence/{decided}")));
    browser.wait_for("Verified just now");
    let waiting = env.start("acme", "ada", "second");
    let approval = env.approval("acme", &waiting);

    let pages = [
        ("overview", "/".to_owned()),
        ("runs", "/runs".to_owned()),
        ("run-waiting", format!("/runs/{waiting}")),
        ("run-finished", format!("/runs/{decided}")),
        ("approvals", "/approvals".to_owned()),
        ("approval", format!("/approvals/{approval}")),
        ("workflows", "/workflows".to_owned()),
        ("workflow", "/workflows/triage-incident".to_owned()),
        ("version", "/workflows/triage-incident/versions/1".to_owned()),
        ("evidence", format!("/evidence/{decided}")),
        ("connections", "/connections".to_owned()),
        ("audit", "/audit".to_owned()),
        ("health", "/health".to_owned()),
        ("not-found", "/runs/unknown".to_owned()),
        ("login", "/login".to_owned()),
    ];
    let mut findings = Vec::new();
    for viewport in Viewport::ALL {
        browser.set_viewport(viewport);
        for (name, path) in &pages {
            browser.go(&env.at(path));
            browser.wait_for("Countersign");
            browser.screenshot(&format!("{name}-{}", viewport.name()));
            let found = axe::findings(&browser);
            findings.extend(found.into_iter().map(|found| format!("{name} {}: {found}", viewport.name())));
            let wide = browser.run("return document.documentElement.scrollWidth").as_u64().unwrap();
            assert!(wide <= u64::from(viewport.width), "{name} is {wide} wide at {}", viewport.width);
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

/// More focusable elements than any page has.
const FOCUSABLE_MAX: usize = 60;

#[test]
fn keyboard_reaches_everything_with_visible_focus() {
    let env = BrowserEnv::new(&["acme"]);
    let browser = Browser::open();
    let run = env.start("acme", "ada", "first");
    env.approval("acme", &run);
    log_in(&env, &browser, ("acme", "otto"), &[Role::Admin]);
    browser.go(&env.at(&format!("/runs/{run}")));
    let mut reached = Vec::new();
    for _ in 0..FOCUSABLE_MAX {
        browser.press_tab();
        if browser.run("return document.activeElement === document.body") == true {
            // Before the first element the window may lack the focus; after the last one the browser's toolbar has it.
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
        assert_eq!(focus[1], true, "the focus on {name} is not visible");
        reached.push(name);
    }
    assert_eq!(reached.first().map(String::as_str), Some("Skip to content"));
    for expected in ["Approvals", "Log out", "Review", "Cancel run"] {
        assert!(reached.iter().any(|name| name.contains(expected)), "{expected} is not among {reached:?}");
    }
    assert!(reached.iter().any(|name| name.contains("waits for approval")), "no timeline bar: {reached:?}");
}
