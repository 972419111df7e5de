//! The outbox: messages survive the process that committed them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, PutRequest, WriteRequest};
use countersign_store::aws::{AwsParts, AwsStore};
use countersign_store::{
    Archive as _, Clock as _, Delivery, Due, Inbox as _, Ledger, Queue, SqliteStore, StoreError, SystemClock,
    Write,
};
use domain::command::{Cancel, Pause};
use domain::{
    AppliedWorkflow, BlobRef, Cause, Digest, Evidence, Initiator, Job, Millis, Outgoing, QueueName, RunKey,
    RunRecord, Timestamp, TraceContext,
};
use testkit::ledger::LedgerRun;
use tracing::instrument::WithSubscriber as _;

use crate::EnvCase;
use crate::env::TableEnv;
use crate::logs::Logs;
use crate::run::{decide, plan, start_run, tenant};

pub(crate) fn cases() -> Vec<(&'static str, EnvCase)> {
    vec![
        ("unsent_outbox_message_is_sent_once_by_the_sweep", |env| {
            Box::pin(unsent_outbox_message_is_sent_once_by_the_sweep(env))
        }),
        ("evidence_is_requested_until_it_is_recorded", |env| {
            Box::pin(evidence_is_requested_until_it_is_recorded(env))
        }),
        ("missing_evidence_is_requested_with_growing_delays", |env| {
            Box::pin(missing_evidence_is_requested_with_growing_delays(env))
        }),
        ("evidence_of_a_long_wait_is_requested_soon", |env| {
            Box::pin(evidence_of_a_long_wait_is_requested_soon(env))
        }),
        ("due_runs_and_runs_without_evidence_are_both_found", |env| {
            Box::pin(due_runs_and_runs_without_evidence_are_both_found(env))
        }),
        ("runs_without_evidence_do_not_hide_due_runs", |env| {
            Box::pin(runs_without_evidence_do_not_hide_due_runs(env))
        }),
        ("exhausted_scan_alarms_and_returns_what_it_found", |env| {
            Box::pin(exhausted_scan_alarms_and_returns_what_it_found(env))
        }),
        ("moved_runs_are_spread_over_partitions", |env| Box::pin(moved_runs_are_spread_over_partitions(env))),
        ("paused_runs_are_spread_over_partitions", |env| {
            Box::pin(paused_runs_are_spread_over_partitions(env))
        }),
        ("undecodable_items_do_not_block_the_flush", |env| {
            Box::pin(undecodable_items_do_not_block_the_flush(env))
        }),
        ("unavailable_queue_does_not_block_the_flush", |env| {
            Box::pin(unavailable_queue_does_not_block_the_flush(env))
        }),
        ("undecodable_schedule_does_not_block_the_others", |env| {
            Box::pin(undecodable_schedule_does_not_block_the_others(env))
        }),
        ("unsent_message_is_logged_with_its_job", |env| Box::pin(unsent_message_is_logged_with_its_job(env))),
        ("unsent_advance_message_is_found_by_the_due_index", |env| {
            Box::pin(unsent_advance_message_is_found_by_the_due_index(env))
        }),
    ]
}

/// Later than any due time.
const FAR_AHEAD: Timestamp = Timestamp(i64::MAX / 2);

async fn unsent_outbox_message_is_sent_once_by_the_sweep(env: TableEnv) {
    let (store, down) = store(&env);
    let parent = TraceContext::of_run(&start_run(&store, "another").await.key);
    let record = RunRecord { trace: Some(parent), ..start_run(&store, "request").await };
    down.store(true, Ordering::Relaxed);
    let canceled = decide(record, Cancel { reason: "enough".to_owned() });
    assert_eq!(store.commit(canceled.clone()).await.unwrap(), Write::Committed);
    assert!(store.flush_outbox(FAR_AHEAD, 10).await.is_err());
    down.store(false, Ordering::Relaxed);
    assert_eq!(store.flush_outbox(Timestamp(0), 10).await.unwrap(), 0);

    assert_eq!(flush_all(&store, FAR_AHEAD).await, 1);
    assert_eq!(flush_all(&store, FAR_AHEAD).await, 0);

    let received = received(&store).await;
    let requests: Vec<_> = received.iter().filter(|delivery| delivery.job == Job::BuildEvidence).collect();
    assert_eq!(requests.iter().map(|request| request.trace).collect::<Vec<_>>(), [parent], "{received:?}");
}

