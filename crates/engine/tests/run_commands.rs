//! Commands on runs.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use connectors::{ConnectorSettings, HostAllowList};
use countersign_engine::{Engine, EngineError, EngineParts, StartRun, Timing};
use domain::command::CancelResult;
use domain::{Cause, IdempotencyKey, Initiator, Refusal, RunKey, RunStatus, TenantId, WorkerId, WorkspaceId};
use serde_json::{Value, json};
use store::{Ledger as _, SqliteOptions, SqliteStore, SystemClock};

fn engine() -> Engine<SqliteStore> {
    Engine::new(EngineParts {
        store: Arc::new(SqliteStore::memory(SqliteOptions::default()).unwrap()),
        tools: connectors::standard_tools(HostAllowList::default(), ConnectorSettings::default()),
        clock: Arc::new(SystemClock),
        me: WorkerId::new("test").unwrap(),
        timing: Timing::default(),
        notifier: None,
        evidence_signer: None,
    })
}

async fn start(engine: &Engine<SqliteStore>, input: Value) -> Result<RunKey, EngineError> {
    let names = engine.tools().names().cloned().collect();
    let source = "workflow: w\nversion: 1\nsteps: [{ id: a, tool: transform, with: { value: 1 } }]\n";
    let request = StartRun {
        tenant: TenantId::new("acme").unwrap(),
        workspace: WorkspaceId::new("main").unwrap(),
        plan: workflow::parse(source, &names).unwrap(),
        trigger_kind: "test".to_owned(),
        record: None,
        key: IdempotencyKey::new("test:1").unwrap(),
        input,
        by: Initiator::new(Cause::User, "ada"),
    };
    engine.admission().start(request).await.map(|started| started.run)
}

#[tokio::test]
async fn canceling_twice_leaves_the_run_as_it_is() {
    let engine = engine();
    let run = start(&engine, json!({})).await.unwrap();
    let by = Initiator::new(Cause::User, "ada");
    assert!(matches!(
        engine.tenant_handle(&run.tenant, &by).cancel(&run.run, "enough").await,
        Ok(CancelResult::Now(_))
    ));
    let once = engine.store().load(&run).await.unwrap().unwrap();

    assert!(matches!(
        engine.tenant_handle(&run.tenant, &by).cancel(&run.run, "really").await,
        Ok(CancelResult::AlreadyRequested)
    ));

    assert_eq!(once.status, RunStatus::Canceled);
    assert_eq!(engine.store().load(&run).await.unwrap().unwrap(), once);
}

#[tokio::test]
async fn the_same_key_starts_one_run() {
    let engine = engine();
    let first = start(&engine, json!({ "n": 1 })).await.unwrap();

    assert_eq!(start(&engine, json!({ "n": 1 })).await.unwrap(), first);

    let conflict = start(&engine, json!({ "n": 2 })).await;
    assert!(matches!(conflict, Err(EngineError::Refused(Refusal::KeyConflict { .. }))));
}

#[tokio::test]
async fn a_long_reason_is_truncated() {
    let engine = engine();
    let run = start(&engine, json!({})).await.unwrap();
    let by = Initiator::new(Cause::User, "ada");

    engine.tenant_handle(&run.tenant, &by).pause(&run.run, &"why\u{7} ".repeat(10_000)).await.unwrap();

    let reason = engine.store().load(&run).await.unwrap().unwrap().pause.unwrap().reason;
    assert_eq!(reason.chars().count(), domain::failure::MESSAGE_CHARS_MAX);
    assert!(!reason.contains('\u{7}'));
}
