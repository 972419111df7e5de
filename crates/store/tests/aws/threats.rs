//! The named threats to the table, with the real engine, in virtual time.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use countersign_store::{
    Archive as _, Due, Governance as _, Ledger as _, PageQuery, Queue as _, RunQuery, StoreError, Write,
};
use domain::chain::verify;
use domain::dispatch::RECORD_FORMAT;
use domain::merkle::Position;
use domain::{BlobRef, Digest, Evidence, Millis, QueueName, RunId, RunKey, RunStatus, Timestamp, merkle};
use engine::{AdvanceLimits, DispatchScope, Engine, EngineError, StartRun, SweepResult};
use testkit::TestClock;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::env::Store;
use crate::faults::connection::{Fault, Injection, SentRequest};
use crate::faults::fixture::{FAR_AHEAD, NOON, Until, commit_until, decision, initiator, plan, run, tenant};
use crate::faults::matrix::BoxFuture;
use crate::table::Table;

/// A case in virtual time.
pub(crate) type Case = fn(Table) -> BoxFuture<'static, ()>;

pub(crate) fn cases() -> Vec<(&'static str, Case)> {
    vec![
        ("ddb_throttle_forever", |table| Box::pin(ddb_throttle_forever(table))),
        ("ddb_conflict_storm", |table| Box::pin(ddb_conflict_storm(table))),
        ("ddb_reply_lost_then_condition_failed", |table| {
            Box::pin(ddb_reply_lost_then_condition_failed(table))
        }),
        ("one_write_appends_all_waiting_entries", |table| {
            Box::pin(one_write_appends_all_waiting_entries(table))
        }),
        ("canceled_append_does_not_stop_the_others", |table| {
            Box::pin(canceled_append_does_not_stop_the_others(table))
        }),
        ("gsi_stale_read", |table| Box::pin(gsi_stale_read(table))),
        ("one_sweep_requests_all_missing_evidence", |table| {
            Box::pin(one_sweep_requests_all_missing_evidence(table))
        }),
        ("throttled_moves_do_not_stop_the_flush", |table| {
            Box::pin(throttled_moves_do_not_stop_the_flush(table))
        }),
        ("record_of_a_newer_program_stays_as_it_is", |table| {
            Box::pin(record_of_a_newer_program_stays_as_it_is(table))
        }),
        ("conflicting_claims_are_committed_once", |table| {
            Box::pin(conflicting_claims_are_committed_once(table))
        }),
    ]
}

/// Longer than all retries of the engine and the SDK.
const PATIENCE: Duration = Duration::from_mins(2);

fn engine(table: &Table) -> Engine<Store> {
    engine_at(table, NOON)
}

fn engine_at(table: &Table, now: Timestamp) -> Engine<Store> {
    testkit::engine().clock(TestClock::at(now)).me("worker").on(table.store.clone())
}

async fn prepare(table: &Table, until: Until) {
    table.store.put_plan(&tenant(), &plan()).await.unwrap();
    commit_until(&table.store, until).await;
}

