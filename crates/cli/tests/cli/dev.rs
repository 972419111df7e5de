//! `countersign dev`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::env::CliEnv;

/// Every wait takes well under a second, more on a busy machine.
const WAIT_MAX: Duration = Duration::from_secs(30);

const POLL_EVERY: Duration = Duration::from_millis(50);

/// `countersign dev`, running.
struct Dev {
    child: Child,
    /// The JSON that it printed at startup.
    info: Value,
}

impl Dev {
    fn start(env: &CliEnv, port: u16) -> Self {
        let command = format!("dev --dir d --port {port} --json");
        let mut child = env.command(&command).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { info: serde_json::from_str(&line).unwrap(), child }
    }

    fn address(&self, of: &str) -> String {
        self.info[of].as_str().unwrap().trim_start_matches("http://").to_owned()
    }

    fn get(&self, of: &str, headers: &str) -> String {
        let address = self.address(of);
        let (host, path) = address.split_once('/').unwrap_or((&address, ""));
        send_request(host, &format!("GET /{path} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n"))
    }

    fn page(&self, of: &str) -> String {
        let address = self.address(of);
        let host = address.split('/').next().unwrap();
        self.get(of, &format!("Host: {host}\r\n"))
    }

    /// Presses Approve on the only card in the Slack pane; returns the pane.
    fn press(&self, user: &str) -> String {
        let pane = self.page("slack");
        let (_, place) = pane.split_once("name=\"place\" value=\"").expect(&pane);
        let place = place.split('"').next().unwrap();
        let form = format!("place={place}&user={user}&action_id=countersign.approve");
        let address = self.address("slack");
        let head = format!("POST /pane/press HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
        let posted = send_request(&address, &format!("{head}Content-Length: {}\r\n\r\n{form}", form.len()));
        assert!(posted.starts_with("HTTP/1.1 303"), "{posted}");
        self.page("slack")
    }

    /// Sends SIGTERM and returns the exit code.
    fn stop(mut self) -> Option<i32> {
        kill_process(Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap(), Signal::TERM).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        // The process may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn send_request(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}

/// Runs the suggested command and returns the run.
fn run_suggested_command(env: &CliEnv, dev: &Dev) -> String {
    let line = format!("{} --json", dev.info["first_command"].as_str().unwrap());
    env.run_in_shell(&line).expect(0).json()["run"].as_str().unwrap().to_owned()
}

/// Waits until the run has `status`.
fn wait_for_status(env: &CliEnv, run: &str, status: &str) {
    let began = Instant::now();
    loop {
        let seen = env.run(&format!("--store d/dev.db run show {run} --json")).expect(0).json();
        if seen["status"] == status {
            return;
        }
        assert!(began.elapsed() < WAIT_MAX, "{seen:#}");
        std::thread::sleep(POLL_EVERY);
    }
}

/// Waits until the Slack pane shows a button.
fn wait_for_approval_button(dev: &Dev) {
    let began = Instant::now();
    while !dev.page("slack").contains("countersign.approve") {
        assert!(began.elapsed() < WAIT_MAX, "no approval is requested");
        std::thread::sleep(POLL_EVERY);
    }
}

#[test]
fn dev_run_is_approved_and_survives_a_restart() {
    let env = CliEnv::new();
    let dev = Dev::start(&env, 0);
    let page = dev.page("page");
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    assert!(page.contains("content-security-policy: default-src 'none'") && page.contains("<h2>Try it</h2>"));
    let elsewhere = dev.get("page", "Host: evil.example\r\n");
    assert!(elsewhere.starts_with("HTTP/1.1 403"), "{elsewhere}");

    let run = run_suggested_command(&env, &dev);
    wait_for_status(&env, &run, "waiting_approval");
    wait_for_approval_button(&dev);
    let refused = dev.press("U0ADA");
    assert!(refused.contains("the user who requested a run cannot approve it"), "{refused}");
    let page = dev.page("page");
    assert!(page.contains("triage-incident: assign") && page.contains("waiting_approval"), "{page}");
    dev.press("U0GRACE");
    wait_for_status(&env, &run, "succeeded");
    assert_eq!(dev.stop(), Some(0));

    let again = Dev::start(&env, 0);
    let page = again.page("page");
    assert!(page.contains(&run) && page.contains("succeeded"), "{page}");
    let incidents = std::fs::read_to_string(env.path("d/servicenow.json")).unwrap();
    assert!(incidents.contains("db-oncall"), "{incidents}");
    assert_eq!(again.stop(), Some(0));
}

/// The first of four consecutive free ports, below the ephemeral range.
fn four_ports() -> u16 {
    let from = 10_000 + u16::try_from(std::process::id() % 20_000).unwrap();
    let free = |first: &u16| (*first..first + 4).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok());
    (from..from + 2_000).step_by(4).find(free).unwrap()
}

#[test]
fn pending_approval_survives_a_restart() {
    let (env, port) = (CliEnv::new(), four_ports());
    let dev = Dev::start(&env, port);
    let run = run_suggested_command(&env, &dev);
    wait_for_approval_button(&dev);
    // Dropping it kills the process.
    drop(dev);

    let again = Dev::start(&env, port);
    wait_for_approval_button(&again);
    again.press("U0BEN");
    wait_for_status(&env, &run, "succeeded");
    assert_eq!(again.stop(), Some(0));
}

/// Delivers `body` signed with `secret`; returns the whole response.
fn deliver(dev: &Dev, secret: &str, body: &str) -> String {
    let url = dev.address("webhook");
    let (address, path) = url.split_once('/').unwrap();
    let secs =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs().to_string();
    let signature = signing::sign(&secret.into(), &secs, body.as_bytes());
    let head = format!(
        "POST /{path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         X-Countersign-Timestamp: {secs}\r\nX-Countersign-Signature: {signature}\r\n"
    );
    send_request(address, &format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()))
}

fn body_of(reply: &str) -> Value {
    serde_json::from_str(reply.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[test]
fn dev_applies_the_sample_workflow_once() {
    let env = CliEnv::new();
    let listed = || env.run("--store d/dev.db workflow list --json").expect(0).json();
    let dev = Dev::start(&env, 0);
    let first = listed();
    assert!(first.to_string().contains("\"triage-incident\""), "{first}");
    assert_eq!(dev.stop(), Some(0));
    // A changed file does not affect the applied workflow.
    std::fs::write(env.path("d/triage.yaml"), "not a workflow").unwrap();
    let again = Dev::start(&env, 0);
    assert_eq!(listed(), first);
    assert_eq!(again.stop(), Some(0));
}

#[test]
fn incident_webhook_starts_one_run() {
    let env = CliEnv::new();
    let dev = Dev::start(&env, 0);
    let secret = dev.info["webhook_secret"].as_str().unwrap();
    assert!(dev.info["webhook_command"].as_str().unwrap().contains(secret));
    env.run_in_shell(dev.info["apply_command"].as_str().unwrap()).expect(0);

    let body = r#"{"table":"incident","record":{"sys_id":"9d385017c611228701d22104cc95c371","sys_mod_count":"1","priority":"1"}}"#;
    let forged = deliver(&dev, "a wrong secret", body);
    assert!(forged.starts_with("HTTP/1.1 401") && !forged.contains("run-"), "{forged}");
    let accepted = deliver(&dev, secret, body);
    assert!(accepted.starts_with("HTTP/1.1 202"), "{accepted}");
    let run = body_of(&accepted)["run"].as_str().unwrap().to_owned();
    wait_for_run(&env, &run);
    wait_for_status(&env, &run, "succeeded");

    let again = deliver(&dev, secret, body);
    assert!(again.starts_with("HTTP/1.1 200"), "{again}");
    assert_eq!(
        body_of(&again),
        serde_json::json!({ "run": run, "status": "duplicate", "outcome": "started" })
    );
    let runs = env.run("--store d/dev.db run list --json").expect(0).json();
    assert_eq!(runs["runs"].as_array().unwrap().len(), 1, "{runs:#}");
    assert_eq!(dev.stop(), Some(0));
}

/// Waits until the run exists.
fn wait_for_run(env: &CliEnv, run: &str) {
    let began = Instant::now();
    while env.run(&format!("--store d/dev.db run show {run} --json")).code != 0 {
        assert!(began.elapsed() < WAIT_MAX, "no run was started");
        std::thread::sleep(POLL_EVERY);
    }
}

#[test]
fn second_dev_needs_another_directory() {
    let env = CliEnv::new();
    let dev = Dev::start(&env, 0);
    let before = std::fs::read(env.path("d/countersign.yaml")).unwrap();
    env.run("dev --dir d --port 0").expect(2).prints("another `countersign dev` uses").prints("--dir");
    assert_eq!(std::fs::read(env.path("d/countersign.yaml")).unwrap(), before);
    drop(dev);
}

#[test]
fn dev_names_a_port_in_use() {
    let env = CliEnv::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let answer = env.run(&format!("dev --dir d --port {port}")).expect(2);
    answer.prints(&format!("port {port}")).prints("choose another with --port");
}

#[test]
fn cost_is_listed_by_step_and_by_workflow() {
    let env = CliEnv::new();
    env.run("cost").expect(3).prints("does not exist");
    let dev = Dev::start(&env, 0);
    let run = run_suggested_command(&env, &dev);
    wait_for_status(&env, &run, "waiting_approval");
    let cost = env.run(&format!("cost {run} --store d/dev.db --json")).expect(0).json();
    let paid = cost["cost_microusd"].as_u64().unwrap();
    assert!(paid > 0, "{cost}");
    assert_eq!((&cost["costs"][0]["step"], &cost["costs"][0]["microusd"]), (&"triage".into(), &paid.into()));
    assert!(cost["costs"][0]["usage"]["input_tokens"].as_u64().unwrap() > 0, "{cost}");
    let words = env.run(&format!("cost {run} --store d/dev.db")).expect(0);
    words.prints("triage").prints("tokens in").prints("total");

    let all = env.run("cost --store d/dev.db --json").expect(0).json();
    assert_eq!((&all["runs"], &all["cost_microusd"]), (&1.into(), &paid.into()));
    assert_eq!(all["workflows"][0]["workflow"], "triage-incident");
    env.run("cost --store d/dev.db").expect(0).prints("triage-incident").prints("COST PER RUN");
    let none = "cost --store d/dev.db --record servicenow:incident:unknown";
    env.run(none).expect(0).prints("no matching runs since");
    env.run(&format!("cost {run} --since 2h --store d/dev.db")).expect(2).prints("cannot be used with");
    assert_eq!(dev.stop(), Some(0));
}
