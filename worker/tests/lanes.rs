//! Each lane has room of its own, on a store in memory.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use connectors::{Allow, Settings};
use countersign_worker::{Rooms, Worker, WorkerSettings, leaving};
use domain::{
    Cause, Errand, IdempotencyKey, Initiator, Lane, Millis, Outgoing, RunKey, RunStatus, TenantId, WorkerId,
    WorkspaceId,
};
use engine::{Engine, Parts, StartRun, Timing};
use serde_json::json;
use store::{Ledger as _, Queue as _, SqliteOptions, SqliteStore, SystemClock};

fn me() -> WorkerId {
    WorkerId::new("test").unwrap()
}

fn engine() -> Engine<SqliteStore> {
    Engine::new(Parts {
        store: Arc::new(SqliteStore::memory(SqliteOptions::default()).unwrap()),
        tools: connectors::standard(Allow::default(), Settings::default()),
        clock: Arc::new(SystemClock),
        me: me(),
        timing: Timing::default(),
        shows: None,
        sealing: None,
    })
}

async fn start(engine: &Engine<SqliteStore>) -> RunKey {
    let names = engine.tools().names().cloned().collect();
    let source = "workflow: w\nversion: 1\nsteps: [{ id: a, tool: transform, with: { value: 1 } }]\n";
    let wish = StartRun {
        tenant: TenantId::new("acme").unwrap(),
        workspace: WorkspaceId::new("main").unwrap(),
        plan: workflow::parse(source, &names).unwrap(),
        trigger_kind: "test".to_owned(),
        record: None,
        key: IdempotencyKey::new("test:1").unwrap(),
        input: json!({}),
        by: Initiator::new(Cause::System, "test"),
    };
    engine.start(wish).await.unwrap().run
}

#[tokio::test]
async fn what_people_decided_is_walked_while_there_is_no_room_for_steps() {
    let engine = Arc::new(engine());
    let run = start(&engine).await;
    let store = Arc::clone(&engine);
    let store = store.store();
    let decided =
        Outgoing { run: run.clone(), lane: Lane::Decisions, errand: Errand::Walk, delay: Millis(0) };
    store.send(&decided).await.unwrap();
    let full =
        WorkerSettings { rooms: Rooms { ingest: 1, decisions: 1, steps: 0 }, ..WorkerSettings::default() };
    let (leave, leaving) = leaving();
    let working = tokio::spawn(Worker::new(Arc::clone(&engine), full, me(), leaving).run());

    let over = async {
        while store.load(&run).await.unwrap().unwrap().status != RunStatus::Succeeded {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), over).await.unwrap();

    // What was there from the start, and what asks for the evidence.
    assert_eq!(store.depth(Lane::Steps).await.unwrap(), 2);
    leave.ask();
    assert!(working.await.unwrap());
    assert_eq!(store.depth(Lane::Decisions).await.unwrap(), 0);
}

#[test]
fn every_lane_has_room_beside_any_number_of_steps() {
    for steps in [1, 4, 16, 64] {
        let rooms = Rooms::beside(steps);
        assert_eq!(rooms.steps, steps);
        assert!(rooms.ingest > 0 && rooms.decisions > 0);
    }
}
