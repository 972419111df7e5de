//! Errands outlive whoever committed them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use countersign_store::aws::{AwsParts, AwsStore};
use countersign_store::{
    Archive as _, Clock as _, DeadLetter, Delivery, Handle, Inbox as _, Ledger, Queue, SqliteStore,
    StoreError, SystemClock, Write,
};
use domain::command::Cancel;
use domain::{
    Applied, BlobRef, Cause, Digest, Evidence, Initiator, Job, Millis, Outgoing, QueueName, RunKey,
    RunRecord, Timestamp, TraceContext,
};
use tracing::instrument::WithSubscriber as _;

use crate::Own;
use crate::account::Account;
use crate::heard::Heard;
use crate::run::{begin, decide, tenant};

pub(crate) fn cases() -> Vec<(&'static str, Own)> {
    vec![
        ("an_errand_that_was_not_sent_is_sent_by_the_sweep_and_once", |account| {
            Box::pin(an_errand_that_was_not_sent_is_sent_by_the_sweep_and_once(account))
        }),
        ("evidence_is_asked_for_again_until_it_is_recorded", |account| {
            Box::pin(evidence_is_asked_for_again_until_it_is_recorded(account))
        }),
        ("evidence_that_nobody_put_together_when_asked_again_is_asked_for_once_more", |account| {
            Box::pin(evidence_that_nobody_put_together_when_asked_again_is_asked_for_once_more(account))
        }),
        ("evidence_of_a_run_that_was_not_due_for_days_is_asked_for_soon", |account| {
            Box::pin(evidence_of_a_run_that_was_not_due_for_days_is_asked_for_soon(account))
        }),
        (
            "many_runs_without_evidence_hide_none_that_is_due_and_many_that_are_due_hide_no_evidence",
            |account| Box::pin(many_runs_of_one_kind_hide_none_of_the_other(account)),
        ),
        ("what_cannot_be_read_keeps_nothing_else_from_being_sent", |account| {
            Box::pin(what_cannot_be_read_keeps_nothing_else_from_being_sent(account))
        }),
        ("what_cannot_be_sent_keeps_nothing_else_from_being_sent", |account| {
            Box::pin(what_cannot_be_sent_keeps_nothing_else_from_being_sent(account))
        }),
        ("a_schedule_that_cannot_be_read_keeps_no_other_from_coming_round", |account| {
            Box::pin(a_schedule_that_cannot_be_read_keeps_no_other_from_coming_round(account))
        }),
        ("a_message_that_is_not_sent_is_logged_with_what_it_asks_for", |account| {
            Box::pin(a_message_that_is_not_sent_is_logged_with_what_it_asks_for(account))
        }),
        ("a_walk_that_was_not_sent_is_found_by_the_due_index", |account| {
            Box::pin(a_walk_that_was_not_sent_is_found_by_the_due_index(account))
        }),
    ]
}

/// Later than any job waits.
const FAR_AHEAD: Timestamp = Timestamp(i64::MAX / 2);

async fn an_errand_that_was_not_sent_is_sent_by_the_sweep_and_once(account: Account) {
    let (store, down) = store(&account);
    let led_here = TraceContext::of_run(&begin(&store, "another").await.key);
    let record = RunRecord { trace: Some(led_here), ..begin(&store, "request").await };
    down.store(true, Ordering::Relaxed);
    let canceled = decide(record, Cancel { reason: "enough".to_owned() });
    assert_eq!(store.commit(canceled.clone()).await.unwrap(), Write::Committed);
    assert!(store.flush_outbox(FAR_AHEAD, 10).await.is_err());
    down.store(false, Ordering::Relaxed);
    assert_eq!(store.flush_outbox(Timestamp(0), 10).await.unwrap(), 0);

    assert_eq!(store.flush_outbox(FAR_AHEAD, 10).await.unwrap(), 1);
    assert_eq!(store.flush_outbox(FAR_AHEAD, 10).await.unwrap(), 0);

    let received = received(&store).await;
    let seals: Vec<_> = received.iter().filter(|delivery| delivery.job == Job::BuildEvidence).collect();
    assert_eq!(seals.iter().map(|seal| seal.trace).collect::<Vec<_>>(), [led_here], "{received:?}");
}

