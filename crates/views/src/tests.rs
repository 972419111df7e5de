//! Why a run waits, and the commands that end the wait.

use std::ops::Deref;
use std::path::Path;

use domain::tenant::Person;
use domain::{Cause, Initiator, RunKey, TenantId};
use engine::{DispatchScope, SignalRun};
use serde_json::json;
use testkit::TestEnv;

use super::*;

const WORKFLOW: &str = r#"
workflow: w
version: 1
steps:
  - { id: news, tool: wait.event, with: { event: news.came, timeout: 2h } }
  - { id: ask, tool: approval.gate, with: { message: "Go on?", on_reject: pause } }
"#;

/// A run that ada started.
struct RunEnv {
    env: TestEnv,
    run: RunKey,
}

impl Deref for RunEnv {
    type Target = TestEnv;

    fn deref(&self) -> &TestEnv {
        &self.env
    }
}

impl RunEnv {
    async fn started() -> Self {
        let env = testkit::engine().env();
        let run = env.start_for("default", WORKFLOW, "k").await;
        Self { env, run }
    }

    async fn at_the_wait() -> Self {
        let env = Self::started().await;
        env.advance(&env.run).await;
        env
    }

    async fn at_the_approval() -> Self {
        let env = Self::at_the_wait().await;
        let signal =
            SignalRun { id: "s".parse().unwrap(), event: "news.came".parse().unwrap(), payload: json!(1) };
        env.handle_of("default", "ada").signal(&env.run.run, signal).await.unwrap();
        env.advance(&env.run).await;
        env
    }

    async fn snapshot(&self) -> RunSnapshot {
        let hints = CommandHints::new(Path::new("countersign.db"), &TenantId::new("default").unwrap());
        RunSnapshot::load(&self.engine, &self.run, hints).await.unwrap()
    }

    /// The reason of the wait, and the commands that end it.
    async fn waits(&self) -> (String, Vec<String>) {
        let waiting = waiting(&self.snapshot().await).unwrap();
        (waiting.reason, waiting.next_actions.into_iter().filter_map(|action| action.command).collect())
    }

    fn command(&self, verb: &str) -> String {
        format!("countersign run {verb} {}", self.run.run)
    }
}

#[tokio::test]
async fn unclaimed_run_needs_a_worker() {
    let env = RunEnv::started().await;
    let (why, commands) = env.waits().await;
    assert_eq!(why, "Step news is ready. No worker has claimed it yet.");
    assert_eq!(commands, ["countersign worker".to_owned(), env.command("cancel")]);
}

#[tokio::test]
async fn stopped_dispatch_is_named_instead_of_a_worker() {
    let env = RunEnv::started().await;
    let tenant = DispatchScope::Tenant(env.run.tenant.clone());
    env.engine.operations().stop_dispatch(&tenant, &testkit::ada(), "fire").await.unwrap();
    let (why, commands) = env.waits().await;
    assert!(why.contains("ada stopped it for this tenant at "), "{why}");
    assert!(why.ends_with("\u{201c}fire\u{201d}."), "{why}");
    assert_eq!(commands, ["countersign dispatch start".to_owned(), env.command("cancel")]);

    env.engine.operations().stop_dispatch(&DispatchScope::All, &testkit::ada(), "flood").await.unwrap();
    let (why, commands) = env.waits().await;
    assert!(why.contains("for all tenants") && why.contains("flood"), "{why}");
    assert_eq!(commands, [env.command("cancel")]);
}

#[tokio::test]
async fn wait_names_its_event() {
    let env = RunEnv::at_the_wait().await;
    let (why, commands) = env.waits().await;
    assert_eq!(why, "Step news waits for the external event news.came.");
    assert_eq!(commands[0], format!("countersign run signal {} news.came --payload '{{}}'", env.run.run));
}

#[tokio::test]
async fn approval_wait_names_both_commands() {
    let env = RunEnv::at_the_approval().await;
    let (why, commands) = env.waits().await;
    assert!(why.starts_with("Step ask waits for approval: \u{201c}Go on?\u{201d} Excluded: ada"), "{why}");
    for (command, verb) in commands.iter().zip(["approve", "reject"]) {
        assert!(
            command.starts_with(&format!("countersign approval {verb} {} ask", env.run.run)),
            "{command}"
        );
    }
}

#[tokio::test]
async fn wait_without_possible_approvers_says_so() {
    let env = RunEnv::at_the_approval().await;
    let add = async |person: &str| {
        let person = person.parse().unwrap();
        env.update_tenant(&env.run.tenant, |tenant| drop(tenant.people.insert(person, Person::default())))
            .await;
    };
    add("ada").await;
    let (why, commands) = env.waits().await;
    assert!(why.ends_with("Too few users of the directory may approve it."), "{why}");
    assert_eq!(commands[0], "countersign tenant set");

    add("ben").await;
    assert!(!env.waits().await.0.contains("Too few users"));
}

