//! The same program against a server: the API on a port, on a store that a worker shares.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use api::{Api, CursorSecret, Gate};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::IntoResponse as _;
use connectors::{Allow, Settings};
use engine::{Engine, Parts, TenantHandle, Timing};
use serde_json::Value;
use store::{SqliteOptions, SqliteStore, SystemClock};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::shell::{PATIENCE, Shell};

const WAIT_ASK: &str = "
workflow: triage
version: 1
environment: dev
steps:
  - { id: approved, tool: wait.event, with: { event: change.approved, timeout: 1h } }
  - { id: ask, tool: approval.gate, with: { message: \"Really?\", on_reject: pause } }
  - { id: sum, tool: transform, with: { value: \"${ steps.ask.by }\" } }
";

/// One run at a time for each ticket; others wait until it is over.
const ONE_AT_A_TIME: &str = "
workflow: one-at-a-time
version: 1
environment: dev
ticket: { of: '${ trigger.ticket }', when_taken: queue }
steps:
  - { id: wait, tool: wait.event, with: { event: go, timeout: 1h } }
";

/// A server on the store `server.db` of a shell; it ends with this.
struct Server {
    url: String,
    /// What it was asked for, in order.
    asked: Asked,
    _runtime: Runtime,
}

type Asked = Arc<Mutex<Vec<String>>>;

/// The engine on the store at `path`, as another program has it.
pub(crate) fn engine(path: &Path) -> Engine<SqliteStore> {
    Engine::new(Parts {
        store: Arc::new(SqliteStore::open(path, SqliteOptions::default()).unwrap()),
        tools: connectors::standard(Allow::default(), Settings::default()),
        clock: Arc::new(SystemClock),
        me: "server".parse().unwrap(),
        timing: Timing::default(),
        shows: None,
        sealing: None,
    })
}

impl Server {
    fn on(shell: &Shell) -> Self {
        Self::at(shell, "127.0.0.1:0", true)
    }

    /// A server at `address`, which has live streams or none.
    fn at(shell: &Shell, address: &str, streams: bool) -> Self {
        let engine = engine(&shell.path("server.db"));
        let api = Api::new(Gate::new(Arc::new(engine)), CursorSecret::new([7; 32]));
        let asked = Asked::default();
        let noted = Arc::clone(&asked);
        let note = move |request: Request, next: Next| {
            let uri = request.uri().to_string();
            let refused = !streams && uri.contains("/stream");
            noted.lock().unwrap().push(uri);
            async move { if refused { StatusCode::NOT_FOUND.into_response() } else { next.run(request).await } }
        };
        let router = api::router(Arc::new(api)).layer(from_fn(note));
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(TcpListener::bind(address)).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        runtime.spawn(async move { axum::serve(listener, router).await });
        Self { url, asked, _runtime: runtime }
    }

    /// How often it was asked for something whose address holds `part`.
    fn was_asked(&self, part: &str) -> usize {
        self.asked.lock().unwrap().iter().filter(|uri| uri.contains(part)).count()
    }

    /// Waits until it was asked for something whose address holds `part`.
    fn until_asked(&self, part: &str) {
        let began = Instant::now();
        while self.was_asked(part) == 0 {
            assert!(began.elapsed() < PATIENCE, "{part}: {:?}", self.asked);
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Somebody who follows a run while others go on.
struct Follower {
    child: Child,
    lines: mpsc::Receiver<String>,
    heard: Vec<Value>,
}

impl Follower {
    fn of(shell: &Shell, run: &str, profile: &str) -> Self {
        Self::by(shell.command(&format!("run watch {run} --json --profile {profile}")))
    }

    /// Somebody who follows by this command.
    fn by(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (tell, lines) = mpsc::channel();
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| tell.send(line)));
        Self { child, lines, heard: Vec::new() }
    }

    /// The next thing that it is told.
    fn told(&mut self) -> Value {
        let line = self.lines.recv_timeout(PATIENCE).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Waits until it has heard of something of this kind.
    fn hears(&mut self, kind: &str) {
        while self.heard.last().is_none_or(|entry| entry["event"]["kind"] != kind) {
            let line =
                self.lines.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{kind}: {:#?}", self.heard));
            self.heard.push(serde_json::from_str(&line).unwrap());
        }
    }

    /// Waits until it is over; all that it heard, and its exit code.
    fn ends(mut self) -> (Vec<Value>, Option<i32>) {
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            self.heard.push(serde_json::from_str(&line).unwrap());
        }
        (std::mem::take(&mut self.heard), self.child.wait().unwrap().code())
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What whoever follows `run` on the store hears.
fn on_the_store(shell: &Shell, run: &str) -> Vec<Value> {
    let told = shell.run(&format!("run watch {run} --json --store server.db --tenant acme")).expect(0);
    told.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A profile for `person` of `tenant`, with a key of this role.
fn profile(shell: &Shell, server: &Server, (tenant, person): (&str, &str), role: &str) {
    shell
        .run(&format!(
            "--store server.db --tenant {tenant} key create {person} --role {role} --out {person}.key"
        ))
        .expect(0);
    shell
        .run(&format!("profile add {person} --url {} --key-file {person}.key --for {tenant}", server.url))
        .expect(0);
}

/// A shell, a server, and ada, grace and eve of acme, who administers, approves and looks; mallory is elsewhere.
fn acme() -> (Shell, Server) {
    let shell = Shell::new();
    let server = Server::on(&shell);
    profile(&shell, &server, ("acme", "ada"), "admin");
    profile(&shell, &server, ("acme", "grace"), "approver");
    profile(&shell, &server, ("acme", "eve"), "viewer");
    profile(&shell, &server, ("umbrella", "mallory"), "admin");
    shell.write("triage.yaml", WAIT_ASK);
    (shell, server)
}

fn started(shell: &Shell) -> String {
    shell.run("workflow apply triage.yaml --profile ada").expect(0).says("version 1 is in use");
    let run = shell.run("run start triage --profile ada --key INC-7 --json").expect(0).json();
    shell.run("worker --store server.db --until-idle").expect(0);
    run["run"].as_str().unwrap().to_owned()
}

#[test]
fn a_run_is_started_looked_at_approved_and_followed_on_a_server() {
    let (shell, _server) = acme();
    let run = started(&shell);
    assert!(!shell.path("countersign.db").exists(), "nothing happens on this machine");
    shell.run("workflow show triage --profile eve").expect(0).says("approval.gate");
    shell.run("run list --profile eve").expect(0).says(&run).says("waiting_event");
    shell.run("run list --profile eve --status paused").expect(0).says("no run is paused");

    shell.run(&format!("run signal {run} change.approved --profile ada")).expect(0).says("the run goes on");
    shell.run("worker --store server.db --until-idle").expect(0);
    shell.run("approval list --profile grace").expect(0).says(&run).says("Really?");
    shell.run("approval list --mine --profile grace").expect(0).says(&run);
    shell.run("approval list --mine --profile ada").expect(0).says("nobody is asked anything");
    shell.run(&format!("approval show {run} ask --profile grace")).expect(0).says("asks     Really?");
    let own = shell.run(&format!("approval approve {run} ask --profile ada")).expect(1);
    own.says("whoever asked for the run does not approve it");
    let answered = shell.run(&format!("approval approve {run} ask --profile grace --reason fine")).expect(0);
    answered.says("ask approved by grace; the run goes on");
    shell.run("worker --store server.db --until-idle").expect(0);

    let told = shell.run(&format!("run watch {run} --profile eve")).expect(0);
    told.says("started by ada: workflow triage").says("ask: approved by grace: fine").says("is succeeded");
    let drawn = shell.run(&format!("run timeline {run} --profile eve --plain")).expect(0);
    drawn.says("~ waits for an event").says("= asks people");
    assert_eq!(
        shell.run(&format!("run show {run} --profile eve --json")).expect(0).json()["status"],
        "succeeded"
    );
}

#[test]
fn evidence_comes_from_a_server_and_is_verified_with_a_key_from_elsewhere() {
    let (shell, _server) = acme();
    shell.write("triage.yaml", "{workflow: triage, version: 1, environment: dev, steps: [{id: a, tool: transform, with: {value: 1}}]}");
    let run = started(&shell);
    let got = shell.run(&format!("bundle get {run} --profile eve --out a.bundle")).expect(0);
    got.says("bundle verify a.bundle --key");
    shell.run("bundle verify a.bundle --key server.db.pub").expect(0).says("verified: ");
    shell.run("bundle verify a.bundle").expect(2).says("there is no key a.bundle.pub");
    shell.run(&format!("bundle get {run} --profile eve --out a.bundle")).expect(1).says("left alone");
    shell.run("bundle get run-1 --profile eve").expect(2).says("there is no run");
}

#[test]
fn a_waiting_run_says_the_same_through_a_server_as_on_its_store() {
    let (shell, _server) = acme();
    let run = started(&shell);
    let on = |place: &str| shell.run(&format!("run show {run} --json {place}")).expect(0).json();
    let (here, there) = (on("--store server.db --tenant acme"), on("--profile ada"));
    assert_eq!(here["waits"]["why"], there["waits"]["why"]);
    assert_eq!(here["waits"]["why"], "Step approved waits for the event change.approved from outside.");
    assert_eq!(here["steps"], there["steps"]);
    let command = |seen: &Value| seen["waits"]["ends"][0]["command"].as_str().unwrap().to_owned();
    let rest = format!("run signal {run} change.approved --payload '{{}}'");
    assert_eq!(command(&here), format!("countersign --store server.db --tenant acme {rest}"));
    assert_eq!(command(&there), format!("countersign --profile ada {rest}"));
    shell.type_in(&command(&there)).expect(0).says("delivered");
    shell.run(&format!("run show {run} --profile ada")).expect(0).says("why it waits");
}

#[test]
fn an_operator_says_how_a_run_goes_on_through_a_server() {
    let (shell, _server) = acme();
    let run = started(&shell);
    let again = shell.run("run start triage --profile ada --key INC-7").expect(0);
    again.says("already started").says(&format!("countersign --profile ada run watch {run}"));
    let other = shell.run_with("run start triage --profile ada --key INC-7 --input", r#"{"a":1}"#).expect(1);
    other.says("IDEMPOTENCY_CONFLICT").says("--key");
    shell.run("run start nothing --profile ada").expect(2).says("no workflow nothing is in use");
    shell.run("run start triage.yaml --profile ada").expect(2).says("workflow apply triage.yaml");
    shell.run(&format!("run undo {run} --plan --profile ada")).expect(1).says("not over");
    let canceled = shell.run(&format!("run cancel {run} --reason no --profile ada")).expect(0);
    canceled.says("the run is canceled").says(&format!("countersign --profile ada run show {run}"));
    let over = shell.run(&format!("run retry {run} --profile ada")).expect(1);
    over.says("[RUN_TERMINAL_STATE]").says("help: `run start` begins another run");
    shell.run(&format!("run undo {run} --plan --profile ada")).expect(0).says("had no effects");
}

#[test]
fn whoever_may_not_is_told_which_role_it_takes_and_strangers_find_nothing() {
    let (shell, server) = acme();
    let run = started(&shell);
    shell.run("whoami --profile eve").expect(0).says("eve of tenant acme").says("viewer");
    let refused = shell.run(&format!("run cancel {run} --profile eve --json")).expect(1).error();
    assert_eq!(refused["code"], "FORBIDDEN");
    assert_eq!(refused["exit"], 1);
    shell.run(&format!("run show {run} --profile mallory")).expect(2).says("there is no run");
    shell
        .run(&format!("run show acme/{run} --profile mallory"))
        .expect(2)
        .says("the key is for tenant umbrella");
    shell.run("run list --profile mallory --tenant acme").expect(2).says("not for acme");
    let by = shell.run(&format!("approval approve {run} ask --by grace --profile ada")).expect(2);
    by.says("knows who answers by their key");

    let keys = shell.run("key list --profile ada --json").expect(0).json();
    let eve = keys["keys"].as_array().unwrap().iter().find(|key| key["person"] == "eve").unwrap();
    let id = eve["id"].as_str().unwrap();
    shell.run(&format!("key revoke {id} --profile ada")).expect(0).says("opens nothing any more");
    let revoked = shell.run("run list --profile eve").expect(1).says("[UNAUTHENTICATED]");
    let secret = std::fs::read_to_string(shell.path("eve.key")).unwrap();
    assert!(!revoked.err.contains(secret.trim()), "{revoked:?}");
    shell.run(&format!("run list --server {}", server.url)).expect(2).says("COUNTERSIGN_API_KEY is not set");
}

#[test]
fn what_a_tenant_has_settled_is_settled_through_a_server() {
    let (shell, _server) = acme();
    shell.write("acme.yaml", "people: {grace: {}}\ngroups: {db: [grace]}\n");
    shell.run("tenant set acme.yaml --profile ada").expect(0).says("group db is new: grace");
    shell.run("tenant set acme.yaml --profile ada").expect(0).says("nothing changed");
    shell.run("tenant show --profile eve").expect(0).says("tenant    acme").says("db");
    shell.write("eve.yaml", "people: {eve: {}}\ngroups: {db: [eve]}\n");
    shell.run("tenant set eve.yaml --profile eve").expect(1).says("[FORBIDDEN]");
    shell.write("bad.yaml", "workflow: w\nversion: 1\nsteps:\n  - { id: a, tool: no.such }\n");
    let bad = shell.run("workflow apply bad.yaml --profile ada").expect(2).says("bad.yaml, line 4");
    bad.says("no.such }").says("^");
}

#[test]
fn a_policy_is_shown_explained_and_settled_on_through_a_server() {
    let (shell, _server) = acme();
    shell.run("policy show --dir policy --profile eve").expect(0).says("tenant acme has settled on none");
    let post = "{id: post, tool: http.request, with: {method: POST, url: 'https://example.com/', effect: native_key}}";
    shell.write("post.yaml", format!("{{workflow: post, version: 1, environment: dev, steps: [{post}]}}"));
    let explained = shell.run("policy explain post.yaml --profile eve").expect(0);
    explained.says("rehearsal-write").says("ships with the program");

    let path = shell.path("policy/more.rego");
    let rule = "package countersign\ndeny contains {\"rule\": \"closed\", \"says\": \"not today\"}\n";
    std::fs::write(&path, rule.replace("contains", "contain")).unwrap();
    shell.run("policy apply policy --profile ada").expect(2).says("policy/more.rego:2:");
    std::fs::write(&path, rule).unwrap();
    // The tests of the policy that ships hold that something is allowed.
    shell.run("policy apply policy --profile ada").expect(1).says("is not applied");
    std::fs::write(&path, rule.replace("}\n", "} if input.run.workflow == \"post\"\n")).unwrap();
    shell.run("policy apply policy --profile eve").expect(1).says("[FORBIDDEN]");
    shell.run("policy explain post.yaml --policy policy --profile eve").expect(1).says("[FORBIDDEN]");
    let sent = shell.run("policy explain post.yaml --policy policy --profile ada").expect(0);
    sent.says("in policy").says("denied").says("closed: not today (more.rego:2)");
    let applied = shell.run("policy apply policy --profile ada").expect(0).says("tenant acme");
    applied.says("which ships with the program");
    shell.run("policy show --profile eve").expect(0).says("settled by tenant acme, by ada at");
    shell.run("policy show --profile mallory").expect(0).says("tenant umbrella has settled on none");

    shell.run("workflow apply post.yaml --profile ada").expect(0);
    let on = |place: &str| shell.run(&format!("policy explain post --json {place}")).expect(0).json();
    let (here, there) = (on("--store server.db --tenant acme --as eve"), on("--profile eve"));
    assert_eq!(here["steps"][0]["verdict"], there["steps"][0]["verdict"]);
    assert_eq!(there["steps"][0]["ruling"], "deny");
    shell.run("policy explain post --profile mallory").expect(2).says("no workflow post is in use");
    shell
        .run("policy explain post.yaml --allow-host a.example --profile eve")
        .expect(2)
        .says("the systems it has");
    assert!(!shell.path("countersign.db").exists());
}

#[test]
fn what_needs_a_store_says_so_and_does_nothing_here() {
    let (shell, _server) = acme();
    for line in ["queue redrive", "dispatch stop --all --reason no", "worker --until-idle"] {
        let refused = shell.run(&format!("{line} --profile ada")).expect(2);
        refused.says("works on a store").says("--store FILE");
    }
    for line in ["queue dead-letters", "queue redrive"] {
        let refused = shell.run(&format!("{line} --profile ada")).expect(2);
        refused.says("cannot be done on the server of profile ada").says("--aws");
        shell.run(&format!("{line} --help")).expect(0).says(&format!("countersign {line} --aws"));
    }
    assert!(!shell.path("countersign.db").exists());
}

#[test]
fn a_server_that_is_gone_is_named() {
    let (shell, server) = acme();
    let url = server.url.clone();
    drop(server);
    let gone = shell.run("run list --profile ada").expect(3);
    gone.says(&format!("{url}/ cannot be reached")).says("caused by: ");
}

#[test]
fn runs_beyond_a_page_of_the_server_are_read_page_by_page() {
    let (shell, _server) = acme();
    shell.run("workflow apply triage.yaml --profile ada").expect(0);
    for _ in 0..3 {
        shell.run("run start triage --profile ada").expect(0);
    }
    let first = shell.run("run list --limit 2 --profile ada").expect(0).says("older ones: ");
    let line = first.out.lines().last().unwrap().trim_start_matches("older ones: ").to_owned();
    let second = shell.type_in(&format!("{line} --json")).expect(0).json();
    assert_eq!(second["runs"].as_array().unwrap().len(), 1);
    assert_eq!(second["runs"][0]["tenant"], "acme");
    let stranger = line.replace("--profile ada", "--profile mallory");
    shell.type_in(&stranger).expect(2).says("--before cannot be used");
}

#[test]
fn more_runs_than_one_request_deals_with_are_stopped_started_and_backed_out_through_a_server() {
    let (shell, server) = acme();
    shell.run("workflow apply triage.yaml --profile ada").expect(0);
    let many = 230;
    Runtime::new().unwrap().block_on(begin(&shell, many));
    shell.run("dispatch stop --reason fire --profile ada").expect(0);
    shell.run("dispatch start --profile ada").expect(0).says(&format!("{many} runs can go on"));
    assert!(server.was_asked("/dispatch/start") > 1, "{:?}", server.asked);
    let would = format!("{many} runs of tenant acme would be ended");
    shell.run("backout --reason wrong --profile ada").expect(1).says(&would);
    let counted = server.was_asked("/backout");
    assert!(counted > 1, "{:?}", server.asked);
    let ended = shell.run("backout --reason wrong --yes --profile ada").expect(0);
    ended.says(&format!("{many} runs ended")).says("dispatch start");
    assert!(server.was_asked("/backout") > counted + 1, "{:?}", server.asked);
}

/// Starts so many runs of the workflow in use.
async fn begin(shell: &Shell, count: usize) {
    let handle = TenantHandle::open(
        Arc::new(engine(&shell.path("server.db"))),
        "acme".parse().unwrap(),
        "ada".parse().unwrap(),
    );
    for n in 0..count {
        let key = format!("k{n}").parse().unwrap();
        let input = serde_json::json!({});
        handle.start(&"triage".parse().unwrap(), key, "test", None, input).await.unwrap();
    }
}

/// WorkerReport what the run waits for, and works, on the store itself.
fn go_on(shell: &Shell, run: &str) {
    let on = "--store server.db --tenant acme";
    shell.run(&format!("run signal {run} change.approved {on}")).expect(0);
    shell.run("worker --store server.db --until-idle").expect(0);
}

fn answer(shell: &Shell, run: &str) {
    let on = "--store server.db --tenant acme";
    shell.run(&format!("approval approve {run} ask --by grace {on}")).expect(0);
    shell.run("worker --store server.db --until-idle").expect(0);
}

#[test]
fn a_run_on_a_server_is_followed_over_its_stream() {
    let (shell, server) = acme();
    let run = started(&shell);
    let mut follower = Follower::of(&shell, &run, "eve");
    follower.hears("wait_opened");
    go_on(&shell, &run);
    follower.hears("approval_requested");
    answer(&shell, &run);
    let (heard, code) = follower.ends();
    assert_eq!((heard, code), (on_the_store(&shell, &run), Some(0)));
    assert_eq!((server.was_asked("/stream"), server.was_asked("/events")), (1, 0));
}

#[test]
fn whoever_follows_a_run_misses_nothing_and_hears_nothing_twice_when_the_server_was_away() {
    let (shell, server) = acme();
    let run = started(&shell);
    let mut follower = Follower::of(&shell, &run, "eve");
    follower.hears("wait_opened");
    let address = server.url.trim_start_matches("http://").to_owned();
    drop(server);
    go_on(&shell, &run);
    let server = Server::at(&shell, &address, true);
    follower.hears("approval_requested");
    server.until_asked("/stream?last_event_id=");
    drop(server);
    let server = Server::at(&shell, &address, true);
    // Whoever comes back only when the run is over has no need of a stream.
    server.until_asked("/stream?last_event_id=");
    answer(&shell, &run);
    let (heard, code) = follower.ends();
    assert_eq!((heard, code), (on_the_store(&shell, &run), Some(0)));
}

#[test]
fn a_server_without_streams_is_looked_at_again_and_again() {
    let shell = Shell::new();
    let server = Server::at(&shell, "127.0.0.1:0", false);
    profile(&shell, &server, ("acme", "ada"), "admin");
    shell.write("triage.yaml", WAIT_ASK);
    let run = started(&shell);
    let mut follower = Follower::of(&shell, &run, "ada");
    follower.hears("wait_opened");
    go_on(&shell, &run);
    follower.hears("approval_requested");
    answer(&shell, &run);
    let (heard, code) = follower.ends();
    assert_eq!((heard, code), (on_the_store(&shell, &run), Some(0)));
    assert_eq!(server.was_asked("/stream"), 1);
    assert!(server.was_asked("/events") > 0);
}

#[test]
fn whoever_follows_a_request_that_waits_for_its_ticket_follows_its_run_once_it_is_there() {
    let (shell, _server) = acme();
    shell.write("one.yaml", ONE_AT_A_TIME);
    shell.run("workflow apply one.yaml --profile ada").expect(0);
    let on = "--store server.db --tenant acme";
    for (n, (workflow, place)) in
        [("one-at-a-time", "--profile ada"), ("one-at-a-time", on), ("one.yaml", on)].into_iter().enumerate()
    {
        let start = format!("run start {workflow} {place} --json --input {{\"ticket\":\"INC-{n}\"}}");
        let first = shell.run(&start).expect(0).json()["run"].as_str().unwrap().to_owned();
        let mut follower = Follower::by(shell.command(&format!("{start} --follow")));
        let waits = follower.told();
        assert_eq!(waits["behind"], first.as_str(), "{waits}");
        let run = waits["run"].as_str().unwrap().to_owned();
        shell.run(&format!("run show {run} {place}")).expect(2).says("has not begun");
        assert!(follower.child.try_wait().unwrap().is_none(), "there is nothing to end with");

        shell.run(&format!("run cancel {first} --reason enough {on}")).expect(0);
        shell.run("worker --store server.db --until-idle").expect(0);
        follower.hears("wait_opened");
        shell.run(&format!("run signal {run} go {on}")).expect(0);
        shell.run("worker --store server.db --until-idle").expect(0);
        let (heard, code) = follower.ends();
        assert_eq!((heard, code), (on_the_store(&shell, &run), Some(0)), "{workflow} {place}");
    }
}

#[test]
fn a_request_that_waits_says_for_which_run_and_does_not_end_well_with_a_run_that_does_not() {
    let (shell, _server) = acme();
    shell.write("one.yaml", ONE_AT_A_TIME);
    shell.run("workflow apply one.yaml --profile ada").expect(0);
    let start = "run start one-at-a-time --profile ada --input {\"ticket\":\"INC-7\"}";
    let first = shell.run(&format!("{start} --json")).expect(0).json()["run"].as_str().unwrap().to_owned();
    let waits = shell.run(&format!("{start} --key second")).expect(0);
    waits.says(&format!("starts when run {first} is over")).says(&format!("run watch {first}"));

    let mut follower = Follower::by(shell.command(&format!("{start} --key second --follow --json")));
    let run = follower.told()["run"].as_str().unwrap().to_owned();
    let on = "--store server.db --tenant acme";
    shell.run(&format!("run cancel {first} --reason enough {on}")).expect(0);
    shell.run("worker --store server.db --until-idle").expect(0);
    follower.hears("wait_opened");
    shell.run(&format!("run cancel {run} --reason enough {on}")).expect(0);
    assert_eq!(follower.ends().1, Some(1));
}