async fn evidence_is_asked_for_again_until_it_is_recorded(account: Account) {
    let (store, _) = store(&account);
    let record = begin(&store, "request").await;
    let canceled = decide(record.clone(), Cancel { reason: "enough".to_owned() });
    assert_eq!(store.commit(canceled).await.unwrap(), Write::Committed);
    assert!(received(&store).await.iter().any(|delivery| delivery.job == Job::BuildEvidence));
    assert_eq!(store.due(FAR_AHEAD, 10).await.unwrap(), []);

    let bundle = BlobRef { sha256: Digest::of_bytes(b"bundle"), bytes: 6 };
    let evidence = Evidence { bundle, index: 0, sealed_at: Timestamp(0) };
    assert_eq!(store.put_evidence(&record.key, evidence.clone()).await.unwrap(), Write::Committed);

    assert_eq!(store.flush_outbox(FAR_AHEAD, 10).await.unwrap(), 0);
    assert_eq!(store.evidence(&record.key).await.unwrap(), Some(evidence));
}

async fn evidence_that_nobody_put_together_when_asked_again_is_asked_for_once_more(account: Account) {
    let (store, _) = store(&account);
    let record = end(&store, "request").await;
    let ended = record.completed_at.unwrap();
    // Whoever is asked gives up each time. The waits grow, up to a day.
    for (hours, sent) in [(1, 1), (1, 0), (3, 1), (5, 0), (7, 1), (100, 1), (123, 0), (125, 1)] {
        let now = ended + Millis::hours(hours);
        assert_eq!(store.flush_outbox(now, 10).await.unwrap(), sent, "after {hours} hours");
    }
    assert_eq!(store.due(FAR_AHEAD, 10).await.unwrap(), [], "there is nothing to advance");

    let bundle = BlobRef { sha256: Digest::of_bytes(b"bundle"), bytes: 6 };
    let evidence = Evidence { bundle, index: 0, sealed_at: ended };
    assert_eq!(store.put_evidence(&record.key, evidence).await.unwrap(), Write::Committed);
    assert_eq!(store.flush_outbox(FAR_AHEAD, 10).await.unwrap(), 0);
}

async fn evidence_of_a_run_that_was_not_due_for_days_is_asked_for_soon(account: Account) {
    let (store, down) = store(&account);
    let far = SystemClock.now() + Millis::hours(100);
    let record = RunRecord { due_at: Some(far), ..begin(&store, "request").await };
    let due_at = ("due_at", AttributeValue::N(far.0.to_string()));
    set(&account, &format!("{}#run#{}", record.key.tenant, record.key.run), "run", due_at).await;
    received(&store).await;
    down.store(true, Ordering::Relaxed);
    let canceled = decide(record, Cancel { reason: "enough".to_owned() });
    assert_eq!(store.commit(canceled).await.unwrap(), Write::Committed);
    down.store(false, Ordering::Relaxed);
    assert_eq!(store.flush_outbox(SystemClock.now() + Millis::mins(1), 10).await.unwrap(), 1);
}

async fn many_runs_of_one_kind_hide_none_of_the_other(account: Account) {
    let (store, _) = store(&account);
    for n in 0..9 {
        end(&store, &format!("over-{n}")).await;
    }
    let first = begin(&store, "first").await.key;
    assert_eq!(store.due(FAR_AHEAD, 1).await.unwrap(), [first]);
    for n in 0..9 {
        begin(&store, &format!("live-{n}")).await;
    }
    let mut sent = 0;
    while store.flush_outbox(FAR_AHEAD, 1).await.unwrap() == 1 && sent < 9 {
        sent += 1;
    }
    assert_eq!(sent, 9);
}

