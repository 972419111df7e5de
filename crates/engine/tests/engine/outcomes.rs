//! The outcome of a step is recorded before the engine waits for anything else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use connectors::{Observed, ProposalRequest, Tool, ToolCall, ToolOutcome, ToolResult};
use countersign_engine::{AdvanceLimits, Engine, Timing};
use domain::command::Certainty;
use domain::{
    Action, Charge, EffectClass, Failure, Millis, QueueName, Reversibility, RunRecord, RunStatus, ToolName,
};
use serde_json::json;
use store::{Intercepted, Ledger as _, Queue as _, Store, StoreError};
use testkit::{Fault, Faults, TestClock, memory, request};
use tokio::time::Instant;

/// Longer than any wait in these tests.
const PATIENCE: Duration = Duration::from_secs(30);

/// A tool that posts something.
struct Post {
    posted: Arc<AtomicU32>,
    /// How often the tool was asked to observe. The first time it does not answer.
    asked: Arc<AtomicU32>,
    takes: Duration,
}

#[async_trait]
impl Tool for Post {
    fn name(&self) -> ToolName {
        "test.post".parse().unwrap()
    }

    async fn observe(&self, ask: &ProposalRequest<'_>) -> Observed {
        if ask.fields["slow"] == true && self.asked.fetch_add(1, Ordering::Relaxed) == 0 {
            std::future::pending::<()>().await;
        }
        Observed::Found(json!(null))
    }

    fn propose(&self, ask: ProposalRequest<'_>) -> Result<Action, Failure> {
        let (class, reversibility) = if ask.fields["reads"] == true {
            (EffectClass::ReadOnly, Reversibility::NoEffect)
        } else {
            (EffectClass::CompareAndSet, Reversibility::Inverse)
        };
        let target = "the board".to_owned();
        Ok(Action { class, reversibility, target, ..testkit::action(self.name(), ask) })
    }

    async fn perform(&self, call: ToolCall<'_>) -> ToolOutcome {
        self.posted.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(self.takes).await;
        let letters = call.action.fields["letters"].as_u64().unwrap_or_default();
        let output = json!("x".repeat(usize::try_from(letters).unwrap()));
        ToolOutcome::Done(ToolResult { output, ..ToolResult::default() })
    }
}

const TWO_POSTS: &str = "\
workflow: w
version: 1
environment: dev
validation: critical_only
steps:
  - { id: a, tool: test.post, with: { slow: false } }
  - { id: b, tool: test.post, with: { slow: true } }
";

impl Post {
    fn new() -> (Self, Arc<AtomicU32>, Arc<AtomicU32>) {
        let (posted, asked) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        (
            Self { posted: Arc::clone(&posted), asked: Arc::clone(&asked), takes: Duration::ZERO },
            posted,
            asked,
        )
    }
}

fn engine_on<S: Store>(store: S, tool: Post) -> Engine<S> {
    let timing = Timing { renew_every: Millis(100), lease: Millis::secs(3), ..Timing::default() };
    testkit::engine().tool(tool).timing(timing).on(store)
}

/// Starts a run of `workflow` and advances it to its end.
async fn walked<S: Store>(engine: &Engine<S>, workflow: &str) -> RunRecord {
    let run = engine.admission().start(request(engine, workflow, "k")).await.unwrap().run;
    let walk = Box::pin(engine.execution().advance(&run, &(), AdvanceLimits::default()));
    tokio::time::timeout(PATIENCE, walk).await.unwrap().unwrap();
    engine.store().load(&run).await.unwrap().unwrap()
}

#[tokio::test]
async fn an_outcome_does_not_wait_for_a_slow_observation() {
    let (tool, posted, asked) = Post::new();
    let engine = engine_on(memory(), tool);
    assert_eq!(walked(&engine, TWO_POSTS).await.status, RunStatus::Succeeded);
    assert_eq!((posted.load(Ordering::Relaxed), asked.load(Ordering::Relaxed)), (2, 2));
}

/// A store that fails this many calls to store a payload.
fn keeps_nothing(calls: u32) -> Faults {
    let calls = AtomicU32::new(calls);
    Faults::at("blobs.put_blob", move || {
        let left = calls.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if left.is_ok() { Fault::Fail(StoreError::Busy { doing: "blobs.put_blob" }) } else { Fault::None }
    })
}

const LONG_ANSWER: &str = "\
workflow: w
version: 1
environment: dev
validation: critical_only
steps:
  - { id: a, tool: test.post, with: { letters: 100000 } }
";

/// More often than the engine repeats one request.
const BUSY_FOR: u32 = 12;

