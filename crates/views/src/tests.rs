//! What a run at rest tells: why, and the very command that ends it.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use connectors::Toolbox;
use domain::{Cause, Channel, Initiator, RunKey, TenantId, ToolName};
use engine::{AdvanceLimits, Engine, Parts, Reach, Reply, SignalRun, StartRun, Timing};
use serde_json::json;
use store::{SqliteOptions, SqliteStore, SystemClock};

use super::*;

const WORKFLOW: &str = r#"
workflow: w
version: 1
steps:
  - { id: news, tool: wait.event, with: { event: news.came, timeout: 2h } }
  - { id: ask, tool: approval.gate, with: { message: "Go on?", on_reject: pause } }
"#;

struct TestEnv {
    engine: Engine<SqliteStore>,
    run: RunKey,
    by: Initiator,
}

impl TestEnv {
    async fn started() -> Self {
        let engine = Engine::new(Parts {
            store: Arc::new(SqliteStore::memory(SqliteOptions::default()).unwrap()),
            tools: Toolbox::default(),
            clock: Arc::new(SystemClock),
            me: "w".parse().unwrap(),
            timing: Timing::default(),
            shows: None,
            sealing: None,
        });
        let by = Initiator::new(Cause::User, "ada");
        let started = engine.start(StartRun {
            tenant: "default".parse().unwrap(),
            workspace: "default".parse().unwrap(),
            plan: workflow::parse(WORKFLOW, &BTreeSet::<ToolName>::new()).unwrap(),
            trigger_kind: "cli".to_owned(),
            record: None,
            key: "k".parse().unwrap(),
            input: json!({}),
            by: by.clone(),
        });
        let run = started.await.unwrap().run;
        Self { engine, run, by }
    }

    async fn at_the_wait() -> Self {
        let env = Self::started().await;
        env.advance().await;
        env
    }

    async fn at_the_question() -> Self {
        let env = Self::at_the_wait().await;
        let signal =
            SignalRun { id: "s".parse().unwrap(), event: "news.came".parse().unwrap(), payload: json!(1) };
        env.engine.signal(&env.run, &env.by, signal).await.unwrap();
        env.advance().await;
        env
    }

    async fn advance(&self) {
        Box::pin(self.engine.advance(&self.run, &(), AdvanceLimits::default())).await.unwrap();
    }

    async fn answer(&self, approve: bool, reason: &str) {
        let asked = self.engine.approval_of(&self.run, &"ask".parse().unwrap()).await.unwrap();
        let reply = Reply {
            approval: asked.id,
            subject: None,
            person: "grace".parse().unwrap(),
            approve,
            reason: reason.to_owned(),
            through: Channel::CommandLine,
        };
        Box::pin(self.engine.answer(&self.run.tenant, reply)).await.unwrap();
    }

    async fn seen(&self) -> Seen {
        let hints = Hints::new(Path::new("countersign.db"), &TenantId::new("default").unwrap());
        Seen::look(&self.engine, &self.run, hints).await.unwrap()
    }

    /// Why it waits, and the commands that end that.
    async fn waits(&self) -> (String, Vec<String>) {
        let waiting = waiting(&self.seen().await).unwrap();
        (waiting.why, waiting.ends.into_iter().filter_map(|way| way.command).collect())
    }

    fn command(&self, verb: &str) -> String {
        format!("countersign run {verb} {}", self.run.run)
    }
}

#[tokio::test]
async fn a_run_that_nobody_took_asks_for_a_worker() {
    let env = TestEnv::started().await;
    let (why, commands) = env.waits().await;
    assert_eq!(why, "Step news is ready, and no worker has taken it yet.");
    assert_eq!(commands, ["countersign worker".to_owned(), env.command("cancel")]);
}

#[tokio::test]
async fn a_run_that_dispatch_holds_up_says_who_stopped_it_and_asks_for_no_worker() {
    let env = TestEnv::started().await;
    let tenant = Reach::Tenant(env.run.tenant.clone());
    env.engine.stop_dispatch(&tenant, &env.by, "fire").await.unwrap();
    let (why, commands) = env.waits().await;
    assert!(why.contains("ada stopped dispatch for this tenant at "), "{why}");
    assert!(why.ends_with("\u{201c}fire\u{201d}."), "{why}");
    assert_eq!(commands, ["countersign dispatch start".to_owned(), env.command("cancel")]);

    env.engine.stop_dispatch(&Reach::All, &env.by, "flood").await.unwrap();
    let (why, commands) = env.waits().await;
    assert!(why.contains("for all tenants") && why.contains("flood"), "{why}");
    assert_eq!(commands, [env.command("cancel")]);
}

