//! The named cases of faults that the table must withstand, with the real engine on it, in virtual time.

use std::sync::Arc;
use std::time::Duration;

use connectors::Toolbox;
use countersign_store::{
    Archive as _, Clock, Governance as _, Ledger as _, PageQuery, Queue as _, RunQuery, StoreError, Write,
};
use domain::chain::verify;
use domain::{BlobRef, Digest, Evidence, Millis, QueueName, RunStatus, Timestamp, merkle};
use engine::{Engine, EngineError, Parts, Swept, Timing};
use tokio::time::{Instant, sleep};

use crate::account::Store;
use crate::faults::kept::Still;
use crate::faults::line::{Fault, Passed, Trouble};
use crate::faults::matrix::Held;
use crate::faults::story::{FAR_AHEAD, NOON, Until, initiator, plan, run, tell, tenant};
use crate::table::Table;

/// A case in virtual time.
type Case = fn(Table) -> Held<'static, ()>;

pub(crate) fn cases() -> Vec<(&'static str, Case)> {
    vec![
        ("ddb_throttle_forever", |table| Box::pin(ddb_throttle_forever(table))),
        ("ddb_conflict_storm", |table| Box::pin(ddb_conflict_storm(table))),
        ("ddb_reply_lost_then_condition_failed", |table| {
            Box::pin(ddb_reply_lost_then_condition_failed(table))
        }),
        ("gsi_stale_read", |table| Box::pin(gsi_stale_read(table))),
        ("claims_that_conflict_are_committed_once_in_the_end", |table| {
            Box::pin(claims_that_conflict_are_committed_once_in_the_end(table))
        }),
    ]
}

/// Longer than the engine and the SDK are patient together.
const PATIENCE: Duration = Duration::from_mins(2);

fn engine(table: &Table) -> Engine<Store> {
    engine_at(table, Arc::new(Still))
}

/// Whatever was to happen today is due.
struct NextYear;

impl Clock for NextYear {
    fn now(&self) -> Timestamp {
        NOON + Millis::hours(366 * 24)
    }
}

fn engine_at(table: &Table, clock: Arc<dyn Clock>) -> Engine<Store> {
    Engine::new(Parts {
        store: Arc::new(table.store.clone()),
        tools: Toolbox::default(),
        clock,
        me: "worker".parse().unwrap(),
        timing: Timing::default(),
        shows: None,
        sealing: None,
    })
}

async fn told(table: &Table, until: Until) {
    table.store.put_plan(&tenant(), &plan()).await.unwrap();
    tell(&table.store, until).await;
}

