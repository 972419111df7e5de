//! The README's quick start in a browser, using only the output of `countersign dev`.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use countersign_browser::Browser;
use countersign_crash::binary::countersign;
use serde_json::Value;
use tempfile::TempDir;

/// A `countersign dev` process, which is killed when this is dropped.
struct Dev {
    child: Child,
    _home: TempDir,
    /// The lines that it printed at start.
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
        for variable in ["COUNTERSIGN_AWS", "COUNTERSIGN_STORE", "COUNTERSIGN_PROFILE", "RUST_LOG"] {
            command.env_remove(variable);
        }
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut printed = Vec::new();
        for line in lines {
            // The last line of the start-up output.
            let last = line.starts_with("Signing secret");
            printed.push(line);
            if last {
                break;
            }
        }
        Self { child, _home: home, printed }
    }

    /// The words of the line that starts with `name`.
    fn line(&self, name: &str) -> Vec<&str> {
        let mut lines = self.printed.iter().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let found = lines.find(|words| words.first() == Some(&name));
        found.unwrap_or_else(|| panic!("no line starts with {name}: {:#?}", self.printed))
    }

    /// The address in the line of `name`.
    fn address(&self, name: &str) -> &str {
        self.line(name)[1]
    }

    /// The last word in the line of `name`.
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
fn readme_quick_start_works_in_the_browser() {
    let dev = Dev::start();
    let ada = dev.log_in("ada", dev.last("console"));
    ada.click("nav a[href='/workflows']");
    ada.click("a[href='/workflows/triage-incident']");
    ada.click("form[action$='/start'] button");
    ada.wait_for("Why it waits");
    ada.wait_for("Live.");
    ada.screenshot("dev-run-waiting");
    ada.run("window.loadedOnce = true");

    // The user who started a run cannot approve it, and Slack shows that.
    let slack = Browser::open();
    slack.go(dev.address("Slack"));
    slack.wait_for("Approve");
    slack.screenshot("dev-slack");
    slack.click("button[value='countersign.approve']");
    slack.wait_for("the user who requested a run cannot approve it");

    let keys: Value = serde_json::from_slice(&std::fs::read(dev.last("API")).unwrap()).unwrap();
    let grace = dev.log_in("grace", keys["grace"].as_str().unwrap());
    grace.click("nav a[href='/approvals']");
    grace.click("a[href^='/approvals/']");
    grace.wait_for("Exact content");
    grace.click("button[value=approve]");
    grace.wait_for("This approval is closed.");

    ada.wait_for("succeeded after");
    assert_eq!(ada.run("return window.loadedOnce"), true, "the page was updated without a reload");
    ada.click("a[href^='/evidence/']");
    ada.wait_for("Verified just now");
    ada.screenshot("dev-evidence");
    for window in [&ada, &grace] {
        assert_eq!(window.errors(), [""; 0]);
    }
}
