//! Dispatch and backout with real workers, in virtual time.

use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use connectors::{Observed, ProposalRequest, Tool, ToolCall, ToolOutcome, ToolResult};
use countersign_worker::{CancellationToken, WorkerSettings};
use domain::command::EffectOutcome;
use domain::dispatch::RECORD_FORMAT;
use domain::{
    Action, Cause, EffectClass, Failure, FieldChange, Initiator, Reversibility, RunKey, RunStatus, StepState,
    ToolName,
};
use engine::{Backout, DispatchScope, DispatchState, Engine, EngineError, STOP_VISIBLE_AFTER};
use serde_json::{Value, json};
use store::{Governance as _, SqliteStore};
use testkit::{TestClock, TestEnv, ada};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::support;

/// The effects that are in place, and when each call started.
#[derive(Default)]
struct ExternalSystem {
    present: Mutex<Vec<String>>,
    started: Mutex<Vec<Instant>>,
}

/// A tool that takes a while, and whose effect can be rolled back or has an unknown outcome.
struct Slow {
    system: Arc<ExternalSystem>,
    class: EffectClass,
}

const CALL_DURATION: Duration = Duration::from_secs(5);

/// The sweep reads and wakes 2,000 runs at a time.
const MORE_THAN_A_BATCH: usize = 2_100;

/// A new worker sweeps after five seconds.
const BEFORE_THE_NEXT_SWEEP: Duration = Duration::from_secs(1);

#[async_trait]
impl Tool for Slow {
    fn name(&self) -> ToolName {
        if self.class == EffectClass::Opaque { "test.lost" } else { "test.slow" }.parse().unwrap()
    }

    fn observes(&self) -> bool {
        true
    }

    async fn observe(&self, ask: &ProposalRequest<'_>) -> Observed {
        sleep(Duration::from_secs(ask.fields["observes_for"].as_u64().unwrap_or(0))).await;
        Observed::NotNeeded
    }

    fn propose(&self, ask: ProposalRequest<'_>) -> Result<Action, Failure> {
        let change = FieldChange { field: "done".to_owned(), before: None, after: json!(!ask.reverts) };
        Ok(Action {
            class: self.class,
            reversibility: Reversibility::Compensable,
            changes: vec![change],
            fields: json!({ "reverts": ask.reverts }),
            ..testkit::action(self.name(), ask)
        })
    }

    async fn perform(&self, call: ToolCall<'_>) -> ToolOutcome {
        self.system.started.lock().unwrap().push(Instant::now());
        sleep(CALL_DURATION).await;
        if self.class == EffectClass::Opaque {
            let failure = Failure::new("GONE", "connection lost");
            let certainty = EffectOutcome::MayHaveHappened;
            return ToolOutcome::Retryable { failure, certainty, retry_after: None };
        }
        let name = format!("{} {}", call.run, call.step);
        let mut present = self.system.present.lock().unwrap();
        if call.action.fields["reverts"] == json!(true) {
            present.retain(|done| *done != name);
        } else {
            present.push(name);
        }
        ToolOutcome::Done(ToolResult::default())
    }
}

struct DispatchEnv {
    env: TestEnv,
    system: Arc<ExternalSystem>,
}

impl Deref for DispatchEnv {
    type Target = TestEnv;

    fn deref(&self) -> &TestEnv {
        &self.env
    }
}

fn acme() -> DispatchScope {
    DispatchScope::Tenant("acme".parse().unwrap())
}

/// A step that can be rolled back.
fn slow(id: &str) -> String {
    format!("  - {{ id: {id}, tool: test.slow, rollback: {{ tool: test.slow }} }}\n")
}

fn three_steps() -> String {
    ["a", "b", "c"].map(slow).concat()
}

impl DispatchEnv {
    fn new() -> Self {
        let (clock, system) = (TestClock::runtime(), Arc::default());
        let store = testkit::engine().clock(clock.clone()).memory();
        Self { env: Self::process(&store, clock, &system), system }
    }

