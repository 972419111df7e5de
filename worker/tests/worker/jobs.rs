//! Jobs that cannot be done at once are retried.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use domain::approval::PagerStatus;
use domain::tenant::Person;
use domain::{
    Approval, ApprovalId, Card, Job, Millis, Outgoing, QueueName, RunKey, Tenant, Timestamp, TraceContext,
};
use engine::{ApprovalNotifier, Engine, Notifier, NotifyFailure, RetryHint};
use store::{Governance as _, Queue as _, SqliteStore, trace};
use testkit::TestClock;

use crate::support;

#[derive(Default)]
struct FakeNotifier {
    down: AtomicBool,
    attempts: AtomicU32,
    posted: AtomicBool,
}

#[async_trait]
impl ApprovalNotifier for FakeNotifier {
    async fn notify(&self, approval: &Approval, _card: Option<&Card>) -> Result<Card, NotifyFailure> {
        self.attempts.fetch_add(1, Ordering::Relaxed);
        if self.down.load(Ordering::Relaxed) {
            let (approval, why) = (approval.id.clone(), "too many requests".to_owned());
            let retry = RetryHint::After(Some(Millis::mins(2)));
            return Err(NotifyFailure { approval, why, so_far: None, retry });
        }
        self.posted.store(true, Ordering::Relaxed);
        let message = "C0/1".to_owned();
        let (revision, page) = (approval.revision, PagerStatus::NotPaged);
        Ok(Card { message, revision, reminders: 0, escalated: false, page })
    }
}

struct TestEnv {
    engine: Arc<Engine<SqliteStore>>,
    run: RunKey,
}

impl TestEnv {
    async fn new(people: &[&str], notifier: Notifier) -> Self {
        let engine = testkit::engine().clock(TestClock::runtime()).notifier(notifier).build();
        let mut tenant = Tenant::new("acme".parse().unwrap());
        let person = |name: &&str| {
            (name.parse().unwrap(), Person { slack: Some(format!("T0:{name}")), ..Person::default() })
        };
        tenant.people.extend(people.iter().map(person));
        engine.store().put_tenant(tenant).await.unwrap();
        let run = testkit::start(&engine, testkit::ASK, "k").await;
        Self { engine: Arc::new(engine), run }
    }

    /// Runs a worker for this long.
    async fn run_worker(&self, mins: u64) {
        assert!(support::run_worker(&self.engine, Duration::from_mins(mins)).await);
    }

    /// Approves the run's request.
    async fn approve(&self, person: &str) {
        testkit::approve(&self.engine, &self.run, person).await.unwrap();
    }

    async fn dead_letters(&self) -> usize {
        testkit::dead_letters(self.engine.store().as_ref()).await.len()
    }

    async fn pending_jobs(&self) -> u64 {
        self.engine.store().jobs(Timestamp(i64::MAX)).await.unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn approval_requests_survive_a_long_slack_outage() {
    let notifier = Arc::new(FakeNotifier::default());
    notifier.down.store(true, Ordering::Relaxed);
    let env = TestEnv::new(&["ben"], Some(notifier.clone())).await;
    env.run_worker(25).await;
    let attempts = notifier.attempts.load(Ordering::Relaxed);
    // Reminders are jobs of their own.
    assert!((3..=25).contains(&attempts), "{attempts} attempts in twenty-five minutes");
    assert!(env.dead_letters().await == 0 && env.pending_jobs().await > 0);

    notifier.down.store(false, Ordering::Relaxed);
    env.run_worker(10).await;
    assert!(notifier.posted.load(Ordering::Relaxed));
    assert_eq!((env.dead_letters().await, env.pending_jobs().await), (0, 0), "{}", env.run);
}

/// A store may send a job before its commit, and the commit may then fail.
#[tokio::test(start_paused = true)]
async fn job_without_its_commit_is_retried_then_dropped() {
    let env = TestEnv::new(&["ben"], Some(Arc::new(FakeNotifier::default()))).await;
    env.run_worker(1).await;
    for (number, revision) in [(7, 1), (0, 9)] {
        let job = Job::NotifyApproval { approval: ApprovalId::derive(&env.run, number), revision };
        let message = Outgoing { run: env.run.clone(), queue: QueueName::Decisions, job, delay: Millis(0) };
        env.engine.store().send(&message).await.unwrap();
        env.run_worker(1).await;
        assert_eq!(env.pending_jobs().await, 1, "it may still be too early");
        env.run_worker(2).await;
        assert_eq!((env.dead_letters().await, env.pending_jobs().await), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn worker_without_slack_leaves_the_message_to_others() {
    let env = TestEnv::new(&["ben"], None).await;
    env.run_worker(20).await;
    assert!(env.dead_letters().await == 0 && env.pending_jobs().await > 0);
}

/// A worker continues the trace of the message, with a span of its own.
#[tokio::test(start_paused = true)]
async fn messages_continue_the_trace_of_their_cause() {
    let parent: TraceContext = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse().unwrap();
    let env = trace::with_context(parent, TestEnv::new(&["ben"], None)).await;
    env.run_worker(1).await;
    tokio::time::advance(Duration::from_hours(1)).await;
    let received = env.engine.store().receive(QueueName::Decisions, 1, Millis::secs(1), Duration::ZERO).await;
    let [message] = &*received.unwrap() else { panic!("one message") };
    assert_eq!(message.trace.trace_id(), parent.trace_id());
    assert_ne!(message.trace.span_id(), parent.span_id());
    // Much later a person votes, without a trace context.
    env.approve("ben").await;
    let received = env.engine.store().receive(QueueName::Steps, 10, Millis::secs(1), Duration::ZERO).await;
    let [message] = &*received.unwrap() else { panic!("one message") };
    assert_eq!((&message.job, message.trace), (&Job::BuildEvidence, parent));
}

#[tokio::test(start_paused = true)]
async fn without_slack_users_nothing_waits_to_be_posted() {
    let env = TestEnv::new(&[], None).await;
    env.run_worker(1).await;
    assert_eq!((env.dead_letters().await, env.pending_jobs().await), (0, 0));
}
