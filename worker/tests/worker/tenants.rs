//! One tenant's jobs do not keep other tenants waiting, in virtual time.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use connectors::{ProposalRequest, Tool, ToolCall, ToolOutcome, ToolResult};
use countersign_worker::{Concurrency, WorkerSettings};
use domain::{Action, Failure, Job, Millis, QueueName, RunKey, RunStatus, ToolName};
use engine::{Engine, StartRun};
use store::{Intercepted, Ledger as _, Queue as _, SqliteStore, StoreError};
use testkit::{Fault, Faults, TestClock};
use tokio::time::{Instant, sleep};

use crate::support;

type TestStore = Intercepted<SqliteStore, Faults>;

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

/// A store whose queue selects by tenant, as SQLite does, or does not, as SQS does not.
fn engine(selects: bool, call_takes: Duration) -> Arc<Engine<TestStore>> {
    let builder = testkit::engine().standard_tools().tool(Slow(call_takes)).clock(TestClock::runtime());
    let faults = Faults::at("queue.receive_except", move || {
        if selects { Fault::None } else { Fault::Fail(StoreError::Busy { doing: "select by tenant" }) }
    });
    let store = builder.memory();
    Arc::new(builder.on(Intercepted::new(store, faults)))
}

async fn start(engine: &Engine<TestStore>, tenant: &str, source: &str, key: &str) -> RunKey {
    let request = StartRun { tenant: tenant.parse().unwrap(), ..testkit::request(engine, source, key) };
    Box::pin(engine.admission().start(request)).await.unwrap().run
}

async fn succeeds(engine: &Engine<TestStore>, run: &RunKey) {
    while testkit::status(engine, run).await != RunStatus::Succeeded {
        sleep(Duration::from_millis(100)).await;
    }
}

async fn ended(engine: &Engine<TestStore>, runs: &[RunKey]) -> usize {
    let mut ended = 0;
    for run in runs {
        ended += usize::from(engine.store().load(run).await.unwrap().unwrap().status.is_terminal());
    }
    ended
}

#[tokio::test(start_paused = true)]
async fn slow_calls_of_one_tenant_delay_no_other() {
    for selects in [true, false] {
        let engine = engine(selects, Duration::from_mins(5));
        let mut slow = Vec::new();
        for number in 0..20 {
            slow.push(start(&engine, "acme", SLOW, &number.to_string()).await);
        }
        let settings = WorkerSettings { drain: Duration::ZERO, ..WorkerSettings::default() };
        let (shutdown, working) = support::start_worker(&engine, settings);
        sleep(Duration::from_secs(30)).await;
        let begun = Instant::now();
        for number in 0..5 {
            let run = start(&engine, "umbrella", testkit::TRANSFORM, &number.to_string()).await;
            succeeds(&engine, &run).await;
        }
        assert!(begun.elapsed() < Duration::from_secs(15), "{:?}, selects: {selects}", begun.elapsed());
        assert_eq!(ended(&engine, &slow).await, 0, "the first tenant's calls still last");
        shutdown.cancel();
        working.await.unwrap();
    }
}

/// The backlog is larger than what a worker receives at once, and slots become free all the time.
#[tokio::test(start_paused = true)]
async fn a_backlog_of_one_tenant_delays_no_other() {
    let engine = engine(true, Duration::from_secs(2));
    for number in 0..400 {
        start(&engine, "acme", SLOW, &number.to_string()).await;
    }
    let run = start(&engine, "umbrella", testkit::TRANSFORM, "1").await;
    let (begun, (shutdown, working)) =
        (Instant::now(), support::start_worker(&engine, WorkerSettings::default()));
    succeeds(&engine, &run).await;
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    shutdown.cancel();
    working.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lone_tenant_uses_every_slot() {
    for selects in [true, false] {
        let engine = engine(selects, Duration::from_mins(1));
        let mut runs = Vec::new();
        for number in 0..40 {
            runs.push(start(&engine, "acme", SLOW, &number.to_string()).await);
        }
        let settings = WorkerSettings { concurrency: Concurrency::for_steps(4), ..WorkerSettings::default() };
        let (shutdown, working) = support::start_worker(&engine, settings);
        let begun = Instant::now();
        for run in &runs {
            succeeds(&engine, run).await;
        }
        // Ten rounds of four runs. A message that was put back is invisible for two seconds.
        assert!(begun.elapsed() < Duration::from_secs(10 * 63), "{:?}, selects: {selects}", begun.elapsed());
        assert_eq!(testkit::dead_letters(&**engine.store()).await, Vec::<Job>::new());
        shutdown.cancel();
        working.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_put_back_is_not_a_failure() {
    let engine = engine(false, Duration::from_mins(9));
    for number in 0..20 {
        start(&engine, "acme", SLOW, &number.to_string()).await;
    }
    assert!(!support::work(&engine, Duration::from_mins(8)).await, "the calls still last");
    assert_eq!(testkit::dead_letters(&**engine.store()).await, Vec::<Job>::new());
    sleep(Duration::from_mins(1)).await;
    let mut left = 0;
    for _ in 0..2 {
        let batch =
            engine.store().receive(QueueName::Steps, 10, Millis::mins(9), Duration::ZERO).await.unwrap();
        left += batch.len();
        assert!(batch.iter().all(|delivery| delivery.receives() <= 3), "{batch:?}");
    }
    assert_eq!(left, 20);
}