    fn process(store: &SqliteStore, clock: TestClock, system: &Arc<ExternalSystem>) -> TestEnv {
        let slow = |class| Slow { system: Arc::clone(system), class };
        let builder = testkit::engine().tool(slow(EffectClass::NativeKey)).tool(slow(EffectClass::Opaque));
        builder.clock(clock).signed().env_on(store.clone())
    }

    /// The same after a restart: another process, with its own caches.
    fn restarted(&self) -> Self {
        let env = Self::process(self.store(), self.clock.clone(), &self.system);
        Self { env, system: Arc::clone(&self.system) }
    }

    /// An engine of another process, with its own caches.
    fn other_process(&self) -> Arc<Engine<SqliteStore>> {
        self.restarted().env.engine
    }

    async fn start(&self, tenant: &str, key: &str, steps: &str) -> RunKey {
        let source = format!("workflow: w\nversion: 1\nenvironment: dev\nsteps:\n{steps}");
        self.start_for(tenant, &source, key).await
    }

    fn start_worker(&self) -> (CancellationToken, JoinHandle<bool>) {
        support::start_worker(&self.engine, WorkerSettings::default())
    }

    /// Runs a worker for this long.
    async fn run_worker(&self, length: Duration) {
        assert!(support::run_worker(&self.engine, length).await);
    }

    fn started_calls(&self) -> usize {
        self.system.started.lock().unwrap().len()
    }

    /// The evidence of a run verifies, and contains this text about its end.
    async fn assert_evidence_contains(&self, run: &RunKey, text: &str) {
        let bundle = serde_json::to_string(self.evidence(run).await.bundle()).unwrap();
        assert!(bundle.contains(text), "{bundle}");
    }
}

#[tokio::test(start_paused = true)]
async fn stopped_tenant_starts_nothing_until_dispatch_starts() {
    let env = DispatchEnv::new();
    env.other_process().operations().stop_dispatch(&acme(), &ada(), "fire").await.unwrap();
    let mut stopped = Vec::new();
    for n in 0..5 {
        stopped.push(env.start("acme", &format!("k{n}"), &three_steps()).await);
    }
    let other = env.start("umbrella", "k", &three_steps()).await;

    env.run_worker(Duration::from_hours(8)).await;
    assert_eq!(env.status(&other).await, RunStatus::Succeeded);
    assert_eq!(env.started_calls(), 3, "those of the other tenant");
    for run in &stopped {
        assert_eq!(env.status(run).await, RunStatus::Queued);
    }
    assert!(env.messages().await <= 5, "messages must not accumulate while dispatch is stopped");
    assert_eq!(env.dead_letters().await, [], "no dead letters");

    assert_eq!(env.other_process().operations().start_dispatch(&acme(), &ada()).await.unwrap(), 5);
    env.run_worker(Duration::from_mins(1)).await;
    for run in &stopped {
        assert_eq!(env.status(run).await, RunStatus::Succeeded);
    }
}

#[tokio::test(start_paused = true)]
async fn stop_during_a_slow_observation_claims_nothing() {
    let slow_observation = "  - { id: b, tool: test.slow, with: { observes_for: 8 } }\n";
    // The first step of a run, and a step that is prepared when the one before it ends.
    for steps in [slow_observation.to_owned(), slow("a") + slow_observation] {
        let env = DispatchEnv::new();
        let run = env.start("acme", "k", &steps).await;
        let (shutdown, working) = env.start_worker();
        let claimed_before = steps.lines().count() - 1;
        sleep(CALL_DURATION * u32::try_from(claimed_before).unwrap() + Duration::from_secs(4)).await;
        env.other_process().operations().stop_dispatch(&acme(), &ada(), "fire").await.unwrap();
        sleep(Duration::from_mins(1)).await;
        shutdown.cancel();
        assert!(working.await.unwrap());
        assert_eq!(env.started_calls(), claimed_before, "{steps}");
        assert!(!env.status(&run).await.is_terminal());
    }
}

