//! Which codes stand in the log, and that nothing else of a request does.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use connectors::Toolbox;
use countersign_ingress::webhook::{Proof, Request, WebhookAuth, deliver};
use domain::record::ORPHANED_AFTER;
use domain::{Cause, Initiator, Millis, RunStatus, Source, Timestamp, ToolName};
use engine::{AdvanceLimits, Engine, Parts, StartRun, Timing};
use serde_json::{Value, json};
use signing::{Secrets, sign};
use store::{Clock, Ledger as _, SqliteOptions, SqliteStore};
use tracing::Level;
use tracing::subscriber::{DefaultGuard, set_default};

const WORKFLOW: &str =
    "workflow: w\nversion: 1\nsteps:\n  - { id: ask, tool: approval.gate, with: { message: 'Go on?' } }\n";

const SECRET: &str = "the secret of acme's own scripts";

/// What was logged, as bytes.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Takes down what this thread logs for as long as the guard is kept.
    fn listen() -> (Self, DefaultGuard) {
        let log = Self::default();
        let writer = log.clone();
        let lines = tracing_subscriber::fmt().json().with_max_level(Level::DEBUG);
        let guard = set_default(lines.with_writer(move || writer.clone()).finish());
        (log, guard)
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    /// The lines that say `message`.
    fn lines(&self, message: &str) -> Vec<Value> {
        let lines =
            self.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>();
        lines.into_iter().filter(|line| line["fields"]["message"] == message).collect()
    }
}

#[derive(Clone, Default)]
struct Hands(Arc<AtomicI64>);

impl Hands {
    fn pass(&self, time: Millis) {
        self.0.fetch_add(time.0.try_into().unwrap(), Ordering::SeqCst);
    }
}

impl Clock for Hands {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

fn engine(clock: &Hands) -> Engine<SqliteStore> {
    let options = SqliteOptions { clock: Arc::new(clock.clone()), ..SqliteOptions::default() };
    Engine::new(Parts {
        store: Arc::new(SqliteStore::memory(options).unwrap()),
        tools: Toolbox::default(),
        clock: Arc::new(clock.clone()),
        me: "door".parse().unwrap(),
        timing: Timing::default(),
        shows: None,
        sealing: None,
    })
}

#[tokio::test]
async fn only_a_run_that_was_left_is_logged_as_orphaned() {
    let (log, _guard) = Log::listen();
    let clock = Hands::default();
    let engine = engine(&clock);
    let wish = StartRun {
        tenant: "acme".parse().unwrap(),
        workspace: "main".parse().unwrap(),
        plan: workflow::parse(WORKFLOW, &BTreeSet::<ToolName>::new()).unwrap(),
        trigger_kind: "test".to_owned(),
        record: None,
        key: "k".parse().unwrap(),
        input: json!({}),
        by: Initiator::new(Cause::User, "anna"),
    };
    let run = engine.start(wish).await.unwrap().run;

    clock.pass(ORPHANED_AFTER);
    assert_eq!(
        engine.sweep(&Initiator::new(Cause::System, "sweep")).await.unwrap().woken,
        1,
        "nobody has begun it"
    );
    Box::pin(engine.advance(&run, &(), AdvanceLimits::default())).await.unwrap();
    assert_eq!(engine.store().load(&run).await.unwrap().unwrap().status, RunStatus::WaitingApproval);
    clock.pass(Millis::hours(24 * 30));
    assert_eq!(
        engine.sweep(&Initiator::new(Cause::System, "sweep")).await.unwrap().woken,
        1,
        "nobody has answered"
    );

    let left = log.lines("woke a run that was left");
    assert_eq!(left.len(), 1, "{}", log.text());
    let fields = json!({
        "message": "woke a run that was left",
        "event": "orphan_detected",
        "code": "RUN_ORPHANED",
        "run": run.to_string(),
    });
    assert_eq!((&left[0]["level"], &left[0]["fields"]), (&json!("INFO"), &fields));
    let due = log.lines("woke a run that was due");
    assert_eq!(due.len(), 1, "{}", log.text());
    assert_eq!((&due[0]["level"], &due[0]["fields"]["code"]), (&json!("DEBUG"), &Value::Null));
}

#[tokio::test]
async fn a_delivery_that_is_refused_leaves_its_code_in_the_log_and_nothing_of_what_came() {
    let (log, _guard) = Log::listen();
    let clock = Hands::default();
    clock.pass(Millis::hours(1));
    let engine = engine(&clock);
    let proof = Proof::Signed(Secrets::new(SECRET.into()).unwrap());
    let doors = WebhookAuth::default().and("acme".parse().unwrap(), Source::Webhook, proof).unwrap();
    let timestamp = (clock.now().0 / 1_000).to_string();
    let mut statuses = Vec::new();
    for password in ["hunter2", "swordfish"] {
        let body = json!({ "id": "order-4711", "password": password }).to_string().into_bytes();
        let signature = sign(&SECRET.into(), &timestamp, &body);
        let headers = [
            ("content-type", "application/json"),
            ("x-countersign-timestamp", timestamp.as_str()),
            ("x-countersign-signature", signature.as_str()),
        ];
        let headers = headers.into_iter().collect();
        let request = Request { source: "webhook", tenant: "acme", headers, body: &body };
        statuses.push(deliver(&engine, &doors, request).await.status);
    }
    assert_eq!(statuses, [202, 409]);

    let refused: Vec<Value> =
        log.lines("refused").into_iter().map(|mut line| line["fields"].take()).collect();
    assert_eq!(refused, [json!({ "message": "refused", "code": "IDEMPOTENCY_CONFLICT" })]);
    for secret in [SECRET, "order-4711", "hunter2", "swordfish"] {
        assert!(!log.text().contains(secret), "{}", log.text());
    }
}