async fn evidence_is_requested_until_it_is_recorded(env: TableEnv) {
    let (store, _) = store(&env);
    let record = start_run(&store, "request").await;
    let canceled = decide(record.clone(), Cancel { reason: "enough".to_owned() });
    assert_eq!(store.commit(canceled).await.unwrap(), Write::Committed);
    assert!(received(&store).await.iter().any(|delivery| delivery.job == Job::BuildEvidence));
    assert_eq!(store.due(FAR_AHEAD, 10).await.unwrap(), []);

    let bundle = BlobRef { sha256: Digest::of_bytes(b"bundle"), bytes: 6 };
    let evidence = Evidence { bundle, name: "run".to_owned(), index: 0, recorded_at: Timestamp(0) };
    assert_eq!(store.put_evidence(&record.key, evidence.clone()).await.unwrap(), Write::Committed);

    assert_eq!(store.flush_outbox(FAR_AHEAD, 10).await.unwrap(), 0);
    assert_eq!(store.evidence(&record.key).await.unwrap(), Some(evidence));
}

async fn missing_evidence_is_requested_with_growing_delays(env: TableEnv) {
    let (store, _) = store(&env);
    let record = start_and_cancel(&store, "request").await;
    let ended = record.completed_at.unwrap();
    // Every request fails. The delays grow up to a day.
    for (hours, sent) in [(1, 1), (1, 0), (3, 1), (5, 0), (7, 1), (100, 1), (123, 0), (125, 1)] {
        let now = ended + Millis::hours(hours);
        assert_eq!(flush_all(&store, now).await, sent, "after {hours} hours");
    }
    assert_eq!(store.due(FAR_AHEAD, 10).await.unwrap(), [], "nothing to advance");

    let bundle = BlobRef { sha256: Digest::of_bytes(b"bundle"), bytes: 6 };
    let evidence = Evidence { bundle, name: "run".to_owned(), index: 0, recorded_at: ended };
    assert_eq!(store.put_evidence(&record.key, evidence).await.unwrap(), Write::Committed);
    assert_eq!(store.flush_outbox(FAR_AHEAD, 10).await.unwrap(), 0);
}

async fn evidence_of_a_long_wait_is_requested_soon(env: TableEnv) {
    let (store, down) = store(&env);
    let far = SystemClock.now() + Millis::hours(100);
    let record = RunRecord { due_at: Some(far), ..start_run(&store, "request").await };
    let due_at = ("due_at", AttributeValue::N(far.0.to_string()));
    set(&env, &format!("{}#run#{}", record.key.tenant, record.key.run), "run", due_at).await;
    received(&store).await;
    down.store(true, Ordering::Relaxed);
    let canceled = decide(record, Cancel { reason: "enough".to_owned() });
    assert_eq!(store.commit(canceled).await.unwrap(), Write::Committed);
    down.store(false, Ordering::Relaxed);
    assert_eq!(store.flush_outbox(SystemClock.now() + Millis::mins(1), 10).await.unwrap(), 1);
}

async fn due_runs_and_runs_without_evidence_are_both_found(env: TableEnv) {
    let (store, _) = store(&env);
    for n in 0..9 {
        start_and_cancel(&store, &format!("ended-{n}")).await;
    }
    let first = Due::Run(start_run(&store, "first").await.key);
    assert_eq!(store.due(FAR_AHEAD, 1).await.unwrap(), [first]);
    for n in 0..9 {
        start_run(&store, &format!("live-{n}")).await;
    }
    let mut sent = 0;
    while store.flush_outbox(FAR_AHEAD, 1).await.unwrap() == 1 && sent < 9 {
        sent += 1;
    }
    assert_eq!(sent, 9);
}

/// More finished runs are due than one read of the index returns. The runs behind them are found before they are moved.
async fn runs_without_evidence_do_not_hide_due_runs(env: TableEnv) {
    const FINISHED: usize = 2_100;
    let (store, _) = store(&env);
    let finished = start_and_cancel(&store, "finished").await.key;
    copy_run(&env, &finished, FINISHED).await;
    let due = Due::Run(start_run(&store, "due").await.key);

    let logs = Logs::default();
    let found = store.due(FAR_AHEAD, 10).with_subscriber(logs.clone()).await;
    assert_eq!(found.unwrap(), std::slice::from_ref(&due));
    assert_eq!(logs.containing(&["ERROR"]), Vec::<String>::new());

    assert_eq!(store.flush_outbox(FAR_AHEAD, 5).await.unwrap(), 5);
    assert_eq!(store.due(FAR_AHEAD, 10).await.unwrap(), [due]);
}