async fn what_cannot_be_read_keeps_nothing_else_from_being_sent(account: Account) {
    let (store, _) = store(&account);
    let damaged = end(&store, "damaged").await.key;
    let whole = end(&store, "whole").await.key;
    damage(&account, &format!("{}#run#{}", damaged.tenant, damaged.run), "run").await;
    // An job of a version that is not there yet.
    leave_behind(&account, &damaged, "dance", QueueName::Steps).await;
    received(&store).await;

    let heard = Heard::default();
    let sent = store.flush_outbox(FAR_AHEAD, 10).with_subscriber(heard.clone()).await;
    assert_eq!(sent.unwrap(), 1);
    let asked: Vec<_> = received(&store).await.into_iter().map(|sent| (sent.run, sent.job)).collect();
    assert_eq!(asked, [(whole, Job::BuildEvidence)]);
    let passed_over = heard.of(&["WARN", "passed over", damaged.run.as_str()]);
    assert_eq!(passed_over.len(), 2, "{passed_over:?}");
}

/// One queue is away; what goes by another one does not wait for it.
async fn what_cannot_be_sent_keeps_nothing_else_from_being_sent(account: Account) {
    let (queue, down) = (account.beside.clone(), Arc::new(AtomicBool::new(false)));
    let store = store_over(
        &account,
        Unsteady { queue, down, shut: &[QueueName::Decisions], refusing: Arc::default() },
    );
    let over = end(&store, "over").await.key;
    let asked = begin(&store, "asked").await.key;
    leave_behind(&account, &asked, "show:an-approval", QueueName::Decisions).await;
    leave_behind(&account, &over, "begin", QueueName::Ingest).await;
    received(&store).await;

    assert!(store.flush_outbox(FAR_AHEAD, 10).await.is_err(), "what is still to be sent is told");
    let ingest = store.receive(QueueName::Ingest, 10, Millis::secs(60), Duration::ZERO).await.unwrap();
    assert_eq!(ingest.into_iter().map(|sent| sent.job).collect::<Vec<_>>(), [Job::Start]);
    let steps: Vec<_> = received(&store).await.into_iter().map(|sent| (sent.run, sent.job)).collect();
    assert_eq!(steps, [(over, Job::BuildEvidence)]);
}

/// Puts an job of `run` beside it that was not sent.
async fn leave_behind(account: &Account, run: &RunKey, job: &str, queue: QueueName) {
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let put = account.client.put_item().table_name(&account.table);
    let put = put.item("pk", text(&format!("{}#run#{}", run.tenant, run.run)));
    let put = put.item("sk", text("outbox#00000000000000000001#000")).item("job", text(job));
    let put = put.item("queue", text(queue.as_str())).item("due_in", text("outbox#0"));
    put.item("due_at", AttributeValue::N("0".to_owned())).send().await.unwrap();
}

async fn a_schedule_that_cannot_be_read_keeps_no_other_from_coming_round(account: Account) {
    let (store, _) = store(&account);
    for workflow in ["hourly", "nightly"] {
        let applied = Applied {
            tenant: tenant(),
            workflow: workflow.parse().unwrap(),
            version: 1,
            plan: Digest::of_bytes(b"plan"),
            triggered_by: None,
            at: Timestamp(0),
            by: Initiator::new(Cause::User, "ada"),
        };
        assert_eq!(store.apply(applied, Some(Timestamp(0))).await.unwrap(), Write::Committed);
    }
    damage(&account, &format!("{}#workflows", tenant()), "workflow#hourly").await;
    let due = store.due_schedules(FAR_AHEAD, 10).await.unwrap();
    let due: Vec<_> = due.iter().map(|due| due.applied.workflow.as_str()).collect();
    assert_eq!(due, ["nightly"]);
}

async fn a_message_that_is_not_sent_is_logged_with_what_it_asks_for(account: Account) {
    let (store, down) = store(&account);
    let record = begin(&store, "request").await;
    let run = format!("run={}", record.key);
    let canceled = decide(record, Cancel { reason: "enough".to_owned() });
    down.store(true, Ordering::Relaxed);
    let heard = Heard::default();
    let written = store.commit(canceled).with_subscriber(heard.clone()).await;
    assert_eq!(written.unwrap(), Write::Committed);
    let told = heard.of(&["WARN", &run, "queue=steps", "job=seal", "the store is busy"]);
    assert_eq!(told.len(), 1, "{:?}", heard.of(&[]));
    assert!(heard.of(&["enough"]).is_empty(), "nothing that anybody wrote is logged");
}

