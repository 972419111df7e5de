//! The named cases of *events*: signals that arrive early, late, twice or with other content.

use countersign_contract::{ContractEnv, Reply};
use domain::{Millis, Role, RunId};
use serde_json::{Value, json};

/// A question, then two waits for the same event.
const TWO_WAITS: &str = "
  - { id: ask, tool: approval.gate, with: { message: Go on? } }
  - { id: first, tool: wait.event, with: { event: news.came, timeout: 2h } }
  - { id: second, tool: wait.event, with: { event: news.came, timeout: 2h } }
";

/// A wait that ends without its event, then a question.
const OPTIONAL_WAIT: &str = "
  - { id: news, tool: wait.event, with: { event: news.came, timeout: 2h, on_timeout: continue } }
  - { id: ask, tool: approval.gate, with: { message: Go on? } }
";

/// A wait that fails without its event.
const REQUIRED_WAIT: &str = "
  - { id: news, tool: wait.event, with: { event: news.came, timeout: 2h } }
";

/// A run that receives events through the API.
struct Waiting {
    env: ContractEnv,
    run: RunId,
}

impl Waiting {
    /// A run that has reached its first question or wait.
    async fn new(steps: &str) -> Self {
        let env = ContractEnv::new().await;
        let source = json!({ "source": format!("workflow: w\nversion: 1\nsteps:{steps}") });
        let applied = env.post(env.acme.key(Role::Admin), "/workflows", &source).await;
        assert_eq!(applied.status, 200, "{}", applied.text());
        let started = env.post(env.acme.key(Role::Admin), "/runs", &json!({ "workflow": "w" })).await;
        let run = started.json()["run"].as_str().unwrap().parse().unwrap();
        let waiting = Self { env, run };
        waiting.advance().await;
        waiting
    }

    async fn advance(&self) {
        self.env.advance(&self.env.acme, &self.run).await;
    }

    /// Answers the question, so that the run reaches its first wait.
    async fn answer(&self) {
        let key = self.env.acme.key(Role::Approver);
        let open = self.env.get(key, "/approvals").await.json();
        let approvals = open["approvals"].as_array().unwrap();
        let own = approvals.iter().find(|approval| approval["run"] == self.run.as_str()).unwrap();
        let path = format!("/approvals/{}/approve", own["approval"].as_str().unwrap());
        assert_eq!(self.env.post(key, &path, &json!({})).await.status, 200);
        self.advance().await;
    }

    async fn send(&self, id: &str, event: &str, payload: &Value) -> Reply {
        let signal = json!({ "id": id, "event": event, "payload": payload });
        let path = format!("/runs/{}/signals", self.run);
        self.env.post(self.env.acme.key(Role::Operator), &path, &signal).await
    }

    /// Sends an event that the run waits for; returns what happened to it.
    async fn news(&self, id: &str, payload: Value) -> String {
        let reply = self.send(id, "news.came", &payload).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        let delivery = reply.json()["delivery"].as_str().unwrap().to_owned();
        self.advance().await;
        delivery
    }

    async fn assert_refused(&self, id: &str, event: &str, payload: &Value, code: &str) {
        let before = self.get_run().await;
        let reply = self.send(id, event, payload).await;
        assert_eq!(reply.status_and_code(), (409, code.to_owned()), "{}", reply.text());
        self.advance().await;
        assert_eq!(self.get_run().await, before);
    }

    async fn get_run(&self) -> Value {
        self.env.get(self.env.acme.key(Role::Viewer), &format!("/runs/{}", self.run)).await.json()
    }

    async fn status(&self) -> String {
        self.get_run().await["status"].as_str().unwrap().to_owned()
    }

    /// The step at which the run is.
    async fn step(&self) -> String {
        let shown = self.get_run().await;
        let current = usize::try_from(shown["current_step"].as_u64().unwrap()).unwrap();
        shown["steps"][current]["id"].as_str().unwrap().to_owned()
    }

