//! Two runs with one idempotency key.

use std::sync::Arc;
use std::time::Duration;

use domain::command::{Cancel, Claim, EffectOutcome, Resume, Retry};
use domain::{Action, EffectClass, Failure, Receipt, Ruling, RunStatus, StepState};
use serde_json::json;
use store::{Intercepted, Ledger as _, SqliteStore};
use testkit::ledger::{LedgerRun, action, calls, claim_of, effect, finish, granted};
use testkit::{Fault, Faults, SetRecord, acme};

const SET: &str = "workflow: w\nversion: 1\nenvironment: dev\n\
                   steps: [{ id: a, tool: test.set, with: { to: '', key: effect } }]\n";

fn opaque() -> Action {
    Action { class: EffectClass::Opaque, ..action("effect") }
}

async fn receipt(store: &SqliteStore) -> Option<Receipt> {
    store.receipt(&acme(), &effect("effect")).await.unwrap()
}

/// A run that ended with an unknown outcome.
async fn abandon(store: &SqliteStore) {
    let mut run = LedgerRun::start(store, "acme", "first", &calls(1)).await;
    let grant = granted(run.commit(store, claim_of(opaque(), Ruling::Allow)).await);
    let lost = Retry {
        fence: grant.fence,
        failure: Failure::new("GONE", "connection lost"),
        certainty: EffectOutcome::MayHaveHappened,
        retry_after: None,
        receipt: grant.receipt,
    };
    run.commit(store, lost).await;
    run.commit(store, Cancel { reason: "enough".to_owned() }).await;
    assert_eq!(run.record.status, RunStatus::Canceled);
}

/// Another run, in which an operator authorizes another attempt, records the outcome.
async fn record_outcome(store: &SqliteStore) {
    let mut run = LedgerRun::start(store, "acme", "second", &calls(1)).await;
    let claim =
        Claim { receipt: receipt(store).await, abandoned: true, ..claim_of(action("effect"), Ruling::Allow) };
    run.commit(store, claim.clone()).await;
    run.commit(store, Resume { reason: "it did not happen".to_owned() }).await;
    let grant = granted(run.commit(store, claim).await);
    run.commit(store, finish(grant, json!(1))).await;
}

#[tokio::test(start_paused = true)]
async fn outcome_recorded_meanwhile_is_not_unknown() {
    let slow = Faults::new(|call| match &call.changes {
        Some(change) if change.to == RunStatus::Paused => Fault::Delay(Duration::from_secs(1)),
        _ => Fault::None,
    });
    let store = testkit::memory();
    abandon(&store).await;
    let env = testkit::engine().tool(SetRecord(Arc::default())).env_on(Intercepted::new(store.clone(), slow));
    let run = env.start(SET, "third").await;

    let other_run = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        record_outcome(&store).await;
    };
    let (status, ()) = tokio::join!(env.advance(&run), other_run);

    // The key now names another action, which was performed.
    assert_eq!(status, RunStatus::FailedTerminal);
    let step_state = env.record(&run).await.step_state;
    assert!(!matches!(step_state, StepState::Unresolved { .. }), "{step_state:?}");
}

#[tokio::test]
async fn outcome_that_no_run_records_is_unknown() {
    let store = testkit::memory();
    abandon(&store).await;
    let env = testkit::engine().tool(SetRecord(Arc::default())).env_on(store);
    assert_eq!(env.run(SET, "third").await.1, RunStatus::Paused);
}
