//! The README's five minutes in a browser, with nothing but what `countersign dev` prints.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use countersign_browser::Browser;
use countersign_crash::binary::countersign;
use serde_json::Value;
use tempfile::TempDir;

/// `countersign dev`, as somebody has it in a terminal. It ends when this is dropped.
struct Dev {
    child: Child,
    _home: TempDir,
    /// Every line that it printed about itself.
    printed: Vec<String>,
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

impl Dev {
    fn start() -> Self {
        let home = TempDir::new().unwrap();
        let mut command = Command::new(countersign().unwrap());
        command.args(["dev", "--port", "0"]).current_dir(home.path()).stdout(Stdio::piped());
        for kept_out in ["COUNTERSIGN_AWS", "COUNTERSIGN_STORE", "COUNTERSIGN_PROFILE", "RUST_LOG"] {
            command.env_remove(kept_out);
        }
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut printed = Vec::new();
        for line in lines {
            // The last thing that is said before there is something to do; nothing comes after it.
            let last = line.starts_with("Other systems deliver");
            printed.push(line);
            if last {
                break;
            }
        }
        Self { child, _home: home, printed }
    }

    /// The words of the line that begins with `name`.
    fn line(&self, name: &str) -> Vec<&str> {
        let mut lines = self.printed.iter().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let found = lines.find(|words| words.first() == Some(&name));
        found.unwrap_or_else(|| panic!("no line begins with {name}: {:#?}", self.printed))
    }

    /// The address that stands in the line of `name`.
    fn address(&self, name: &str) -> &str {
        self.line(name)[1]
    }

    /// What stands last in the line of `name`.
    fn last(&self, name: &str) -> &str {
        self.line(name).last().unwrap()
    }

    fn log_in(&self, person: &str, key: &str) -> Browser {
        let browser = Browser::open();
        browser.go(self.address("console"));
        browser.type_into("#key", key);
        browser.click("button[type=submit]");
        browser.wait_for(&format!("{person} at "));
        browser
    }
}

#[test]
fn the_five_minutes_of_the_readme_go_as_it_says() {
    let dev = Dev::start();
    let ada = dev.log_in("ada", dev.last("console"));
    ada.click("nav a[href='/workflows']");
    ada.click("a[href='/workflows/triage-incident']");
    ada.click("form[action$='/start'] button");
    ada.wait_for("Why it waits");
    ada.wait_for("Live.");
    ada.picture("dev-run-waiting");
    ada.run("window.loadedOnce = true");

    // Whoever started a run does not approve it, and Slack says so.
    let slack = Browser::open();
    slack.go(dev.address("Slack"));
    slack.wait_for("Approve");
    slack.picture("dev-slack");
    slack.click("button[value='countersign.approve']");
    slack.wait_for("whoever asked for the run does not approve it");

    let keys: Value = serde_json::from_slice(&std::fs::read(dev.last("API")).unwrap()).unwrap();
    let grace = dev.log_in("grace", keys["grace"].as_str().unwrap());
    grace.click("nav a[href='/approvals']");
    grace.click("a[href^='/approvals/']");
    grace.wait_for("What exactly is approved");
    grace.click("button[value=approve]");
    grace.wait_for("nothing more can be said to it");

    ada.wait_for("succeeded after");
    assert_eq!(ada.run("return window.loadedOnce"), true, "the page moved by itself");
    ada.click("a[href^='/evidence/']");
    ada.wait_for("Verified just now");
    ada.picture("dev-evidence");
    for window in [&ada, &grace] {
        assert_eq!(window.complaints(), [""; 0]);
    }
}
