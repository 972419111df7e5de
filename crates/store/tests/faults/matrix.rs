//! The fault matrix: every request of every call, with every possible fault, once, for the duration of a call, and
//! permanently.
//!
//! Each call is first made without faults, which shows the requests that it sends, its result and the stored data.
//! Then it is made again for every cell of the matrix. The test checks that the result is the one of the error
//! table, that it comes within a lease, and that a retry after the fault has the same effect as the call without
//! faults. Time is virtual.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use countersign_store::StoreError;
use tokio::time::timeout;

use super::connection::{Fault, FaultyConnection, Injection};
use super::sites::{Kind, ROWS, Row, row};

pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The result of a call, rendered.
pub(crate) type CallResult = Result<String, StoreError>;

/// Renders the result of a call.
pub(crate) fn render<T: Debug>(result: Result<T, StoreError>) -> CallResult {
    result.map(|value| format!("{value:?}"))
}

/// A test environment: a store of its own, and the connection to it.
pub(crate) trait MatrixEnv: Send + Sync {
    fn connection(&self) -> &FaultyConnection;

    /// All stored data that can be compared.
    fn stored(&self) -> BoxFuture<'_, BTreeSet<String>>;
}

/// A store call.
pub(crate) struct Call<S> {
    /// The name in the table of call sites.
    pub(crate) name: &'static str,
    /// Prepares the environment.
    pub(crate) setup: fn(&S) -> BoxFuture<'_, ()>,
    pub(crate) make: fn(&S) -> BoxFuture<'_, CallResult>,
    /// The result of a retry that finds its own write, if it differs.
    pub(crate) repeated: Option<&'static str>,
}

/// The shortest lease in use, which is that of `countersign-worker`: a caller that waits for a result still holds
/// it.
const LEASE: Duration = Duration::from_secs(20);

/// How often the caller retries: more often than the engine, to show that it makes no difference.
const ATTEMPTS_MAX: u32 = 12;

/// The duration of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FaultDuration {
    /// One request.
    Once,
    /// The duration of the first call.
    Call,
    /// Until the test removes it.
    Forever,
}

/// The kinds of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FaultKind {
    Throttled,
    Conflict,
    ServerError,
    Silence,
    ReplyLost,
    PartOfBatch,
}

impl FaultKind {
    const ALL: [Self; 6] = [
        Self::Throttled,
        Self::Conflict,
        Self::ServerError,
        Self::Silence,
        Self::ReplyLost,
        Self::PartOfBatch,
    ];

    /// The fault as the HTTP layer below the SDK sees it; `None` if it cannot happen to `row`.
    fn fault(self, row: &Row) -> Option<Fault> {
        let service = Service::of(row.operation);
        match self {
            Self::Throttled => Some(service.throttled(row)),
            Self::Conflict => service.conflict(row),
            Self::ServerError => Some(service.failed()),
            Self::Silence => Some(Fault::Silence),
            Self::ReplyLost => Some(Fault::LoseReply),
            Self::PartOfBatch => row.operation.contains("Batch").then_some(Fault::Partial),
        }
    }

    /// Whether the SDK or the store retries such a request.
    fn is_retried(self, row: &Row) -> bool {
        match self {
            Self::Conflict => false,
            // The store retries the rest of a batch.
            Self::PartOfBatch => true,
            // A conditional write without a client request token is sent once.
            _ => row.operation != "UpdateItem" && row.sent_by != "mod.rs::put",
        }
    }

    /// The result that the error table defines.
    fn expected(self, kind: Kind) -> &'static str {
        match (kind, self) {
            (Kind::BestEffort, _) => "ok",
            (Kind::Read, _) | (Kind::Write, Self::Throttled | Self::Conflict | Self::PartOfBatch) => "busy",
            (Kind::Write, Self::ServerError | Self::Silence | Self::ReplyLost) => "unknown",
        }
    }
}

/// The AWS service.
#[derive(Clone, Copy)]
enum Service {
    DynamoDb,
    Sqs,
    S3,
}

impl Service {
    fn of(operation: &str) -> Self {
        match operation {
            "PutObject" | "GetObject" | "HeadObject" | "CreateBucket" => Self::S3,
            queue if queue.contains("Message") || queue.contains("Queue") => Self::Sqs,
            _ => Self::DynamoDb,
        }
    }

