//! Backout and start for all tenants, in parts.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use countersign_engine::{Backout, DispatchScope, Engine, StartRun};
use domain::{Millis, RunKey, RunStatus};
use store::{Intercept, Intercepted, Ledger as _, SqliteStore, Store, StoreCall, StoreError};
use testkit::{Fault, Faults, TestClock, ada};
use tokio::time::sleep;

/// With their runs, more than three parts.
const TENANTS: usize = 30;
const RUNS: usize = 25;

async fn start<S: Store>(engine: &Engine<S>, tenant: usize, key: &str) -> RunKey {
    let tenant = format!("t{tenant:02}").parse().unwrap();
    let request = StartRun { tenant, ..testkit::request(engine, testkit::TRANSFORM, key) };
    Box::pin(engine.admission().start(request)).await.unwrap().run
}

#[tokio::test(start_paused = true)]
async fn tenants_are_listed_once_for_each_pass() {
    let calls = Arc::<Mutex<BTreeMap<&str, usize>>>::default();
    let counted = Arc::clone(&calls);
    let faults = Faults::new(move |call| {
        *counted.lock().unwrap().entry(call.name).or_default() += 1;
        Fault::None
    });
    let builder = testkit::engine().standard_tools().clock(TestClock::runtime());
    let store = Intercepted::new(builder.memory(), faults);
    let engine = builder.on(store);
    for tenant in 0..TENANTS {
        for run in 0..RUNS {
            start(&engine, tenant, &run.to_string()).await;
        }
    }
    let take_list_calls = || std::mem::take(&mut *calls.lock().unwrap()).get("ledger.tenants").copied();
    take_list_calls();
    let all = u64::try_from(TENANTS * RUNS).unwrap();

    assert_eq!(engine.operations().count_active_runs(&DispatchScope::All).await.unwrap(), all);
    assert_eq!(take_list_calls(), Some(1));
    assert_eq!(engine.operations().start_dispatch(&DispatchScope::All, &ada()).await.unwrap(), all);
    assert_eq!(take_list_calls(), Some(1));
    let backout =
        Box::pin(engine.operations().backout(&DispatchScope::All, &ada(), "fire", |_| {})).await.unwrap();
    assert_eq!(backout, Backout { canceled: all, ..Backout::default() });
    assert_eq!(take_list_calls(), Some(2), "the second pass finds no run");
}

/// A list of tenants reads the whole index, however few of them it returns.
#[tokio::test(start_paused = true)]
async fn many_tenants_are_listed_once_for_each_pass() {
    let lists = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&lists);
    let faults = Faults::at("ledger.tenants", move || {
        counted.fetch_add(1, Ordering::Relaxed);
        Fault::None
    });
    let builder = testkit::engine().standard_tools().clock(TestClock::runtime());
    let store = Intercepted::new(builder.memory(), faults);
    let engine = builder.on(store);
    for tenant in 0..501 {
        start(&engine, tenant, "request").await;
    }
    let all = DispatchScope::All;
    assert_eq!(engine.operations().count_active_runs(&all).await.unwrap(), 501);
    assert_eq!(engine.operations().start_dispatch(&all, &ada()).await.unwrap(), 501);
    assert_eq!(lists.swap(0, Ordering::Relaxed), 2);
    let backout = Box::pin(engine.operations().backout(&all, &ada(), "fire", |_| {})).await.unwrap();
    assert_eq!(backout, Backout { canceled: 501, ..Backout::default() });
    assert_eq!(lists.load(Ordering::Relaxed), 2, "two passes");
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
    let store: SqliteStore = testkit::engine().clock(clock.clone()).memory();
    let engine =
        testkit::engine().standard_tools().clock(clock).on(Intercepted::new(store.clone(), LateIndex));
    let other = testkit::engine().standard_tools().clock(slow).on(store.clone());

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
    let store: SqliteStore = testkit::engine().clock(clock.clone()).memory();
    let engine = testkit::engine().standard_tools().clock(clock).on(store.clone());
    let run = start(&testkit::engine().standard_tools().clock(fast).on(store.clone()), 0, "fast").await;

    let backout = engine.operations().backout(&DispatchScope::All, &ada(), "fire", |_| {}).await;
    assert_eq!(backout.unwrap(), Backout { canceled: 1, ..Backout::default() });
    assert_eq!(store.load(&run).await.unwrap().unwrap().status, RunStatus::Canceled);
}
