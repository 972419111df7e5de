//! A scheduled time starts one run.

use std::sync::Arc;
use std::time::Duration;

use countersign_engine::{Engine, SweepResult};
use domain::{Cause, InboxEntry, InboxStatus, Initiator, RunKey, Timestamp};
use serde_json::json;
use store::{Clock as _, Intercepted, Ledger as _, Store, StoreError};
use testkit::{Fault, Faults, TestClock, acme, memory};

/// 2026-01-01, a Thursday, at noon UTC.
const NOON: i64 = 1_767_268_800_000;

const MINUTE: i64 = 60_000;

/// A clock in minutes after noon.
#[derive(Clone)]
struct MinuteClock(TestClock);

impl MinuteClock {
    fn at(minutes: i64) -> Self {
        Self(TestClock::at(Timestamp(NOON + minutes * MINUTE)))
    }

    fn set(&self, minutes: i64) {
        self.0.set(Timestamp(NOON + minutes * MINUTE));
    }
}

/// The process dies before it reschedules a workflow.
fn fails_to_reschedule() -> Faults {
    Faults::at("inbox.reschedule", || Fault::Fail(StoreError::broken("reschedule a workflow", "dead")))
}

/// The store cannot send unsent messages.
fn cannot_send(hangs: bool) -> Faults {
    Faults::at("ledger.flush", move || {
        if hangs { Fault::Hang } else { Fault::Fail(StoreError::broken("flush the outbox", "damaged")) }
    })
}

fn engine_on<S: Store>(store: S, clock: &MinuteClock) -> Arc<Engine<S>> {
    Arc::new(testkit::engine().standard_tools().clock(clock.0.clone()).on(store))
}

async fn apply<S: Store>(engine: &Engine<S>, version: u32, cron: &str) {
    let source = format!(
        "workflow: nightly\nversion: {version}\n\
         trigger: {{ schedule: {{ cron: '{cron}', time_zone: Europe/Berlin }} }}\n\
         steps:\n  - {{ id: a, tool: transform, with: {{ value: '${{ trigger.scheduled_at }}' }} }}\n"
    );
    testkit::apply(engine, &source).await;
}

async fn sweep<S: Store>(engine: &Engine<S>) -> u32 {
    let SweepResult { scheduled, .. } =
        engine.operations().sweep(&Initiator::new(Cause::System, "sweep")).await.unwrap();
    scheduled
}

fn run_of(time: &str) -> RunKey {
    InboxEntry::run_of(&acme(), &format!("scheduler:nightly:{time}").parse().unwrap())
}

async fn status<S: Store>(engine: &Engine<S>, time: &str) -> Option<InboxStatus> {
    engine.admission().process_entry(&run_of(time)).await.unwrap();
    engine.store().entry(&run_of(time)).await.unwrap().map(|entry| entry.status)
}

#[tokio::test]
async fn concurrent_sweeps_start_one_scheduled_run() {
    let clock = MinuteClock::at(0);
    let store = memory();
    let engines: Vec<_> = (0..4).map(|_| engine_on(store.clone(), &clock)).collect();
    apply(&engines[0], 1, "30 13 * * *").await;
    assert_eq!(sweep(&engines[0]).await, 0);
    clock.set(31);
    let sweeps = engines.iter().map(|engine| {
        let engine = Arc::clone(engine);
        tokio::spawn(async move { sweep(&engine).await })
    });
    for sweep in sweeps.collect::<Vec<_>>() {
        sweep.await.unwrap();
    }
    assert_eq!(status(&engines[0], "2026-01-01T12:30Z").await, Some(InboxStatus::Started));
    let run = store.load(&run_of("2026-01-01T12:30Z")).await.unwrap().unwrap();
    assert_eq!((run.trigger.kind.as_str(), run.trigger.requester), ("schedule", None));
    let input = json!({ "inline": {
        "schedule": "nightly",
        "cron": "30 13 * * *",
        "scheduled_at": "2026-01-01T12:30Z",
        "local_time": "2026-01-01T13:30:00+01:00[Europe/Berlin]",
    } });
    assert_eq!(json!(store.input(&run.key).await.unwrap().unwrap()), input);
    assert_eq!(sweep(&engines[0]).await, 0, "the next one is tomorrow");
}