fn error_response(code: &str) -> Fault {
    let body = format!(r#"{{"__type":"com.amazonaws.dynamodb.v20120810#{code}","message":"no"}}"#);
    Fault::Respond { status: 400, body }
}

fn canceled(reason: &str) -> Fault {
    let kind = "com.amazonaws.dynamodb.v20120810#TransactionCanceledException";
    let reasons = format!(r#"[{{"Code":"{reason}"}},{{"Code":"None"}}]"#);
    Fault::Respond { status: 400, body: format!(r#"{{"__type":"{kind}","CancellationReasons":{reasons}}}"#) }
}

/// The chain is valid and contains one cancellation.
async fn assert_canceled_once(table: &Table) {
    let record = table.store.load(&run()).await.unwrap().unwrap();
    assert_eq!(record.status, RunStatus::Canceled);
    let chain = table.store.events(&run(), 0, 100).await.unwrap();
    verify(&run(), &chain, record.events, &record.head).unwrap();
    let texts = chain.iter().map(|event| String::from_utf8_lossy(&event.canonical));
    assert_eq!(texts.filter(|event| event.contains("enough")).count(), 1);
}

/// The caller gets an error, nothing is written, and the next call succeeds once throttling ends.
async fn ddb_throttle_forever(table: Table) {
    prepare(&table, Until::Approved).await;
    let (engine, before) = (engine(&table), table.store.load(&run()).await.unwrap());
    for operation in ["GetItem", "TransactWriteItems"] {
        let started = Instant::now();
        let throttled = error_response("ProvisionedThroughputExceededException");
        table.connection.set([Injection::forever(operation, throttled)]);
        let error =
            engine.tenant_handle(&run().tenant, &initiator()).cancel(&run().run, "enough").await.unwrap_err();
        assert!(matches!(error, EngineError::Store(StoreError::Busy { .. })), "{error:?}");
        assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
        table.connection.set(None);
        assert_eq!(table.store.load(&run()).await.unwrap(), before);
    }
    engine.tenant_handle(&run().tenant, &initiator()).cancel(&run().run, "enough").await.unwrap();
    assert_canceled_once(&table).await;
}

/// Concurrent writers, with more conflicts than successes.
async fn ddb_conflict_storm(table: Table) {
    const WRITERS: usize = 8;
    prepare(&table, Until::Started).await;
    let table = Arc::new(table);
    let conflicts = |operation, times, fault| Injection { times, ..Injection::forever(operation, fault) };
    table.connection.set([
        conflicts("TransactWriteItems", 5, canceled("TransactionConflict")),
        conflicts("PutItem", 5 * WRITERS, error_response("TransactionConflictException")),
    ]);
    let writers = (0..WRITERS).map(|number| {
        let table = Arc::clone(&table);
        tokio::spawn(async move {
            let engine = engine(&table);
            if number == 0 {
                return engine
                    .tenant_handle(&run().tenant, &initiator())
                    .cancel(&run().run, "enough")
                    .await
                    .map(drop);
            }
            // The run has one log entry, regardless of the number of appends.
            let position = loop {
                match table.store.append_log(&run(), merkle::leaf(b"head")).await {
                    Err(StoreError::Busy { .. }) => sleep(Duration::from_millis(50)).await,
                    appended => break appended?.position,
                }
            };
            assert_eq!((position.index, position.size), (0, 1));
            Ok(())
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap().unwrap();
    }
    assert!(table.connection.requests().len() > 5 * WRITERS, "conflicts were retried");
    table.connection.set(None);
    assert_canceled_once(&table).await;
}

/// DynamoDB cancels concurrent transactions on one item; the emulator does not, so the test injects it.
async fn conflicting_claims_are_committed_once(table: Table) {
    const RACE: &str = "one_of_many_concurrent_claims_is_committed";
    // The first transaction starts the run. Every second transaction after it is canceled.
    let canceled_numbers = (1..200).step_by(2);
    let conflicts = canceled_numbers
        .map(|number| Injection::once("TransactWriteItems", number, canceled("TransactionConflict")));
    table.connection.set(conflicts);

    let race = conformance::cases::<Store>().into_iter().find(|case| case.name == RACE).unwrap();
    (race.run)(Arc::new(table.store.clone())).await;

    let sent = table
        .connection
        .requests()
        .iter()
        .filter(|request| request.operation == "TransactWriteItems")
        .count();
    assert!(sent > 48, "{sent} transactions, half of them canceled");
}

fn log_run(number: usize) -> RunKey {
    RunKey { tenant: tenant(), run: RunId::new(&format!("run-{number}")).unwrap() }
}

fn log_leaf(number: usize) -> Digest {
    merkle::leaf(&number.to_be_bytes())
}

/// Starts one append for each number.
fn appends(table: &Table, numbers: Range<usize>) -> Vec<JoinHandle<Result<Position, StoreError>>> {
    let append = |number| {
        let store = table.store.clone();
        tokio::spawn(async move {
            store.append_log(&log_run(number), log_leaf(number)).await.map(|appended| appended.position)
        })
    };
    numbers.map(append).collect()
}

/// The log has each of these runs once, at the position that its append returned.
async fn assert_appended(table: &Table, appended: Vec<JoinHandle<Result<Position, StoreError>>>) {
    let mut roots = BTreeMap::new();
    for (number, position) in appended.into_iter().enumerate() {
        let position = position.await.unwrap().unwrap();
        assert!(position.holds(&log_leaf(number)));
        // The first entry, one within a batch, and the last.
        if number == 0 || number % 100 == 99 {
            let again = table.store.append_log(&log_run(number), log_leaf(number)).await.unwrap();
            assert_eq!(again.position, position);
        }
        assert_eq!(roots.insert(position.index, position.root), None, "two entries with one index");
    }
    assert_eq!(roots.keys().copied().max(), u64::try_from(roots.len() - 1).ok());
}

async fn one_write_appends_all_waiting_entries(table: Table) {
    const RUNS: usize = 300;
    let appended = appends(&table, 0..RUNS);
    for append in &appended {
        while !append.is_finished() {
            sleep(Duration::from_millis(1)).await;
        }
    }
    let writes = table.connection.requests();
    let writes = writes.iter().filter(|request| request.operation == "PutItem").count();
    assert!(writes <= 4, "{writes} writes of the head for {RUNS} entries");
    assert_appended(&table, appended).await;
}

/// The caller that writes for the others is canceled while its request is in flight.
async fn canceled_append_does_not_stop_the_others(table: Table) {
    table.connection.set([Injection::once("PutItem", 1, Fault::Silence)]);
    let first = appends(&table, 0..1);
    assert_eq!(table.store.append_log(&log_run(0), log_leaf(0)).await.unwrap().position.index, 0);
    let mut rest = appends(&table, 1..40);
    sleep(Duration::from_millis(1)).await;
    rest[0].abort();
    assert!(rest.remove(0).await.unwrap_err().is_cancelled());
    for (number, position) in (2..40).zip(rest) {
        assert!(position.await.unwrap().unwrap().holds(&log_leaf(number)));
    }
    assert_appended(&table, first).await;
}

/// The write is applied and its reply lost. The retry fails its own condition. The engine finds the write by its
/// operation id.
async fn ddb_reply_lost_then_condition_failed(table: Table) {
    prepare(&table, Until::Started).await;
    let operation = "TransactWriteItems";
    let failed = Injection { after: 1, ..Injection::forever(operation, canceled("ConditionalCheckFailed")) };
    table.connection.set([Injection::once(operation, 0, Fault::LoseReply), failed]);

    engine(&table).tenant_handle(&run().tenant, &initiator()).cancel(&run().run, "enough").await.unwrap();

    let writes = table.connection.requests().iter().filter(|request| request.operation == operation).count();
    assert_eq!(writes, 2, "one retry, then a read");
    table.connection.set(None);
    assert_canceled_once(&table).await;
}

/// The index is stale; the record decides.
async fn gsi_stale_read(table: Table) {
    prepare(&table, Until::ApprovalRequested).await;
    let store = &table.store;
    let status = store.load(&run()).await.unwrap().unwrap().status;
    let acme = tenant();
    let list = || store.runs(&acme, RunQuery { status: Some(status), ..RunQuery::newest(10) });
    let open = || store.open_approvals(&acme, PageQuery::first(10));
    let late = engine_at(&table, NOON + Millis::hours(366 * 24));
    let sweep = async || late.operations().sweep(&initiator()).await.unwrap();
    let stale = [
        recorded_queries(&table, Box::pin(async { assert_eq!(list().await.unwrap().runs.len(), 1) })).await,
        recorded_queries(&table, Box::pin(async { assert_eq!(open().await.unwrap().approvals.len(), 1) }))
            .await,
        recorded_queries(
            &table,
            Box::pin(async { assert_eq!(store.due(FAR_AHEAD, 10).await.unwrap(), [Due::Run(run())]) }),
        )
        .await,
        recorded_queries(&table, Box::pin(async { assert_eq!(sweep().await.woken, 1) })).await,
    ];
    engine(&table).tenant_handle(&run().tenant, &initiator()).cancel(&run().run, "enough").await.unwrap();
    let [listed, opened, due, swept] = stale;

    table.connection.set(listed);
    assert_eq!(list().await.unwrap().runs, []);
    table.connection.set(opened);
    assert_eq!(open().await.unwrap().approvals, []);
    // A stale candidate is not woken, and no message is sent.
    table.connection.set(due);
    assert_eq!(store.due(FAR_AHEAD, 10).await.unwrap(), []);
    let bundle = BlobRef { sha256: Digest::of_bytes(b"bundle"), bytes: 6 };
    let evidence = Evidence { bundle, name: "run".to_owned(), index: 0, recorded_at: NOON };
    assert_eq!(store.put_evidence(&run(), evidence).await.unwrap(), Write::Committed);
    let messages = store.depth(QueueName::Steps).await.unwrap();
    let expected = swept.len();
    table.connection.set(swept);
    assert_eq!(sweep().await, SweepResult { sent: 0, woken: 0, scheduled: 0 });
    let queries = table.connection.requests().into_iter().filter(|request| request.operation == "Query");
    assert_eq!(queries.count(), expected, "the same queries with the same results");
    assert_eq!(store.depth(QueueName::Steps).await.unwrap(), messages);
    table.connection.set(None);
    assert_canceled_once(&table).await;
}

/// The index queries of `work` and their responses, as injections that repeat them.
async fn recorded_queries(table: &Table, work: BoxFuture<'_, ()>) -> Vec<Injection> {
    table.connection.set(None);
    work.await;
    let queries = table.connection.requests().into_iter().filter(|request| request.operation == "Query");
    let repeat = |(number, request): (usize, SentRequest)| {
        Injection::once("Query", number, Fault::Respond { status: 200, body: request.response })
    };
    queries.enumerate().map(repeat).collect()
}

/// After an outage of the evidence store, many ended runs have no evidence.
async fn one_sweep_requests_all_missing_evidence(table: Table) {
    const RUNS: u32 = 450;
    let early = testkit::engine().standard_tools().clock(TestClock::at(NOON)).on(table.store.clone());
    for number in 0..RUNS {
        let request = testkit::request(&early, testkit::TRANSFORM, &format!("run-{number}"));
        let run = Box::pin(early.admission().start(request)).await.unwrap().run;
        early.tenant_handle(&run.tenant, &initiator()).cancel(&run.run, "enough").await.unwrap();
    }
    let late = engine_at(&table, FAR_AHEAD);
    // The first sweep moves the ended runs to their own partition.
    let mut sent = 0;
    for _ in 0..2 {
        sent += Box::pin(late.operations().sweep(&initiator())).await.unwrap().sent;
    }
    assert_eq!(sent, RUNS);
}

/// Finished runs without evidence must be moved in the index, and the table throttles each move. Messages that a dead
/// process left are sent all the same.
async fn throttled_moves_do_not_stop_the_flush(table: Table) {
    const RUNS: usize = 40;
    prepare(&table, Until::Signaled).await;
    let unsent = decision(Until::ApprovalRequested);
    assert_eq!(table.with_queue_down().commit(unsent).await.unwrap(), Write::Committed);
    let engine = testkit::engine().standard_tools().clock(TestClock::at(NOON)).on(table.store.clone());
    for number in 0..RUNS {
        let request = testkit::request(&engine, testkit::TRANSFORM, &number.to_string());
        let request = StartRun { tenant: "umbrella".parse().unwrap(), ..request };
        let run = Box::pin(engine.admission().start(request)).await.unwrap().run;
        engine.tenant_handle(&run.tenant, &initiator()).cancel(&run.run, "enough").await.unwrap();
    }
    // This list shows the finished runs.
    table.store.due(FAR_AHEAD, 10).await.unwrap();

    let throttled = error_response("ProvisionedThroughputExceededException");
    table.connection.set([Injection::forever("UpdateItem", throttled)]);
    let before = table.store.depth(QueueName::Decisions).await.unwrap();
    table.store.flush_outbox(FAR_AHEAD, 10).await.unwrap_err();
    let moves =
        table.connection.requests().iter().filter(|request| request.operation == "UpdateItem").count();
    assert!(moves > 0, "nothing was moved");
    assert_eq!(table.store.depth(QueueName::Decisions).await.unwrap(), before + 1);

    table.connection.set(None);
    assert_eq!(table.store.flush_outbox(FAR_AHEAD, 10).await.unwrap(), 10, "the next flush moves the runs");
}

/// A newer program has written the record of a run, with fields that this one does not know. Every command of this program
/// fails, and writes nothing.
async fn record_of_a_newer_program_stays_as_it_is(table: Table) {
    prepare(&table, Until::ApprovalRequested).await;
    let key = [("pk", format!("{}#run#{}", run().tenant, run().run)), ("sk", "run".to_owned())];
    let key = key.map(|(name, value)| (name.to_owned(), AttributeValue::S(value)));
    let update = table.client.update_item().table_name(&table.name).set_key(Some(key.clone().into()));
    let format = AttributeValue::N((RECORD_FORMAT + 1).to_string());
    let update = update.update_expression("SET fmt = :fmt").expression_attribute_values(":fmt", format);
    update.send().await.unwrap();
    let item = async || {
        let get = table.client.get_item().table_name(&table.name).set_key(Some(key.clone().into()));
        get.consistent_read(true).send().await.unwrap().item.unwrap()
    };
    let before = item().await;

    let engine = engine_at(&table, NOON + Millis::hours(366 * 24));
    let (handle, id) = (engine.tenant_handle(&run().tenant, &initiator()), run().run);
    let refused = [
        handle.cancel(&id, "enough").await.map(drop),
        handle.pause(&id, "wait").await.map(drop),
        handle.resume(&id, "go").await,
        handle.roll_back(&id, "wrong", None).await.map(drop),
        handle.run(&id).await.map(drop),
        Box::pin(handle.undo(&id)).await.map(drop),
        Box::pin(engine.execution().advance(&run(), &(), AdvanceLimits::default())).await.map(drop),
        Box::pin(engine.operations().build_evidence(&run())).await.map(drop),
        Box::pin(engine.operations().backout(&DispatchScope::All, &initiator(), "fire", |_| {}))
            .await
            .map(drop),
    ];
    for (number, refused) in refused.into_iter().enumerate() {
        assert!(matches!(refused, Err(EngineError::UnsupportedRecordFormat { .. })), "{number}: {refused:?}");
    }
    let swept = Box::pin(engine.operations().sweep(&initiator())).await.unwrap();
    assert_eq!(swept.woken, 0);
    // A decision that was made before the newer program wrote the record.
    let stale = table.store.commit(decision(Until::Approved)).await.unwrap();
    assert_eq!((stale, item().await), (Write::Superseded, before));
}
