//! What nobody looks at is found again.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use connectors::Toolbox;
use countersign_functions::sweep::sweep;
use domain::{Cause, Initiator, Millis, QueueName, Timestamp, ToolName};
use engine::{Engine, Parts, StartRun, Swept, Timing};
use serde_json::json;
use store::{Clock, Queue as _, SqliteOptions, SqliteStore};

const WORKFLOW: &str =
    "workflow: w\nversion: 1\nsteps:\n  - { id: ask, tool: approval.gate, with: { message: 'Go on?' } }\n";

#[derive(Clone, Default)]
struct Hands(Arc<AtomicI64>);

impl Clock for Hands {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

#[tokio::test]
async fn a_run_whose_message_was_lost_is_woken_once_it_is_due() {
    let clock = Hands::default();
    let engine = Engine::new(Parts {
        store: Arc::new(SqliteStore::memory(SqliteOptions::default()).unwrap()),
        tools: Toolbox::default(),
        clock: Arc::new(clock.clone()),
        me: "sweep".parse().unwrap(),
        timing: Timing::default(),
        shows: None,
        sealing: None,
    });
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
    for lost in engine.store().receive(QueueName::Steps, 10, Millis::mins(1), Duration::ZERO).await.unwrap() {
        engine.store().delete(&lost.handle).await.unwrap();
    }
    let nothing = Swept { sent: 0, woken: 0, scheduled: 0 };
    assert_eq!(sweep(&engine).await.unwrap(), nothing);

    clock.0.store(Millis::hours(1).0.try_into().unwrap(), Ordering::SeqCst);
    assert_eq!(sweep(&engine).await.unwrap(), Swept { sent: 0, woken: 1, scheduled: 0 });
    let found = engine.store().receive(QueueName::Steps, 10, Millis::mins(1), Duration::ZERO).await.unwrap();
    assert_eq!(found.into_iter().map(|message| message.run).collect::<Vec<_>>(), [run]);
}
