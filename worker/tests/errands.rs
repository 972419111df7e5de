//! Errands that cannot be done at once: whoever waits to be shown something is not given up.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use connectors::Toolbox;
use countersign_worker::{Worker, WorkerSettings, leaving};
use domain::tenant::Person;
use domain::{
    Approval, ApprovalId, Card, Cause, Channel, Initiator, Job, Millis, Outgoing, QueueName, RunKey, Tenant,
    Timestamp, ToolName, TraceContext,
};
use engine::{Again, Engine, NotShown, Parts, Reply, Showing, Shows, StartRun, Timing};
use serde_json::json;
use store::{Governance as _, Queue as _, SqliteOptions, SqliteStore, trace};
use support::Virtual;

const ASKS: &str =
    "workflow: w\nversion: 1\nsteps:\n  - { id: ask, tool: approval.gate, with: { message: 'Go on?' } }\n";

/// Slack, as far as anybody notices.
#[derive(Default)]
struct Screen {
    down: AtomicBool,
    tries: AtomicU32,
    shown: AtomicBool,
}

#[async_trait]
impl Shows for Screen {
    async fn show(&self, approval: &Approval, _card: Option<&Card>) -> Result<Card, NotShown> {
        self.tries.fetch_add(1, Ordering::Relaxed);
        if self.down.load(Ordering::Relaxed) {
            let (approval, why) = (approval.id.clone(), "too many requests".to_owned());
            let again = Again::After(Some(Millis::mins(2)));
            return Err(NotShown { approval, why, so_far: None, again });
        }
        self.shown.store(true, Ordering::Relaxed);
        let place = "C0/1".to_owned();
        Ok(Card { place, shown: approval.revision, reminders: 0, escalated: false })
    }
}

struct Scene {
    engine: Arc<Engine<SqliteStore>>,
    run: RunKey,
}

impl Scene {
    async fn set(people: &[&str], shows: Showing) -> Self {
        let clock = Arc::new(Virtual::begin());
        let options = SqliteOptions { clock: clock.clone(), ..SqliteOptions::default() };
        let engine = Engine::new(Parts {
            store: Arc::new(SqliteStore::memory(options).unwrap()),
            tools: Toolbox::default(),
            clock,
            me: "w".parse().unwrap(),
            timing: Timing::default(),
            shows,
            sealing: None,
        });
        let mut tenant = Tenant::new("acme".parse().unwrap());
        let known = |name: &&str| (name.parse().unwrap(), Person { slack: Some(format!("T0:{name}")) });
        tenant.people.extend(people.iter().map(known));
        engine.store().put_tenant(tenant).await.unwrap();
        let wish = StartRun {
            tenant: "acme".parse().unwrap(),
            workspace: "main".parse().unwrap(),
            plan: workflow::parse(ASKS, &BTreeSet::<ToolName>::new()).unwrap(),
            trigger_kind: "test".to_owned(),
            record: None,
            key: "k".parse().unwrap(),
            input: json!({}),
            by: Initiator::new(Cause::User, "anna"),
        };
        let run = engine.start(wish).await.unwrap().run;
        Self { engine: Arc::new(engine), run }
    }

    /// A worker works for this long.
    async fn work(&self, mins: u64) {
        let (leave, leaving) = leaving();
        let settings = WorkerSettings::default();
        let worker = Worker::new(Arc::clone(&self.engine), settings, "w".parse().unwrap(), leaving);
        let working = tokio::spawn(worker.run());
        tokio::time::sleep(Duration::from_mins(mins)).await;
        leave.ask();
        assert!(working.await.unwrap());
    }

    /// WorkerReport yes to what the run asks.
    async fn approve(&self, person: &str) {
        let asked = self.engine.store().approvals(&self.run).await.unwrap().pop().unwrap();
        let reply = Reply {
            approval: asked.id,
            subject: None,
            person: person.parse().unwrap(),
            approve: true,
            reason: String::new(),
            through: Channel::CommandLine,
        };
        self.engine.answer(&self.run.tenant, reply).await.unwrap();
    }

    async fn dead(&self) -> usize {
        self.engine.store().dead_letters(10).await.unwrap().len()
    }

    async fn waiting(&self) -> u64 {
        self.engine.store().jobs(Timestamp(i64::MAX)).await.unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn people_are_shown_what_they_are_asked_however_long_slack_was_down() {
    let screen = Arc::new(Screen::default());
    screen.down.store(true, Ordering::Relaxed);
    let scene = Scene::set(&["ben"], Some(screen.clone())).await;
    scene.work(25).await;
    let tries = screen.tries.load(Ordering::Relaxed);
    // Reminders are jobs of their own.
    assert!((3..=25).contains(&tries), "{tries} tries in twenty-five minutes");
    assert!(scene.dead().await == 0 && scene.waiting().await > 0);

    screen.down.store(false, Ordering::Relaxed);
    scene.work(10).await;
    assert!(screen.shown.load(Ordering::Relaxed));
    assert_eq!((scene.dead().await, scene.waiting().await), (0, 0), "{}", scene.run);
}

/// A store may send an job before its commit, and the commit may then not stand.
#[tokio::test(start_paused = true)]
async fn what_asks_to_show_a_request_that_was_never_made_comes_again_and_is_then_dropped() {
    let scene = Scene::set(&["ben"], Some(Arc::new(Screen::default()))).await;
    scene.work(1).await;
    let never = Job::NotifyApproval(ApprovalId::derive(&scene.run, 7));
    let message =
        Outgoing { run: scene.run.clone(), queue: QueueName::Decisions, job: never, delay: Millis(0) };
    scene.engine.store().send(&message).await.unwrap();
    scene.work(1).await;
    assert_eq!(scene.waiting().await, 1, "it may still be too early");
    scene.work(2).await;
    assert_eq!((scene.dead().await, scene.waiting().await), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_worker_without_slack_leaves_it_to_others_to_show_people_something() {
    let scene = Scene::set(&["ben"], None).await;
    scene.work(20).await;
    assert!(scene.dead().await == 0 && scene.waiting().await > 0);
}

/// Whoever walks a run goes on with the story of the message, at a place of their own.
#[tokio::test(start_paused = true)]
async fn what_a_walk_sends_belongs_to_the_story_that_led_to_it() {
    let elsewhere: TraceContext = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse().unwrap();
    let scene = trace::within(elsewhere, Scene::set(&["ben"], None)).await;
    scene.work(1).await;
    tokio::time::advance(Duration::from_hours(1)).await;
    let asked = scene.engine.store().receive(QueueName::Decisions, 1, Millis::secs(1), Duration::ZERO).await;
    let [message] = &*asked.unwrap() else { panic!("one message") };
    assert_eq!(message.trace.trace_id(), elsewhere.trace_id());
    assert_ne!(message.trace.span_id(), elsewhere.span_id());
    // Much later a person answers, who tells of no work of theirs.
    scene.approve("ben").await;
    let over = scene.engine.store().receive(QueueName::Steps, 10, Millis::secs(1), Duration::ZERO).await;
    let [message] = &*over.unwrap() else { panic!("one message") };
    assert_eq!((&message.job, message.trace), (&Job::BuildEvidence, elsewhere));
}

#[tokio::test(start_paused = true)]
async fn where_nobody_is_known_to_slack_nobody_waits_to_be_shown_anything() {
    let scene = Scene::set(&[], None).await;
    scene.work(1).await;
    assert_eq!((scene.dead().await, scene.waiting().await), (0, 0));
}
