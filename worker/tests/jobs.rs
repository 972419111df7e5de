//! Jobs that cannot be done at once are retried.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use connectors::ToolRegistry;
use countersign_worker::{CancellationToken, Worker, WorkerSettings};
use domain::tenant::Person;
use domain::{
    Approval, ApprovalId, Card, Cause, Channel, Initiator, Job, Millis, Outgoing, QueueName, RunKey, Tenant,
    Timestamp, ToolName, TraceContext,
};
use engine::{
    Again, ApprovalNotifier, Engine, EngineParts, Notifier, NotifyFailure, StartRun, Timing, VoteRequest,
};
use serde_json::json;
use store::{Governance as _, Queue as _, SqliteOptions, SqliteStore, trace};
use support::Virtual;

const ASKS: &str =
    "workflow: w\nversion: 1\nsteps:\n  - { id: ask, tool: approval.gate, with: { message: 'Go on?' } }\n";

/// Slack, as a fake notifier.
#[derive(Default)]
struct Screen {
    down: AtomicBool,
    tries: AtomicU32,
    shown: AtomicBool,
}

#[async_trait]
impl ApprovalNotifier for Screen {
    async fn show(&self, approval: &Approval, _card: Option<&Card>) -> Result<Card, NotifyFailure> {
        self.tries.fetch_add(1, Ordering::Relaxed);
        if self.down.load(Ordering::Relaxed) {
            let (approval, why) = (approval.id.clone(), "too many requests".to_owned());
            let again = Again::After(Some(Millis::mins(2)));
            return Err(NotifyFailure { approval, why, so_far: None, again });
        }
        self.shown.store(true, Ordering::Relaxed);
        let registration = "C0/1".to_owned();
        Ok(Card { message: registration, revision: approval.revision, reminders: 0, escalated: false })
    }
}

struct TestEnv {
    engine: Arc<Engine<SqliteStore>>,
    run: RunKey,
}

impl TestEnv {
    async fn set(people: &[&str], notifier: Notifier) -> Self {
        let clock = Arc::new(Virtual::begin());
        let options = SqliteOptions { clock: clock.clone(), ..SqliteOptions::default() };
        let engine = Engine::new(EngineParts {
            store: Arc::new(SqliteStore::memory(options).unwrap()),
            tools: ToolRegistry::default(),
            clock,
            me: "w".parse().unwrap(),
            timing: Timing::default(),
            notifier,
            evidence_signer: None,
        });
        let mut tenant = Tenant::new("acme".parse().unwrap());
        let known = |name: &&str| (name.parse().unwrap(), Person { slack: Some(format!("T0:{name}")) });
        tenant.people.extend(people.iter().map(known));
        engine.store().put_tenant(tenant).await.unwrap();
        let request = StartRun {
            tenant: "acme".parse().unwrap(),
            workspace: "main".parse().unwrap(),
            plan: workflow::parse(ASKS, &BTreeSet::<ToolName>::new()).unwrap(),
            trigger_kind: "test".to_owned(),
            record: None,
            key: "k".parse().unwrap(),
            input: json!({}),
            by: Initiator::new(Cause::User, "anna"),
        };
        let run = engine.admission().start(request).await.unwrap().run;
        Self { engine: Arc::new(engine), run }
    }

    /// Runs a worker for this long.
    async fn work(&self, mins: u64) {
        let shutdown = CancellationToken::new();
        let settings = WorkerSettings::default();
        let worker = Worker::new(Arc::clone(&self.engine), settings, "w".parse().unwrap(), shutdown.clone());
        let working = tokio::spawn(worker.run());
        tokio::time::sleep(Duration::from_mins(mins)).await;
        shutdown.cancel();
        assert!(working.await.unwrap());
    }

    /// Approves the run's request.
    async fn approve(&self, person: &str) {
        let asked = self.engine.store().approvals(&self.run).await.unwrap().pop().unwrap();
        let reply = VoteRequest {
            approval: asked.id,
            subject: None,
            person: person.parse().unwrap(),
            approve: true,
            reason: String::new(),
            through: Channel::CommandLine,
        };
        self.engine.governance().answer(&self.run.tenant, reply).await.unwrap();
    }

    async fn dead(&self) -> usize {
        self.engine.store().dead_letters(10).await.unwrap().len()
    }

    async fn waiting(&self) -> u64 {
        self.engine.store().jobs(Timestamp(i64::MAX)).await.unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn approval_requests_survive_a_long_slack_outage() {
    let screen = Arc::new(Screen::default());
    screen.down.store(true, Ordering::Relaxed);
    let env = TestEnv::set(&["ben"], Some(screen.clone())).await;
    env.work(25).await;
    let tries = screen.tries.load(Ordering::Relaxed);
    // Reminders are jobs of their own.
    assert!((3..=25).contains(&tries), "{tries} tries in twenty-five minutes");
    assert!(env.dead().await == 0 && env.waiting().await > 0);

    screen.down.store(false, Ordering::Relaxed);
    env.work(10).await;
    assert!(screen.shown.load(Ordering::Relaxed));
    assert_eq!((env.dead().await, env.waiting().await), (0, 0), "{}", env.run);
}

/// A store may send a job before its commit, and the commit may then fail.
#[tokio::test(start_paused = true)]
async fn a_job_without_its_commit_is_retried_then_dropped() {
    let env = TestEnv::set(&["ben"], Some(Arc::new(Screen::default()))).await;
    env.work(1).await;
    let never = Job::NotifyApproval(ApprovalId::derive(&env.run, 7));
    let message =
        Outgoing { run: env.run.clone(), queue: QueueName::Decisions, job: never, delay: Millis(0) };
    env.engine.store().send(&message).await.unwrap();
    env.work(1).await;
    assert_eq!(env.waiting().await, 1, "it may still be too early");
    env.work(2).await;
    assert_eq!((env.dead().await, env.waiting().await), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_worker_without_slack_leaves_the_message_to_others() {
    let env = TestEnv::set(&["ben"], None).await;
    env.work(20).await;
    assert!(env.dead().await == 0 && env.waiting().await > 0);
}

/// A worker continues the trace of the message, with a span of its own.
#[tokio::test(start_paused = true)]
async fn messages_continue_the_trace_of_their_cause() {
    let elsewhere: TraceContext = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse().unwrap();
    let env = trace::with_context(elsewhere, TestEnv::set(&["ben"], None)).await;
    env.work(1).await;
    tokio::time::advance(Duration::from_hours(1)).await;
    let asked = env.engine.store().receive(QueueName::Decisions, 1, Millis::secs(1), Duration::ZERO).await;
    let [message] = &*asked.unwrap() else { panic!("one message") };
    assert_eq!(message.trace.trace_id(), elsewhere.trace_id());
    assert_ne!(message.trace.span_id(), elsewhere.span_id());
    // Much later a person votes, without a trace context.
    env.approve("ben").await;
    let over = env.engine.store().receive(QueueName::Steps, 10, Millis::secs(1), Duration::ZERO).await;
    let [message] = &*over.unwrap() else { panic!("one message") };
    assert_eq!((&message.job, message.trace), (&Job::BuildEvidence, elsewhere));
}

#[tokio::test(start_paused = true)]
async fn without_slack_users_nothing_waits_to_be_posted() {
    let env = TestEnv::set(&[], None).await;
    env.work(1).await;
    assert_eq!((env.dead().await, env.waiting().await), (0, 0));
}