#[tokio::test]
async fn after_an_outage_only_the_last_time_runs() {
    let clock = MinuteClock::at(0);
    let engine = engine_on(memory(), &clock);
    apply(&engine, 1, "*/10 * * * *").await;
    clock.set(61);
    assert_eq!((sweep(&engine).await, sweep(&engine).await), (1, 0));
    assert_eq!(status(&engine, "2026-01-01T13:00Z").await, Some(InboxStatus::Started));
    assert_eq!(status(&engine, "2026-01-01T12:10Z").await, None);
    assert_eq!(status(&engine, "2026-01-01T12:50Z").await, None);
    clock.set(70);
    assert_eq!(sweep(&engine).await, 1);
    assert_eq!(status(&engine, "2026-01-01T13:10Z").await, Some(InboxStatus::Started));
}

#[tokio::test]
async fn crash_before_rescheduling_starts_one_run() {
    let clock = MinuteClock::at(0);
    let store = memory();
    let engine = engine_on(store.clone(), &clock);
    apply(&engine, 1, "0 * * * *").await;
    clock.set(61);
    let failing = engine_on(Intercepted::new(store, fails_to_reschedule()), &clock);
    assert_eq!(sweep(&failing).await, 0);
    assert_eq!(status(&engine, "2026-01-01T13:00Z").await, Some(InboxStatus::Started));
    let first = engine.store().load(&run_of("2026-01-01T13:00Z")).await.unwrap();
    assert_eq!(sweep(&engine).await, 1);
    assert_eq!(engine.store().load(&run_of("2026-01-01T13:00Z")).await.unwrap(), first);
    clock.set(121);
    assert_eq!(sweep(&engine).await, 1);
    assert_eq!(status(&engine, "2026-01-01T14:00Z").await, Some(InboxStatus::Started));
}

#[tokio::test]
async fn new_version_takes_over_the_due_time() {
    let clock = MinuteClock::at(0);
    let engine = engine_on(memory(), &clock);
    apply(&engine, 1, "0 * * * *").await;
    clock.set(61);
    apply(&engine, 2, "0 * * * *").await;
    assert_eq!(sweep(&engine).await, 1);
    assert_eq!(status(&engine, "2026-01-01T13:00Z").await, Some(InboxStatus::Started));
    let run = engine.store().load(&run_of("2026-01-01T13:00Z")).await.unwrap().unwrap();
    assert_eq!(run.workflow_version, 2);

    apply(&engine, 3, "15 * * * *").await;
    clock.set(75);
    assert_eq!(sweep(&engine).await, 1);
    assert_eq!(status(&engine, "2026-01-01T13:15Z").await, Some(InboxStatus::Started));
}

#[tokio::test]
async fn failing_outbox_does_not_stop_the_sweep() {
    tokio::time::pause();
    for (faults, expected) in [
        (cannot_send(false), "flush the outbox"),
        (cannot_send(true), "send unsent messages: the store is busy"),
    ] {
        let clock = MinuteClock::at(0);
        let engine = engine_on(Intercepted::new(memory(), faults), &clock);
        let by = Initiator::new(Cause::System, "sweep");
        let sweep = async || engine.operations().sweep(&by).await.unwrap_err().to_string();
        apply(&engine, 1, "0 * * * *").await;
        clock.set(61);
        assert_eq!(sweep().await, expected);
        let status = Box::pin(status(&engine, "2026-01-01T13:00Z")).await;
        assert_eq!(status, Some(InboxStatus::Started), "the scheduled run was started");
        // No worker advances the run, and by now it is due.
        clock.set(70);
        assert_eq!(sweep().await, expected);
        let run = engine.store().load(&run_of("2026-01-01T13:00Z")).await.unwrap().unwrap();
        assert!(run.due_at > Some(clock.0.now()), "it was woken: {:?}", run.due_at);
    }
}

#[tokio::test(start_paused = true)]
async fn sweep_out_of_time_leaves_the_rest_due() {
    let clock = MinuteClock::at(0);
    // Longer than half of the time that a sweep has.
    let slow = Faults::at("ledger.commit", || Fault::Delay(Duration::from_secs(10)));
    let engine = engine_on(Intercepted::new(memory(), slow), &clock);
    for n in 0..300 {
        testkit::start(&engine, testkit::TRANSFORM, &format!("k{n}")).await;
    }
    // No worker advances them, and by now they are due.
    clock.set(10);
    let by = Initiator::new(Cause::System, "sweep");
    let woken = async || engine.operations().sweep(&by).await.unwrap().woken;
    assert_eq!([woken().await, woken().await, woken().await], [256, 44, 0]);
}
