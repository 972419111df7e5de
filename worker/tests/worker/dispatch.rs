//! Dispatch and backout with real workers, in virtual time.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use connectors::{Observed, ProposalRequest, Tool, ToolCall, ToolOutcome, ToolRegistry, ToolResult};
use countersign_worker::{CancellationToken, WorkerSettings};
use domain::command::Certainty;
use domain::dispatch::RECORD_FORMAT;
use domain::{
    Action, Cause, EffectClass, Failure, FieldChange, Initiator, Live, Reversibility, RunKey, RunRecord,
    RunStatus, ToolName,
};
use engine::{Backout, DispatchScope, DispatchState, Engine, EngineError, STOP_VISIBLE_AFTER, StartRun};
use serde_json::{Value, json};
use store::{Governance as _, SqliteStore};
use testkit::{TestClock, ada};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::support;

/// The effects that are in place, and when each call started.
#[derive(Default)]
struct Outside {
    present: Mutex<Vec<String>>,
    begun: Mutex<Vec<Instant>>,
    taken_back: AtomicU32,
}

/// A tool that takes a while, and whose effect can be rolled back or has an unknown outcome.
struct Slow {
    outside: Arc<Outside>,
    class: EffectClass,
}

const TAKES: Duration = Duration::from_secs(5);

/// One sweep processes 500.
const MORE_THAN_A_BATCH: usize = 2_100;

/// A new worker sweeps after five seconds.
const BEFORE_THE_NEXT_SWEEP: Duration = Duration::from_secs(1);

#[async_trait]
impl Tool for Slow {
    fn name(&self) -> ToolName {
        if self.class == EffectClass::Opaque { "test.lost" } else { "test.slow" }.parse().unwrap()
    }

    async fn observe(&self, ask: &ProposalRequest<'_>) -> Observed {
        sleep(Duration::from_secs(ask.fields["observes_for"].as_u64().unwrap_or(0))).await;
        Observed::NotNeeded
    }

    fn propose(&self, ask: ProposalRequest<'_>) -> Result<Action, Failure> {
        let change = FieldChange { field: "done".to_owned(), before: None, after: json!(!ask.undo) };
        Ok(Action {
            class: self.class,
            reversibility: Reversibility::Compensable,
            changes: vec![change],
            fields: json!({ "undo": ask.undo }),
            ..testkit::action(self.name(), ask)
        })
    }

    async fn perform(&self, call: ToolCall<'_>) -> ToolOutcome {
        self.outside.begun.lock().unwrap().push(Instant::now());
        sleep(TAKES).await;
        if self.class == EffectClass::Opaque {
            let failure = Failure::new("GONE", "the line went dead");
            let certainty = Certainty::MayHaveHappened;
            return ToolOutcome::Retryable { failure, certainty, retry_after: None };
        }
        let name = format!("{} {}", call.run, call.step);
        let mut present = self.outside.present.lock().unwrap();
        if call.action.fields["undo"] == json!(true) {
            present.retain(|done| *done != name);
            self.outside.taken_back.fetch_add(1, Ordering::Relaxed);
        } else {
            present.push(name);
        }
        ToolOutcome::Done(ToolResult::default())
    }
}

struct TestEnv {
    store: SqliteStore,
    clock: TestClock,
    outside: Arc<Outside>,
    engine: Arc<Engine<SqliteStore>>,
}

fn acme() -> DispatchScope {
    DispatchScope::Tenant("acme".parse().unwrap())
}

/// A step that can be rolled back.
fn slow(id: &str) -> String {
    format!("  - {{ id: {id}, tool: test.slow, rollback: {{ tool: test.slow }} }}\n")
}

fn three() -> String {
    ["a", "b", "c"].map(slow).concat()
}

impl TestEnv {
    fn set() -> Self {
        let clock = TestClock::runtime();
        let store = testkit::engine().clock(clock.clone()).memory();
        let outside = Arc::new(Outside::default());
        let engine = Self::process(&store, &clock, &outside);
        Self { store, clock, outside, engine }
    }

