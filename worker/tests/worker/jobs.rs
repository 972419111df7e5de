//! Jobs that cannot be done at once are retried.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use domain::tenant::Person;
use domain::{
    Approval, ApprovalId, Card, Job, Millis, Outgoing, Page, PageStatus, QueueName, RunKey, Timestamp,
    TraceContext,
};
use engine::{ApprovalNotifier, Notifier, NotifyContext, NotifyFailure, RetryHint};
use store::{Governance as _, Queue as _, trace};
use testkit::{TestClock, TestEnv, acme};

use crate::support;

#[derive(Default)]
struct FakeNotifier {
    down: AtomicBool,
    attempts: AtomicU32,
    posted: AtomicBool,
    pager_down: AtomicBool,
    paged: AtomicBool,
    resolved: AtomicBool,
}

impl FakeNotifier {
    fn failure(approval: &Approval, why: &str) -> NotifyFailure {
        let retry = RetryHint::After(Some(Millis::mins(2)));
        NotifyFailure { approval: approval.id.clone(), why: why.to_owned(), so_far: None, retry }
    }
}

#[async_trait]
impl ApprovalNotifier for FakeNotifier {
    async fn notify(
        &self,
        approval: &Approval,
        _card: Option<&Card>,
        _context: &NotifyContext<'_>,
    ) -> Result<Option<Card>, NotifyFailure> {
        self.attempts.fetch_add(1, Ordering::Relaxed);
        if self.down.load(Ordering::Relaxed) {
            return Err(Self::failure(approval, "too many requests"));
        }
        self.posted.store(true, Ordering::Relaxed);
        let message = "C0/1".to_owned();
        let revision = approval.revision;
        Ok(Some(Card { message, connection: None, revision, reminders: 0, escalated: false }))
    }

    async fn page(
        &self,
        approval: &Approval,
        _page: Option<&Page>,
        _context: &NotifyContext<'_>,
    ) -> Result<Option<Page>, NotifyFailure> {
        if self.pager_down.load(Ordering::Relaxed) {
            return Err(Self::failure(approval, "no reply"));
        }
        let (sent, status) = if approval.is_open() {
            (&self.paged, PageStatus::Paged)
        } else {
            (&self.resolved, PageStatus::Resolved)
        };
        sent.store(true, Ordering::Relaxed);
        Ok(Some(Page { status, connection: None }))
    }
}

/// A run that waits for an approval by one of `people`, who all use Slack.
async fn asking_env(people: &[&str], notifier: Notifier) -> (TestEnv, RunKey) {
    let env = testkit::engine().clock(TestClock::runtime()).notifier(notifier).env();
    let person = |name: &&str| {
        (name.parse().unwrap(), Person { slack: Some(format!("T0:{name}")), ..Person::default() })
    };
    env.update_tenant(&acme(), |tenant| tenant.people.extend(people.iter().map(person))).await;
    let run = env.start(testkit::ASK, "k").await;
    (env, run)
}

/// Runs a worker for this long.
async fn run_worker(env: &TestEnv, mins: u64) {
    assert!(support::run_worker(&env.engine, Duration::from_mins(mins)).await);
}

/// The number of dead letters, and of jobs that are not done.
async fn jobs(env: &TestEnv) -> (usize, u64) {
    (env.dead_letters().await.len(), env.store().jobs(Timestamp(i64::MAX)).await.unwrap())
}

#[tokio::test(start_paused = true)]
async fn approval_requests_survive_a_long_slack_outage() {
    let notifier = Arc::new(FakeNotifier::default());
    notifier.down.store(true, Ordering::Relaxed);
    let (env, run) = asking_env(&["ben"], Some(notifier.clone())).await;
    run_worker(&env, 25).await;
    let attempts = notifier.attempts.load(Ordering::Relaxed);
    // Reminders are jobs of their own.
    assert!((3..=25).contains(&attempts), "{attempts} attempts in twenty-five minutes");
    assert!(matches!(jobs(&env).await, (0, 1..)));

    notifier.down.store(false, Ordering::Relaxed);
    run_worker(&env, 10).await;
    assert!(notifier.posted.load(Ordering::Relaxed));
    assert_eq!(jobs(&env).await, (0, 0), "{run}");
}

/// The record of the page of the run's approval.
async fn page(env: &TestEnv, run: &RunKey) -> Option<PageStatus> {
    let id = ApprovalId::derive(run, 0);
    env.store().page(&run.tenant, &id).await.unwrap().map(|page| page.status)
}