#[tokio::test(start_paused = true)]
async fn run_missed_by_start_dispatch_is_woken_by_the_sweep() {
    let env = DispatchEnv::new();
    env.engine.operations().stop_dispatch(&DispatchScope::All, &ada(), "fire").await.unwrap();
    let run = env.start("acme", "k", &three_steps()).await;
    env.run_worker(Duration::from_mins(1)).await;
    assert_eq!((env.status(&run).await, env.messages().await), (RunStatus::Queued, 0));
    // The process that starts dispatch dies before it enqueues a run.
    let fleet = env.store().fleet().await.unwrap().unwrap();
    let started = domain::Fleet { stopped: None, revision: fleet.revision + 1, ..fleet };
    env.store().put_fleet(started).await.unwrap();
    env.run_worker(Duration::from_mins(10)).await;
    assert_eq!(env.status(&run).await, RunStatus::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn large_stopped_tenant_delays_no_deadline() {
    let env = DispatchEnv::new();
    let wait = "  - { id: wait, tool: wait.event, with: { event: later, timeout: 10m } }\n";
    let other = env.start("umbrella", "k", wait).await;
    env.run_worker(Duration::from_secs(1)).await;
    env.other_process().operations().stop_dispatch(&acme(), &ada(), "fire").await.unwrap();
    for n in 0..MORE_THAN_A_BATCH {
        env.start("acme", &format!("k{n}"), &three_steps()).await;
    }
    // All of them have been due for longer than the other run.
    sleep(Duration::from_mins(11)).await;
    assert_eq!(env.status(&other).await, RunStatus::WaitingEvent);

    let woken = env.engine.operations().sweep(&ada()).await.unwrap().woken;
    assert_eq!(usize::try_from(woken), Ok(MORE_THAN_A_BATCH + 1));
    env.run_worker(BEFORE_THE_NEXT_SWEEP).await;
    assert_eq!(env.status(&other).await, RunStatus::FailedTerminal, "its time was up");
    assert_eq!(env.started_calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn stop_lets_the_running_step_finish() {
    let env = DispatchEnv::new();
    let run = env.start("acme", "k", &three_steps()).await;
    let (shutdown, working) = env.start_worker();
    sleep(Duration::from_secs(1)).await;
    env.other_process().operations().stop_dispatch(&DispatchScope::All, &ada(), "fire").await.unwrap();
    sleep(Duration::from_mins(5)).await;
    let record = env.record(&run).await;
    assert_eq!((record.at.0, record.effects.done, env.started_calls()), (1, 1, 1));
    assert!(matches!(record.step_state, StepState::Ready { .. }), "{:?}", record.step_state);

    env.other_process().operations().start_dispatch(&DispatchScope::All, &ada()).await.unwrap();
    sleep(Duration::from_mins(1)).await;
    assert_eq!((env.status(&run).await, env.started_calls()), (RunStatus::Succeeded, 3));
    shutdown.cancel();
    assert!(working.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn every_process_sees_a_stop_in_time() {
    let env = DispatchEnv::new();
    for n in 0..40 {
        env.start("acme", &format!("k{n}"), &three_steps()).await;
    }
    let (shutdown, working) = env.start_worker();
    sleep(Duration::from_millis(12_345)).await;
    env.other_process().operations().stop_dispatch(&acme(), &ada(), "fire").await.unwrap();
    let visible = Instant::now() + STOP_VISIBLE_AFTER.std();
    sleep(Duration::from_mins(30)).await;
    let late = env.system.started.lock().unwrap().iter().filter(|started| **started > visible).count();
    assert_eq!(late, 0);
    assert!(env.started_calls() > 16, "calls were in progress");
    shutdown.cancel();
    assert!(working.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn votes_are_recorded_while_dispatch_is_stopped() {
    let env = DispatchEnv::new();
    let gate = "  - { id: ask, tool: approval.gate, with: { message: 'Go on?' } }\n";
    let run = env.start("acme", "k", &format!("{gate}{}", three_steps())).await;
    env.run_worker(Duration::from_secs(1)).await;
    env.other_process().operations().stop_dispatch(&acme(), &ada(), "fire").await.unwrap();
    sleep(STOP_VISIBLE_AFTER.std()).await;
    env.approve(&run, "grace").await.unwrap();
    env.run_worker(Duration::from_mins(30)).await;
    assert_eq!((env.status(&run).await, env.started_calls()), (RunStatus::Running, 0));
    env.other_process().operations().start_dispatch(&acme(), &ada()).await.unwrap();
    env.run_worker(Duration::from_mins(1)).await;
    assert_eq!((env.status(&run).await, env.started_calls()), (RunStatus::Succeeded, 3));
}

#[tokio::test(start_paused = true)]
async fn one_start_ends_two_stops() {
    let env = DispatchEnv::new();
    let first = env.engine.operations().stop_dispatch(&acme(), &ada(), "fire").await.unwrap();
    sleep(Duration::from_secs(9)).await;
    let grace = Initiator::new(Cause::User, "grace");
    assert_eq!(
        env.other_process().operations().stop_dispatch(&acme(), &grace, "flood").await.unwrap(),
        first
    );
    let tenant = "acme".parse().unwrap();
    let present = env.engine.operations().dispatch(&tenant).await.unwrap();
    assert_eq!(present, DispatchState { fleet: None, tenant: Some(first) });
    env.engine.operations().start_dispatch(&acme(), &grace).await.unwrap();
    assert_eq!(env.engine.operations().dispatch(&tenant).await.unwrap(), DispatchState::default());
}

/// A run in every state that is not terminal.
struct RunsInEveryState {
    queued: RunKey,
    /// It waits for an approval.
    asking: RunKey,
    /// It waits for an event.
    waiting: RunKey,
    /// A worker holds its step.
    held: RunKey,
    waiting_after_effect: RunKey,
    /// The outcome of its step is unknown.
    unknown: RunKey,
    paused: RunKey,
}

async fn start_runs_in_every_state(env: &DispatchEnv) -> RunsInEveryState {
    let wait = "  - { id: wait, tool: wait.event, with: { event: later, timeout: 9h } }\n";
    let gate = "  - { id: ask, tool: approval.gate, with: { message: 'Go on?' } }\n";
    let lost_step = "  - { id: lost, tool: test.lost }\n";
    let asking = env.start("acme", "asks", gate).await;
    let waiting = env.start("acme", "waits", wait).await;
    let waiting_after_effect = env.start("acme", "between", &(slow("a") + wait)).await;
    let unknown = env.start("acme", "lost", lost_step).await;
    let paused = env.start("acme", "paused", &three_steps()).await;
    env.engine.tenant_handle(&paused.tenant, &ada()).pause(&paused.run, "a look").await.unwrap();
    let (shutdown, working) = env.start_worker();
    sleep(Duration::from_secs(30)).await;
    let held = env.start("acme", "held", &three_steps()).await;
    sleep(Duration::from_secs(1)).await;
    shutdown.cancel();
    // It finishes its step; no worker runs when the next one is queued.
    drop(working);
    let queued = env.start("acme", "queued", &three_steps()).await;
    RunsInEveryState { queued, asking, waiting, held, waiting_after_effect, unknown, paused }
}

#[tokio::test(start_paused = true)]
async fn backout_cancels_finishes_or_leaves_each_run() {
    let env = DispatchEnv::new();
    let runs = start_runs_in_every_state(&env).await;
    assert_eq!(env.status(&runs.unknown).await, RunStatus::Paused);
    assert!(matches!(env.record(&runs.held).await.step_state, StepState::Running(_)));
    let mut progress_calls = 0;
    let counts = env
        .other_process()
        .operations()
        .backout(&acme(), &ada(), "wrong release", |_| progress_calls += 1)
        .await
        .unwrap();
    assert_eq!(counts, Backout { canceled: 5, canceling: 1, needs_operator: 1, remaining: 0 });
    assert!(progress_calls >= 7);
    sleep(STOP_VISIBLE_AFTER.std() * 2).await;
    let later = env.start("acme", "later", &three_steps()).await;

    env.run_worker(Duration::from_mins(2)).await;
    for run in
        [&runs.queued, &runs.asking, &runs.waiting, &runs.held, &runs.waiting_after_effect, &runs.paused]
    {
        let record = env.record(run).await;
        assert_eq!(record.status, RunStatus::Canceled, "{run}");
        env.assert_evidence_contains(run, "backout: wrong release").await;
    }
    let held = env.record(&runs.held).await;
    assert_eq!((held.effects.done, held.effects.undone), (1, 1), "it finished its step, and took it back");
    let waiting = env.record(&runs.waiting_after_effect).await;
    assert_eq!((waiting.effects.done, waiting.effects.undone), (1, 0), "what was done before stays done");
    assert_eq!(
        *env.system.present.lock().unwrap(),
        [format!("{} a", runs.waiting_after_effect)],
        "the earlier effect stays"
    );
    assert_eq!(env.status(&runs.unknown).await, RunStatus::Paused);
    assert_eq!((env.status(&later).await, env.dead_letters().await), (RunStatus::Queued, vec![]));

    env.other_process().operations().start_dispatch(&acme(), &ada()).await.unwrap();
    env.run_worker(Duration::from_mins(1)).await;
    assert_eq!(env.status(&later).await, RunStatus::Succeeded, "starting dispatch resumes it");
}

#[tokio::test(start_paused = true)]
async fn second_backout_changes_nothing() {
    let env = DispatchEnv::new();
    let runs = start_runs_in_every_state(&env).await;
    env.engine.operations().backout(&acme(), &ada(), "wrong release", |_| {}).await.unwrap();
    env.run_worker(Duration::from_mins(2)).await;
    let later = env.start("acme", "later", &three_steps()).await;
    let all = [
        &runs.queued,
        &runs.asking,
        &runs.waiting,
        &runs.held,
        &runs.waiting_after_effect,
        &runs.unknown,
        &runs.paused,
    ];
    let mut once = Vec::new();
    for run in all {
        once.push(env.record(run).await);
    }

    let again = env.other_process().operations().backout(&acme(), &ada(), "really", |_| {}).await.unwrap();
    assert_eq!(again, Backout { needs_operator: 1, ..Backout::default() });
    env.run_worker(Duration::from_mins(2)).await;
    for (run, once) in all.into_iter().zip(once) {
        assert_eq!(env.record(run).await, once);
    }
    assert_eq!(env.status(&later).await, RunStatus::Queued, "a run started meanwhile waits");
}

#[tokio::test(start_paused = true)]
async fn backout_reaches_exactly_its_scope() {
    let env = DispatchEnv::new();
    let (mine, theirs) =
        (env.start("acme", "k", &three_steps()).await, env.start("umbrella", "k", &three_steps()).await);
    let counts = env.other_process().operations().backout(&acme(), &ada(), "wrong", |_| {}).await.unwrap();
    assert_eq!(counts, Backout { canceled: 1, ..Backout::default() });
    assert_eq!(
        (env.status(&mine).await, env.status(&theirs).await),
        (RunStatus::Canceled, RunStatus::Queued)
    );
    let counts = env
        .other_process()
        .operations()
        .backout(&DispatchScope::All, &ada(), "all wrong", |_| {})
        .await
        .unwrap();
    assert_eq!(counts, Backout { canceled: 1, ..Backout::default() });
    assert_eq!(env.status(&theirs).await, RunStatus::Canceled);
}

#[tokio::test(start_paused = true)]
async fn backout_ends_when_dispatch_is_started() {
    let env = DispatchEnv::new();
    let mut runs = Vec::new();
    for n in 0..250 {
        runs.push(env.start("acme", &format!("k{n}"), &three_steps()).await);
    }
    let engine = env.other_process();
    let (counts, rest) = engine
        .operations()
        .back_out_part(&DispatchScope::All, (&ada(), &ada()), "wrong", None, |_| {})
        .await
        .unwrap();
    assert!(counts.canceled < 250 && rest.is_some(), "one piece of it: {counts:?}");
    engine.operations().start_dispatch(&DispatchScope::All, &ada()).await.unwrap();
    let late =
        engine.operations().back_out_part(&DispatchScope::All, (&ada(), &ada()), "wrong", rest, |_| {}).await;
    assert!(matches!(late, Err(EngineError::DispatchStartedDuringBackout)), "{late:?}");
    let mut ended = 0;
    for run in &runs {
        ended += u64::from(env.status(run).await == RunStatus::Canceled);
    }
    assert_eq!(ended, counts.canceled);
}

/// A worker died with an effect in progress: no worker may take the step over while dispatch is stopped, and a
/// backout must resolve it before the run can end.
#[tokio::test(start_paused = true)]
async fn backout_resolves_the_effect_of_a_dead_worker() {
    let env = DispatchEnv::new();
    let run = env.start("acme", "k", &three_steps()).await;
    let (_shutdown, working) = env.start_worker();
    sleep(Duration::from_secs(1)).await;
    working.abort();
    let _ = working.await;
    let present: Value = json!(*env.system.present.lock().unwrap());
    env.other_process().operations().stop_dispatch(&acme(), &ada(), "fire").await.unwrap();
    let env = env.restarted();
    env.run_worker(Duration::from_mins(30)).await;
    assert_eq!((env.started_calls(), present), (1, json!([])));
    assert!(matches!(env.record(&run).await.step_state, StepState::Running(_)));

    let counts = env.other_process().operations().backout(&acme(), &ada(), "fire", |_| {}).await.unwrap();
    assert_eq!(counts, Backout { canceling: 1, ..Backout::default() });
    env.run_worker(Duration::from_mins(5)).await;
    let record = env.record(&run).await;
    assert_eq!((record.status, record.effects.done, record.effects.undone), (RunStatus::Canceled, 1, 1));
    assert_eq!(json!(*env.system.present.lock().unwrap()), json!([]));
    env.assert_evidence_contains(&run, "backout: fire").await;
}

#[tokio::test(start_paused = true)]
async fn backout_waits_for_an_authorized_retry() {
    let env = DispatchEnv::new();
    let runs = start_runs_in_every_state(&env).await;
    let engine = env.other_process();
    engine.operations().stop_dispatch(&acme(), &ada(), "fire").await.unwrap();
    engine
        .tenant_handle(&runs.unknown.tenant, &ada())
        .resume(&runs.unknown.run, "try it again")
        .await
        .unwrap();
    assert!(matches!(
        env.record(&runs.unknown).await.step_state,
        StepState::Ready { authorized: Some(_), .. }
    ));

    let counts = engine.operations().backout(&acme(), &ada(), "fire", |_| {}).await.unwrap();
    assert_eq!(counts.needs_operator, 1, "{counts:?}");
    let unknown = env.record(&runs.unknown).await;
    assert!(!unknown.status.is_terminal() && unknown.effects.unknown == 0, "{unknown:?}");
}

#[tokio::test(start_paused = true)]
async fn backout_cancels_runs_started_before_it_is_visible() {
    let env = DispatchEnv::new();
    let engine = env.other_process();
    let backout =
        tokio::spawn(async move { engine.operations().backout(&acme(), &ada(), "fire", |_| {}).await });
    sleep(STOP_VISIBLE_AFTER.std() / 4).await;
    let late = env.start("acme", "late", &three_steps()).await;
    assert_eq!(backout.await.unwrap().unwrap(), Backout { canceled: 1, ..Backout::default() });
    assert_eq!(env.status(&late).await, RunStatus::Canceled);
}

#[tokio::test(start_paused = true)]
async fn worker_old_version_rewrites_record() {
    let env = DispatchEnv::new();
    env.engine.operations().register_record_format().await.unwrap();
    let run = env.start("acme", "k", &three_steps()).await;
    let fleet = env.store().fleet().await.unwrap().unwrap();
    assert_eq!(fleet.format, RECORD_FORMAT);
    let newer = domain::Fleet { format: RECORD_FORMAT + 1, revision: fleet.revision + 1, ..fleet };
    env.store().put_fleet(newer).await.unwrap();

    let before = env.record(&run).await;
    let (_shutdown, working) = env.start_worker();
    assert!(working.await.unwrap(), "it drains by itself");

    assert_eq!((env.record(&run).await, env.started_calls()), (before, 0));
    assert_eq!((env.messages().await, env.dead_letters().await), (1, vec![]));
    let refused = env.other_process().operations().register_record_format().await;
    assert!(matches!(refused, Err(EngineError::UnsupportedRecordFormat { .. })), "{refused:?}");
}
