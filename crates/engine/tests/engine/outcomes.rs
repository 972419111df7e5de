//! The outcome of a step is recorded before the engine waits for anything else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use connectors::{Observed, ProposalRequest, Tool, ToolCall, ToolOutcome, ToolResult};
use countersign_engine::{AdvanceLimits, DispatchScope, Engine, Timing};
use domain::command::EffectOutcome;
use domain::{
    Action, Charge, EffectClass, Failure, Millis, Payload, QueueName, Reversibility, RunRecord, RunStatus,
    ToolName,
};
use serde_json::json;
use store::{Intercepted, Ledger as _, Queue as _, Store, StoreError};
use testkit::{ExternalRecord, Fault, Faults, SetRecord, TestClock, memory, request};
use tokio::time::Instant;

/// Longer than any wait in these tests.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A tool that posts something.
struct Post {
    posted: Arc<AtomicU32>,
    /// How often the tool observed. The first observation hangs.
    observed: Arc<AtomicU32>,
    duration: Duration,
}

#[async_trait]
impl Tool for Post {
    fn name(&self) -> ToolName {
        "test.post".parse().unwrap()
    }

    fn observes(&self) -> bool {
        true
    }

    async fn observe(&self, ask: &ProposalRequest<'_>) -> Observed {
        if ask.fields["slow"] == true && self.observed.fetch_add(1, Ordering::Relaxed) == 0 {
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
        let target = "board".to_owned();
        Ok(Action { class, reversibility, target, ..testkit::action(self.name(), ask) })
    }

    async fn perform(&self, call: ToolCall<'_>) -> ToolOutcome {
        self.posted.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(self.duration).await;
        let chars = call.action.fields["chars"].as_u64().unwrap_or_default();
        let output = json!("x".repeat(usize::try_from(chars).unwrap()));
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
        let (posted, observed) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        (
            Self { posted: Arc::clone(&posted), observed: Arc::clone(&observed), duration: Duration::ZERO },
            posted,
            observed,
        )
    }
}

fn engine_on<S: Store>(store: S, tool: Post) -> Engine<S> {
    let timing = Timing { renew_every: Millis(100), lease: Millis::secs(3), ..Timing::default() };
    testkit::engine().tool(tool).timing(timing).on(store)
}

/// Starts a run of `workflow` and advances it to its end.
async fn run_to_end<S: Store>(engine: &Engine<S>, workflow: &str) -> RunRecord {
    let run = engine.admission().start(request(engine, workflow, "k")).await.unwrap().run;
    let advance = Box::pin(engine.execution().advance(&run, &(), AdvanceLimits::default()));
    tokio::time::timeout(TIMEOUT, advance).await.unwrap().unwrap();
    engine.store().load(&run).await.unwrap().unwrap()
}

#[tokio::test]
async fn outcome_does_not_wait_for_a_slow_observation() {
    let (tool, posted, observed) = Post::new();
    let engine = engine_on(memory(), tool);
    assert_eq!(run_to_end(&engine, TWO_POSTS).await.status, RunStatus::Succeeded);
    assert_eq!((posted.load(Ordering::Relaxed), observed.load(Ordering::Relaxed)), (2, 2));
}

/// A store that fails this many calls to store a payload.
fn failing_blob_writes(calls: u32) -> Faults {
    let calls = AtomicU32::new(calls);
    Faults::at("blobs.put_blob", move || {
        let left = calls.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if left.is_ok() { Fault::Fail(StoreError::Busy { doing: "blobs.put_blob" }) } else { Fault::None }
    })
}

const LONG_OUTPUT: &str = "\
workflow: w
version: 1
environment: dev
validation: critical_only
steps:
  - { id: a, tool: test.post, with: { chars: 100000 } }
";

/// More often than the engine repeats one request.
const BUSY_FOR: u32 = 12;

#[tokio::test]
async fn read_that_cannot_be_stored_uses_no_attempt() {
    let (tool, read, _) = Post::new();
    let engine = engine_on(Intercepted::new(memory(), failing_blob_writes(BUSY_FOR)), tool);
    let once = LONG_OUTPUT.replace("chars: 100000 }", "chars: 100000, reads: true }, retry: { attempts: 1 }");
    assert_eq!(run_to_end(&engine, &once).await.status, RunStatus::Succeeded);
    assert_eq!(read.load(Ordering::Relaxed), 1);
}

/// A store that does not answer the first commit after the tool has started.
fn hanging_commit(posted: &Arc<AtomicU32>) -> Faults {
    let (posted, hung) = (Arc::clone(posted), AtomicBool::new(false));
    Faults::at("ledger.commit", move || {
        let posts = posted.load(Ordering::Relaxed) > 0;
        if posts && !hung.swap(true, Ordering::Relaxed) { Fault::Hang } else { Fault::None }
    })
}

#[tokio::test]
async fn outcome_survives_a_hanging_lease_renewal() {
    let (tool, posted, _) = Post::new();
    let tool = Post { duration: Duration::from_millis(500), ..tool };
    let engine = engine_on(Intercepted::new(memory(), hanging_commit(&posted)), tool);
    assert_eq!(run_to_end(&engine, LONG_OUTPUT).await.status, RunStatus::Succeeded);
    assert_eq!(posted.load(Ordering::Relaxed), 1, "it was posted once");
}

/// A store that is slow for the first commit, and may never answer another.
fn slow_commit(duration: Duration, silent: bool) -> Faults {
    let first = AtomicBool::new(true);
    Faults::at("ledger.commit", move || match first.swap(false, Ordering::Relaxed) {
        true => Fault::Delay(duration),
        false if silent => Fault::Hang,
        false => Fault::None,
    })
}

/// A run whose step takes a minute, on a store that takes this long to grant a lease of three seconds.
async fn run_with_slow_grant(duration: Duration, silent: bool) -> (RunStatus, u32, Duration) {
    let (tool, posted, _) = Post::new();
    let tool = Post { duration: Duration::from_mins(1), ..tool };
    let engine = engine_on(Intercepted::new(memory(), slow_commit(duration, silent)), tool);
    let run = engine.admission().start(request(&engine, LONG_OUTPUT, "k")).await.unwrap().run;
    let started = Instant::now();
    Box::pin(engine.execution().advance(&run, &(), AdvanceLimits::default())).await.unwrap();
    let status = engine.store().load(&run).await.unwrap().unwrap().status;
    (status, posted.load(Ordering::Relaxed), started.elapsed())
}

#[tokio::test(start_paused = true)]
async fn late_lease_is_not_used_beyond_its_end() {
    let (status, posted, after) = run_with_slow_grant(Duration::from_secs(2), true).await;
    assert_eq!((status, posted), (RunStatus::Running, 1));
    assert_eq!(after.as_secs(), 3, "the lease of three seconds had one left when it was granted");
}

#[tokio::test(start_paused = true)]
async fn expired_lease_is_renewed_before_the_tool_starts() {
    let (status, posted, _) = run_with_slow_grant(Duration::from_secs(5), false).await;
    assert_eq!((status, posted), (RunStatus::Succeeded, 1));
    let (status, posted, _) = run_with_slow_grant(Duration::from_secs(5), true).await;
    assert_eq!((status, posted), (RunStatus::Running, 0), "the tool does not start without a lease");
}

/// A store that admits a run and loses the first reply.
fn lost_admit_reply() -> Faults {
    let first = AtomicBool::new(true);
    let lose = move || if first.swap(false, Ordering::Relaxed) { Fault::LoseReply } else { Fault::None };
    Faults::at("ledger.admit", lose)
}

#[tokio::test]
async fn lost_admit_reply_still_announces_the_run() {
    let (tool, ..) = Post::new();
    let engine = engine_on(Intercepted::new(memory(), lost_admit_reply()), tool);
    engine.admission().start(request(&engine, TWO_POSTS, "k")).await.unwrap();
    // The embedded store kept the first message with the run; this is the second one.
    assert_eq!(engine.store().depth(QueueName::Steps).await.unwrap(), 2);
}

#[tokio::test]
async fn outcome_survives_a_failing_output_write() {
    let (tool, posted, _) = Post::new();
    let engine = engine_on(Intercepted::new(memory(), failing_blob_writes(BUSY_FOR)), tool);
    assert_eq!(run_to_end(&engine, LONG_OUTPUT).await.status, RunStatus::Succeeded);
    assert_eq!(posted.load(Ordering::Relaxed), 1);
}

/// A store whose disk is full for this long after the tool has acted.
fn full_disk(posted: &Arc<AtomicU32>, length: Duration) -> Faults {
    let (posted, since) = (Arc::clone(posted), std::sync::OnceLock::new());
    Faults::new(move |call| {
        let writes = matches!(call.name, "ledger.commit" | "blobs.put_blob");
        if !writes
            || posted.load(Ordering::Relaxed) == 0
            || since.get_or_init(Instant::now).elapsed() >= length
        {
            return Fault::None;
        }
        Fault::Fail(StoreError::broken("write", "database or disk is full"))
    })
}

#[tokio::test(start_paused = true)]
async fn outcome_survives_a_full_disk() {
    let (tool, posted, _) = Post::new();
    // Longer than the lease.
    let faults = full_disk(&posted, Duration::from_secs(20));
    let engine = engine_on(Intercepted::new(memory(), faults), tool);
    assert_eq!(run_to_end(&engine, LONG_OUTPUT).await.status, RunStatus::Succeeded);
    assert_eq!(posted.load(Ordering::Relaxed), 1, "it was posted once");
}

#[tokio::test(start_paused = true)]
async fn effect_is_recorded_although_its_output_is_never_stored() {
    let (tool, posted, _) = Post::new();
    let faults = Faults::at("blobs.put_blob", || Fault::Fail(StoreError::broken("put", "access denied")));
    let work_max = Millis::secs(10);
    let timing = Timing { renew_every: Millis(100), lease: Millis::secs(3), work_max };
    let engine = testkit::engine().tool(tool).timing(timing).on(Intercepted::new(memory(), faults));
    let run = run_to_end(&engine, LONG_OUTPUT).await;
    assert_eq!((run.status, posted.load(Ordering::Relaxed)), (RunStatus::Succeeded, 1));
    let steps = engine.store().steps(&run.key).await.unwrap();
    let Some(Payload::Inline(output)) = &steps[0].output else { panic!("{:?}", steps[0].output) };
    assert!(output["output_dropped"].as_str().unwrap().contains("could not be stored"), "{output}");
}

#[tokio::test(start_paused = true)]
async fn full_disk_does_not_outlast_a_lost_lease() {
    let (tool, posted, _) = Post::new();
    let (again, ..) = Post::new();
    let clock = TestClock::runtime();
    let store = testkit::engine().clock(clock.clone()).memory();
    let timing = || Timing { renew_every: Millis(100), lease: Millis::secs(3), ..Timing::default() };
    let full = Intercepted::new(store.clone(), full_disk(&posted, Duration::from_secs(20)));
    let builder = testkit::engine().tool(tool).timing(timing()).clock(clock.clone());
    let engine = builder.me("first").on(full);
    let other = testkit::engine().tool(again).timing(timing()).clock(clock).me("second").env_on(store);
    let run = engine.admission().start(request(&engine, LONG_OUTPUT, "k")).await.unwrap().run;
    let take_over = async {
        tokio::time::sleep(Duration::from_secs(10)).await;
        other.advance(&run).await
    };
    let first = Box::pin(engine.execution().advance(&run, &(), AdvanceLimits::default()));
    let (first, second) = tokio::join!(first, take_over);
    first.unwrap();
    assert_eq!(second, RunStatus::Succeeded);
    assert_eq!(other.status(&run).await, RunStatus::Succeeded);
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
                certainty: EffectOutcome::DidNotHappen,
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
        let tool = Billed { fails_for_good, ..Billed::default() };
        let env = testkit::engine().tool(tool).signed().env();
        let source = "workflow: w\nversion: 1\nsteps:\n  - { id: a, tool: test.billed, with: {} }\n";
        let (run, _) = env.run(source, "test:1").await;
        env.clock.advance(Millis::secs(60));
        assert_eq!(env.advance(&run).await, status);
        assert_eq!(env.record(&run).await.cost_microusd, cost);

        env.engine.operations().build_evidence(&run).await.unwrap();
        let verified = env.evidence(&run).await;
        let costs = &verified.bundle().costs;
        assert_eq!(
            (costs.total_microusd, costs.steps[0].microusd, costs.tools[0].microusd),
            (cost, cost, cost)
        );
    }
}