    fn process(store: &SqliteStore, clock: &TestClock, outside: &Arc<Outside>) -> Arc<Engine<SqliteStore>> {
        let slow = |class| Slow { outside: Arc::clone(outside), class };
        let tools =
            ToolRegistry::default().with(slow(EffectClass::NativeKey)).with(slow(EffectClass::Opaque));
        Arc::new(testkit::engine().tools(tools).clock(clock.clone()).signed().on(store.clone()))
    }

    /// An engine of another process, with its own caches.
    fn elsewhere(&self) -> Arc<Engine<SqliteStore>> {
        Self::process(&self.store, &self.clock, &self.outside)
    }

    async fn start(&self, tenant: &str, key: &str, steps: &str) -> RunKey {
        let source = format!(
            "workflow: w
version: 1
environment: dev
steps:
{steps}"
        );
        let tenant = tenant.parse().unwrap();
        let request = StartRun { tenant, ..testkit::request(&self.engine, &source, key) };
        self.engine.admission().start(request).await.unwrap().run
    }

    fn start_worker(&self) -> (CancellationToken, JoinHandle<bool>) {
        support::start_worker(&self.engine, WorkerSettings::default())
    }

    /// Runs a worker for this long.
    async fn work(&self, length: Duration) {
        assert!(support::work(&self.engine, length).await);
    }

    async fn record(&self, run: &RunKey) -> RunRecord {
        testkit::record(&self.engine, run).await
    }

    async fn status(&self, run: &RunKey) -> RunStatus {
        self.record(run).await.status
    }

    fn begun(&self) -> usize {
        self.outside.begun.lock().unwrap().len()
    }

    async fn messages(&self) -> u64 {
        testkit::messages(&self.store).await
    }

    async fn dead(&self) -> usize {
        testkit::dead_letters(&self.store).await.len()
    }