    fn throttled(self, row: &Row) -> Fault {
        match (self, row.operation) {
            (Self::DynamoDb, "GetItem" | "PutItem" | "BatchGetItem" | "BatchWriteItem") => {
                self.response(400, "ProvisionedThroughputExceededException")
            }
            (Self::DynamoDb, _) => self.response(400, "ThrottlingException"),
            (Self::Sqs, _) => self.response(400, "RequestThrottled"),
            (Self::S3, _) => self.response(503, "SlowDown"),
        }
    }

    /// A conflict with another write. Reads have no conflicts.
    fn conflict(self, row: &Row) -> Option<Fault> {
        match (self, row.operation) {
            (Self::DynamoDb, "TransactWriteItems") => {
                let body = r#"{"__type":"com.amazonaws.dynamodb.v20120810#TransactionCanceledException","CancellationReasons":[{"Code":"TransactionConflict"},{"Code":"None"}]}"#;
                Some(Fault::Respond { status: 400, body: body.to_owned() })
            }
            (Self::DynamoDb, "PutItem" | "UpdateItem" | "DeleteItem") => {
                Some(self.response(400, "TransactionConflictException"))
            }
            (Self::S3, "PutObject") => Some(self.response(409, "ConditionalRequestConflict")),
            _ => None,
        }
    }

    fn failed(self) -> Fault {
        match self {
            Self::DynamoDb => self.response(500, "InternalServerError"),
            Self::Sqs => self.response(500, "InternalFailure"),
            Self::S3 => self.response(500, "InternalError"),
        }
    }