/// More finished runs are due than a read goes past. If it finds nothing else, it fails; an empty list would look like an
/// idle installation.
async fn exhausted_scan_alarms_and_returns_what_it_found(env: TableEnv) {
    const FINISHED: usize = 18_100;
    let (store, _) = store(&env);
    let finished = start_and_cancel(&store, "finished").await.key;
    copy_run(&env, &finished, FINISHED).await;

    let logs = Logs::default();
    let hidden = store.due(FAR_AHEAD, 10).with_subscriber(logs.clone()).await;
    assert!(matches!(hidden, Err(StoreError::Broken { .. })), "{hidden:?}");
    assert_eq!(logs.containing(&["ERROR", "due_scan_exhausted"]).len(), 1);
    // The caller has found runs of this tenant before, and wakes them.
    let others = BTreeSet::from(["umbrella".parse().unwrap()]);
    assert_eq!(store.due_excluding(&others, FAR_AHEAD, 10).await.unwrap(), []);

    let due = start_run(&store, "due").await.key;
    let first = ("due_at", AttributeValue::N("0".to_owned()));
    set(&env, &format!("{}#run#{}", due.tenant, due.run), "run", first).await;
    let logs = Logs::default();
    let found = store.due(FAR_AHEAD, 10).with_subscriber(logs.clone()).await;
    assert_eq!(found.unwrap(), [Due::Run(due)]);
    assert_eq!(logs.containing(&["ERROR", "due_scan_exhausted"]).len(), 1);
}

/// One partition of an index takes a thousand writes a second.
async fn moved_runs_are_spread_over_partitions(env: TableEnv) {
    const FINISHED: usize = 60;
    let (store, _) = store(&env);
    let finished = start_and_cancel(&store, "finished").await.key;
    copy_run(&env, &finished, FINISHED - 1).await;
    assert_eq!(store.flush_outbox(FAR_AHEAD, 100).await.unwrap(), u32::try_from(FINISHED).unwrap());
    assert_eq!(
        partitions(&env, "due_pk").await,
        ["evidence#0", "evidence#1", "evidence#2", "evidence#3"].map(str::to_owned).into()
    );
}

async fn paused_runs_are_spread_over_partitions(env: TableEnv) {
    let (store, _) = store(&env);
    let mut tenants = Vec::new();
    for number in 0..60 {
        let owner = format!("tenant-{number:02}");
        let mut run = LedgerRun::start(&store, &owner, "request", &plan()).await;
        run.commit(&store, Pause { reason: "outage".to_owned() }).await;
        tenants.push(run.key().tenant.clone());
    }
    let expected = (0..8).map(|number| format!("paused#{number}"));
    assert_eq!(partitions(&env, "open_pk").await, expected.collect());
    assert_eq!(store.tenants(None, 100).await.unwrap(), tenants);
}

/// The values of an attribute.
async fn partitions(env: &TableEnv, attribute: &str) -> BTreeSet<String> {
    let items = env.client.scan().table_name(&env.table).send().await.unwrap().items.unwrap_or_default();
    items.iter().filter_map(|item| item.get(attribute)?.as_s().ok().cloned()).collect()
}

/// Copies the item of a run, so that all copies were due before any other run.
async fn copy_run(env: &TableEnv, run: &RunKey, copies: usize) {
    let text = |text: String| AttributeValue::S(text);
    let key = |run: &str| text(format!("{}#run#{run}", tenant()));
    let get = env.client.get_item().table_name(&env.table).key("pk", key(run.run.as_str()));
    let item = get.key("sk", text("run".to_owned())).send().await.unwrap().item.unwrap();
    let copy = |number: usize| {
        let mut item = item.clone();
        item.insert("pk".to_owned(), key(&format!("copy-{number}")));
        item.insert("due_pk".to_owned(), text(format!("run#{}", number % 24)));
        item.insert("due_at".to_owned(), AttributeValue::N("1".to_owned()));
        let put = PutRequest::builder().set_item(Some(item)).build().unwrap();
        WriteRequest::builder().put_request(put).build()
    };
    let copies: Vec<WriteRequest> = (0..copies).map(copy).collect();
    for batch in copies.chunks(25) {
        let written = env.client.batch_write_item().request_items(&env.table, batch.to_vec());
        assert_eq!(written.send().await.unwrap().unprocessed_items.unwrap_or_default().len(), 0);
    }
}

