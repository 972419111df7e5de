//! The switch and the backout, with real workers, in time that passes as soon as everybody waits.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use connectors::{Ask, Call, Done, Outcome, Survey, Tool, Toolbox};
use countersign_worker::{Leave, Worker, WorkerSettings, leaving};
use domain::command::Certainty;
use domain::{
    Action, Approval, Cause, Channel, EffectClass, Failure, FieldChange, IdempotencyKey, Initiator, Live,
    QueueName, Reversibility, RunKey, RunRecord, RunStatus, ToolName,
};
use engine::{
    Backout, Dispatch, Engine, EngineError, HEARD_AFTER, Parts, Reach, Reply, Sealing, StartRun, Timing,
};
use evidence::SigningKey;
use serde_json::{Value, json};
use store::{Governance as _, Ledger as _, Queue as _, SqliteOptions, SqliteStore};
use support::Virtual;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

/// What happened outside: what was done and not taken back, and when each call began.
#[derive(Default)]
struct Outside {
    stands: Mutex<Vec<String>>,
    begun: Mutex<Vec<Instant>>,
    taken_back: AtomicU32,
}

/// Does something that takes a while and can be taken back, or of which nobody knows whether it was done.
struct Slow {
    outside: Arc<Outside>,
    class: EffectClass,
}

const TAKES: Duration = Duration::from_secs(5);

/// One takes 500.
const MORE_THAN_A_SWEEP: usize = 600;

/// A worker that has just come sweeps after five seconds.
const BEFORE_THE_NEXT_SWEEP: Duration = Duration::from_secs(1);

#[async_trait]
impl Tool for Slow {
    fn name(&self) -> ToolName {
        if self.class == EffectClass::Opaque { "test.lost" } else { "test.slow" }.parse().unwrap()
    }

    async fn survey(&self, _ask: &Ask<'_>) -> Survey {
        Survey::NotNeeded
    }

    fn propose(&self, ask: Ask<'_>) -> Result<Action, Failure> {
        let key = IdempotencyKey::for_step(&self.name(), &ask.run.run, ask.step);
        let field = "done".to_owned();
        let change = FieldChange { field, before: None, after: json!(!ask.undo) };
        Ok(Action {
            tool: self.name(),
            contract: 1,
            class: self.class,
            reversibility: Reversibility::Compensable,
            target: "outside".to_owned(),
            key: if ask.undo { key.undo() } else { key },
            key_retention: None,
            changes: vec![change],
            destructive: false,
            estimate_microusd: None,
            fields: json!({ "undo": ask.undo }),
        })
    }

    async fn perform(&self, call: Call<'_>) -> Outcome {
        self.outside.begun.lock().unwrap().push(Instant::now());
        sleep(TAKES).await;
        if self.class == EffectClass::Opaque {
            let failure = Failure::new("GONE", "the line went dead");
            let certainty = Certainty::MayHaveHappened;
            return Outcome::Retryable { failure, certainty, retry_after: None };
        }
        let name = format!("{} {}", call.run, call.step);
        let mut stands = self.outside.stands.lock().unwrap();
        if call.action.fields["undo"] == json!(true) {
            stands.retain(|done| *done != name);
            self.outside.taken_back.fetch_add(1, Ordering::Relaxed);
        } else {
            stands.push(name);
        }
        Outcome::Done(Done::default())
    }
}

struct Scene {
    store: Arc<SqliteStore>,
    clock: Arc<Virtual>,
    outside: Arc<Outside>,
    engine: Arc<Engine<SqliteStore>>,
}

/// Somebody at a keyboard elsewhere.
fn ada() -> Initiator {
    Initiator::new(Cause::User, "ada")
}

fn acme() -> Reach {
    Reach::Tenant("acme".parse().unwrap())
}

/// A step that can be taken back.
fn slow(id: &str) -> String {
    format!("  - {{ id: {id}, tool: test.slow, rollback: {{ tool: test.slow }} }}\n")
}

