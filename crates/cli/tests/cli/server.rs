//! Commands through the API of a server whose store a worker shares.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use api::{Api, Authenticator, CursorSecret};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::IntoResponse as _;
use engine::Engine;
use serde_json::Value;
use store::SqliteStore;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::env::{CliEnv, WAIT_MAX};

const WAIT_ASK: &str = "
workflow: triage
version: 1
environment: dev
steps:
  - { id: approved, tool: wait.event, with: { event: change.approved, timeout: 1h } }
  - { id: ask, tool: approval.gate, with: { message: \"Really?\", on_reject: pause } }
  - { id: sum, tool: transform, with: { value: \"${ steps.ask.by }\" } }
";

/// One run at a time for each concurrency key; others wait.
const ONE_AT_A_TIME: &str = "
workflow: one-at-a-time
version: 1
environment: dev
concurrency: { key: '${ trigger.ticket }', on_conflict: queue }
steps:
  - { id: wait, tool: wait.event, with: { event: go, timeout: 1h } }
";

/// A server on the store `server.db`; stops when dropped.
struct Server {
    url: String,
    /// The requested URIs, in order.
    requests: Requests,
    _runtime: Runtime,
}

type Requests = Arc<Mutex<Vec<String>>>;

/// An engine on the store at `path`, outside of the program.
pub(crate) fn engine(path: &Path) -> Engine<SqliteStore> {
    testkit::engine().standard_tools().me("server").on(testkit::open(path))
}

impl Server {
    fn on(env: &CliEnv) -> Self {
        Self::at(env, "127.0.0.1:0", true)
    }

    /// A server at `address`, with or without live streams.
    fn at(env: &CliEnv, address: &str, streams: bool) -> Self {
        let engine = engine(&env.path("server.db"));
        let api = Api::new(Authenticator::new(Arc::new(engine)), CursorSecret::new([7; 32]));
        let requests = Requests::default();
        let recorded = Arc::clone(&requests);
        let record = move |request: Request, next: Next| {
            let uri = request.uri().to_string();
            let refused = !streams && uri.contains("/stream");
            recorded.lock().unwrap().push(uri);
            async move { if refused { StatusCode::NOT_FOUND.into_response() } else { next.run(request).await } }
        };
        let router = api::router(Arc::new(api)).layer(from_fn(record));
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(TcpListener::bind(address)).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        runtime.spawn(async move { axum::serve(listener, router).await });
        Self { url, requests, _runtime: runtime }
    }

    /// The number of requests whose URI contains `part`.
    fn request_count(&self, part: &str) -> usize {
        self.requests.lock().unwrap().iter().filter(|uri| uri.contains(part)).count()
    }

    /// Waits for a request whose URI contains `part`.
    fn wait_for_request(&self, part: &str) {
        let began = Instant::now();
        while self.request_count(part) == 0 {
            assert!(began.elapsed() < WAIT_MAX, "{part}: {:?}", self.requests);
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A `run watch` process.
struct Follower {
    child: Child,
    lines: mpsc::Receiver<String>,
    events: Vec<Value>,
}

impl Follower {
    fn of(env: &CliEnv, run: &str, profile: &str) -> Self {
        Self::start(env.command(&format!("run watch {run} --json --profile {profile}")))
    }

    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, lines, events: Vec::new() }
    }

    /// The next printed document.
    fn next(&mut self) -> Value {
        let line = self.lines.recv_timeout(WAIT_MAX).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Waits for an event of this kind.
    fn wait_for(&mut self, kind: &str) {
        while self.events.last().is_none_or(|entry| entry["event"]["kind"] != kind) {
            let line =
                self.lines.recv_timeout(WAIT_MAX).unwrap_or_else(|_| panic!("{kind}: {:#?}", self.events));
            self.events.push(serde_json::from_str(&line).unwrap());
        }
    }

    /// Waits for the end; returns all events and the exit code.
    fn finish(mut self) -> (Vec<Value>, Option<i32>) {
        while let Ok(line) = self.lines.recv_timeout(WAIT_MAX) {
            self.events.push(serde_json::from_str(&line).unwrap());
        }
        (std::mem::take(&mut self.events), self.child.wait().unwrap().code())
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        // The process may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The events that `run watch` prints on the store.
fn events_on_store(env: &CliEnv, run: &str) -> Vec<Value> {
    let watched = env.run(&format!("run watch {run} --json --store server.db --tenant acme")).expect(0);
    watched.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Creates a profile for `person` of `tenant` with a key of this role.
fn profile(env: &CliEnv, server: &Server, (tenant, person): (&str, &str), role: &str) {
    env.run(&format!(
        "--store server.db --tenant {tenant} key create {person} --role {role} --out {person}.key"
    ))
    .expect(0);
    env.run(&format!("profile add {person} --url {} --key-file {person}.key --for {tenant}", server.url))
        .expect(0);
}

/// An environment with a server, with ada (admin), grace (approver) and eve (viewer) of acme, and mallory of umbrella.
fn acme() -> (CliEnv, Server) {
    let env = CliEnv::new();
    let server = Server::on(&env);
    profile(&env, &server, ("acme", "ada"), "admin");
    profile(&env, &server, ("acme", "grace"), "approver");
    profile(&env, &server, ("acme", "eve"), "viewer");
    profile(&env, &server, ("umbrella", "mallory"), "admin");
    env.write("triage.yaml", WAIT_ASK);
    (env, server)
}

fn started(env: &CliEnv) -> String {
    env.run("workflow apply triage.yaml --profile ada").expect(0).prints("version 1 is applied");
    let run = env.run("run start triage --profile ada --key INC-7 --json").expect(0).json();
    env.run("worker --store server.db --until-idle").expect(0);
    run["run"].as_str().unwrap().to_owned()
}

#[test]
fn run_commands_work_through_a_server() {
    let (env, _server) = acme();
    let run = started(&env);
    assert!(!env.path("countersign.db").exists(), "no local store is created");
    env.run("workflow show triage --profile eve").expect(0).prints("approval.gate");
    env.run("run list --profile eve").expect(0).prints(&run).prints("waiting_event");
    env.run("run list --profile eve --status paused").expect(0).prints("no paused runs");

    env.run(&format!("run signal {run} change.approved --profile ada")).expect(0).prints("the run continues");
    env.run("worker --store server.db --until-idle").expect(0);
    env.run("approval list --profile grace").expect(0).prints(&run).prints("Really?");
    env.run("approval list --mine --profile grace").expect(0).prints(&run);
    env.run("approval list --mine --profile ada").expect(0).prints("no pending approvals");
    env.run(&format!("approval show {run} ask --profile grace")).expect(0).prints("question Really?");
    let own = env.run(&format!("approval approve {run} ask --profile ada")).expect(1);
    own.prints("the user who requested a run cannot approve it");
    let answered = env.run(&format!("approval approve {run} ask --profile grace --reason fine")).expect(0);
    answered.prints("ask approved by grace; the run continues");
    env.run("worker --store server.db --until-idle").expect(0);

    let watched = env.run(&format!("run watch {run} --profile eve")).expect(0);
    watched
        .prints("started by ada: workflow triage")
        .prints("ask: approved by grace: fine")
        .prints("is succeeded");
    let drawn = env.run(&format!("run timeline {run} --profile eve --plain")).expect(0);
    drawn.prints("~ waits for an event").prints("= waits for approval");
    assert_eq!(
        env.run(&format!("run show {run} --profile eve --json")).expect(0).json()["status"],
        "succeeded"
    );
}

#[test]
fn server_evidence_needs_a_separate_key() {
    let (env, _server) = acme();
    env.write("triage.yaml", "{workflow: triage, version: 1, environment: dev, steps: [{id: a, tool: transform, with: {value: 1}}]}");
    let run = started(&env);
    let got = env.run(&format!("bundle get {run} --profile eve --out a.bundle")).expect(0);
    got.prints("bundle verify a.bundle --key");
    env.run("bundle verify a.bundle --key server.db.pub").expect(0).prints("verified: ");
    env.run("bundle verify a.bundle").expect(2).prints("a.bundle.pub does not exist");
    env.run(&format!("bundle get {run} --profile eve --out a.bundle")).expect(1).prints("already exists");
    env.run("bundle get run-1 --profile eve").expect(2).prints("not found");
}

#[test]
fn run_show_is_equal_on_server_and_store() {
    let (env, _server) = acme();
    let run = started(&env);
    let on = |place: &str| env.run(&format!("run show {run} --json {place}")).expect(0).json();
    let (here, there) = (on("--store server.db --tenant acme"), on("--profile ada"));
    assert_eq!(here["waiting"]["reason"], there["waiting"]["reason"]);
    assert_eq!(here["waiting"]["reason"], "Step approved waits for the external event change.approved.");
    assert_eq!(here["steps"], there["steps"]);
    let command = |seen: &Value| seen["waiting"]["next_actions"][0]["command"].as_str().unwrap().to_owned();
    let rest = format!("run signal {run} change.approved --payload '{{}}'");
    assert_eq!(command(&here), format!("countersign --store server.db --tenant acme {rest}"));
    assert_eq!(command(&there), format!("countersign --profile ada {rest}"));
    env.run_in_shell(&command(&there)).expect(0).prints("delivered");
    env.run(&format!("run show {run} --profile ada")).expect(0).prints("waiting");
}

#[test]
fn run_actions_work_through_a_server() {
    let (env, _server) = acme();
    let run = started(&env);
    let again = env.run("run start triage --profile ada --key INC-7").expect(0);
    again.prints("already started").prints(&format!("countersign --profile ada run watch {run}"));
    let other = env.run_with("run start triage --profile ada --key INC-7 --input", r#"{"a":1}"#).expect(1);
    other.prints("IDEMPOTENCY_CONFLICT").prints("--key");
    env.run("run start nothing --profile ada")
        .expect(2)
        .prints("workflow nothing")
        .prints("no such file exists");
    env.run("run start triage.yaml --profile ada").expect(2).prints("workflow apply triage.yaml");
    env.run(&format!("run undo {run} --plan --profile ada")).expect(1).prints("has not finished yet");
    let canceled = env.run(&format!("run cancel {run} --reason no --profile ada")).expect(0);
    canceled.prints("the run is canceled").prints(&format!("countersign --profile ada run show {run}"));
    let over = env.run(&format!("run retry {run} --profile ada")).expect(1);
    over.prints("[RUN_TERMINAL_STATE]").prints("help: start another run with `run start`");
    env.run(&format!("run undo {run} --plan --profile ada")).expect(0).prints("had no effects");
}

#[test]
fn roles_and_tenants_are_enforced() {
    let (env, server) = acme();
    let run = started(&env);
    env.run("whoami --profile eve").expect(0).prints("eve of tenant acme").prints("viewer");
    let refused = env.run(&format!("run cancel {run} --profile eve --json")).expect(1).error();
    assert_eq!(refused["code"], "FORBIDDEN");
    assert_eq!(refused["exit"], 1);
    env.run(&format!("run show {run} --profile mallory")).expect(2).prints("not found");
    env.run(&format!("run show acme/{run} --profile mallory"))
        .expect(2)
        .prints("the key is for tenant umbrella");
    env.run("run list --profile mallory --tenant acme").expect(2).prints("not for acme");
    let by = env.run(&format!("approval approve {run} ask --by grace --profile ada")).expect(2);
    by.prints("--by works on a store only");

    let keys = env.run("key list --profile ada --json").expect(0).json();
    let eve = keys["keys"].as_array().unwrap().iter().find(|key| key["person"] == "eve").unwrap();
    let id = eve["id"].as_str().unwrap();
    env.run(&format!("key revoke {id} --profile ada")).expect(0).prints("is revoked");
    let revoked = env.run("run list --profile eve").expect(1).prints("[UNAUTHENTICATED]");
    let secret = std::fs::read_to_string(env.path("eve.key")).unwrap();
    assert!(!revoked.err.contains(secret.trim()), "{revoked:?}");
    env.run(&format!("run list --server {}", server.url)).expect(2).prints("COUNTERSIGN_API_KEY is not set");
}

#[test]
fn tenant_commands_work_through_a_server() {
    let (env, _server) = acme();
    env.write("acme.yaml", "people: {ada: {}, grace: {}}\ngroups: {db: [grace]}\n");
    env.run("tenant set acme.yaml --profile ada").expect(0).prints("group db added: grace");
    env.run("tenant set acme.yaml --profile ada").expect(0).prints("nothing changed");
    env.run("tenant show --profile eve").expect(0).prints("tenant    acme").prints("db");
    env.write("eve.yaml", "people: {eve: {}}\ngroups: {db: [eve]}\n");
    env.run("tenant set eve.yaml --profile eve").expect(1).prints("[FORBIDDEN]");
    env.write("bad.yaml", "workflow: w\nversion: 1\nsteps:\n  - { id: a, tool: no.such }\n");
    let bad = env
        .run("workflow apply bad.yaml --profile ada")
        .expect(2)
        .prints("bad.yaml, workflow `w`, step `a`, line 4");
    bad.prints("no.such }").prints("^");
}

#[test]
fn policy_commands_work_through_a_server() {
    let (env, _server) = acme();
    env.run("policy show --dir policy --profile eve").expect(0).prints("tenant acme has applied none");
    let post = "{id: post, tool: http.request, with: {method: PUT, url: 'https://example.com/', effect: native_key}}";
    env.write("post.yaml", format!("{{workflow: post, version: 1, environment: dev, steps: [{post}]}}"));
    let explained = env.run("policy explain post.yaml --profile eve").expect(0);
    explained.prints("non-prod-write").prints("the default policy");

    let path = env.path("policy/more.rego");
    let rule = "package countersign\ndeny contains {\"rule\": \"closed\", \"message\": \"not today\"}\n";
    std::fs::write(&path, rule.replace("contains", "contain")).unwrap();
    env.run("policy apply policy --profile ada").expect(2).prints("policy/more.rego:2:");
    std::fs::write(&path, rule).unwrap();
    // The tests of the default policy require that some actions are allowed.
    env.run("policy apply policy --profile ada").expect(1).prints("is not applied");
    std::fs::write(&path, rule.replace("}\n", "} if input.run.workflow == \"post\"\n")).unwrap();
    env.run("policy apply policy --profile eve").expect(1).prints("[FORBIDDEN]");
    env.run("policy explain post.yaml --policy policy --profile eve").expect(1).prints("[FORBIDDEN]");
    let sent = env.run("policy explain post.yaml --policy policy --profile ada").expect(0);
    sent.prints("in policy").prints("denied").prints("closed: not today (more.rego:2)");
    let applied = env.run("policy apply policy --profile ada").expect(0).prints("tenant acme");
    applied.prints("the default policy");
    env.run("policy show --profile eve").expect(0).prints("applied by tenant acme, by ada at");
    env.run("policy show --profile mallory").expect(0).prints("tenant umbrella has applied none");

    env.run("workflow apply post.yaml --profile ada").expect(0);
    let on = |place: &str| env.run(&format!("policy explain post --json {place}")).expect(0).json();
    let (here, there) = (on("--store server.db --tenant acme --as eve"), on("--profile eve"));
    assert_eq!(here["steps"][0]["verdict"], there["steps"][0]["verdict"]);
    assert_eq!(there["steps"][0]["ruling"], "deny");
    env.run("policy explain post --profile mallory")
        .expect(2)
        .prints("workflow post")
        .prints("no such file exists");
    env.run("policy explain post.yaml --allow-host a.example --profile eve")
        .expect(2)
        .prints("a server uses its own configuration");
    assert!(!env.path("countersign.db").exists());
}

#[test]
fn store_commands_refuse_a_server() {
    let (env, _server) = acme();
    for line in ["queue redrive", "dispatch stop --all --reason no", "worker --until-idle"] {
        let refused = env.run(&format!("{line} --profile ada")).expect(2);
        refused.prints("works on a store").prints("--store FILE");
    }
    for line in ["queue dead-letters", "queue redrive"] {
        let refused = env.run(&format!("{line} --profile ada")).expect(2);
        refused.prints("cannot run on the server of profile ada").prints("--aws");
        env.run(&format!("{line} --help")).expect(0).prints(&format!("countersign {line} --aws"));
    }
    assert!(!env.path("countersign.db").exists());
}

#[test]
fn unreachable_server_is_named() {
    let (env, server) = acme();
    let url = server.url.clone();
    drop(server);
    let gone = env.run("run list --profile ada").expect(3);
    gone.prints(&format!("{url}/ cannot be reached")).prints("caused by: ");
}

#[test]
fn run_list_pages_through_a_server() {
    let (env, _server) = acme();
    env.run("workflow apply triage.yaml --profile ada").expect(0);
    for _ in 0..3 {
        env.run("run start triage --profile ada").expect(0);
    }
    let first = env.run("run list --limit 2 --profile ada").expect(0).prints("next page: ");
    let line = first.out.lines().last().unwrap().trim_start_matches("next page: ").to_owned();
    let second = env.run_in_shell(&format!("{line} --json")).expect(0).json();
    assert_eq!(second["runs"].as_array().unwrap().len(), 1);
    assert_eq!(second["runs"][0]["tenant"], "acme");
    let stranger = line.replace("--profile ada", "--profile mallory");
    env.run_in_shell(&stranger).expect(2).prints("--before is invalid");
}

#[test]
fn dispatch_and_backout_page_through_many_runs() {
    let (env, server) = acme();
    env.run("workflow apply triage.yaml --profile ada").expect(0);
    let many = 230;
    Runtime::new().unwrap().block_on(start_many(&env, many));
    env.run("dispatch stop --reason fire --profile ada").expect(0);
    env.run("dispatch start --profile ada").expect(0).prints(&format!("{many} runs can continue"));
    assert!(server.request_count("/dispatch/start") > 1, "{:?}", server.requests);
    let would = format!("{many} runs of tenant acme would end");
    env.run("backout --reason wrong --profile ada").expect(1).prints(&would);
    let counted = server.request_count("/backout");
    assert!(counted > 1, "{:?}", server.requests);
    let ended = env.run("backout --reason wrong --yes --profile ada").expect(0);
    ended.prints(&format!("{many} runs ended")).prints("dispatch start");
    assert!(server.request_count("/backout") > counted + 1, "{:?}", server.requests);
}

/// Starts `count` runs of the applied workflow.
async fn start_many(env: &CliEnv, count: usize) {
    let engine = engine(&env.path("server.db"));
    let handle = engine.tenant_handle(&"acme".parse().unwrap(), &testkit::ada());
    for n in 0..count {
        let key = format!("k{n}").parse().unwrap();
        let input = serde_json::json!({});
        let request =
            engine::StartApplied { key, trigger_kind: "test", workspace: None, record: None, input };
        handle.start(&"triage".parse().unwrap(), request).await.unwrap();
    }
}

/// Sends the event that the run waits for and runs a worker, both on the store itself.
fn signal_and_work(env: &CliEnv, run: &str) {
    let on = "--store server.db --tenant acme";
    env.run(&format!("run signal {run} change.approved {on}")).expect(0);
    env.run("worker --store server.db --until-idle").expect(0);
}

fn answer(env: &CliEnv, run: &str) {
    let on = "--store server.db --tenant acme";
    env.run(&format!("approval approve {run} ask --by grace {on}")).expect(0);
    env.run("worker --store server.db --until-idle").expect(0);
}

#[test]
fn run_watch_uses_the_stream() {
    let (env, server) = acme();
    let run = started(&env);
    let mut follower = Follower::of(&env, &run, "eve");
    follower.wait_for("wait_opened");
    signal_and_work(&env, &run);
    follower.wait_for("approval_requested");
    answer(&env, &run);
    let (events, code) = follower.finish();
    assert_eq!((events, code), (events_on_store(&env, &run), Some(0)));
    assert_eq!((server.request_count("/stream"), server.request_count("/events")), (1, 0));
}

#[test]
fn run_watch_survives_a_server_restart() {
    let (env, server) = acme();
    let run = started(&env);
    let mut follower = Follower::of(&env, &run, "eve");
    follower.wait_for("wait_opened");
    let address = server.url.trim_start_matches("http://").to_owned();
    drop(server);
    signal_and_work(&env, &run);
    let server = Server::at(&env, &address, true);
    follower.wait_for("approval_requested");
    server.wait_for_request("/stream?last_event_id=");
    drop(server);
    let server = Server::at(&env, &address, true);
    // A follower that reconnects after the end of the run needs no stream.
    server.wait_for_request("/stream?last_event_id=");
    answer(&env, &run);
    let (events, code) = follower.finish();
    assert_eq!((events, code), (events_on_store(&env, &run), Some(0)));
}

#[test]
fn run_watch_polls_without_streams() {
    let env = CliEnv::new();
    let server = Server::at(&env, "127.0.0.1:0", false);
    profile(&env, &server, ("acme", "ada"), "admin");
    env.write("triage.yaml", WAIT_ASK);
    let run = started(&env);
    let mut follower = Follower::of(&env, &run, "ada");
    follower.wait_for("wait_opened");
    signal_and_work(&env, &run);
    follower.wait_for("approval_requested");
    answer(&env, &run);
    let (events, code) = follower.finish();
    assert_eq!((events, code), (events_on_store(&env, &run), Some(0)));
    assert_eq!(server.request_count("/stream"), 1);
    assert!(server.request_count("/events") > 0);
}

#[test]
fn follow_waits_for_the_concurrency_key() {
    let (env, _server) = acme();
    env.write("one.yaml", ONE_AT_A_TIME);
    env.run("workflow apply one.yaml --profile ada").expect(0);
    let on = "--store server.db --tenant acme";
    for (n, (workflow, place)) in
        [("one-at-a-time", "--profile ada"), ("one-at-a-time", on), ("one.yaml", on)].into_iter().enumerate()
    {
        let start = format!("run start {workflow} {place} --json --input {{\"ticket\":\"INC-{n}\"}}");
        let first = env.run(&start).expect(0).json()["run"].as_str().unwrap().to_owned();
        let mut follower = Follower::start(env.command(&format!("{start} --follow")));
        let waits = follower.next();
        assert_eq!(waits["blocked_by"], first.as_str(), "{waits}");
        let run = waits["run"].as_str().unwrap().to_owned();
        env.run(&format!("run show {run} {place}")).expect(2).prints("has not started");
        assert!(follower.child.try_wait().unwrap().is_none(), "the follower must wait");

        env.run(&format!("run cancel {first} --reason enough {on}")).expect(0);
        env.run("worker --store server.db --until-idle").expect(0);
        follower.wait_for("wait_opened");
        env.run(&format!("run signal {run} go {on}")).expect(0);
        env.run("worker --store server.db --until-idle").expect(0);
        let (events, code) = follower.finish();
        assert_eq!((events, code), (events_on_store(&env, &run), Some(0)), "{workflow} {place}");
    }
}

#[test]
fn queued_start_names_its_blocker_and_exit_code() {
    let (env, _server) = acme();
    env.write("one.yaml", ONE_AT_A_TIME);
    env.run("workflow apply one.yaml --profile ada").expect(0);
    let start = "run start one-at-a-time --profile ada --input {\"ticket\":\"INC-7\"}";
    let first = env.run(&format!("{start} --json")).expect(0).json()["run"].as_str().unwrap().to_owned();
    let waits = env.run(&format!("{start} --key second")).expect(0);
    waits
        .prints(&format!("starts when run {first} with the same concurrency key ends"))
        .prints(&format!("run watch {first}"));

    let mut follower = Follower::start(env.command(&format!("{start} --key second --follow --json")));
    let run = follower.next()["run"].as_str().unwrap().to_owned();
    let on = "--store server.db --tenant acme";
    env.run(&format!("run cancel {first} --reason enough {on}")).expect(0);
    env.run("worker --store server.db --until-idle").expect(0);
    follower.wait_for("wait_opened");
    env.run(&format!("run cancel {run} --reason enough {on}")).expect(0);
    assert_eq!(follower.finish().1, Some(1));
}