fn answer(code: &str) -> Fault {
    let body = format!(r#"{{"__type":"com.amazonaws.dynamodb.v20120810#{code}","message":"no"}}"#);
    Fault::Answer { status: 400, body }
}

fn canceled(reason: &str) -> Fault {
    let kind = "com.amazonaws.dynamodb.v20120810#TransactionCanceledException";
    let reasons = format!(r#"[{{"Code":"{reason}"}},{{"Code":"None"}}]"#);
    Fault::Answer { status: 400, body: format!(r#"{{"__type":"{kind}","CancellationReasons":{reasons}}}"#) }
}

/// The chain of the run holds, and its last event is the only one of its kind.
async fn assert_canceled_once(table: &Table) {
    let record = table.store.load(&run()).await.unwrap().unwrap();
    assert_eq!(record.status, RunStatus::Canceled);
    let chain = table.store.events(&run(), 0, 100).await.unwrap();
    verify(&run(), &chain, record.events, &record.head).unwrap();
    let texts = chain.iter().map(|event| String::from_utf8_lossy(&event.canonical));
    assert_eq!(texts.filter(|event| event.contains("enough")).count(), 1);
}

/// The caller is told in the end, nothing was done, and when the table has breath again all goes on.
async fn ddb_throttle_forever(table: Table) {
    told(&table, Until::Answered).await;
    let (engine, before) = (engine(&table), table.store.load(&run()).await.unwrap());
    for operation in ["GetItem", "TransactWriteItems"] {
        let began = Instant::now();
        let throttled = answer("ProvisionedThroughputExceededException");
        table.line.set([Trouble::forever(operation, throttled)]);
        let error = engine.cancel(&run(), &initiator(), "enough").await.unwrap_err();
        assert!(matches!(error, EngineError::Store(StoreError::Busy { .. })), "{error:?}");
        assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
        table.line.set(None);
        assert_eq!(table.store.load(&run()).await.unwrap(), before);
    }
    engine.cancel(&run(), &initiator(), "enough").await.unwrap();
    assert_canceled_once(&table).await;
}

/// Everybody writes at once, and the table refuses more of it than it takes.
async fn ddb_conflict_storm(table: Table) {
    const WRITERS: usize = 8;
    told(&table, Until::Begun).await;
    let table = Arc::new(table);
    let conflicts = |operation, times, fault| Trouble { times, ..Trouble::forever(operation, fault) };
    table.line.set([
        conflicts("TransactWriteItems", 5, canceled("TransactionConflict")),
        conflicts("PutItem", 5 * WRITERS, answer("TransactionConflictException")),
    ]);
    let writers = (0..WRITERS).map(|number| {
        let table = Arc::clone(&table);
        tokio::spawn(async move {
            let engine = engine(&table);
            if number == 0 {
                return engine.cancel(&run(), &initiator(), "enough").await.map(drop);
            }
            // The run is in the log once, however many append it.
            let position = loop {
                match table.store.append_log(&run(), merkle::leaf(b"head")).await {
                    Err(StoreError::Busy { .. }) => sleep(Duration::from_millis(50)).await,
                    position => break position?,
                }
            };
            assert_eq!((position.index, position.size), (0, 1));
            Ok(())
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap().unwrap();
    }
    assert!(table.line.seen().len() > 5 * WRITERS, "the storm was weathered");
    table.line.set(None);
    assert_canceled_once(&table).await;
}

/// Of those who want one item at once DynamoDB refuses some for that alone, which no stand-in does.
async fn claims_that_conflict_are_committed_once_in_the_end(table: Table) {
    const RACE: &str = "of_many_concurrent_claims_exactly_one_is_committed";
    // The first transaction begins the run; of those that follow, every other one is refused.
    let refused = (1..200).step_by(2);
    let conflicts =
        refused.map(|number| Trouble::once("TransactWriteItems", number, canceled("TransactionConflict")));
    table.line.set(conflicts);

    let race = conformance::cases::<Store>().into_iter().find(|case| case.name == RACE).unwrap();
    (race.run)(Arc::new(table.store.clone())).await;

    let sent = table.line.seen().iter().filter(|passed| passed.operation == "TransactWriteItems").count();
    assert!(sent > 48, "{sent} transactions, of which half was to be refused");
}

/// The write landed and nobody was told; sent again it is refused, by itself. It is found by its name and counts.
async fn ddb_reply_lost_then_condition_failed(table: Table) {
    told(&table, Until::Begun).await;
    let again = "TransactWriteItems";
    let refused = Trouble { after: 1, ..Trouble::forever(again, canceled("ConditionalCheckFailed")) };
    table.line.set([Trouble::once(again, 0, Fault::LoseReply), refused]);

    engine(&table).cancel(&run(), &initiator(), "enough").await.unwrap();

    let writes = table.line.seen().iter().filter(|passed| passed.operation == again).count();
    assert_eq!(writes, 2, "it was sent again once, and then looked for");
    table.line.set(None);
    assert_canceled_once(&table).await;
}

/// An index shows what was; the record says what is.
async fn gsi_stale_read(table: Table) {
    told(&table, Until::Asked).await;
    let store = &table.store;
    let status = store.load(&run()).await.unwrap().unwrap().status;
    let acme = tenant();
    let list = || store.runs(&acme, RunQuery { status: Some(status), ..RunQuery::newest(10) });
    let open = || store.open_approvals(&acme, PageQuery::first(10));
    let late = engine_at(&table, Arc::new(NextYear));
    let sweep = async || late.sweep(&initiator()).await.unwrap();
    let then = [
        remembered(&table, Box::pin(async { assert_eq!(list().await.unwrap().runs.len(), 1) })).await,
        remembered(&table, Box::pin(async { assert_eq!(open().await.unwrap().approvals.len(), 1) })).await,
        remembered(&table, Box::pin(async { assert_eq!(store.due(FAR_AHEAD, 10).await.unwrap(), [run()]) }))
            .await,
        remembered(&table, Box::pin(async { assert_eq!(sweep().await.woken, 1) })).await,
    ];
    engine(&table).cancel(&run(), &initiator(), "enough").await.unwrap();
    let [listed, opened, due, swept] = then;

    table.line.set(listed);
    assert_eq!(list().await.unwrap().runs, []);
    table.line.set(opened);
    assert_eq!(open().await.unwrap().approvals, []);
    // A candidate that is none any more is not woken, and nothing is sent.
    table.line.set(due);
    assert_eq!(store.due(FAR_AHEAD, 10).await.unwrap(), []);
    let bundle = BlobRef { sha256: Digest::of_bytes(b"bundle"), bytes: 6 };
    let evidence = Evidence { bundle, index: 0, sealed_at: NOON };
    assert_eq!(store.put_evidence(&run(), evidence).await.unwrap(), Write::Committed);
    let messages = store.depth(QueueName::Steps).await.unwrap();
    let asked = swept.len();
    table.line.set(swept);
    assert_eq!(sweep().await, Swept { sent: 0, woken: 0, scheduled: 0 });
    let queries = table.line.seen().into_iter().filter(|passed| passed.operation == "Query");
    assert_eq!(queries.count(), asked, "it asked what it had asked before, and was told the same");
    assert_eq!(store.depth(QueueName::Steps).await.unwrap(), messages);
    table.line.set(None);
    assert_canceled_once(&table).await;
}

/// What the indexes answer to `look`, to be answered again.
async fn remembered(table: &Table, look: Held<'_, ()>) -> Vec<Trouble> {
    table.line.set(None);
    look.await;
    let asked = table.line.seen().into_iter().filter(|passed| passed.operation == "Query");
    let again = |(number, passed): (usize, Passed)| {
        Trouble::once("Query", number, Fault::Answer { status: 200, body: passed.answer })
    };
    asked.enumerate().map(again).collect()
}