fn three() -> String {
    ["a", "b", "c"].map(slow).concat()
}

impl Scene {
    fn set() -> Self {
        let clock = Arc::new(Virtual::begin());
        let options = SqliteOptions { clock: clock.clone(), ..SqliteOptions::default() };
        let store = Arc::new(SqliteStore::memory(options).unwrap());
        let outside = Arc::new(Outside::default());
        let engine = Self::process(&store, &clock, &outside);
        Self { store, clock, outside, engine }
    }

    fn process(
        store: &Arc<SqliteStore>,
        clock: &Arc<Virtual>,
        outside: &Arc<Outside>,
    ) -> Arc<Engine<SqliteStore>> {
        let slow = |class| Slow { outside: Arc::clone(outside), class };
        let key = Arc::new(SigningKey::from_seed([7; 32]));
        Arc::new(Engine::new(Parts {
            store: Arc::clone(store),
            tools: Toolbox::default().with(slow(EffectClass::NativeKey)).with(slow(EffectClass::Opaque)),
            clock: clock.clone(),
            me: "w".parse().unwrap(),
            timing: Timing::default(),
            shows: None,
            sealing: Some(Sealing { key, origin: "test".to_owned() }),
        }))
    }

    /// The same from another process, which knows nothing of what this one remembers.
    fn elsewhere(&self) -> Arc<Engine<SqliteStore>> {
        Self::process(&self.store, &self.clock, &self.outside)
    }

    async fn start(&self, tenant: &str, key: &str, steps: &str) -> RunKey {
        let names = self.engine.tools().names().cloned().collect();
        let source = format!("workflow: w\nversion: 1\nenvironment: dev\nsteps:\n{steps}");
        let wish = StartRun {
            tenant: tenant.parse().unwrap(),
            workspace: "main".parse().unwrap(),
            plan: workflow::parse(&source, &names).unwrap(),
            trigger_kind: "test".to_owned(),
            key: key.parse().unwrap(),
            record: None,
            input: json!({}),
            by: Initiator::new(Cause::User, "anna"),
        };
        self.engine.start(wish).await.unwrap().run
    }

    fn employ(&self) -> (Leave, JoinHandle<bool>) {
        let (leave, leaving) = leaving();
        let settings = WorkerSettings::default();
        let worker = Worker::new(Arc::clone(&self.engine), settings, "w".parse().unwrap(), leaving);
        (leave, tokio::spawn(worker.run()))
    }

    /// A worker works for this long.
    async fn work(&self, length: Duration) {
        let (leave, working) = self.employ();
        sleep(length).await;
        leave.ask();
        assert!(working.await.unwrap());
    }

    async fn record(&self, run: &RunKey) -> RunRecord {
        self.store.load(run).await.unwrap().unwrap()
    }

    async fn status(&self, run: &RunKey) -> RunStatus {
        self.record(run).await.status
    }

    fn begun(&self) -> usize {
        self.outside.begun.lock().unwrap().len()
    }

    async fn messages(&self) -> u64 {
        let mut messages = 0;
        for queue in QueueName::ALL {
            messages += self.store.depth(queue).await.unwrap();
        }
        messages
    }

    async fn dead(&self) -> usize {
        self.store.dead_letters(10).await.unwrap().len()
    }

