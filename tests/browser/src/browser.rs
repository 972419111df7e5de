//! Chromium, driven over `WebDriver`.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use crate::http::request;

/// Long enough for a small, busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(30);

const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// `WebDriver`'s key for element references.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Viewport {
    pub width: u32,
    pub dark: bool,
}

impl Viewport {
    /// Desktop and phone, light and dark.
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

/// A browser, which is closed when this is dropped.
pub struct Browser {
    driver: Child,
    address: String,
    session: String,
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _gone = request(&self.address, "DELETE", &format!("/session/{}", self.session), None);
        let _gone = self.driver.kill();
        let _gone = self.driver.wait();
    }
}

impl Browser {
    pub fn open() -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let address = format!("127.0.0.1:{port}");
        let mut driver = Command::new("chromedriver")
            .arg(format!("--port={port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("start chromedriver (package chromium-driver; `cargo xtask test` installs it)");
        let started_at = Instant::now();
        let session = loop {
            match request(&address, "POST", "/session", Some(&capabilities())) {
                Ok(reply) => break reply["value"]["sessionId"].as_str().unwrap_or_default().to_owned(),
                Err(_) if started_at.elapsed() < TIMEOUT => sleep(POLL_INTERVAL),
                Err(why) => {
                    let _gone = driver.kill();
                    panic!("chromedriver does not respond: {why}");
                }
            }
        };
        assert!(!session.is_empty(), "Chromium did not start: check that it is installed");
        Self { driver, address, session }
    }

    fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        self.try_send(method, path, body).unwrap_or_else(|why| panic!("{method} {path}: {why}"))
    }

    fn try_send(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, String> {
        let path = format!("/session/{}{path}", self.session);
        let reply = request(&self.address, method, &path, body)?;
        match reply["value"]["error"].as_str() {
            Some(_) => Err(reply["value"]["message"].to_string()),
            None => Ok(reply["value"].clone()),
        }
    }

    pub fn go(&self, url: &str) {
        self.send("POST", "/url", Some(&json!({ "url": url })));
    }

    pub fn url(&self) -> String {
        self.send("GET", "/url", None).as_str().unwrap().to_owned()
    }

    /// Runs a script on the page and returns its result.
    pub fn run(&self, script: &str) -> Value {
        self.send("POST", "/execute/sync", Some(&json!({ "script": script, "args": [] })))
    }

    /// Runs an asynchronous script, which passes its result to its last argument.
    pub fn run_async(&self, script: &str) -> Value {
        self.send("POST", "/execute/async", Some(&json!({ "script": script, "args": [] })))
    }

    /// Acts on the element of `selector`. A live update can replace the element in between, so this retries.
    fn act(&self, selector: &str, verb: &str, body: &Value) {
        let query = json!({ "using": "css selector", "value": selector });
        let once = || {
            let found = self.try_send("POST", "/element", Some(&query))?;
            let element = found[ELEMENT].as_str().unwrap_or_default();
            self.try_send("POST", &format!("/element/{element}/{verb}"), Some(body))
        };
        let started_at = Instant::now();
        while let Err(why) = once() {
            assert!(
                started_at.elapsed() < TIMEOUT,
                "{verb} {selector}: {why}; the page shows:\n{}",
                self.text()
            );
            sleep(POLL_INTERVAL);
        }
    }

    pub fn click(&self, selector: &str) {
        self.act(selector, "click", &json!({}));
    }

    pub fn type_into(&self, selector: &str, text: &str) {
        self.act(selector, "value", &json!({ "text": text }));
    }

    pub fn press_tab(&self) {
        let tab = "\u{e004}";
        let keys = json!([{ "type": "keyDown", "value": tab }, { "type": "keyUp", "value": tab }]);
        self.send(
            "POST",
            "/actions",
            Some(&json!({ "actions": [{ "type": "key", "id": "keys", "actions": keys }] })),
        );
    }

    /// The visible text of the page.
    pub fn text(&self) -> String {
        self.run("return document.body.innerText").as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the page shows `text`.
    pub fn wait_for(&self, text: &str) {
        let started_at = Instant::now();
        while !self.text().contains(text) {
            assert!(
                started_at.elapsed() < TIMEOUT,
                "{text:?} does not appear; the page shows:\n{}",
                self.text()
            );
            sleep(POLL_INTERVAL);
        }
    }

    /// Waits until the address ends in `path`.
    pub fn wait_for_address(&self, path: &str) {
        let started_at = Instant::now();
        while !self.url().ends_with(path) {
            assert!(
                started_at.elapsed() < TIMEOUT,
                "still at {} and not at {path}:\n{}",
                self.url(),
                self.text()
            );
            sleep(POLL_INTERVAL);
        }
    }

    /// Sets the window size and the color scheme.
    pub fn set_viewport(&self, viewport: Viewport) {
        let scheme = if viewport.dark { "dark" } else { "light" };
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.devtools("Emulation.setEmulatedMedia", &media);
        let size = json!({ "width": viewport.width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        self.devtools("Emulation.setDeviceMetricsOverride", &size);
    }

    fn devtools(&self, command: &str, params: &Value) -> Value {
        self.send("POST", "/goog/cdp/execute", Some(&json!({ "cmd": command, "params": params })))
    }

    /// Saves a screenshot of the whole page in the target directory.
    pub fn screenshot(&self, name: &str) {
        let whole = json!({ "format": "png", "captureBeyondViewport": true });
        let shot = self.devtools("Page.captureScreenshot", &whole);
        let png = BASE64.decode(shot["data"].as_str().unwrap()).unwrap();
        let directory = target().join("browser");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join(format!("{name}.png")), png).unwrap();
    }
}

fn capabilities() -> Value {
    // Chromium's sandbox does not work as root, which CI uses. The browser loads only pages of the test server.
    let args =
        ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"];
    json!({ "capabilities": { "alwaysMatch": {
        "browserName": "chrome",
        "goog:chromeOptions": { "args": args },
        "goog:loggingPrefs": { "browser": "ALL" },
    } } })
}

impl Browser {
    /// The errors in the browser log since the last call: policy violations, missing files, exceptions.
    pub fn errors(&self) -> Vec<String> {
        let log = self.send("POST", "/se/log", Some(&json!({ "type": "browser" })));
        let serious = |entry: &&Value| entry["level"] == "SEVERE";
        let entries = log.as_array().map(Vec::as_slice).unwrap_or_default();
        entries.iter().filter(serious).map(|entry| entry["message"].to_string()).collect()
    }
}

/// The target directory.
pub fn target() -> PathBuf {
    // The test binary is in `target/debug/deps`.
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(3).unwrap().to_owned()
}
