//! The log contains the code of a refusal and nothing of the request.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use connectors::ToolRegistry;
use countersign_ingress::webhook::{AuthScheme, WebhookAuth, deliver};
use domain::record::ORPHANED_AFTER;
use domain::{Cause, Initiator, Millis, RunStatus, Source, Timestamp, ToolName};
use engine::{AdvanceLimits, Engine, EngineParts, StartRun, Timing};
use http::Request;
use serde_json::{Value, json};
use signing::{Secrets, sign};
use store::{Clock, Ledger as _, SqliteOptions, SqliteStore};
use tracing::Level;
use tracing::subscriber::{DefaultGuard, set_default};

const WORKFLOW: &str =
    "workflow: w\nversion: 1\nsteps:\n  - { id: ask, tool: approval.gate, with: { message: 'Go on?' } }\n";

const SECRET: &str = "the secret of acme's own scripts";

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
    /// Captures the log of this thread until the guard is dropped.
    fn capture() -> (Self, DefaultGuard) {
        let log = Self::default();
        let writer = log.clone();
        let lines = tracing_subscriber::fmt().json().with_max_level(Level::DEBUG);
        let guard = set_default(lines.with_writer(move || writer.clone()).finish());
        (log, guard)
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    /// The lines with this message.
    fn lines(&self, message: &str) -> Vec<Value> {
        let lines =
            self.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>();
        lines.into_iter().filter(|line| line["fields"]["message"] == message).collect()
    }
}

#[derive(Clone, Default)]
struct TestClock(Arc<AtomicI64>);

impl TestClock {
    fn pass(&self, time: Millis) {
        self.0.fetch_add(time.0.try_into().unwrap(), Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

fn engine(clock: &TestClock) -> Engine<SqliteStore> {
    let options = SqliteOptions { clock: Arc::new(clock.clone()), ..SqliteOptions::default() };
    Engine::new(EngineParts {
        store: Arc::new(SqliteStore::memory(options).unwrap()),
        tools: ToolRegistry::default(),
        clock: Arc::new(clock.clone()),
        me: "ingress".parse().unwrap(),
        timing: Timing::default(),
        notifier: None,
        evidence_signer: None,
    })
}

#[tokio::test]
async fn only_an_abandoned_run_is_logged_as_orphaned() {
    let (log, _guard) = Log::capture();
    let clock = TestClock::default();
    let engine = engine(&clock);
    let request = StartRun {
        tenant: "acme".parse().unwrap(),
        workspace: "main".parse().unwrap(),
        plan: workflow::parse(WORKFLOW, &BTreeSet::<ToolName>::new()).unwrap(),
        trigger_kind: "test".to_owned(),
        record: None,
        key: "k".parse().unwrap(),
        input: json!({}),
        by: Initiator::new(Cause::User, "anna"),
    };
    let run = engine.admission().start(request).await.unwrap().run;

    clock.pass(ORPHANED_AFTER);
    assert_eq!(
        engine.operations().sweep(&Initiator::new(Cause::System, "sweep")).await.unwrap().woken,
        1,
        "no worker started it"
    );
    Box::pin(engine.execution().advance(&run, &(), AdvanceLimits::default())).await.unwrap();
    assert_eq!(engine.store().load(&run).await.unwrap().unwrap().status, RunStatus::WaitingApproval);
    clock.pass(Millis::hours(24 * 30));
    assert_eq!(
        engine.operations().sweep(&Initiator::new(Cause::System, "sweep")).await.unwrap().woken,
        1,
        "the approval is overdue"
    );

    let orphaned = log.lines("orphaned run woken");
    assert_eq!(orphaned.len(), 1, "{}", log.text());
    let fields = json!({
        "message": "orphaned run woken",
        "event": "orphan_detected",
        "code": "RUN_ORPHANED",
        "run": run.to_string(),
    });
    assert_eq!((&orphaned[0]["level"], &orphaned[0]["fields"]), (&json!("INFO"), &fields));
    let due = log.lines("due run woken");
    assert_eq!(due.len(), 1, "{}", log.text());
    assert_eq!((&due[0]["level"], &due[0]["fields"]["code"]), (&json!("DEBUG"), &Value::Null));
}

#[tokio::test]
async fn refused_delivery_logs_its_code_and_no_content() {
    let (log, _guard) = Log::capture();
    let clock = TestClock::default();
    clock.pass(Millis::hours(1));
    let engine = engine(&clock);
    let scheme = AuthScheme::Hmac(Secrets::new(SECRET.into()).unwrap());
    let auth = WebhookAuth::default().with("acme".parse().unwrap(), Source::Webhook, scheme).unwrap();
    let timestamp = (clock.now().0 / 1_000).to_string();
    let mut statuses = Vec::new();
    for password in ["hunter2", "swordfish"] {
        let body = json!({ "id": "order-4711", "password": password }).to_string().into_bytes();
        let signature = sign(&SECRET.into(), &timestamp, &body);
        let request = Request::post("/webhook/webhook/acme")
            .header("content-type", "application/json")
            .header("x-countersign-timestamp", &timestamp)
            .header("x-countersign-signature", &signature)
            .body(Bytes::from(body))
            .unwrap();
        statuses.push(deliver(&engine, &auth, &request).await.status().as_u16());
    }
    assert_eq!(statuses, [202, 409]);

    let refused: Vec<Value> =
        log.lines("refused").into_iter().map(|mut line| line["fields"].take()).collect();
    assert_eq!(
        refused,
        [json!({ "message": "refused", "event": "request_refused", "code": "IDEMPOTENCY_CONFLICT" })]
    );
    for secret in [SECRET, "order-4711", "hunter2", "swordfish"] {
        assert!(!log.text().contains(secret), "{}", log.text());
    }
}