    /// The evidence of a run verifies, and contains this text about its end.
    async fn proves(&self, run: &RunKey, words: &str) {
        let (_, bytes) = self.engine.operations().evidence(run).await.unwrap();
        let verified = evidence::verify(&bytes, &testkit::signing_key().public()).unwrap();
        let bundle = serde_json::to_string(verified.bundle()).unwrap();
        assert!(bundle.contains(words), "{bundle}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stopped_tenant_starts_nothing_until_dispatch_starts() {
    let env = TestEnv::set();
    env.elsewhere().operations().stop_dispatch(&acme(), &ada(), "fire").await.unwrap();
    let mut stopped = Vec::new();
    for n in 0..5 {
        stopped.push(env.start("acme", &format!("k{n}"), &three()).await);
    }
    let other = env.start("umbrella", "k", &three()).await;

    env.work(Duration::from_hours(8)).await;
    assert_eq!(env.status(&other).await, RunStatus::Succeeded);
    assert_eq!(env.begun(), 3, "those of the other tenant");
    for run in &stopped {
        assert_eq!(env.status(run).await, RunStatus::Queued);
    }
    assert!(env.messages().await <= 5, "messages must not pile up while nothing is begun");
    assert_eq!(env.dead().await, 0, "nor be given up");

    assert_eq!(env.elsewhere().operations().start_dispatch(&acme(), &ada()).await.unwrap(), 5);
    env.work(Duration::from_mins(1)).await;
    for run in &stopped {
        assert_eq!(env.status(run).await, RunStatus::Succeeded);
    }
}

#[tokio::test(start_paused = true)]
async fn stop_during_a_slow_observation_claims_nothing() {
    let slow_look = "  - { id: b, tool: test.slow, with: { observes_for: 8 } }\n";
    // The first step of a run, and a step that is prepared when the one before it ends.
    for steps in [slow_look.to_owned(), slow("a") + slow_look] {
        let env = TestEnv::set();
        let run = env.start("acme", "k", &steps).await;
        let (shutdown, working) = env.start_worker();
        let claimed_before = steps.lines().count() - 1;
        sleep(TAKES * u32::try_from(claimed_before).unwrap() + Duration::from_secs(4)).await;
        env.elsewhere().operations().stop_dispatch(&acme(), &ada(), "fire").await.unwrap();
        sleep(Duration::from_mins(1)).await;
        shutdown.cancel();
        assert!(working.await.unwrap());
        assert_eq!(env.begun(), claimed_before, "{steps}");
        assert!(!env.status(&run).await.is_terminal());
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_missed_by_the_start_is_woken_by_the_sweep() {
    let env = TestEnv::set();
    env.engine.operations().stop_dispatch(&DispatchScope::All, &ada(), "fire").await.unwrap();
    let run = env.start("acme", "k", &three()).await;
    env.work(Duration::from_mins(1)).await;
    assert_eq!((env.status(&run).await, env.messages().await), (RunStatus::Queued, 0));
    // The process that starts dispatch dies before it announces a run.
    let fleet = env.store.fleet().await.unwrap().unwrap();
    let started = domain::Fleet { stopped: None, revision: fleet.revision + 1, ..fleet };
    env.store.put_fleet(started).await.unwrap();
    env.work(Duration::from_mins(10)).await;
    assert_eq!(env.status(&run).await, RunStatus::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn a_large_stopped_tenant_delays_no_deadline() {
    let env = TestEnv::set();
    let wait = "  - { id: wait, tool: wait.event, with: { event: later, timeout: 10m } }\n";
    let other = env.start("umbrella", "k", wait).await;
    env.work(Duration::from_secs(1)).await;
    env.elsewhere().operations().stop_dispatch(&acme(), &ada(), "fire").await.unwrap();
    for n in 0..MORE_THAN_A_BATCH {
        env.start("acme", &format!("k{n}"), &three()).await;
    }
    // All of them have been due for longer than the other run.
    sleep(Duration::from_mins(11)).await;
    assert_eq!(env.status(&other).await, RunStatus::WaitingEvent);

    let woken = env.engine.operations().sweep(&ada()).await.unwrap().woken;
    assert_eq!(usize::try_from(woken), Ok(MORE_THAN_A_BATCH + 1));
    env.work(BEFORE_THE_NEXT_SWEEP).await;
    assert_eq!(env.status(&other).await, RunStatus::FailedTerminal, "its time was up");
    assert_eq!(env.begun(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_stop_lets_the_running_step_finish() {
    let env = TestEnv::set();
    let run = env.start("acme", "k", &three()).await;
    let (shutdown, working) = env.start_worker();
    sleep(Duration::from_secs(1)).await;
    env.elsewhere().operations().stop_dispatch(&DispatchScope::All, &ada(), "fire").await.unwrap();
    sleep(Duration::from_mins(5)).await;
    let record = env.record(&run).await;
    assert_eq!((record.at.0, record.effects.done, env.begun()), (1, 1, 1));
    assert!(matches!(record.live, Live::Ready { .. }), "{:?}", record.live);

    env.elsewhere().operations().start_dispatch(&DispatchScope::All, &ada()).await.unwrap();
    sleep(Duration::from_mins(1)).await;
    assert_eq!((env.status(&run).await, env.begun()), (RunStatus::Succeeded, 3));
    shutdown.cancel();
    assert!(working.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn every_process_sees_a_stop_in_time() {
    let env = TestEnv::set();
    for n in 0..40 {
        env.start("acme", &format!("k{n}"), &three()).await;
    }
    let (shutdown, working) = env.start_worker();
    sleep(Duration::from_millis(12_345)).await;
    env.elsewhere().operations().stop_dispatch(&acme(), &ada(), "fire").await.unwrap();
    let visible = Instant::now() + STOP_VISIBLE_AFTER.std();
    sleep(Duration::from_mins(30)).await;
    let late = env.outside.begun.lock().unwrap().iter().filter(|begun| **begun > visible).count();
    assert_eq!(late, 0);
    assert!(env.begun() > 16, "something was under way");
    shutdown.cancel();
    assert!(working.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn votes_are_recorded_while_dispatch_is_stopped() {
    let env = TestEnv::set();
    let gate = "  - { id: ask, tool: approval.gate, with: { message: 'Go on?' } }\n";
    let run = env.start("acme", "k", &format!("{gate}{}", three())).await;
    env.work(Duration::from_secs(1)).await;
    env.elsewhere().operations().stop_dispatch(&acme(), &ada(), "fire").await.unwrap();
    sleep(STOP_VISIBLE_AFTER.std()).await;
    testkit::approve(&env.engine, &run, "grace").await.unwrap();
    env.work(Duration::from_mins(30)).await;
    assert_eq!((env.status(&run).await, env.begun()), (RunStatus::Running, 0));
    env.elsewhere().operations().start_dispatch(&acme(), &ada()).await.unwrap();
    env.work(Duration::from_mins(1)).await;
    assert_eq!((env.status(&run).await, env.begun()), (RunStatus::Succeeded, 3));
}

#[tokio::test(start_paused = true)]
async fn one_start_ends_two_stops() {
    let env = TestEnv::set();
    let first = env.engine.operations().stop_dispatch(&acme(), &ada(), "fire").await.unwrap();
    sleep(Duration::from_secs(9)).await;
    let grace = Initiator::new(Cause::User, "grace");
    assert_eq!(env.elsewhere().operations().stop_dispatch(&acme(), &grace, "flood").await.unwrap(), first);
    let tenant = "acme".parse().unwrap();
    let present = env.engine.operations().dispatch(&tenant).await.unwrap();
    assert_eq!(present, DispatchState { fleet: None, tenant: Some(first) });
    env.engine.operations().start_dispatch(&acme(), &grace).await.unwrap();
    assert_eq!(env.engine.operations().dispatch(&tenant).await.unwrap(), DispatchState::default());
}

/// A run in every state that is not terminal.
struct Everywhere {
    queued: RunKey,
    asks: RunKey,
    waits: RunKey,
    held: RunKey,
    between: RunKey,
    lost: RunKey,
    paused: RunKey,
}

async fn everywhere(env: &TestEnv) -> Everywhere {
    let wait = "  - { id: wait, tool: wait.event, with: { event: later, timeout: 9h } }\n";
    let gate = "  - { id: ask, tool: approval.gate, with: { message: 'Go on?' } }\n";
    let lost = "  - { id: lost, tool: test.lost }\n";
    let asks = env.start("acme", "asks", gate).await;
    let waits = env.start("acme", "waits", wait).await;
    let between = env.start("acme", "between", &(slow("a") + wait)).await;
    let lost = env.start("acme", "lost", lost).await;
    let paused = env.start("acme", "paused", &three()).await;
    env.engine.tenant_handle(&paused.tenant, &ada()).pause(&paused.run, "a look").await.unwrap();
    let (shutdown, working) = env.start_worker();
    sleep(Duration::from_secs(30)).await;
    let held = env.start("acme", "held", &three()).await;
    sleep(Duration::from_secs(1)).await;
    shutdown.cancel();
    // It finishes its step; no worker runs when the next one is queued.
    drop(working);
    let queued = env.start("acme", "queued", &three()).await;
    Everywhere { queued, asks, waits, held, between, lost, paused }
}

#[tokio::test(start_paused = true)]
async fn a_backout_cancels_finishes_or_leaves_each_run() {
    let env = TestEnv::set();
    let runs = everywhere(&env).await;
    assert_eq!(env.status(&runs.lost).await, RunStatus::Paused);
    assert!(matches!(env.record(&runs.held).await.live, Live::Running(_)));
    let mut heard = 0;
    let counts =
        env.elsewhere().operations().backout(&acme(), &ada(), "wrong release", |_| heard += 1).await.unwrap();
    assert_eq!(counts, Backout { canceled: 5, canceling: 1, needs_operator: 1, remaining: 0 });
    assert!(heard >= 7);
    sleep(STOP_VISIBLE_AFTER.std() * 2).await;
    let later = env.start("acme", "later", &three()).await;

    env.work(Duration::from_mins(2)).await;
    for run in [&runs.queued, &runs.asks, &runs.waits, &runs.held, &runs.between, &runs.paused] {
        let record = env.record(run).await;
        assert_eq!(record.status, RunStatus::Canceled, "{run}");
        env.proves(run, "backout: wrong release").await;
    }
    let held = env.record(&runs.held).await;
    assert_eq!((held.effects.done, held.effects.undone), (1, 1), "it finished its step, and took it back");
    let between = env.record(&runs.between).await;
    assert_eq!((between.effects.done, between.effects.undone), (1, 0), "what was done before stays done");
    assert_eq!(*env.outside.present.lock().unwrap(), [format!("{} a", runs.between)], "and is on record");
    assert_eq!(env.status(&runs.lost).await, RunStatus::Paused);
    assert_eq!((env.status(&later).await, env.dead().await), (RunStatus::Queued, 0));

    env.elsewhere().operations().start_dispatch(&acme(), &ada()).await.unwrap();
    env.work(Duration::from_mins(1)).await;
    assert_eq!(env.status(&later).await, RunStatus::Succeeded, "the way back");
}

#[tokio::test(start_paused = true)]
async fn a_second_backout_changes_nothing() {
    let env = TestEnv::set();
    let runs = everywhere(&env).await;
    env.engine.operations().backout(&acme(), &ada(), "wrong release", |_| {}).await.unwrap();
    env.work(Duration::from_mins(2)).await;
    let later = env.start("acme", "later", &three()).await;
    let all = [&runs.queued, &runs.asks, &runs.waits, &runs.held, &runs.between, &runs.lost, &runs.paused];
    let mut once = Vec::new();
    for run in all {
        once.push(env.record(run).await);
    }

    let again = env.elsewhere().operations().backout(&acme(), &ada(), "really", |_| {}).await.unwrap();
    assert_eq!(again, Backout { needs_operator: 1, ..Backout::default() });
    env.work(Duration::from_mins(2)).await;
    for (run, once) in all.into_iter().zip(once) {
        assert_eq!(env.record(run).await, once);
    }
    assert_eq!(env.status(&later).await, RunStatus::Queued, "what came meanwhile waits");
}

#[tokio::test(start_paused = true)]
async fn a_backout_reaches_exactly_its_scope() {
    let env = TestEnv::set();
    let (mine, theirs) = (env.start("acme", "k", &three()).await, env.start("umbrella", "k", &three()).await);
    let counts = env.elsewhere().operations().backout(&acme(), &ada(), "wrong", |_| {}).await.unwrap();
    assert_eq!(counts, Backout { canceled: 1, ..Backout::default() });
    assert_eq!(
        (env.status(&mine).await, env.status(&theirs).await),
        (RunStatus::Canceled, RunStatus::Queued)
    );
    let counts =
        env.elsewhere().operations().backout(&DispatchScope::All, &ada(), "all wrong", |_| {}).await.unwrap();
    assert_eq!(counts, Backout { canceled: 1, ..Backout::default() });
    assert_eq!(env.status(&theirs).await, RunStatus::Canceled);
}

#[tokio::test(start_paused = true)]
async fn a_backout_ends_when_dispatch_is_started() {
    let env = TestEnv::set();
    let mut runs = Vec::new();
    for n in 0..250 {
        runs.push(env.start("acme", &format!("k{n}"), &three()).await);
    }
    let engine = env.elsewhere();
    let (counts, rest) = engine
        .operations()
        .back_out_part(&DispatchScope::All, (&ada(), &ada()), "wrong", None, |_| {})
        .await
        .unwrap();
    assert!(counts.canceled < 250 && rest.is_some(), "one piece of it: {counts:?}");
    engine.operations().start_dispatch(&DispatchScope::All, &ada()).await.unwrap();
    let late =
        engine.operations().back_out_part(&DispatchScope::All, (&ada(), &ada()), "wrong", rest, |_| {}).await;
    assert!(matches!(late, Err(EngineError::BackoutOver)), "{late:?}");
    let mut ended = 0;
    for run in &runs {
        ended += u64::from(env.status(run).await == RunStatus::Canceled);
    }
    assert_eq!(ended, counts.canceled);
}

/// A worker died with an effect in progress: no worker may take the step over while dispatch is stopped, and a
/// backout must resolve it before the run can end.
#[tokio::test(start_paused = true)]
async fn a_backout_resolves_the_effect_of_a_dead_worker() {
    let env = TestEnv::set();
    let run = env.start("acme", "k", &three()).await;
    let (_shutdown, working) = env.start_worker();
    sleep(Duration::from_secs(1)).await;
    working.abort();
    let _ = working.await;
    let outside: Value = json!(*env.outside.present.lock().unwrap());
    env.elsewhere().operations().stop_dispatch(&acme(), &ada(), "fire").await.unwrap();
    let env = TestEnv { engine: env.elsewhere(), ..env };
    env.work(Duration::from_mins(30)).await;
    assert_eq!((env.begun(), outside), (1, json!([])));
    assert!(matches!(env.record(&run).await.live, Live::Running(_)));

    let counts = env.elsewhere().operations().backout(&acme(), &ada(), "fire", |_| {}).await.unwrap();
    assert_eq!(counts, Backout { canceling: 1, ..Backout::default() });
    env.work(Duration::from_mins(5)).await;
    let record = env.record(&run).await;
    assert_eq!((record.status, record.effects.done, record.effects.undone), (RunStatus::Canceled, 1, 1));
    assert_eq!(json!(*env.outside.present.lock().unwrap()), json!([]));
    env.proves(&run, "backout: fire").await;
}

#[tokio::test(start_paused = true)]
async fn a_backout_waits_for_an_authorised_retry() {
    let env = TestEnv::set();
    let runs = everywhere(&env).await;
    let engine = env.elsewhere();
    engine.operations().stop_dispatch(&acme(), &ada(), "fire").await.unwrap();
    engine.tenant_handle(&runs.lost.tenant, &ada()).resume(&runs.lost.run, "try it again").await.unwrap();
    assert!(matches!(env.record(&runs.lost).await.live, Live::Ready { authorised: Some(_), .. }));

    let counts = engine.operations().backout(&acme(), &ada(), "fire", |_| {}).await.unwrap();
    assert_eq!(counts.needs_operator, 1, "{counts:?}");
    let lost = env.record(&runs.lost).await;
    assert!(!lost.status.is_terminal() && lost.effects.unknown == 0, "{lost:?}");
}

#[tokio::test(start_paused = true)]
async fn a_backout_cancels_runs_started_before_it_is_visible() {
    let env = TestEnv::set();
    let engine = env.elsewhere();
    let backout =
        tokio::spawn(async move { engine.operations().backout(&acme(), &ada(), "fire", |_| {}).await });
    sleep(STOP_VISIBLE_AFTER.std() / 4).await;
    let late = env.start("acme", "late", &three()).await;
    assert_eq!(backout.await.unwrap().unwrap(), Backout { canceled: 1, ..Backout::default() });
    assert_eq!(env.status(&late).await, RunStatus::Canceled);
}

#[tokio::test(start_paused = true)]
async fn an_outdated_worker_starts_nothing_and_stops() {
    let env = TestEnv::set();
    env.engine.operations().record_format().await.unwrap();
    let run = env.start("acme", "k", &three()).await;
    let fleet = env.store.fleet().await.unwrap().unwrap();
    assert_eq!(fleet.format, RECORD_FORMAT);
    let newer = domain::Fleet { format: RECORD_FORMAT + 1, revision: fleet.revision + 1, ..fleet };
    env.store.put_fleet(newer).await.unwrap();

    let (_shutdown, working) = env.start_worker();
    assert!(working.await.unwrap(), "it drains by itself");

    assert_eq!((env.status(&run).await, env.begun()), (RunStatus::Queued, 0));
    assert_eq!((testkit::messages(&env.store).await, env.dead().await), (1, 0));
    let refused = env.elsewhere().operations().record_format().await;
    assert!(matches!(refused, Err(EngineError::Outdated { .. })), "{refused:?}");
}