/// The store is busy when a worker claims a step. Dispatch is stopped before the store recovers.
#[tokio::test(start_paused = true)]
async fn claim_is_not_repeated_after_a_stop() {
    for steps in [
        "  - { id: a, tool: test.set, with: { to: one } }\n",
        "  - { id: a, tool: transform, with: { value: 1 } }\n  - { id: b, tool: test.set, with: { to: one } }\n",
    ] {
        let (external, busy) = (Arc::new(ExternalRecord::default()), Arc::new(AtomicBool::new(false)));
        let fails = Arc::clone(&busy);
        let faults = Faults::at("ledger.commit", move || {
            let busy = StoreError::Busy { doing: "commit" };
            if fails.load(Ordering::Relaxed) { Fault::Fail(busy) } else { Fault::None }
        });
        let builder = testkit::engine().standard_tools().tool(SetRecord(Arc::clone(&external)));
        let store = builder.memory();
        let env = builder.env_on(Intercepted::new(store.clone(), faults));
        let source = format!("workflow: w\nversion: 1\nenvironment: dev\nsteps:\n{steps}");
        let run = env.start(&source, "k").await;

        busy.store(true, Ordering::Relaxed);
        let (worker, key) = (Arc::clone(&env.engine), run.clone());
        let advanced = tokio::spawn(async move {
            Box::pin(worker.execution().advance(&key, &(), AdvanceLimits::default())).await
        });
        tokio::time::sleep(Duration::from_millis(200)).await;
        let tenant = DispatchScope::Tenant(run.tenant.clone());
        testkit::engine()
            .on(store)
            .operations()
            .stop_dispatch(&tenant, &testkit::ada(), "fire")
            .await
            .unwrap();
        // A process sees a stop after a second.
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        busy.store(false, Ordering::Relaxed);
        advanced.await.unwrap().unwrap();
        assert_eq!(external.writes.load(Ordering::Relaxed), 0, "{steps}");
        assert!(!env.status(&run).await.is_terminal());
    }
}