#[tokio::test]
async fn a_wait_names_its_event() {
    let env = TestEnv::at_the_wait().await;
    let (why, commands) = env.waits().await;
    assert_eq!(why, "Step news waits for the event news.came from outside.");
    assert_eq!(commands[0], format!("countersign run signal {} news.came --payload '{{}}'", env.run.run));
}

#[tokio::test]
async fn a_question_names_both_answers() {
    let env = TestEnv::at_the_question().await;
    let (why, commands) = env.waits().await;
    assert!(why.starts_with("Step ask asks a person: \u{201c}Go on?\u{201d} Not ada:"), "{why}");
    for (command, verb) in commands.iter().zip(["approve", "reject"]) {
        assert!(
            command.starts_with(&format!("countersign approval {verb} {} ask", env.run.run)),
            "{command}"
        );
    }
}

#[tokio::test]
async fn a_paused_run_tells_who_paused_it_and_why() {
    let env = TestEnv::at_the_question().await;
    env.answer(false, "not today").await;
    let (why, commands) = env.waits().await;
    assert!(why.starts_with("Paused by grace at ") && why.contains("not today"), "{why}");
    assert_eq!(commands, [env.command("retry"), env.command("cancel")]);
}

#[tokio::test]
async fn a_run_that_is_over_waits_for_nothing() {
    let env = TestEnv::at_the_question().await;
    env.answer(true, "").await;
    let seen = env.seen().await;
    assert_eq!(waiting(&seen), None);
    assert!(run_text(&seen).contains("succeeded after"), "{}", run_text(&seen));
    assert_eq!(run_json(&seen)["chain"]["verified"], true);
}

#[tokio::test]
async fn a_canceled_run_tells_who_wanted_that_and_why() {
    let env = TestEnv::at_the_wait().await;
    assert_eq!(run_json(&env.seen().await)["canceled"], json!(null));
    env.engine.cancel(&env.run, &env.by, "not today").await.unwrap();
    let seen = env.seen().await;
    let told = &run_json(&seen)["canceled"];
    assert_eq!((&told["by"], &told["reason"]), (&json!("ada"), &json!("not today")));
    assert!(run_text(&seen).contains("canceled  by ada at "), "{}", run_text(&seen));
}

#[tokio::test]
async fn whoever_takes_a_run_back_is_named_and_not_the_worker_that_does_it() {
    let env = TestEnv::at_the_wait().await;
    let mut seen = env.seen().await;
    seen.view.record.status = domain::RunStatus::Canceled;
    let mut wish = seen.view.events.as_ref().unwrap()[0].clone();
    wish.body = domain::EventBody::CancelRequested { reason: "wrong host".to_owned() };
    let mut done = wish.clone();
    done.by = Initiator::new(Cause::System, "w");
    done.body =
        domain::EventBody::RunCanceled { reason: "wrong host".to_owned(), effects: seen.view.record.effects };
    seen.view.events.as_mut().unwrap().extend([wish, done]);
    assert_eq!(canceled(&seen).unwrap().by, "ada");
}

#[tokio::test]
async fn an_outcome_that_is_unknown_tells_the_code_of_what_is_known() {
    let env = TestEnv::at_the_wait().await;
    let mut seen = env.seen().await;
    let failure = domain::Failure::new("IDEMPOTENCY_EXPIRED", "the other side has forgotten the key");
    let intent = domain::record::Intent {
        key: "k".parse().unwrap(),
        action: domain::Digest::ZERO,
        class: domain::EffectClass::NativeKey,
        foreign_intent: false,
    };
    seen.view.record.status = domain::RunStatus::Paused;
    seen.view.record.live =
        domain::Live::Unresolved { attempt: 1, failure: failure.clone(), open: Some(intent) };
    let why = waiting(&seen).unwrap().why;
    assert!(why.contains("(IDEMPOTENCY_EXPIRED: the other side has forgotten the key)"), "{why}");
    assert_eq!(run_json(&seen)["steps"][0]["failure"]["code"], "IDEMPOTENCY_EXPIRED");
    let mut event = seen.view.events.as_ref().unwrap()[0].clone();
    let receipt = domain::event::ReceiptRef { key: "k".parse().unwrap(), action: domain::Digest::ZERO };
    event.body = domain::EventBody::OutcomeUnknown { receipt, failure };
    let line = event_line(seen.view.plan(), &event);
    assert!(line.contains("outcome unknown: IDEMPOTENCY_EXPIRED: the other side"), "{line}");
}