#[tokio::test]
async fn a_read_that_cannot_be_stored_uses_no_attempt() {
    let (tool, read, _) = Post::new();
    let engine = engine_on(Intercepted::new(memory(), keeps_nothing(BUSY_FOR)), tool);
    let once =
        LONG_ANSWER.replace("letters: 100000 }", "letters: 100000, reads: true }, retry: { attempts: 1 }");
    assert_eq!(walked(&engine, &once).await.status, RunStatus::Succeeded);
    assert_eq!(read.load(Ordering::Relaxed), 1);
}

/// A store that does not answer the first commit after the tool has started.
fn hangs(posted: &Arc<AtomicU32>) -> Faults {
    let (posted, hung) = (Arc::clone(posted), AtomicBool::new(false));
    Faults::at("ledger.commit", move || {
        let posts = posted.load(Ordering::Relaxed) > 0;
        if posts && !hung.swap(true, Ordering::Relaxed) { Fault::Hang } else { Fault::None }
    })
}

#[tokio::test]
async fn an_outcome_survives_a_hanging_lease_renewal() {
    let (tool, posted, _) = Post::new();
    let tool = Post { takes: Duration::from_millis(500), ..tool };
    let engine = engine_on(Intercepted::new(memory(), hangs(&posted)), tool);
    assert_eq!(walked(&engine, LONG_ANSWER).await.status, RunStatus::Succeeded);
    assert_eq!(posted.load(Ordering::Relaxed), 1, "it was posted once");
}

/// A store that is slow for the first commit, and may never answer another.
fn slow(takes: Duration, silent: bool) -> Faults {
    let first = AtomicBool::new(true);
    Faults::at("ledger.commit", move || match first.swap(false, Ordering::Relaxed) {
        true => Fault::Delay(takes),
        false if silent => Fault::Hang,
        false => Fault::None,
    })
}