/// Begins a run that `request` names, and ends it.
async fn end<L: Ledger>(store: &L, request: &str) -> RunRecord {
    let record = begin(store, request).await;
    let canceled = decide(record, Cancel { reason: "enough".to_owned() });
    assert_eq!(store.commit(canceled.clone()).await.unwrap(), Write::Committed);
    canceled.record
}

/// The body of an item can no longer be read.
async fn damage(account: &Account, pk: &str, sk: &str) {
    set(account, pk, sk, ("body", AttributeValue::S("{".to_owned()))).await;
}

/// Sets an attribute of an item.
async fn set(account: &Account, pk: &str, sk: &str, (name, value): (&str, AttributeValue)) {
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let update = account.client.update_item().table_name(&account.table);
    let update = update.key("pk", text(pk)).key("sk", text(sk));
    let update = update.update_expression(format!("SET {name} = :value"));
    update.expression_attribute_values(":value", value).send().await.unwrap();
}

async fn a_walk_that_was_not_sent_is_found_by_the_due_index(account: Account) {
    let (store, down) = store(&account);
    down.store(true, Ordering::Relaxed);
    let record = begin(&store, "request").await;
    down.store(false, Ordering::Relaxed);
    assert!(received(&store).await.is_empty());
    assert_eq!(store.flush_outbox(FAR_AHEAD, 10).await.unwrap(), 0);
    assert_eq!(store.due(FAR_AHEAD, 10).await.unwrap(), [record.key]);
}

async fn received(store: &AwsStore<Unsteady, SqliteStore>) -> Vec<Delivery> {
    store.receive(QueueName::Steps, 10, Millis::secs(60), Duration::ZERO).await.unwrap()
}

/// A store whose queue can be taken away.
fn store(account: &Account) -> (AwsStore<Unsteady, SqliteStore>, Arc<AtomicBool>) {
    let down = Arc::new(AtomicBool::new(false));
    (
        store_over(
            account,
            Unsteady {
                queue: account.beside.clone(),
                down: Arc::clone(&down),
                shut: &[],
                refusing: Arc::default(),
            },
        ),
        down,
    )
}

fn store_over(account: &Account, queue: Unsteady) -> AwsStore<Unsteady, SqliteStore> {
    AwsStore::new(AwsParts {
        client: account.client.clone(),
        table: account.table.clone(),
        queue,
        blobs: account.beside.clone(),
        clock: Arc::new(SystemClock),
    })
}

/// A queue that takes no messages while it is down, never for queues that are shut, and not the first ones.
#[derive(Clone)]
pub(crate) struct Unsteady {
    pub(crate) queue: SqliteStore,
    pub(crate) down: Arc<AtomicBool>,
    pub(crate) shut: &'static [QueueName],
    /// How many more are refused.
    pub(crate) refusing: Arc<AtomicU32>,
}

impl Queue for Unsteady {
    async fn send(&self, message: &Outgoing) -> Result<(), StoreError> {
        let one_less = |left: u32| left.checked_sub(1);
        let refused = self.refusing.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok();
        if refused || self.down.load(Ordering::Relaxed) || self.shut.contains(&message.queue) {
            return Err(StoreError::Busy { doing: "send a message" });
        }
        self.queue.send(message).await
    }

    async fn receive(
        &self,
        queue: QueueName,
        max: usize,
        visibility: Millis,
        wait: Duration,
    ) -> Result<Vec<Delivery>, StoreError> {
        self.queue.receive(queue, max, visibility, wait).await
    }

    async fn extend(&self, handle: &Handle, visibility: Millis) -> Result<bool, StoreError> {
        self.queue.extend(handle, visibility).await
    }

    async fn delete(&self, handle: &Handle) -> Result<bool, StoreError> {
        self.queue.delete(handle).await
    }

    async fn dead_letters(&self, limit: u32) -> Result<Vec<DeadLetter>, StoreError> {
        self.queue.dead_letters(limit).await
    }

    async fn redrive(&self, limit: u32) -> Result<u32, StoreError> {
        self.queue.redrive(limit).await
    }

    async fn depth(&self, queue: QueueName) -> Result<u64, StoreError> {
        self.queue.depth(queue).await
    }

    async fn waiting(&self, queue: QueueName) -> Result<u64, StoreError> {
        self.queue.waiting(queue).await
    }
}
