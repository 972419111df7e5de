//! Backout and start for all tenants, in parts.

use std::time::Duration;

use countersign_engine::{Backout, DispatchScope};
use domain::{Millis, RunKey, RunStatus};
use store::{Intercept, Intercepted, Ledger as _, Store, StoreCall, StoreError};
use testkit::{CallCounts, EngineBuilder, Fault, TestClock, TestEnv, ada};
use tokio::time::sleep;

/// With their runs, more than three parts.
const TENANTS: usize = 30;
const RUNS: usize = 25;

async fn start<S: Store>(env: &TestEnv<S>, tenant: usize, key: &str) -> RunKey {
    env.start_for(&format!("t{tenant:02}"), testkit::TRANSFORM, key).await
}

fn builder() -> EngineBuilder {
    testkit::engine().standard_tools().clock(TestClock::runtime())
}

#[tokio::test(start_paused = true)]
async fn tenants_are_listed_once_for_each_pass() {
    let calls = CallCounts::default();
    let env = builder().env_with(calls.faults(|_| Fault::None));
    for tenant in 0..TENANTS {
        for run in 0..RUNS {
            start(&env, tenant, &run.to_string()).await;
        }
    }
    calls.take("ledger.tenants");
    let (operations, scope) = (env.engine.operations(), DispatchScope::All);
    let all = u64::try_from(TENANTS * RUNS).unwrap();

    assert_eq!(operations.count_active_runs(&scope).await.unwrap(), all);
    assert_eq!(calls.take("ledger.tenants"), 1);
    assert_eq!(operations.start_dispatch(&scope, &ada()).await.unwrap(), all);
    assert_eq!(calls.take("ledger.tenants"), 1);
    let backout = Box::pin(operations.backout(&scope, &ada(), "fire", |_| {})).await.unwrap();
    assert_eq!(backout, Backout { canceled: all, ..Backout::default() });
    assert_eq!(calls.take("ledger.tenants"), 2, "the second pass finds no run");
}

/// A list of tenants reads the whole index, however few of them it returns.
#[tokio::test(start_paused = true)]
async fn many_tenants_are_listed_once_for_each_pass() {
    let calls = CallCounts::default();
    let env = builder().env_with(calls.faults(|_| Fault::None));
    for tenant in 0..501 {
        start(&env, tenant, "request").await;
    }
    calls.take("ledger.tenants");
    let (operations, all) = (env.engine.operations(), DispatchScope::All);
    assert_eq!(operations.count_active_runs(&all).await.unwrap(), 501);
    assert_eq!(operations.start_dispatch(&all, &ada()).await.unwrap(), 501);
    assert_eq!(calls.take("ledger.tenants"), 2);
    let backout = Box::pin(operations.backout(&all, &ada(), "fire", |_| {})).await.unwrap();
    assert_eq!(backout, Backout { canceled: 501, ..Backout::default() });
    assert_eq!(calls.take("ledger.tenants"), 2, "two passes");
}

/// An index that may be late by ten seconds.
struct LateIndex;

impl Intercept for LateIndex {
    type State = ();

    const INDEX_DELAY: Option<Millis> = Some(Millis::secs(10));

    async fn before(&self, _call: &StoreCall) -> Result<(), StoreError> {
        Ok(())
    }

    async fn after(&self, (): ()) -> Result<(), StoreError> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn backout_finds_a_run_that_is_listed_late() {
    let (clock, slow) = (TestClock::runtime(), TestClock::runtime());
    slow.rewind(Millis::secs(8));
    let store = builder().clock(clock.clone()).memory();
    let engine = builder().clock(clock).on(Intercepted::new(store.clone(), LateIndex));
    let other = builder().clock(slow).env_on(store.clone());

    // The run is admitted one second after the stop, by a process that has not seen it, and is listed after nine.
    let late = async {
        sleep(Duration::from_secs(9)).await;
        start(&other, 0, "late").await
    };
    let (all, ada) = (DispatchScope::All, ada());
    let backout = engine.operations().backout(&all, &ada, "fire", |_| {});
    let (backout, late) = tokio::join!(backout, late);

    assert_eq!(backout.unwrap(), Backout { canceled: 1, ..Backout::default() });
    assert_eq!(store.load(&late).await.unwrap().unwrap().status, RunStatus::Canceled);
}

/// The run exists before the backout, although the clock that admitted it says otherwise.
#[tokio::test(start_paused = true)]
async fn backout_finds_a_run_admitted_by_a_fast_clock() {
    let (clock, fast) = (TestClock::runtime(), TestClock::runtime());
    fast.advance(Millis::mins(10));
    let store = builder().clock(clock.clone()).memory();
    let engine = builder().clock(clock).on(store.clone());
    let run = start(&builder().clock(fast).env_on(store.clone()), 0, "fast").await;

    let backout = engine.operations().backout(&DispatchScope::All, &ada(), "fire", |_| {}).await;
    assert_eq!(backout.unwrap(), Backout { canceled: 1, ..Backout::default() });
    assert_eq!(store.load(&run).await.unwrap().unwrap().status, RunStatus::Canceled);
}
