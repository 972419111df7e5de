//! The sweep finds runs whose message was lost.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use connectors::ToolRegistry;
use countersign_functions::sweep;
use domain::{Cause, Initiator, Millis, QueueName, Timestamp, ToolName};
use engine::{Engine, EngineParts, StartRun, SweepResult, Timing};
use serde_json::json;
use store::{Clock, Queue as _, SqliteOptions, SqliteStore};

const WORKFLOW: &str =
    "workflow: w\nversion: 1\nsteps:\n  - { id: ask, tool: approval.gate, with: { message: 'Go on?' } }\n";

#[derive(Clone, Default)]
struct TestClock(Arc<AtomicI64>);

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

#[tokio::test]
async fn sweep_wakes_a_run_whose_message_was_lost() {
    let clock = TestClock::default();
    let engine = Engine::new(EngineParts {
        store: Arc::new(SqliteStore::memory(SqliteOptions::default()).unwrap()),
        tools: ToolRegistry::default(),
        clock: Arc::new(clock.clone()),
        me: "sweep".parse().unwrap(),
        timing: Timing::default(),
        notifier: None,
        evidence_signer: None,
    });
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
    for lost in engine.store().receive(QueueName::Steps, 10, Millis::mins(1), Duration::ZERO).await.unwrap() {
        engine.store().delete(&lost.handle).await.unwrap();
    }
    let nothing = SweepResult { sent: 0, woken: 0, scheduled: 0 };
    assert_eq!(sweep(&engine).await.unwrap(), nothing);

    clock.0.store(Millis::hours(1).0.try_into().unwrap(), Ordering::SeqCst);
    assert_eq!(sweep(&engine).await.unwrap(), SweepResult { sent: 0, woken: 1, scheduled: 0 });
    let found = engine.store().receive(QueueName::Steps, 10, Millis::mins(1), Duration::ZERO).await.unwrap();
    assert_eq!(found.into_iter().map(|message| message.run).collect::<Vec<_>>(), [run]);
}
