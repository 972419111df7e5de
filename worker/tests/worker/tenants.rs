//! One tenant's jobs do not keep other tenants waiting, in virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use connectors::{ProposalRequest, Tool, ToolCall, ToolOutcome, ToolResult};
use countersign_worker::{Concurrency, WorkerSettings};
use domain::{Action, Failure, Job, Millis, Outgoing, QueueName, RunKey, RunStatus, ToolName};
use serde_json::json;
use store::{Archive as _, Intercepted, Ledger as _, Queue as _, SqliteStore, StoreError};
use testkit::{Fault, Faults, TestClock, TestEnv};
use tokio::time::{Instant, sleep};

use crate::support;

/// A tool that waits for a silent system.
struct Slow(Duration);

#[async_trait]
impl Tool for Slow {
    fn name(&self) -> ToolName {
        "test.slow".parse().unwrap()
    }

    fn propose(&self, ask: ProposalRequest<'_>) -> Result<Action, Failure> {
        Ok(testkit::action(self.name(), ask))
    }

    async fn perform(&self, _call: ToolCall<'_>) -> ToolOutcome {
        sleep(self.0).await;
        ToolOutcome::Done(ToolResult::default())
    }
}

const SLOW: &str = "workflow: w\nversion: 1\nsteps: [{ id: a, tool: test.slow }]\n";

type QueueEnv = TestEnv<Intercepted<SqliteStore, Faults>>;

/// A store whose queue selects by tenant, as SQLite does, or does not, as SQS does not.
fn queue_env(selects: bool, call_duration: Duration) -> QueueEnv {
    let builder = testkit::engine().standard_tools().tool(Slow(call_duration)).clock(TestClock::runtime());
    builder.env_with(Faults::at("queue.receive_except", move || {
        if selects { Fault::None } else { Fault::Fail(StoreError::Busy { doing: "select by tenant" }) }
    }))
}

async fn wait_until_succeeded(env: &QueueEnv, run: &RunKey) {
    while env.status(run).await != RunStatus::Succeeded {
        sleep(Duration::from_millis(100)).await;
    }
}

async fn count_ended(env: &QueueEnv, runs: &[RunKey]) -> usize {
    let mut ended = 0;
    for run in runs {
        ended += usize::from(env.store().load(run).await.unwrap().unwrap().status.is_terminal());
    }
    ended
}

#[tokio::test(start_paused = true)]
async fn slow_http_takes_all_slots() {
    for selects in [true, false] {
        let env = queue_env(selects, Duration::from_mins(5));
        let mut slow = Vec::new();
        for number in 0..20 {
            slow.push(env.start_for("acme", SLOW, &number.to_string()).await);
        }
        let settings = WorkerSettings { drain: Duration::ZERO, ..WorkerSettings::default() };
        let (shutdown, working) = support::start_worker(&env.engine, settings);
        sleep(Duration::from_secs(30)).await;
        let started = Instant::now();
        for number in 0..5 {
            let run = env.start_for("umbrella", testkit::TRANSFORM, &number.to_string()).await;
            wait_until_succeeded(&env, &run).await;
        }
        assert!(started.elapsed() < Duration::from_secs(15), "{:?}, selects: {selects}", started.elapsed());
        assert_eq!(count_ended(&env, &slow).await, 0, "the first tenant's calls still last");
        shutdown.cancel();
        working.await.unwrap();
    }
}

/// The backlog is larger than what a worker receives at once, and slots become free all the time.
#[tokio::test(start_paused = true)]
async fn backlog_of_one_tenant_delays_no_other() {
    let env = queue_env(true, Duration::from_secs(2));
    for number in 0..400 {
        env.start_for("acme", SLOW, &number.to_string()).await;
    }
    let run = env.start_for("umbrella", testkit::TRANSFORM, "1").await;
    let (started, (shutdown, working)) =
        (Instant::now(), support::start_worker(&env.engine, WorkerSettings::default()));
    wait_until_succeeded(&env, &run).await;
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    shutdown.cancel();
    working.await.unwrap();
}

/// Each resumed run goes on with a call that lasts for minutes.
#[tokio::test(start_paused = true)]
async fn resumed_runs_of_one_tenant_delay_no_other() {
    for selects in [true, false] {
        let env = queue_env(selects, Duration::from_mins(5));
        let mut slow = Vec::new();
        for number in 0..24 {
            slow.push(env.start_for("acme", SLOW, &number.to_string()).await);
        }
        let mut others = Vec::new();
        for number in 0..3 {
            others.push(env.start_for("umbrella", SLOW, &number.to_string()).await);
        }
        let last = env.start_for("umbrella", testkit::TRANSFORM, "last").await;
        empty(&env, QueueName::Steps).await;
        let settings = WorkerSettings { drain: Duration::ZERO, ..WorkerSettings::default() };
        let (shutdown, working) = support::start_worker(&env.engine, settings);
        resume(&env, &slow).await;
        sleep(Duration::from_secs(30)).await;
        let started = Instant::now();
        // Two calls that last as long, and then a quick one.
        resume(&env, &others[..2]).await;
        sleep(Duration::from_secs(10)).await;
        resume(&env, std::slice::from_ref(&last)).await;
        wait_until_succeeded(&env, &last).await;
        assert!(started.elapsed() < Duration::from_secs(30), "{:?}, selects: {selects}", started.elapsed());
        for run in &others[..2] {
            assert_eq!(env.status(run).await, RunStatus::Running, "selects: {selects}");
        }
        assert_eq!(count_ended(&env, &slow).await, 0, "the first tenant's calls still last");
        shutdown.cancel();
        working.await.unwrap();
    }
}