async fn undecodable_items_do_not_block_the_flush(env: TableEnv) {
    let (store, _) = store(&env);
    let damaged = start_and_cancel(&store, "damaged").await.key;
    let intact = start_and_cancel(&store, "whole").await.key;
    damage(&env, &format!("{}#run#{}", damaged.tenant, damaged.run), "run").await;
    // A job of a newer version.
    put_outbox_entry(&env, &damaged, "dance", QueueName::Steps).await;
    received(&store).await;

    let logs = Logs::default();
    let sent = store.flush_outbox(FAR_AHEAD, 10).with_subscriber(logs.clone()).await;
    assert_eq!(sent.unwrap(), 1);
    let sent: Vec<_> = received(&store).await.into_iter().map(|sent| (sent.run, sent.job)).collect();
    assert_eq!(sent, [(intact, Job::BuildEvidence)]);
    let skipped = logs.containing(&["WARN", "skipped an undecodable", damaged.run.as_str()]);
    assert_eq!(skipped.len(), 2, "{skipped:?}");
}

/// One queue is down; messages of the others are sent.
async fn unavailable_queue_does_not_block_the_flush(env: TableEnv) {
    let (queue, down) = (env.sqlite.clone(), Arc::new(AtomicBool::new(false)));
    let store = store_over(
        &env,
        UnreliableQueue { queue, down, shut: &[QueueName::Decisions], failures_left: Arc::default() },
    );
    let ended = start_and_cancel(&store, "ended").await.key;
    let waiting = start_run(&store, "waiting").await.key;
    put_outbox_entry(&env, &waiting, "notify_approval:an-approval:1", QueueName::Decisions).await;
    put_outbox_entry(&env, &ended, "start", QueueName::Ingest).await;
    received(&store).await;

    assert!(store.flush_outbox(FAR_AHEAD, 10).await.is_err(), "the unsent message is reported");
    let ingest = store.receive(QueueName::Ingest, 10, Millis::secs(60), Duration::ZERO).await.unwrap();
    assert_eq!(ingest.into_iter().map(|sent| sent.job).collect::<Vec<_>>(), [Job::Start]);
    let steps: Vec<_> = received(&store).await.into_iter().map(|sent| (sent.run, sent.job)).collect();
    assert_eq!(steps, [(ended, Job::BuildEvidence)]);
}

/// Adds an outbox entry of `run`.
async fn put_outbox_entry(env: &TableEnv, run: &RunKey, job: &str, queue: QueueName) {
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let put = env.client.put_item().table_name(&env.table);
    let put = put.item("pk", text(&format!("{}#run#{}", run.tenant, run.run)));
    let put = put.item("sk", text("outbox#00000000000000000001#000")).item("job", text(job));
    let put = put.item("queue", text(queue.as_str())).item("due_pk", text("outbox#0"));
    put.item("due_at", AttributeValue::N("0".to_owned())).send().await.unwrap();
}

