//! What a run at rest tells: why, and the very command that ends it.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use connectors::Toolbox;
use domain::{Cause, Initiator, RunKey, TenantId, ToolName};
use engine::{Engine, Parts, Pulse, SignalRun, StartRun, Timing, WalkLimits};
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

struct Alone;

impl Pulse for Alone {
    async fn beat(&self) {}

    fn is_leaving(&self) -> bool {
        false
    }
}

struct Desk {
    engine: Engine<SqliteStore>,
    run: RunKey,
    by: Initiator,
}

impl Desk {
    async fn started() -> Self {
        let engine = Engine::new(Parts {
            store: Arc::new(SqliteStore::memory(SqliteOptions::default()).unwrap()),
            tools: Toolbox::default(),
            clock: Arc::new(SystemClock),
            me: "w".parse().unwrap(),
            timing: Timing::default(),
        });
        let by = Initiator::new(Cause::User, "ada");
        let started = engine.start(StartRun {
            tenant: "default".parse().unwrap(),
            workspace: "default".parse().unwrap(),
            plan: workflow::parse(WORKFLOW, &BTreeSet::<ToolName>::new()).unwrap(),
            trigger_kind: "cli".to_owned(),
            key: "k".parse().unwrap(),
            input: json!({}),
            by: by.clone(),
        });
        let run = started.await.unwrap().run;
        Self { engine, run, by }
    }

    async fn at_the_wait() -> Self {
        let desk = Self::started().await;
        desk.walk().await;
        desk
    }

    async fn at_the_question() -> Self {
        let desk = Self::at_the_wait().await;
        let signal =
            SignalRun { id: "s".parse().unwrap(), event: "news.came".parse().unwrap(), payload: json!(1) };
        desk.engine.signal(&desk.run, &desk.by, signal).await.unwrap();
        desk.walk().await;
        desk
    }

    async fn walk(&self) {
        Box::pin(self.engine.walk(&self.run, &Alone, WalkLimits::default())).await.unwrap();
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
    let desk = Desk::started().await;
    let (why, commands) = desk.waits().await;
    assert_eq!(why, "Step news is ready, and no worker has taken it yet.");
    assert_eq!(commands, ["countersign worker".to_owned(), desk.command("cancel")]);
}

#[tokio::test]
async fn a_wait_names_its_event() {
    let desk = Desk::at_the_wait().await;
    let (why, commands) = desk.waits().await;
    assert_eq!(why, "Step news waits for the event news.came from outside.");
    assert_eq!(commands[0], format!("countersign run signal {} news.came --payload '{{}}'", desk.run.run));
}

#[tokio::test]
async fn a_question_names_both_answers() {
    let desk = Desk::at_the_question().await;
    let (why, commands) = desk.waits().await;
    assert_eq!(why, "Step ask asks a person: \u{201c}Go on?\u{201d}");
    for (command, verb) in commands.iter().zip(["approve", "reject"]) {
        assert!(
            command.starts_with(&format!("countersign approval {verb} {} ask", desk.run.run)),
            "{command}"
        );
    }
}

#[tokio::test]
async fn a_paused_run_tells_who_paused_it_and_why() {
    let desk = Desk::at_the_question().await;
    let no = ("ask".parse().unwrap(), false, "not today".to_owned());
    desk.engine.decide_gate(&desk.run, &desk.by, no).await.unwrap();
    let (why, commands) = desk.waits().await;
    assert!(why.starts_with("Paused by ada at ") && why.contains("not today"), "{why}");
    assert_eq!(commands, [desk.command("retry"), desk.command("cancel")]);
}

#[tokio::test]
async fn a_run_that_is_over_waits_for_nothing() {
    let desk = Desk::at_the_question().await;
    let yes = ("ask".parse().unwrap(), true, String::new());
    desk.engine.decide_gate(&desk.run, &desk.by, yes).await.unwrap();
    let seen = desk.seen().await;
    assert_eq!(waiting(&seen), None);
    assert!(run_text(&seen).contains("succeeded after"), "{}", run_text(&seen));
    assert_eq!(run_json(&seen)["chain"]["verified"], true);
}