async fn empty(env: &QueueEnv, queue: QueueName) {
    let store = env.store();
    loop {
        let batch = store.receive(queue, 10, Millis::mins(1), Duration::ZERO).await.unwrap();
        if batch.is_empty() {
            return;
        }
        for delivery in batch {
            store.delete(&delivery.handle).await.unwrap();
        }
    }
}

/// Sends the message of a person's decision.
async fn resume(env: &QueueEnv, runs: &[RunKey]) {
    for run in runs {
        let (run, queue, delay) = (run.clone(), QueueName::Decisions, Millis(0));
        env.store().send(&Outgoing { run, queue, job: Job::Advance, delay }).await.unwrap();
    }
}

/// The log hangs, so no evidence is built. Then it answers again.
#[tokio::test(start_paused = true)]
async fn slow_evidence_delays_no_step() {
    for selects in [true, false] {
        let (hangs, sent) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicUsize::new(0)));
        let (is_hanging, count) = (Arc::clone(&hangs), Arc::clone(&sent));
        let builder = testkit::engine().standard_tools().signed().clock(TestClock::runtime());
        let faults = Faults::new(move |call| match call.name {
            "archive.append_log" if is_hanging.load(Ordering::Relaxed) => Fault::Hang,
            "queue.receive_except" if !selects => Fault::Fail(StoreError::Busy { doing: "select by tenant" }),
            "queue.send" => {
                count.fetch_add(1, Ordering::Relaxed);
                Fault::None
            }
            _ => Fault::None,
        });
        let env = builder.env_with(faults);
        let (shutdown, working) = support::start_worker(&env.engine, WorkerSettings::default());
        let mut runs = Vec::new();
        for number in 0..60 {
            runs.push(env.start_for("acme", testkit::TRANSFORM, &number.to_string()).await);
        }
        sleep(Duration::from_secs(10)).await;
        // The others wait as new, delayed messages: SQS limits how many invisible ones a queue has.
        assert!(sent.load(Ordering::Relaxed) >= 50, "{sent:?}, selects: {selects}");
        for number in 60..65 {
            let (started, run) =
                (Instant::now(), env.start_for("acme", testkit::TRANSFORM, &number.to_string()).await);
            wait_until_succeeded(&env, &run).await;
            assert!(
                started.elapsed() < Duration::from_secs(3),
                "{:?}, selects: {selects}",
                started.elapsed()
            );
            runs.push(run);
        }
        hangs.store(false, Ordering::Relaxed);
        // Calls that hang are given up after ten minutes.
        sleep(Duration::from_mins(15)).await;
        for run in &runs {
            assert!(env.store().evidence(run).await.unwrap().is_some(), "{run}, selects: {selects}");
        }
        assert_eq!(env.dead_letters().await, Vec::<Job>::new());
        shutdown.cancel();
        working.await.unwrap();
    }
}

/// The log hangs, and evidence uses all its slots. A request that waits for the key of an ended run starts all the same.
#[tokio::test(start_paused = true)]
async fn slow_evidence_holds_no_concurrency_key() {
    let builder = testkit::engine().standard_tools().signed().clock(TestClock::runtime());
    let env = builder.env_with(Faults::at("archive.append_log", || Fault::Hang));
    let source = "workflow: w\nversion: 1\ntrigger: { servicenow: { table: incident } }\n\
                  concurrency: { key: record, on_conflict: queue }\n\
                  steps: [{ id: a, tool: transform, with: { value: 1 } }]\n";
    env.apply(source).await;
    let (shutdown, working) = support::start_worker(&env.engine, WorkerSettings::default());
    for number in 0..60 {
        env.start_for("acme", testkit::TRANSFORM, &number.to_string()).await;
    }
    sleep(Duration::from_secs(10)).await;
    let mut runs = Vec::new();
    for number in 0..3 {
        let event = testkit::event(&format!("sn:{number}"), json!({}));
        runs.push(env.engine.admission().accept(event).await.unwrap().run);
    }
    sleep(Duration::from_secs(10)).await;
    for run in &runs {
        assert_eq!(env.status(run).await, RunStatus::Succeeded);
    }
    shutdown.cancel();
    working.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn lone_tenant_uses_every_slot() {
    for selects in [true, false] {
        let env = queue_env(selects, Duration::from_mins(1));
        let mut runs = Vec::new();
        for number in 0..40 {
            runs.push(env.start_for("acme", SLOW, &number.to_string()).await);
        }
        let settings = WorkerSettings { concurrency: Concurrency::for_steps(4), ..WorkerSettings::default() };
        let (shutdown, working) = support::start_worker(&env.engine, settings);
        let started = Instant::now();
        for run in &runs {
            wait_until_succeeded(&env, run).await;
        }
        // Ten rounds of four runs. A message that was put back is invisible for two seconds.
        assert!(
            started.elapsed() < Duration::from_secs(10 * 63),
            "{:?}, selects: {selects}",
            started.elapsed()
        );
        assert_eq!(env.dead_letters().await, Vec::<Job>::new());
        shutdown.cancel();
        working.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn message_that_is_put_back_is_not_a_failure() {
    let env = queue_env(false, Duration::from_mins(9));
    for number in 0..20 {
        env.start_for("acme", SLOW, &number.to_string()).await;
    }
    assert!(!support::run_worker(&env.engine, Duration::from_mins(8)).await, "the calls still last");
    assert_eq!(env.dead_letters().await, Vec::<Job>::new());
    sleep(Duration::from_mins(1)).await;
    let mut left = 0;
    for _ in 0..2 {
        let batch = env.store().receive(QueueName::Steps, 10, Millis::mins(9), Duration::ZERO).await.unwrap();
        left += batch.len();
        assert!(batch.iter().all(|delivery| delivery.receives() <= 3), "{batch:?}");
    }
    assert_eq!(left, 20);
}