    fn response(self, status: u16, code: &str) -> Fault {
        let body = match self {
            Self::DynamoDb => {
                format!(r#"{{"__type":"com.amazonaws.dynamodb.v20120810#{code}","message":"no"}}"#)
            }
            Self::Sqs => format!(r#"{{"__type":"com.amazonaws.sqs#{code}","message":"no"}}"#),
            Self::S3 => {
                format!(r#"<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code></Error>"#)
            }
        };
        Fault::Respond { status, body }
    }
}

/// A fault of one request of a call.
#[derive(Debug, Clone, Copy)]
struct Cell {
    row: &'static Row,
    /// The number of the request among those of this operation.
    number: usize,
    kind: FaultKind,
    duration: FaultDuration,
}

/// The course of a call without faults.
#[derive(Debug)]
struct Baseline {
    result: String,
    stored: BTreeSet<String>,
    /// The number of requests of each operation.
    sends: BTreeMap<String, usize>,
}

/// Runs every cell of `call`, each in its own environment. Returns the number of cells.
pub(crate) async fn run_cells<S: MatrixEnv, F: Future<Output = S>>(
    call: &Call<S>,
    set_up: impl Fn() -> F,
) -> usize {
    let baseline = record_baseline(call, set_up().await).await;
    let expected: BTreeSet<_> =
        ROWS.iter().filter(|row| row.call == call.name).map(|row| row.operation).collect();
    let made: BTreeSet<_> = baseline.sends.keys().map(String::as_str).collect();
    assert_eq!(made, expected, "the operations of `{}` and its rows differ", call.name);
    let cells = cells(call, &baseline);
    for cell in &cells {
        let env = set_up().await;
        (call.setup)(&env).await;
        run_cell(call, &env, cell, &baseline).await;
    }
    cells.len()
}

async fn record_baseline<S: MatrixEnv>(call: &Call<S>, env: S) -> Baseline {
    (call.setup)(&env).await;
    env.connection().set(None);
    let result = (call.make)(&env).await.unwrap();
    let mut sends = BTreeMap::new();
    for request in env.connection().requests() {
        *sends.entry(request.operation).or_default() += 1;
    }
    Baseline { result, stored: env.stored().await, sends }
}

/// Tests the first and the last request of an operation; those between behave the same.
fn cells<S>(call: &Call<S>, baseline: &Baseline) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (operation, sends) in &baseline.sends {
        let row = row(call.name, operation);
        for kind in FaultKind::ALL.into_iter().filter(|kind| kind.fault(row).is_some()) {
            for number in BTreeSet::from([0, sends - 1]) {
                let duration = [FaultDuration::Once, FaultDuration::Call, FaultDuration::Forever];
                cells.extend(duration.map(|duration| Cell { row, number, kind, duration }));
            }
        }
    }
    cells
}

async fn run_cell<S: MatrixEnv>(operation: &Call<S>, env: &S, cell: &Cell, baseline: &Baseline) {
    let Cell { row, number, kind, duration } = *cell;
    let injected = |fault| match duration {
        FaultDuration::Once => Injection::once(row.operation, number, fault),
        FaultDuration::Call | FaultDuration::Forever => {
            Injection { after: number, ..Injection::forever(row.operation, fault) }
        }
    };
    env.connection().set(kind.fault(row).map(injected));
    let expected = Expected { result: baseline.result.as_str(), repeated: operation.repeated };
    let mut done = false;
    for attempt in 0..if duration == FaultDuration::Forever { 3 } else { 1 } {
        let result = timeout(LEASE, (operation.make)(env)).await;
        let Ok(result) = result else { unreachable!("{cell:?}: no result within a lease") };
        expected.check(cell, attempt, &result);
        if result.is_ok() {
            done = true;
            break;
        }
    }
    if duration != FaultDuration::Once {
        env.connection().set(None);
    }
    if !done {
        expected.check_success(cell, &retry_busy(operation, env).await);
    }
    let stored = env.stored().await;
    // Messages whose delivery was lost are invisible until their visibility timeout ends.
    let hidden = match row.operation {
        "ReceiveMessage" => kind == FaultKind::ReplyLost,
        "ChangeMessageVisibilityBatch" => true,
        _ => false,
    };
    assert!(
        if hidden { !stored.is_empty() } else { stored == baseline.stored },
        "{cell:?}: stored {stored:#?}"
    );
}

/// Retries until there is a result, as the engine does.
async fn retry_busy<S: MatrixEnv>(call: &Call<S>, env: &S) -> CallResult {
    for _ in 0..ATTEMPTS_MAX {
        match (call.make)(env).await {
            Err(StoreError::Busy { .. } | StoreError::Unknown { .. }) => {}
            result => return result,
        }
    }
    Err(StoreError::broken("retry a call", "no result after the fault was removed"))
}

/// The results that a call may have.
struct Expected<'a> {
    result: &'a str,
    repeated: Option<&'static str>,
}

impl Expected<'_> {
    /// The result of attempt `attempt`, during the fault or right after it, is the one of the error table.
    fn check(&self, cell: &Cell, attempt: usize, result: &CallResult) {
        let Cell { row, kind, duration, .. } = *cell;
        let retried = duration == FaultDuration::Once && kind.is_retried(row);
        let expected = if retried { "ok" } else { kind.expected(row.kind) };
        match result {
            // A retry finds its own write.
            Ok(_) if expected == "ok" || (attempt > 0 && kind == FaultKind::ReplyLost) => {
                self.check_success(cell, result);
            }
            Err(StoreError::Busy { doing } | StoreError::Unknown { doing }) => {
                assert_eq!(class(result), expected, "{cell:?}, attempt {attempt}: {result:?}");
                assert!(row.doing.contains(doing), "{cell:?}: {doing}");
            }
            _ => unreachable!("{cell:?}, attempt {attempt}: {result:?} instead of {expected}"),
        }
    }

    /// The result of the call without faults, or that of a retry that finds its own write.
    fn check_success(&self, cell: &Cell, result: &CallResult) {
        let Ok(result) = result else { unreachable!("{cell:?}: {result:?}") };
        let repeated = self.repeated.filter(|_| cell.kind == FaultKind::ReplyLost);
        let matches = result == self.result || repeated.is_some_and(|repeated| result.contains(repeated));
        assert!(matches, "{cell:?}: {result} instead of {}", self.result);
    }
}

fn class(result: &CallResult) -> &'static str {
    match result {
        Ok(_) => "ok",
        Err(StoreError::Busy { .. }) => "busy",
        Err(StoreError::Unknown { .. }) => "unknown",
        Err(StoreError::Broken { .. }) => "broken",
    }
}
