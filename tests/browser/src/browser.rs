//! Chromium, driven over `WebDriver`.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use crate::http::ask;

/// What is waited for comes within this, or not at all. A small machine is busy.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// How often somebody looks.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The name under which `WebDriver` hands out elements.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// How a page is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// The width of the window.
    pub width: u32,
    /// Dark rather than light.
    pub dark: bool,
}

impl Look {
    /// A handle and a telephone, by day and by night.
    pub const ALL: [Self; 4] = [
        Self { width: 1280, dark: false },
        Self { width: 1280, dark: true },
        Self { width: 390, dark: false },
        Self { width: 390, dark: true },
    ];

    /// `1280-dark`.
    pub fn name(self) -> String {
        format!("{}-{}", self.width, if self.dark { "dark" } else { "light" })
    }
}

/// A browser. It ends when this is dropped.
pub struct Browser {
    driver: Child,
    address: String,
    session: String,
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _gone = ask(&self.address, "DELETE", &format!("/session/{}", self.session), None);
        let _gone = self.driver.kill();
        let _gone = self.driver.wait();
    }
}

impl Browser {
    /// Starts one.
    pub fn open() -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let address = format!("127.0.0.1:{port}");
        let mut driver = Command::new("chromedriver")
            .arg(format!("--port={port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver is Debian's package chromium-driver; `cargo xtask test` installs it");
        let began = Instant::now();
        let session = loop {
            match ask(&address, "POST", "/session", Some(&capabilities())) {
                Ok(reply) => break reply["value"]["sessionId"].as_str().unwrap_or_default().to_owned(),
                Err(_) if began.elapsed() < PATIENCE => sleep(LOOK_EVERY),
                Err(why) => {
                    let _gone = driver.kill();
                    panic!("the driver does not answer: {why}");
                }
            }
        };
        assert!(!session.is_empty(), "Chromium did not start; is it installed?");
        Self { driver, address, session }
    }

    fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        self.try_to(method, path, body).unwrap_or_else(|why| panic!("{method} {path}: {why}"))
    }

    fn try_to(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, String> {
        let path = format!("/session/{}{path}", self.session);
        let reply = ask(&self.address, method, &path, body)?;
        match reply["value"]["error"].as_str() {
            Some(_) => Err(reply["value"]["message"].to_string()),
            None => Ok(reply["value"].clone()),
        }
    }

    /// Goes to `url`.
    pub fn go(&self, url: &str) {
        self.send("POST", "/url", Some(&json!({ "url": url })));
    }

    /// The address that it is at.
    pub fn url(&self) -> String {
        self.send("GET", "/url", None).as_str().unwrap().to_owned()
    }

    /// What a script on the page gives.
    pub fn run(&self, script: &str) -> Value {
        self.send("POST", "/execute/sync", Some(&json!({ "script": script, "args": [] })))
    }

    /// What a script on the page gives in the end: its last argument is called with it.
    pub fn run_on(&self, script: &str) -> Value {
        self.send("POST", "/execute/async", Some(&json!({ "script": script, "args": [] })))
    }

    /// Does something to what `selector` names. The page may be fetched again between finding it and doing that, so
    /// it is tried until it is done.
    fn act(&self, selector: &str, verb: &str, body: &Value) {
        let wanted = json!({ "using": "css selector", "value": selector });
        let once = || {
            let found = self.try_to("POST", "/element", Some(&wanted))?;
            let element = found[ELEMENT].as_str().unwrap_or_default();
            self.try_to("POST", &format!("/element/{element}/{verb}"), Some(body))
        };
        let began = Instant::now();
        while let Err(why) = once() {
            assert!(began.elapsed() < PATIENCE, "{verb} {selector}: {why}; the page says:\n{}", self.text());
            sleep(LOOK_EVERY);
        }
    }

    /// Clicks on what `selector` names.
    pub fn click(&self, selector: &str) {
        self.act(selector, "click", &json!({}));
    }

    /// Types `text` into what `selector` names.
    pub fn type_into(&self, selector: &str, text: &str) {
        self.act(selector, "value", &json!({ "text": text }));
    }

    /// Presses the key that leads to the next thing.
    pub fn press_tab(&self) {
        let tab = "\u{e004}";
        let keys = json!([{ "type": "keyDown", "value": tab }, { "type": "keyUp", "value": tab }]);
        self.send(
            "POST",
            "/actions",
            Some(&json!({ "actions": [{ "type": "key", "id": "keys", "actions": keys }] })),
        );
    }

    /// The text of the page, as a person reads it.
    pub fn text(&self) -> String {
        self.run("return document.body.innerText").as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the page says `text`.
    pub fn wait_for(&self, text: &str) {
        let began = Instant::now();
        while !self.text().contains(text) {
            assert!(began.elapsed() < PATIENCE, "{text:?} does not come; the page says:\n{}", self.text());
            sleep(LOOK_EVERY);
        }
    }

    /// Waits until the address ends in `path`.
    pub fn wait_for_address(&self, path: &str) {
        let began = Instant::now();
        while !self.url().ends_with(path) {
            assert!(
                began.elapsed() < PATIENCE,
                "still at {} and not at {path}:\n{}",
                self.url(),
                self.text()
            );
            sleep(LOOK_EVERY);
        }
    }

    /// Looks at pages in this way from now on.
    pub fn look(&self, look: Look) {
        let scheme = if look.dark { "dark" } else { "light" };
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.devtools("Emulation.setEmulatedMedia", &media);
        let size = json!({ "width": look.width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        self.devtools("Emulation.setDeviceMetricsOverride", &size);
    }

    fn devtools(&self, command: &str, params: &Value) -> Value {
        self.send("POST", "/goog/cdp/execute", Some(&json!({ "cmd": command, "params": params })))
    }

    /// Keeps a picture of the whole page as `name`, below the target directory.
    pub fn picture(&self, name: &str) {
        let whole = json!({ "format": "png", "captureBeyondViewport": true });
        let shot = self.devtools("Page.captureScreenshot", &whole);
        let png = BASE64.decode(shot["data"].as_str().unwrap()).unwrap();
        let directory = target().join("browser");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join(format!("{name}.png")), png).unwrap();
    }
}

fn capabilities() -> Value {
    // Whoever runs as root, as CI does, cannot have Chromium's sandbox. It meets nothing here but our own pages.
    let args =
        ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"];
    json!({ "capabilities": { "alwaysMatch": {
        "browserName": "chrome",
        "goog:chromeOptions": { "args": args },
        "goog:loggingPrefs": { "browser": "ALL" },
    } } })
}

impl Browser {
    /// What the browser complained about since it was last asked: refused by the policy, not found, thrown.
    pub fn complaints(&self) -> Vec<String> {
        let log = self.send("POST", "/se/log", Some(&json!({ "type": "browser" })));
        let serious = |entry: &&Value| entry["level"] == "SEVERE";
        let entries = log.as_array().map(Vec::as_slice).unwrap_or_default();
        entries.iter().filter(serious).map(|entry| entry["message"].to_string()).collect()
    }
}

/// Where what is built and made goes.
pub fn target() -> PathBuf {
    // The test itself stands in `target/debug/deps`.
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(3).unwrap().to_owned()
}