#[tokio::test]
async fn ambiguous_slack_connection_is_named() {
    let env = RunEnv::at_the_approval().await;
    let connection =
        json!({ "kind": "slack", "base_url": "https://slack.com/api", "options": { "channel": "C0A" } });
    let named = |name: &str| (name.parse().unwrap(), serde_json::from_value(connection.clone()).unwrap());
    env.update_tenant(&env.run.tenant, |tenant| tenant.connections.extend(["one", "two"].map(named))).await;
    let (why, commands) = env.waits().await;
    assert!(why.contains("It is not posted to Slack: ") && why.contains("`one`, `two`"), "{why}");
    assert_eq!(commands[0], "countersign connection list");
}

#[tokio::test]
async fn paused_run_names_who_paused_it_and_why() {
    let env = RunEnv::at_the_approval().await;
    env.reject(&env.run, "grace", "not today").await.unwrap();
    let (why, commands) = env.waits().await;
    assert!(why.starts_with("Paused by grace at ") && why.contains("not today"), "{why}");
    assert_eq!(commands, [env.command("retry"), env.command("cancel")]);
}

#[tokio::test]
async fn finished_run_does_not_wait() {
    let env = RunEnv::at_the_approval().await;
    env.approve(&env.run, "grace").await.unwrap();
    let snapshot = env.snapshot().await;
    assert_eq!(waiting(&snapshot), None);
    assert!(run_text(&snapshot).contains("succeeded after"), "{}", run_text(&snapshot));
    assert_eq!(run_json(&snapshot)["chain"]["verified"], true);
}

#[tokio::test]
async fn canceled_run_names_who_canceled_it_and_why() {
    let env = RunEnv::at_the_wait().await;
    assert_eq!(run_json(&env.snapshot().await)["canceled"], json!(null));
    env.handle_of("default", "ada").cancel(&env.run.run, "not today").await.unwrap();
    let snapshot = env.snapshot().await;
    let canceled = &run_json(&snapshot)["canceled"];
    assert_eq!((&canceled["by"], &canceled["reason"]), (&json!("ada"), &json!("not today")));
    assert!(run_text(&snapshot).contains("canceled  by ada at "), "{}", run_text(&snapshot));
}

#[tokio::test]
async fn canceled_by_names_the_user_and_not_the_worker() {
    let env = RunEnv::at_the_wait().await;
    let mut snapshot = env.snapshot().await;
    snapshot.view.record.status = domain::RunStatus::Canceled;
    let mut request = snapshot.view.events.as_ref().unwrap()[0].clone();
    request.body = domain::EventBody::CancelRequested { reason: "wrong host".to_owned() };
    let mut done = request.clone();
    done.by = Initiator::new(Cause::System, "w");
    done.body = domain::EventBody::RunCanceled {
        reason: "wrong host".to_owned(),
        effects: snapshot.view.record.effects,
    };
    snapshot.view.events.as_mut().unwrap().extend([request, done]);
    assert_eq!(canceled(&snapshot).unwrap().by, "ada");
}

#[tokio::test]
async fn unknown_outcome_shows_its_failure_code() {
    let env = RunEnv::at_the_wait().await;
    let mut snapshot = env.snapshot().await;
    let failure = domain::Failure::new("IDEMPOTENCY_EXPIRED", "the external system has forgotten the key");
    let intent = domain::record::Intent {
        key: "k".parse().unwrap(),
        action: domain::Digest::ZERO,
        class: domain::EffectClass::NativeKey,
        destructive: false,
        foreign: false,
    };
    snapshot.view.record.status = domain::RunStatus::Paused;
    snapshot.view.record.step_state =
        StepState::Unresolved { attempt: 1, failure: failure.clone(), open: Some(intent) };
    let why = waiting(&snapshot).unwrap().reason;
    assert!(why.contains("(IDEMPOTENCY_EXPIRED: the external system has forgotten the key)"), "{why}");
    assert_eq!(run_json(&snapshot)["steps"][0]["failure"]["code"], "IDEMPOTENCY_EXPIRED");
    let mut event = snapshot.view.events.as_ref().unwrap()[0].clone();
    let receipt = domain::event::ReceiptRef { key: "k".parse().unwrap(), action: domain::Digest::ZERO };
    event.body = domain::EventBody::OutcomeUnknown { receipt, failure };
    let line = event_line(snapshot.view.plan(), &event);
    assert!(line.contains("outcome unknown: IDEMPOTENCY_EXPIRED: the external system"), "{line}");
}