#[tokio::test(start_paused = true)]
async fn on_call_is_paged_while_slack_is_down() {
    let notifier = Arc::new(FakeNotifier::default());
    notifier.down.store(true, Ordering::Relaxed);
    let (env, run) = asking_env(&["ben"], Some(notifier.clone())).await;
    // The approval is overdue after ten minutes.
    run_worker(&env, 15).await;
    assert!(notifier.paged.load(Ordering::Relaxed) && !notifier.posted.load(Ordering::Relaxed));
    assert_eq!(page(&env, &run).await, Some(PageStatus::Paged));

    env.approve(&run, "ben").await.unwrap();
    run_worker(&env, 1).await;
    assert!(notifier.resolved.load(Ordering::Relaxed) && !notifier.posted.load(Ordering::Relaxed));
    assert_eq!(page(&env, &run).await, Some(PageStatus::Resolved));
    assert_eq!(jobs(&env).await.0, 0);
}

#[tokio::test(start_paused = true)]
async fn card_is_posted_while_the_pager_is_down() {
    let notifier = Arc::new(FakeNotifier::default());
    notifier.pager_down.store(true, Ordering::Relaxed);
    let (env, run) = asking_env(&["ben"], Some(notifier.clone())).await;
    run_worker(&env, 25).await;
    let card = env.store().card(&run.tenant, &ApprovalId::derive(&run, 0)).await.unwrap();
    let approval = env.approval(&run).await;
    assert!(approval.escalated_at.is_some());
    assert_eq!(card.map(|card| card.revision), Some(approval.revision), "the card shows the escalation");
    assert_eq!((page(&env, &run).await, jobs(&env).await.0), (None, 0));

    notifier.pager_down.store(false, Ordering::Relaxed);
    run_worker(&env, 10).await;
    assert_eq!(page(&env, &run).await, Some(PageStatus::Paged));
    assert_eq!(jobs(&env).await, (0, 0));
}

/// A store may send a job before its commit, and the commit may then fail.
#[tokio::test(start_paused = true)]
async fn job_without_its_commit_is_retried_then_dropped() {
    let (env, run) = asking_env(&["ben"], Some(Arc::new(FakeNotifier::default()))).await;
    run_worker(&env, 1).await;
    for (number, revision) in [(7, 1), (0, 9)] {
        let job = Job::NotifyApproval { approval: ApprovalId::derive(&run, number), revision };
        let message = Outgoing { run: run.clone(), queue: QueueName::Decisions, job, delay: Millis(0) };
        env.store().send(&message).await.unwrap();
        run_worker(&env, 1).await;
        assert_eq!(jobs(&env).await, (0, 1), "it may still be too early");
        run_worker(&env, 2).await;
        assert_eq!(jobs(&env).await, (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn worker_without_slack_leaves_the_message_to_others() {
    let (env, _) = asking_env(&["ben"], None).await;
    run_worker(&env, 20).await;
    assert!(matches!(jobs(&env).await, (0, 1..)));
}

/// A worker continues the trace of the message, with a span of its own.
#[tokio::test(start_paused = true)]
async fn messages_continue_the_trace_of_their_cause() {
    let parent: TraceContext = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse().unwrap();
    let (env, run) = trace::with_context(parent, asking_env(&["ben"], None)).await;
    run_worker(&env, 1).await;
    tokio::time::advance(Duration::from_hours(1)).await;
    let received = env.store().receive(QueueName::Decisions, 1, Millis::secs(1), Duration::ZERO).await;
    let [message] = &*received.unwrap() else { panic!("one message") };
    assert_eq!(message.trace.trace_id(), parent.trace_id());
    assert_ne!(message.trace.span_id(), parent.span_id());
    // Much later a person votes, without a trace context.
    env.approve(&run, "ben").await.unwrap();
    let received = env.store().receive(QueueName::Steps, 10, Millis::secs(1), Duration::ZERO).await;
    let [message] = &*received.unwrap() else { panic!("one message") };
    assert_eq!((&message.job, message.trace), (&Job::BuildEvidence, parent));
}

#[tokio::test(start_paused = true)]
async fn without_slack_users_nothing_waits_to_be_posted() {
    let (env, _) = asking_env(&[], None).await;
    run_worker(&env, 1).await;
    assert_eq!(jobs(&env).await, (0, 0));
}