/// A run whose step takes a minute, on a store that takes this long to grant a lease of three seconds.
async fn granted_after(takes: Duration, silent: bool) -> (RunStatus, u32, Duration) {
    let (tool, posted, _) = Post::new();
    let tool = Post { takes: Duration::from_mins(1), ..tool };
    let engine = engine_on(Intercepted::new(memory(), slow(takes, silent)), tool);
    let run = engine.admission().start(request(&engine, LONG_ANSWER, "k")).await.unwrap().run;
    let begun = Instant::now();
    Box::pin(engine.execution().advance(&run, &(), AdvanceLimits::default())).await.unwrap();
    let status = engine.store().load(&run).await.unwrap().unwrap().status;
    (status, posted.load(Ordering::Relaxed), begun.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_late_lease_is_not_used_beyond_its_end() {
    let (status, posted, after) = granted_after(Duration::from_secs(2), true).await;
    assert_eq!((status, posted), (RunStatus::Running, 1));
    assert_eq!(after.as_secs(), 3, "the lease was for three seconds, and two were gone when it stood");
}

#[tokio::test(start_paused = true)]
async fn an_expired_lease_is_renewed_before_the_tool_starts() {
    let (status, posted, _) = granted_after(Duration::from_secs(5), false).await;
    assert_eq!((status, posted), (RunStatus::Succeeded, 1));
    let (status, posted, _) = granted_after(Duration::from_secs(5), true).await;
    assert_eq!((status, posted), (RunStatus::Running, 0), "the tool does not start without a lease");
}

/// A store that admits a run and loses the first reply.
fn loses_the_reply() -> Faults {
    let first = AtomicBool::new(true);
    let lose = move || if first.swap(false, Ordering::Relaxed) { Fault::LoseReply } else { Fault::None };
    Faults::at("ledger.admit", lose)
}

#[tokio::test]
async fn a_lost_admit_reply_still_announces_the_run() {
    let (tool, ..) = Post::new();
    let engine = engine_on(Intercepted::new(memory(), loses_the_reply()), tool);
    engine.admission().start(request(&engine, TWO_POSTS, "k")).await.unwrap();
    // The embedded store kept the first message with the run; this is the second one.
    assert_eq!(engine.store().depth(QueueName::Steps).await.unwrap(), 2);
}

#[tokio::test]
async fn an_outcome_survives_a_failing_output_write() {
    let (tool, posted, _) = Post::new();
    let engine = engine_on(Intercepted::new(memory(), keeps_nothing(BUSY_FOR)), tool);
    assert_eq!(walked(&engine, LONG_ANSWER).await.status, RunStatus::Succeeded);
    assert_eq!(posted.load(Ordering::Relaxed), 1);
}

/// A store whose disk is full for this long after the tool has acted.
fn full_disk(posted: &Arc<AtomicU32>, length: Duration) -> Faults {
    let (posted, since) = (Arc::clone(posted), std::sync::OnceLock::new());
    Faults::at("ledger.commit", move || {
        if posted.load(Ordering::Relaxed) == 0 || since.get_or_init(Instant::now).elapsed() >= length {
            return Fault::None;
        }
        Fault::Fail(StoreError::broken("commit a decision", "database or disk is full"))
    })
}

#[tokio::test(start_paused = true)]
async fn an_outcome_survives_a_full_disk() {
    let (tool, posted, _) = Post::new();
    // Longer than the lease.
    let faults = full_disk(&posted, Duration::from_secs(20));
    let engine = engine_on(Intercepted::new(memory(), faults), tool);
    assert_eq!(walked(&engine, LONG_ANSWER).await.status, RunStatus::Succeeded);
    assert_eq!(posted.load(Ordering::Relaxed), 1, "it was posted once");
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_does_not_outlast_a_lost_lease() {
    let (tool, posted, _) = Post::new();
    let (again, ..) = Post::new();
    let clock = TestClock::runtime();
    let store = testkit::engine().clock(clock.clone()).memory();
    let timing = || Timing { renew_every: Millis(100), lease: Millis::secs(3), ..Timing::default() };
    let full = Intercepted::new(store.clone(), full_disk(&posted, Duration::from_secs(20)));
    let builder = testkit::engine().tool(tool).timing(timing()).clock(clock.clone());
    let engine = builder.me("first").on(full);
    let other = testkit::engine().tool(again).timing(timing()).clock(clock).me("second").on(store);
    let run = engine.admission().start(request(&engine, LONG_ANSWER, "k")).await.unwrap().run;
    let takes_over = async {
        tokio::time::sleep(Duration::from_secs(10)).await;
        testkit::advance(&other, &run).await
    };
    let first = Box::pin(engine.execution().advance(&run, &(), AdvanceLimits::default()));
    let (first, second) = tokio::join!(first, takes_over);
    first.unwrap();
    assert_eq!(second, RunStatus::Succeeded);
    assert_eq!(testkit::record(&other, &run).await.status, RunStatus::Succeeded);
}

/// A read that is billed. The first call fails.
#[derive(Default)]
struct Billed {
    calls: AtomicU32,
    fails_for_good: bool,
}

#[async_trait]
impl Tool for Billed {
    fn name(&self) -> ToolName {
        "test.billed".parse().unwrap()
    }

    fn propose(&self, ask: ProposalRequest<'_>) -> Result<Action, Failure> {
        Ok(testkit::action(self.name(), ask))
    }

    async fn perform(&self, _: ToolCall<'_>) -> ToolOutcome {
        let failure = || Failure::new("BUSY", "busy").charged(Charge { cost_microusd: 5, usage: None });
        match self.calls.fetch_add(1, Ordering::Relaxed) {
            0 if self.fails_for_good => ToolOutcome::Terminal(failure()),
            0 => ToolOutcome::Retryable {
                failure: failure(),
                certainty: Certainty::DidNotHappen,
                retry_after: None,
            },
            _ => ToolOutcome::Done(ToolResult { cost_microusd: 7, ..ToolResult::default() }),
        }
    }
}

#[tokio::test]
async fn cost_of_a_failed_attempt_counts() {
    for (fails_for_good, status, cost) in
        [(false, RunStatus::Succeeded, 12), (true, RunStatus::FailedTerminal, 5)]
    {
        let clock = TestClock::system();
        let tool = Billed { fails_for_good, ..Billed::default() };
        let engine = testkit::engine().tool(tool).clock(clock.clone()).signed().build();
        let source = "workflow: w\nversion: 1\nsteps:\n  - { id: a, tool: test.billed, with: {} }\n";
        let run = testkit::start(&engine, source, "test:1").await;
        testkit::advance(&engine, &run).await;
        clock.advance(Millis::secs(60));
        assert_eq!(testkit::advance(&engine, &run).await, status);
        assert_eq!(testkit::record(&engine, &run).await.cost_microusd, cost);

        engine.operations().build_evidence(&run).await.unwrap();
        let (_, bytes) = engine.operations().evidence(&run).await.unwrap();
        let verified = evidence::verify(&bytes, &testkit::signing_key().public()).unwrap();
        let costs = &verified.bundle().costs;
        assert_eq!(
            (costs.total_microusd, costs.steps[0].microusd, costs.tools[0].microusd),
            (cost, cost, cost)
        );
    }
}