    async fn outputs(&self) -> Vec<Value> {
        let steps = self.get_run().await["steps"].as_array().unwrap().clone();
        steps.into_iter().map(|step| step["output"].clone()).collect()
    }
}

#[tokio::test]
async fn event_before_wait() {
    let waiting = Waiting::new(TWO_WAITS).await;
    assert_eq!(waiting.news("s1", json!(1)).await, "buffered");
    assert_eq!(waiting.step().await, "ask", "an event does not answer the question");

    waiting.answer().await;

    assert_eq!(waiting.step().await, "second", "one event ends one wait");
    assert_eq!(waiting.outputs().await[1], json!(1));
    waiting.assert_refused("s2", "other.news", &json!(1), "RUN_INVALID_TRANSITION").await;
}

#[tokio::test]
async fn event_twice_same_id() {
    let waiting = Waiting::new(TWO_WAITS).await;
    waiting.answer().await;
    assert_eq!(waiting.news("s1", json!(1)).await, "delivered");
    assert_eq!(waiting.news("s1", json!(1)).await, "duplicate");
    assert_eq!(waiting.step().await, "second");

    assert_eq!(waiting.news("s2", json!(2)).await, "delivered");
    assert_eq!(waiting.status().await, "succeeded");
    let ended = waiting.get_run().await;
    assert_eq!(waiting.news("s1", json!(1)).await, "duplicate", "also after the end");
    assert_eq!(waiting.get_run().await, ended);
    // Another run that waits for the same event.
    let other = format!("/runs/{}", waiting.env.acme.runs.waiting);
    let other = waiting.env.get(waiting.env.acme.key(Role::Viewer), &other).await.json();
    assert_eq!(other["status"], "waiting_event");
}

#[tokio::test]
async fn event_same_id_other_payload() {
    let waiting = Waiting::new(TWO_WAITS).await;
    assert_eq!(waiting.news("s1", json!({ "account": 1 })).await, "buffered");
    let others =
        [("news.came", json!({ "account": 2 })), ("news.came", Value::Null), ("other.news", json!(1))];
    for (event, payload) in &others {
        waiting.assert_refused("s1", event, payload, "IDEMPOTENCY_CONFLICT").await;
    }
    waiting.answer().await;
    assert_eq!(waiting.outputs().await[1], json!({ "account": 1 }));
    for (event, payload) in &others {
        waiting.assert_refused("s1", event, payload, "IDEMPOTENCY_CONFLICT").await;
    }
    assert_eq!(waiting.step().await, "second");
}

#[tokio::test]
async fn event_after_timeout() {
    let waiting = Waiting::new(OPTIONAL_WAIT).await;
    waiting.env.clock.advance(Millis::hours(2));
    waiting.advance().await;
    assert_eq!(waiting.step().await, "ask");
    waiting.assert_refused("s1", "news.came", &json!(1), "RUN_INVALID_TRANSITION").await;
    assert_eq!(waiting.outputs().await[0], json!({ "timed_out": true }));

    let waiting = Waiting::new(REQUIRED_WAIT).await;
    waiting.env.clock.advance(Millis::hours(2));
    waiting.advance().await;
    assert_eq!(waiting.status().await, "failed_terminal");
    waiting.assert_refused("s1", "news.came", &json!(1), "RUN_TERMINAL_STATE").await;
}

/// The deadline has passed, and no worker has processed it yet.
#[tokio::test]
async fn event_after_deadline_before_the_timer() {
    for steps in [OPTIONAL_WAIT, REQUIRED_WAIT] {
        let waiting = Waiting::new(steps).await;
        waiting.env.clock.advance(Millis::hours(3));
        let late = waiting.send("s1", "news.came", &json!(1)).await;
        assert_eq!(late.status_and_code(), (409, "RUN_INVALID_TRANSITION".to_owned()), "{}", late.text());
        waiting.advance().await;
        assert_ne!(waiting.outputs().await[0], json!(1));
    }
}
