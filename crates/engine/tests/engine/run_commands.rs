//! Commands on runs.

use countersign_engine::{Engine, EngineError, StartRun};
use domain::command::CancelResult;
use domain::{Cause, Initiator, Refusal, RunKey, RunStatus};
use serde_json::{Value, json};
use store::{Ledger as _, SqliteStore};

fn engine() -> Engine<SqliteStore> {
    testkit::engine().standard_tools().build()
}

async fn start(engine: &Engine<SqliteStore>, input: Value) -> Result<RunKey, EngineError> {
    let request = StartRun { input, ..testkit::request(engine, testkit::TRANSFORM, "test:1") };
    engine.admission().start(request).await.map(|started| started.run)
}

#[tokio::test]
async fn canceling_twice_leaves_the_run_as_it_is() {
    let engine = engine();
    let run = start(&engine, json!({})).await.unwrap();
    let by = Initiator::new(Cause::User, "ada");
    assert!(matches!(
        engine.tenant_handle(&run.tenant, &by).cancel(&run.run, "enough").await,
        Ok(CancelResult::Stopped(_))
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
async fn same_key_starts_one_run() {
    let engine = engine();
    let first = start(&engine, json!({ "n": 1 })).await.unwrap();

    assert_eq!(start(&engine, json!({ "n": 1 })).await.unwrap(), first);

    let conflict = start(&engine, json!({ "n": 2 })).await;
    assert!(matches!(conflict, Err(EngineError::Refused(Refusal::KeyConflict { .. }))));
}

#[tokio::test]
async fn long_reason_is_truncated() {
    let engine = engine();
    let run = start(&engine, json!({})).await.unwrap();
    let by = Initiator::new(Cause::User, "ada");

    engine.tenant_handle(&run.tenant, &by).pause(&run.run, &"why\u{7} ".repeat(10_000)).await.unwrap();

    let reason = engine.store().load(&run).await.unwrap().unwrap().pause.unwrap().reason;
    assert_eq!(reason.chars().count(), domain::failure::MESSAGE_CHARS_MAX);
    assert!(!reason.contains('\u{7}'));
}
