//! Everything in one process, as somebody who tries it out meets it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::shell::Shell;

/// Everything that is waited for takes well under a second; a busy machine gets more.
const PATIENCE: Duration = Duration::from_secs(30);

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// `countersign dev`, running.
struct Dev {
    child: Child,
    /// What it printed about itself.
    told: Value,
}

impl Dev {
    fn start(shell: &Shell, port: u16) -> Self {
        let command = format!("dev --dir d --port {port} --json");
        let mut child = shell.command(&command).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { told: serde_json::from_str(&line).unwrap(), child }
    }

    fn address(&self, of: &str) -> String {
        self.told[of].as_str().unwrap().trim_start_matches("http://").to_owned()
    }

    fn get(&self, of: &str, headers: &str) -> String {
        let address = self.address(of);
        let (host, path) = address.split_once('/').unwrap_or((&address, ""));
        ask(host, &format!("GET /{path} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n"))
    }

    fn page(&self, of: &str) -> String {
        let address = self.address(of);
        let host = address.split('/').next().unwrap();
        self.get(of, &format!("Host: {host}\r\n"))
    }

    /// Presses Approve on the only card in the Slack pane; gives back what the pane then says.
    fn press(&self, user: &str) -> String {
        let pane = self.page("slack");
        let (_, place) = pane.split_once("name=\"place\" value=\"").expect(&pane);
        let place = place.split('"').next().unwrap();
        let form = format!("place={place}&user={user}&action_id=countersign.approve");
        let address = self.address("slack");
        let head = format!("POST /pane/press HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
        let posted = ask(&address, &format!("{head}Content-Length: {}\r\n\r\n{form}", form.len()));
        assert!(posted.starts_with("HTTP/1.1 303"), "{posted}");
        self.page("slack")
    }

    /// Asks it to leave; its exit code.
    fn leave(mut self) -> Option<i32> {
        kill_process(Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap(), Signal::TERM).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ask(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}

/// Types what the program suggests; gives back the run.
fn try_it(shell: &Shell, dev: &Dev) -> String {
    let line = format!("{} --json", dev.told["first_command"].as_str().unwrap());
    shell.type_in(&line).expect(0).json()["run"].as_str().unwrap().to_owned()
}

/// Waits until the run has `status`.
fn until(shell: &Shell, run: &str, status: &str) {
    let began = Instant::now();
    loop {
        let seen = shell.run(&format!("--store d/dev.db run show {run} --json")).expect(0).json();
        if seen["status"] == status {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{seen:#}");
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Waits until the Slack pane shows a button.
fn until_asked(dev: &Dev) {
    let began = Instant::now();
    while !dev.page("slack").contains("countersign.approve") {
        assert!(began.elapsed() < PATIENCE, "nobody is asked");
        std::thread::sleep(LOOK_EVERY);
    }
}

#[test]
fn a_person_tries_it_out_presses_the_button_and_finds_the_run_again() {
    let shell = Shell::new();
    let dev = Dev::start(&shell, 0);
    let page = dev.page("page");
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    assert!(
        page.contains("content-security-policy: default-src 'none'")
            && page.contains("The first thing to try")
    );
    let elsewhere = dev.get("page", "Host: evil.example\r\n");
    assert!(elsewhere.starts_with("HTTP/1.1 403"), "{elsewhere}");

    let run = try_it(&shell, &dev);
    until(&shell, &run, "waiting_approval");
    until_asked(&dev);
    let refused = dev.press("U0ADA");
    assert!(refused.contains("whoever asked for the run does not approve it"), "{refused}");
    let page = dev.page("page");
    assert!(page.contains("triage-incident: assign") && page.contains("waiting_approval"), "{page}");
    dev.press("U0GRACE");
    until(&shell, &run, "succeeded");
    assert_eq!(dev.leave(), Some(0));

    let again = Dev::start(&shell, 0);
    let page = again.page("page");
    assert!(page.contains(&run) && page.contains("succeeded"), "{page}");
    let incidents = std::fs::read_to_string(shell.path("d/servicenow.json")).unwrap();
    assert!(incidents.contains("db-oncall"), "{incidents}");
    assert_eq!(again.leave(), Some(0));
}

/// The first of four ports in a row that nobody has, below those that are given out to whoever asks for any.
fn four_ports() -> u16 {
    let from = 10_000 + u16::try_from(std::process::id() % 20_000).unwrap();
    let free = |first: &u16| (*first..first + 4).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok());
    (from..from + 2_000).step_by(4).find(free).unwrap()
}

#[test]
fn a_question_that_was_open_can_be_answered_after_a_restart() {
    let (shell, port) = (Shell::new(), four_ports());
    let dev = Dev::start(&shell, port);
    let run = try_it(&shell, &dev);
    until_asked(&dev);
    // Not asked to leave: killed.
    drop(dev);

    let again = Dev::start(&shell, port);
    until_asked(&again);
    again.press("U0BEN");
    until(&shell, &run, "succeeded");
    assert_eq!(again.leave(), Some(0));
}

/// Delivers `body` as a system outside would, signed with `secret`; the whole reply.
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
    ask(address, &format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()))
}

fn said(reply: &str) -> Value {
    serde_json::from_str(reply.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[test]
fn there_is_a_workflow_to_start_from_the_first_minute_and_it_is_put_to_use_once() {
    let shell = Shell::new();
    let listed = || shell.run("--store d/dev.db workflow list --json").expect(0).json();
    let dev = Dev::start(&shell, 0);
    let first = listed();
    assert!(first.to_string().contains("\"triage-incident\""), "{first}");
    assert_eq!(dev.leave(), Some(0));
    // Whatever becomes of the file, what is in use stays so.
    std::fs::write(shell.path("d/triage.yaml"), "not a workflow").unwrap();
    let again = Dev::start(&shell, 0);
    assert_eq!(listed(), first);
    assert_eq!(again.leave(), Some(0));
}

#[test]
fn an_incident_that_comes_in_by_itself_starts_the_workflow_that_wants_it_once() {
    let shell = Shell::new();
    let dev = Dev::start(&shell, 0);
    let secret = dev.told["webhook_secret"].as_str().unwrap();
    assert!(dev.told["webhook_command"].as_str().unwrap().contains(secret));
    shell.type_in(dev.told["apply_command"].as_str().unwrap()).expect(0);

    let body = r#"{"table":"incident","record":{"sys_id":"9d385017c611228701d22104cc95c371","sys_mod_count":"1","priority":"1"}}"#;
    let forged = deliver(&dev, "a secret that somebody made up", body);
    assert!(forged.starts_with("HTTP/1.1 401") && !forged.contains("run-"), "{forged}");
    let accepted = deliver(&dev, secret, body);
    assert!(accepted.starts_with("HTTP/1.1 202"), "{accepted}");
    let run = said(&accepted)["run"].as_str().unwrap().to_owned();
    until_there(&shell, &run);
    until(&shell, &run, "succeeded");

    let again = deliver(&dev, secret, body);
    assert!(again.starts_with("HTTP/1.1 200"), "{again}");
    assert_eq!(said(&again), serde_json::json!({ "run": run, "status": "duplicate", "outcome": "started" }));
    let runs = shell.run("--store d/dev.db run list --json").expect(0).json();
    assert_eq!(runs["runs"].as_array().unwrap().len(), 1, "{runs:#}");
    assert_eq!(dev.leave(), Some(0));
}

/// Waits until the run is there at all.
fn until_there(shell: &Shell, run: &str) {
    let began = Instant::now();
    while shell.run(&format!("--store d/dev.db run show {run} --json")).code != 0 {
        assert!(began.elapsed() < PATIENCE, "nothing was started");
        std::thread::sleep(LOOK_EVERY);
    }
}

#[test]
fn a_port_that_is_taken_is_named_with_the_way_out() {
    let shell = Shell::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let answer = shell.run(&format!("dev --dir d --port {port}")).expect(2);
    answer.says(&format!("port {port}")).says("name another with --port");
}

#[test]
fn what_a_run_has_paid_is_told_step_by_step_and_what_all_have_paid_by_workflow() {
    let shell = Shell::new();
    shell.run("cost").expect(3).says("no store");
    let dev = Dev::start(&shell, 0);
    let run = try_it(&shell, &dev);
    until(&shell, &run, "waiting_approval");
    let told = shell.run(&format!("cost {run} --store d/dev.db --json")).expect(0).json();
    let paid = told["cost_microusd"].as_u64().unwrap();
    assert!(paid > 0, "{told}");
    assert_eq!((&told["costs"][0]["step"], &told["costs"][0]["microusd"]), (&"triage".into(), &paid.into()));
    assert!(told["costs"][0]["usage"]["input_tokens"].as_u64().unwrap() > 0, "{told}");
    let words = shell.run(&format!("cost {run} --store d/dev.db")).expect(0);
    words.says("triage").says("tokens in").says("all");

    let all = shell.run("cost --store d/dev.db --json").expect(0).json();
    assert_eq!((&all["runs"], &all["cost_microusd"]), (&1.into(), &paid.into()));
    assert_eq!(all["workflows"][0]["workflow"], "triage-incident");
    shell.run("cost --store d/dev.db").expect(0).says("triage-incident").says("A RUN");
    let none = "cost --store d/dev.db --record servicenow:incident:nobody";
    shell.run(none).expect(0).says("no such run was started since");
    shell.run(&format!("cost {run} --since 2h --store d/dev.db")).expect(2).says("cannot be used with");
    assert_eq!(dev.leave(), Some(0));
}