async fn undecodable_schedule_does_not_block_the_others(env: TableEnv) {
    let (store, _) = store(&env);
    for workflow in ["hourly", "nightly"] {
        let applied = AppliedWorkflow {
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
    damage(&env, &format!("{}#workflows", tenant()), "workflow#hourly").await;
    let due = store.due_schedules(FAR_AHEAD, 10).await.unwrap();
    let due: Vec<_> = due.iter().map(|due| due.applied.workflow.as_str()).collect();
    assert_eq!(due, ["nightly"]);
}

async fn unsent_message_is_logged_with_its_job(env: TableEnv) {
    let (store, down) = store(&env);
    let record = start_run(&store, "request").await;
    let run = format!("run={}", record.key);
    let canceled = decide(record, Cancel { reason: "enough".to_owned() });
    down.store(true, Ordering::Relaxed);
    let logs = Logs::default();
    let written = store.commit(canceled).with_subscriber(logs.clone()).await;
    assert_eq!(written.unwrap(), Write::Committed);
    let lines = logs.containing(&["WARN", &run, "queue=steps", "job=build_evidence", "the store is busy"]);
    assert_eq!(lines.len(), 1, "{:?}", logs.containing(&[]));
    assert!(logs.containing(&["enough"]).is_empty(), "the reason of the user is not logged");
}

/// Starts a run with the idempotency key `request` and cancels it.
async fn start_and_cancel<L: Ledger>(store: &L, request: &str) -> RunRecord {
    let record = start_run(store, request).await;
    let canceled = decide(record, Cancel { reason: "enough".to_owned() });
    assert_eq!(store.commit(canceled.clone()).await.unwrap(), Write::Committed);
    canceled.record
}

/// Makes the body of an item undecodable.
async fn damage(env: &TableEnv, pk: &str, sk: &str) {
    set(env, pk, sk, ("body", AttributeValue::S("{".to_owned()))).await;
}

async fn set(env: &TableEnv, pk: &str, sk: &str, (name, value): (&str, AttributeValue)) {
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let update = env.client.update_item().table_name(&env.table);
    let update = update.key("pk", text(pk)).key("sk", text(sk));
    let update = update.update_expression(format!("SET {name} = :value"));
    update.expression_attribute_values(":value", value).send().await.unwrap();
}

async fn unsent_advance_message_is_found_by_the_due_index(env: TableEnv) {
    let (store, down) = store(&env);
    down.store(true, Ordering::Relaxed);
    let record = start_run(&store, "request").await;
    down.store(false, Ordering::Relaxed);
    assert!(received(&store).await.is_empty());
    assert_eq!(store.flush_outbox(FAR_AHEAD, 10).await.unwrap(), 0);
    assert_eq!(store.due(FAR_AHEAD, 10).await.unwrap(), [Due::Run(record.key)]);
}

async fn received(store: &AwsStore<UnreliableQueue, SqliteStore>) -> Vec<Delivery> {
    store.receive(QueueName::Steps, 10, Millis::secs(60), Duration::ZERO).await.unwrap()
}

/// A store whose queue can be switched off.
fn store(env: &TableEnv) -> (AwsStore<UnreliableQueue, SqliteStore>, Arc<AtomicBool>) {
    let down = Arc::new(AtomicBool::new(false));
    (
        store_over(
            env,
            UnreliableQueue {
                queue: env.sqlite.clone(),
                down: Arc::clone(&down),
                shut: &[],
                failures_left: Arc::default(),
            },
        ),
        down,
    )
}

/// Flushes as often as a process needs to read all partitions of runs without evidence, which it reads in turns. Returns
/// how many messages were sent.
async fn flush_all(store: &AwsStore<UnreliableQueue, SqliteStore>, now: Timestamp) -> u32 {
    let mut sent = 0;
    for _ in 0..4 {
        sent += store.flush_outbox(now, 10).await.unwrap();
    }
    sent
}

fn store_over(env: &TableEnv, queue: UnreliableQueue) -> AwsStore<UnreliableQueue, SqliteStore> {
    AwsStore::new(AwsParts {
        client: env.client.clone(),
        table: env.table.clone(),
        queue,
        blobs: env.sqlite.clone(),
        clock: Arc::new(SystemClock),
    })
}

/// A queue that rejects messages while it is down, messages of `shut` queues always, and the first `failures_left`
/// messages.
#[derive(Clone)]
pub(crate) struct UnreliableQueue {
    pub(crate) queue: SqliteStore,
    pub(crate) down: Arc<AtomicBool>,
    pub(crate) shut: &'static [QueueName],
    pub(crate) failures_left: Arc<AtomicU32>,
}

impl Queue for UnreliableQueue {
    async fn send(&self, message: &Outgoing) -> Result<(), StoreError> {
        let decrement = |left: u32| left.checked_sub(1);
        let failed = self.failures_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, decrement).is_ok();
        if failed || self.down.load(Ordering::Relaxed) || self.shut.contains(&message.queue) {
            return Err(StoreError::Busy { doing: "send a message" });
        }
        self.queue.send(message).await
    }

    countersign_store::delegate!(queue: receive, extend, delete, dead_letters, redrive, depth, visible);
}