    /// The evidence of a run holds, and tells this of how it ended.
    async fn proves(&self, run: &RunKey, words: &str) {
        let (_, bytes) = self.engine.evidence(run).await.unwrap();
        let verified = evidence::verify(&bytes, &SigningKey::from_seed([7; 32]).public()).unwrap();
        let bundle = serde_json::to_string(verified.bundle()).unwrap();
        assert!(bundle.contains(words), "{bundle}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_begun_for_a_tenant_that_is_stopped_and_all_of_it_after_a_start() {
    let scene = Scene::set();
    scene.elsewhere().stop_dispatch(&acme(), &ada(), "fire").await.unwrap();
    let mut stopped = Vec::new();
    for n in 0..5 {
        stopped.push(scene.start("acme", &format!("k{n}"), &three()).await);
    }
    let other = scene.start("umbrella", "k", &three()).await;

    scene.work(Duration::from_hours(8)).await;
    assert_eq!(scene.status(&other).await, RunStatus::Succeeded);
    assert_eq!(scene.begun(), 3, "those of the other tenant");
    for run in &stopped {
        assert_eq!(scene.status(run).await, RunStatus::Queued);
    }
    assert!(scene.messages().await <= 5, "messages must not pile up while nothing is begun");
    assert_eq!(scene.dead().await, 0, "nor be given up");

    assert_eq!(scene.elsewhere().start_dispatch(&acme(), &ada()).await.unwrap(), 5);
    scene.work(Duration::from_mins(1)).await;
    for run in &stopped {
        assert_eq!(scene.status(run).await, RunStatus::Succeeded);
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_is_not_announced_at_the_start_is_woken_all_the_same() {
    let scene = Scene::set();
    scene.engine.stop_dispatch(&Reach::All, &ada(), "fire").await.unwrap();
    let run = scene.start("acme", "k", &three()).await;
    scene.work(Duration::from_mins(1)).await;
    assert_eq!((scene.status(&run).await, scene.messages().await), (RunStatus::Queued, 0));
    // Whoever starts it dies before it has announced anybody.
    let fleet = scene.store.fleet().await.unwrap().unwrap();
    let started = domain::Fleet { stopped: None, revision: fleet.revision + 1 };
    scene.store.put_fleet(started).await.unwrap();
    scene.work(Duration::from_mins(10)).await;
    assert_eq!(scene.status(&run).await, RunStatus::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn a_stopped_tenant_with_more_runs_than_a_sweep_takes_delays_nobodys_deadline() {
    let scene = Scene::set();
    let wait = "  - { id: wait, tool: wait.event, with: { event: later, timeout: 10m } }\n";
    let other = scene.start("umbrella", "k", wait).await;
    scene.work(Duration::from_secs(1)).await;
    scene.elsewhere().stop_dispatch(&acme(), &ada(), "fire").await.unwrap();
    for n in 0..MORE_THAN_A_SWEEP {
        scene.start("acme", &format!("k{n}"), &three()).await;
    }
    // All of them have been due for longer than the other one when somebody looks.
    sleep(Duration::from_mins(11)).await;
    assert_eq!(scene.status(&other).await, RunStatus::WaitingEvent);

    assert_eq!(scene.engine.sweep(&ada()).await.unwrap().woken, 500);
    scene.work(BEFORE_THE_NEXT_SWEEP).await;
    assert_eq!(scene.status(&other).await, RunStatus::FailedTerminal, "its time was up");
    assert_eq!(scene.begun(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_step_under_way_finishes_and_no_other_is_begun() {
    let scene = Scene::set();
    let run = scene.start("acme", "k", &three()).await;
    let (leave, working) = scene.employ();
    sleep(Duration::from_secs(1)).await;
    scene.elsewhere().stop_dispatch(&Reach::All, &ada(), "fire").await.unwrap();
    sleep(Duration::from_mins(5)).await;
    let record = scene.record(&run).await;
    assert_eq!((record.at.0, record.effects.done, scene.begun()), (1, 1, 1));
    assert!(matches!(record.live, Live::Ready { .. }), "{:?}", record.live);

    scene.elsewhere().start_dispatch(&Reach::All, &ada()).await.unwrap();
    sleep(Duration::from_mins(1)).await;
    assert_eq!((scene.status(&run).await, scene.begun()), (RunStatus::Succeeded, 3));
    leave.ask();
    assert!(working.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_stop_from_elsewhere_is_heard_everywhere_in_time() {
    let scene = Scene::set();
    for n in 0..40 {
        scene.start("acme", &format!("k{n}"), &three()).await;
    }
    let (leave, working) = scene.employ();
    sleep(Duration::from_millis(12_345)).await;
    scene.elsewhere().stop_dispatch(&acme(), &ada(), "fire").await.unwrap();
    let heard = Instant::now() + HEARD_AFTER.std();
    sleep(Duration::from_mins(30)).await;
    let late = scene.outside.begun.lock().unwrap().iter().filter(|begun| **begun > heard).count();
    assert_eq!(late, 0);
    assert!(scene.begun() > 16, "something was under way");
    leave.ask();
    assert!(working.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn people_can_answer_while_it_is_stopped_and_what_they_said_waits() {
    let scene = Scene::set();
    let gate = "  - { id: ask, tool: approval.gate, with: { message: 'Go on?' } }\n";
    let run = scene.start("acme", "k", &format!("{gate}{}", three())).await;
    scene.work(Duration::from_secs(1)).await;
    scene.elsewhere().stop_dispatch(&acme(), &ada(), "fire").await.unwrap();
    sleep(HEARD_AFTER.std()).await;
    let asked: Vec<Approval> = scene.store.approvals(&run).await.unwrap();
    let reply = Reply {
        approval: asked[0].id.clone(),
        subject: Some(asked[0].subject.hash()),
        person: "grace".parse().unwrap(),
        approve: true,
        reason: String::new(),
        through: Channel::CommandLine,
    };
    scene.engine.answer(&run.tenant, reply).await.unwrap();
    scene.work(Duration::from_mins(30)).await;
    assert_eq!((scene.status(&run).await, scene.begun()), (RunStatus::Running, 0));
    scene.elsewhere().start_dispatch(&acme(), &ada()).await.unwrap();
    scene.work(Duration::from_mins(1)).await;
    assert_eq!((scene.status(&run).await, scene.begun()), (RunStatus::Succeeded, 3));
}

#[tokio::test(start_paused = true)]
async fn a_second_stop_changes_nothing_and_one_start_undoes_both() {
    let scene = Scene::set();
    let first = scene.engine.stop_dispatch(&acme(), &ada(), "fire").await.unwrap();
    sleep(Duration::from_secs(9)).await;
    let grace = Initiator::new(Cause::User, "grace");
    assert_eq!(scene.elsewhere().stop_dispatch(&acme(), &grace, "flood").await.unwrap(), first);
    let tenant = "acme".parse().unwrap();
    let stands = scene.engine.dispatch(&tenant).await.unwrap();
    assert_eq!(stands, Dispatch { fleet: None, tenant: Some(first) });
    scene.engine.start_dispatch(&acme(), &grace).await.unwrap();
    assert_eq!(scene.engine.dispatch(&tenant).await.unwrap(), Dispatch::default());
}

/// A run in every place where one can be that is not over.
struct Everywhere {
    queued: RunKey,
    asks: RunKey,
    waits: RunKey,
    held: RunKey,
    between: RunKey,
    lost: RunKey,
    paused: RunKey,
}

async fn everywhere(scene: &Scene) -> Everywhere {
    let wait = "  - { id: wait, tool: wait.event, with: { event: later, timeout: 9h } }\n";
    let gate = "  - { id: ask, tool: approval.gate, with: { message: 'Go on?' } }\n";
    let lost = "  - { id: lost, tool: test.lost }\n";
    let asks = scene.start("acme", "asks", gate).await;
    let waits = scene.start("acme", "waits", wait).await;
    let between = scene.start("acme", "between", &(slow("a") + wait)).await;
    let lost = scene.start("acme", "lost", lost).await;
    let paused = scene.start("acme", "paused", &three()).await;
    scene.engine.pause(&paused, &ada(), "a look").await.unwrap();
    let (leave, working) = scene.employ();
    sleep(Duration::from_secs(30)).await;
    let held = scene.start("acme", "held", &three()).await;
    sleep(Duration::from_secs(1)).await;
    leave.ask();
    // It finishes its step; nobody works when the next is queued.
    drop(working);
    let queued = scene.start("acme", "queued", &three()).await;
    Everywhere { queued, asks, waits, held, between, lost, paused }
}

#[tokio::test(start_paused = true)]
async fn a_backout_ends_what_nobody_holds_finishes_what_somebody_does_and_leaves_the_unknown_to_a_person() {
    let scene = Scene::set();
    let runs = everywhere(&scene).await;
    assert_eq!(scene.status(&runs.lost).await, RunStatus::Paused);
    assert!(matches!(scene.record(&runs.held).await.live, Live::Running(_)));
    let mut heard = 0;
    let told = scene.elsewhere().backout(&acme(), &ada(), "wrong release", |_| heard += 1).await.unwrap();
    assert_eq!(told, Backout { canceled: 5, finishing: 1, need_a_person: 1, left: 0 });
    assert!(heard >= 7);
    sleep(HEARD_AFTER.std() * 2).await;
    let later = scene.start("acme", "later", &three()).await;

    scene.work(Duration::from_mins(2)).await;
    for run in [&runs.queued, &runs.asks, &runs.waits, &runs.held, &runs.between, &runs.paused] {
        let record = scene.record(run).await;
        assert_eq!(record.status, RunStatus::Canceled, "{run}");
        scene.proves(run, "backout: wrong release").await;
    }
    let held = scene.record(&runs.held).await;
    assert_eq!((held.effects.done, held.effects.undone), (1, 1), "it finished its step, and took it back");
    let between = scene.record(&runs.between).await;
    assert_eq!((between.effects.done, between.effects.undone), (1, 0), "what was done before stays done");
    assert_eq!(*scene.outside.stands.lock().unwrap(), [format!("{} a", runs.between)], "and is on record");
    assert_eq!(scene.status(&runs.lost).await, RunStatus::Paused);
    assert_eq!((scene.status(&later).await, scene.dead().await), (RunStatus::Queued, 0));

    scene.elsewhere().start_dispatch(&acme(), &ada()).await.unwrap();
    scene.work(Duration::from_mins(1)).await;
    assert_eq!(scene.status(&later).await, RunStatus::Succeeded, "the way back");
}

#[tokio::test(start_paused = true)]
async fn a_backout_that_is_done_twice_is_the_same_as_one() {
    let scene = Scene::set();
    let runs = everywhere(&scene).await;
    scene.engine.backout(&acme(), &ada(), "wrong release", |_| {}).await.unwrap();
    scene.work(Duration::from_mins(2)).await;
    let later = scene.start("acme", "later", &three()).await;
    let all = [&runs.queued, &runs.asks, &runs.waits, &runs.held, &runs.between, &runs.lost, &runs.paused];
    let mut once = Vec::new();
    for run in all {
        once.push(scene.record(run).await);
    }

    let again = scene.elsewhere().backout(&acme(), &ada(), "really", |_| {}).await.unwrap();
    assert_eq!(again, Backout { need_a_person: 1, ..Backout::default() });
    scene.work(Duration::from_mins(2)).await;
    for (run, once) in all.into_iter().zip(once) {
        assert_eq!(scene.record(run).await, once);
    }
    assert_eq!(scene.status(&later).await, RunStatus::Queued, "what came meanwhile waits");
}

#[tokio::test(start_paused = true)]
async fn a_backout_of_all_reaches_every_tenant_and_one_of_a_tenant_no_other() {
    let scene = Scene::set();
    let (mine, theirs) =
        (scene.start("acme", "k", &three()).await, scene.start("umbrella", "k", &three()).await);
    let told = scene.elsewhere().backout(&acme(), &ada(), "wrong", |_| {}).await.unwrap();
    assert_eq!(told, Backout { canceled: 1, ..Backout::default() });
    assert_eq!(
        (scene.status(&mine).await, scene.status(&theirs).await),
        (RunStatus::Canceled, RunStatus::Queued)
    );
    let told = scene.elsewhere().backout(&Reach::All, &ada(), "all wrong", |_| {}).await.unwrap();
    assert_eq!(told, Backout { canceled: 1, ..Backout::default() });
    assert_eq!(scene.status(&theirs).await, RunStatus::Canceled);
}

#[tokio::test(start_paused = true)]
async fn a_backout_of_all_ends_nobody_after_somebody_has_started_dispatch_again() {
    let scene = Scene::set();
    let mut runs = Vec::new();
    for n in 0..250 {
        runs.push(scene.start("acme", &format!("k{n}"), &three()).await);
    }
    let engine = scene.elsewhere();
    let (told, rest) = engine.back_out_some(&Reach::All, &ada(), "wrong", None, |_| {}).await.unwrap();
    assert!(told.canceled < 250 && rest.is_some(), "one piece of it: {told:?}");
    engine.start_dispatch(&Reach::All, &ada()).await.unwrap();
    let late = engine.back_out_some(&Reach::All, &ada(), "wrong", rest, |_| {}).await;
    assert!(matches!(late, Err(EngineError::BackoutOver)), "{late:?}");
    let mut ended = 0;
    for run in &runs {
        ended += u64::from(scene.status(run).await == RunStatus::Canceled);
    }
    assert_eq!(ended, told.canceled);
}

/// A worker that died with an effect under way: nobody may take the step over while dispatch is stopped, and a backout
/// must settle it before the run can end.
#[tokio::test(start_paused = true)]
async fn an_effect_whose_worker_died_is_settled_by_a_backout_and_not_by_a_stop() {
    let scene = Scene::set();
    let run = scene.start("acme", "k", &three()).await;
    let (_leave, working) = scene.employ();
    sleep(Duration::from_secs(1)).await;
    working.abort();
    let _ = working.await;
    let outside: Value = json!(*scene.outside.stands.lock().unwrap());
    scene.elsewhere().stop_dispatch(&acme(), &ada(), "fire").await.unwrap();
    let scene = Scene { engine: scene.elsewhere(), ..scene };
    scene.work(Duration::from_mins(30)).await;
    assert_eq!((scene.begun(), outside), (1, json!([])));
    assert!(matches!(scene.record(&run).await.live, Live::Running(_)));

    let told = scene.elsewhere().backout(&acme(), &ada(), "fire", |_| {}).await.unwrap();
    assert_eq!(told, Backout { finishing: 1, ..Backout::default() });
    scene.work(Duration::from_mins(5)).await;
    let record = scene.record(&run).await;
    assert_eq!((record.status, record.effects.done, record.effects.undone), (RunStatus::Canceled, 1, 1));
    assert_eq!(json!(*scene.outside.stands.lock().unwrap()), json!([]));
    scene.proves(&run, "backout: fire").await;
}

#[tokio::test(start_paused = true)]
async fn a_backout_gives_up_on_no_effect_that_somebody_said_to_try_again() {
    let scene = Scene::set();
    let runs = everywhere(&scene).await;
    let engine = scene.elsewhere();
    engine.stop_dispatch(&acme(), &ada(), "fire").await.unwrap();
    engine.resume(&runs.lost, &ada(), "try it again").await.unwrap();
    assert!(matches!(scene.record(&runs.lost).await.live, Live::Ready { authorised: Some(_), .. }));

    let told = engine.backout(&acme(), &ada(), "fire", |_| {}).await.unwrap();
    assert_eq!(told.need_a_person, 1, "{told:?}");
    let lost = scene.record(&runs.lost).await;
    assert!(!lost.status.is_terminal() && lost.effects.unknown == 0, "{lost:?}");
}

#[tokio::test(start_paused = true)]
async fn a_backout_ends_what_came_before_everybody_had_heard_of_it() {
    let scene = Scene::set();
    let engine = scene.elsewhere();
    let backout = tokio::spawn(async move { engine.backout(&acme(), &ada(), "fire", |_| {}).await });
    sleep(HEARD_AFTER.std() / 4).await;
    let late = scene.start("acme", "late", &three()).await;
    assert_eq!(backout.await.unwrap().unwrap(), Backout { canceled: 1, ..Backout::default() });
    assert_eq!(scene.status(&late).await, RunStatus::Canceled);
}
