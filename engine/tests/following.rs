//! What has been done is on the record before anybody waits for the next step.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use connectors::{Ask, Call, Done, Outcome, Survey, Tool, Toolbox};
use countersign_engine::{Engine, Parts, StartRun, Timing, WalkLimits};
use domain::{
    Action, Cause, EffectClass, Failure, IdempotencyKey, Initiator, Millis, Reversibility, RunStatus,
    ToolName,
};
use serde_json::json;
use store::{Ledger as _, SqliteOptions, SqliteStore, SystemClock};

/// A machine is busy; what never comes does not come within this either.
const PATIENCE: Duration = Duration::from_secs(30);

/// Posts something.
struct Post {
    posted: Arc<AtomicU32>,
    /// How often somebody asked how things stand. The first time nobody answers.
    asked: Arc<AtomicU32>,
}

#[async_trait]
impl Tool for Post {
    fn name(&self) -> ToolName {
        "test.post".parse().unwrap()
    }

    async fn survey(&self, ask: &Ask<'_>) -> Survey {
        if ask.fields["slow"] == true && self.asked.fetch_add(1, Ordering::Relaxed) == 0 {
            std::future::pending::<()>().await;
        }
        Survey::Found(json!(null))
    }

    fn propose(&self, ask: Ask<'_>) -> Result<Action, Failure> {
        Ok(Action {
            tool: self.name(),
            contract: 1,
            class: EffectClass::CompareAndSet,
            reversibility: Reversibility::Inverse,
            target: "the board".to_owned(),
            key: IdempotencyKey::for_step(&self.name(), &ask.run.run, ask.step),
            key_retention: None,
            changes: Vec::new(),
            destructive: false,
            estimate_microusd: None,
            fields: ask.fields,
        })
    }

    async fn perform(&self, _call: Call<'_>) -> Outcome {
        self.posted.fetch_add(1, Ordering::Relaxed);
        Outcome::Done(Done::default())
    }
}

const TWO_POSTS: &str = "\
workflow: w
version: 1
environment: dev
validation: critical_only
steps:
  - { id: a, tool: test.post, with: { slow: false } }
  - { id: b, tool: test.post, with: { slow: true } }
";

#[tokio::test]
async fn an_outcome_does_not_wait_for_a_system_that_does_not_say_how_things_stand() {
    let (posted, asked) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let tool = Post { posted: Arc::clone(&posted), asked: Arc::clone(&asked) };
    let engine = Engine::new(Parts {
        store: Arc::new(SqliteStore::memory(SqliteOptions::default()).unwrap()),
        tools: Toolbox::default().with(tool),
        clock: Arc::new(SystemClock),
        me: "w".parse().unwrap(),
        timing: Timing { heartbeat: Millis(100), ..Timing::default() },
        shows: None,
        sealing: None,
    });
    let names = engine.tools().names().cloned().collect();
    let wish = StartRun {
        tenant: "acme".parse().unwrap(),
        workspace: "main".parse().unwrap(),
        plan: workflow::parse(TWO_POSTS, &names).unwrap(),
        trigger_kind: "test".to_owned(),
        record: None,
        key: "k".parse().unwrap(),
        input: json!({}),
        by: Initiator::new(Cause::User, "ada"),
    };
    let run = engine.start(wish).await.unwrap().run;

    let walk = Box::pin(engine.walk(&run, &(), WalkLimits::default()));
    tokio::time::timeout(PATIENCE, walk).await.expect("the first step waits for the second").unwrap();

    let record = engine.store().load(&run).await.unwrap().unwrap();
    assert_eq!(record.status, RunStatus::Succeeded);
    assert_eq!((posted.load(Ordering::Relaxed), asked.load(Ordering::Relaxed)), (2, 2));
}
