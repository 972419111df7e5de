//! The matrix: every request of every call, with every fault that it can meet, once, for as long as a call
//! lasts, and for ever.
//!
//! A call is first made undisturbed, which tells what it sends, what it answers and what it leaves behind.
//! Then it is made again for every cell: its answer is the one that the table of errors names, it comes within a
//! lease, and once the trouble is over the caller who asks again ends where the undisturbed one did. Time is
//! virtual.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use countersign_store::StoreError;
use tokio::time::timeout;

use super::line::{Fault, Line, Trouble};
use super::sites::{Kind, ROWS, Row, row};

/// What takes as long as it takes.
pub(crate) type Held<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a call answers, in words.
pub(crate) type Answer = Result<String, StoreError>;

/// An answer, in words.
pub(crate) fn said<T: Debug>(answer: Result<T, StoreError>) -> Answer {
    answer.map(|answer| format!("{answer:?}"))
}

/// An account of its own, and the line to it.
pub(crate) trait Stage: Send + Sync {
    /// The line.
    fn line(&self) -> &Line;

    /// All that is kept and can be compared.
    fn kept(&self) -> Held<'_, BTreeSet<String>>;
}

/// A call of the store.
pub(crate) struct Call<S> {
    /// As in the table of call sites.
    pub(crate) name: &'static str,
    /// What is there before.
    pub(crate) given: fn(&S) -> Held<'_, ()>,
    pub(crate) make: fn(&S) -> Held<'_, Answer>,
    /// What it answers when it finds that it was done before, if that is not what it answered then.
    pub(crate) again: Option<&'static str>,
}

/// The shortest lease that anybody works under, which is that of `countersign-worker`: whoever waits for an answer still
/// holds it.
const LEASE: Duration = Duration::from_secs(20);

/// How often a caller asks again; more often than the engine, to see that it does not matter.
const ASKS_MAX: u32 = 12;

/// For how long something is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lasts {
    /// One request.
    Once,
    /// As long as the first call.
    Call,
    /// Until somebody mends it.
    Forever,
}

/// What can happen to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrong {
    Throttled,
    Conflict,
    ServerError,
    Silence,
    ReplyLost,
    PartOfBatch,
}

impl Wrong {
    const ALL: [Self; 6] = [
        Self::Throttled,
        Self::Conflict,
        Self::ServerError,
        Self::Silence,
        Self::ReplyLost,
        Self::PartOfBatch,
    ];

    /// As it is seen below the SDK; `None` if it cannot happen to `row`.
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

    /// Whether the SDK sends such a request again by itself.
    fn is_retried(self, row: &Row) -> bool {
        match self {
            Self::Conflict => false,
            // The store sends the rest again itself.
            Self::PartOfBatch => true,
            // A write without a name of its own is sent once.
            _ => !matches!(row.operation, "PutItem" | "UpdateItem"),
        }
    }

    /// What the table of errors makes of it.
    fn means(self, kind: Kind) -> &'static str {
        match (kind, self) {
            (Kind::Courtesy, _) => "ok",
            (Kind::Read, _) | (Kind::Write, Self::Throttled | Self::Conflict | Self::PartOfBatch) => "busy",
            (Kind::Write, Self::ServerError | Self::Silence | Self::ReplyLost) => "unknown",
        }
    }
}

/// Who answers.
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
            (Self::DynamoDb, "GetItem" | "PutItem" | "BatchGetItem") => {
                self.answers(400, "ProvisionedThroughputExceededException")
            }
            (Self::DynamoDb, _) => self.answers(400, "ThrottlingException"),
            (Self::Sqs, _) => self.answers(400, "RequestThrottled"),
            (Self::S3, _) => self.answers(503, "SlowDown"),
        }
    }

    /// Two at once. Reads are never in anybody's way.
    fn conflict(self, row: &Row) -> Option<Fault> {
        match (self, row.operation) {
            (Self::DynamoDb, "TransactWriteItems") => {
                let body = r#"{"__type":"com.amazonaws.dynamodb.v20120810#TransactionCanceledException","CancellationReasons":[{"Code":"TransactionConflict"},{"Code":"None"}]}"#;
                Some(Fault::Answer { status: 400, body: body.to_owned() })
            }
            (Self::DynamoDb, "PutItem" | "UpdateItem" | "DeleteItem") => {
                Some(self.answers(400, "TransactionConflictException"))
            }
            (Self::S3, "PutObject") => Some(self.answers(409, "ConditionalRequestConflict")),
            _ => None,
        }
    }

    fn failed(self) -> Fault {
        match self {
            Self::DynamoDb => self.answers(500, "InternalServerError"),
            Self::Sqs => self.answers(500, "InternalFailure"),
            Self::S3 => self.answers(500, "InternalError"),
        }
    }

    fn answers(self, status: u16, code: &str) -> Fault {
        let body = match self {
            Self::DynamoDb => {
                format!(r#"{{"__type":"com.amazonaws.dynamodb.v20120810#{code}","message":"no"}}"#)
            }
            Self::Sqs => format!(r#"{{"__type":"com.amazonaws.sqs#{code}","message":"no"}}"#),
            Self::S3 => {
                format!(r#"<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code></Error>"#)
            }
        };
        Fault::Answer { status, body }
    }
}

/// A fault at a request of a call.
#[derive(Debug, Clone, Copy)]
struct Cell {
    row: &'static Row,
    /// Which of the requests of this operation.
    number: usize,
    wrong: Wrong,
    lasts: Lasts,
}

/// How a call goes when nothing fails.
#[derive(Debug)]
struct Undisturbed {
    answer: String,
    kept: BTreeSet<String>,
    /// How often each operation is sent.
    sends: BTreeMap<String, usize>,
}

/// Plays every cell of `verb`, each on a stage of its own; says how many there are.
pub(crate) async fn play<S: Stage, F: Future<Output = S>>(verb: &Call<S>, set: impl Fn() -> F) -> usize {
    let undisturbed = watch(verb, set().await).await;
    let expected: BTreeSet<_> =
        ROWS.iter().filter(|row| row.call == verb.name).map(|row| row.operation).collect();
    let made: BTreeSet<_> = undisturbed.sends.keys().map(String::as_str).collect();
    assert_eq!(made, expected, "what `{}` sends, and its rows", verb.name);
    let cells = cells(verb, &undisturbed);
    for cell in &cells {
        let stage = set().await;
        (verb.given)(&stage).await;
        play_cell(verb, &stage, cell, &undisturbed).await;
    }
    cells.len()
}

async fn watch<S: Stage>(verb: &Call<S>, stage: S) -> Undisturbed {
    (verb.given)(&stage).await;
    stage.line().set(None);
    let answer = (verb.make)(&stage).await.unwrap();
    let mut sends = BTreeMap::new();
    for passed in stage.line().seen() {
        *sends.entry(passed.operation).or_default() += 1;
    }
    Undisturbed { answer, kept: stage.kept().await, sends }
}

/// The first and the last request of an operation stand for those between them.
fn cells<S>(verb: &Call<S>, undisturbed: &Undisturbed) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (operation, sends) in &undisturbed.sends {
        let row = row(verb.name, operation);
        for wrong in Wrong::ALL.into_iter().filter(|wrong| wrong.fault(row).is_some()) {
            for number in BTreeSet::from([0, sends - 1]) {
                let lasts = [Lasts::Once, Lasts::Call, Lasts::Forever];
                cells.extend(lasts.map(|lasts| Cell { row, number, wrong, lasts }));
            }
        }
    }
    cells
}

async fn play_cell<S: Stage>(verb: &Call<S>, stage: &S, cell: &Cell, undisturbed: &Undisturbed) {
    let Cell { row, number, wrong, lasts } = *cell;
    let trouble = |fault| match lasts {
        Lasts::Once => Trouble::once(row.operation, number, fault),
        Lasts::Call | Lasts::Forever => Trouble { after: number, ..Trouble::forever(row.operation, fault) },
    };
    stage.line().set(wrong.fault(row).map(trouble));
    let ours = Told { answer: undisturbed.answer.as_str(), again: verb.again };
    let mut done = None;
    for ask in 0..if lasts == Lasts::Forever { 3 } else { 1 } {
        let answer = timeout(LEASE, (verb.make)(stage)).await;
        let Ok(answer) = answer else { unreachable!("{cell:?}: no answer within a lease") };
        ours.assert_fits(cell, ask, &answer);
        if answer.is_ok() {
            done = Some(answer);
            break;
        }
    }
    if lasts != Lasts::Once {
        stage.line().set(None);
    }
    if done.is_none() {
        ours.assert_known(cell, &retry_busy(verb, stage).await);
    }
    let kept = stage.kept().await;
    // Messages that were taken and did not arrive are nobody's for a while; then they come again.
    let hidden = match row.operation {
        "ReceiveMessage" => wrong == Wrong::ReplyLost,
        "ChangeMessageVisibilityBatch" => true,
        _ => false,
    };
    assert!(if hidden { !kept.is_empty() } else { kept == undisturbed.kept }, "{cell:?}: {kept:#?} is kept");
}

/// Asks until there is an answer, as the engine does.
async fn retry_busy<S: Stage>(verb: &Call<S>, stage: &S) -> Answer {
    for _ in 0..ASKS_MAX {
        match (verb.make)(stage).await {
            Err(StoreError::Busy { .. } | StoreError::Unknown { .. }) => {}
            answer => return answer,
        }
    }
    Err(StoreError::broken("ask again", "the trouble is over, and there is no answer"))
}

/// What a call may answer.
struct Told<'a> {
    answer: &'a str,
    again: Option<&'static str>,
}

impl Told<'_> {
    /// The `ask`th answer, while the trouble lasts or just after it, is the one that the table of errors names.
    fn assert_fits(&self, cell: &Cell, ask: usize, answer: &Answer) {
        let Cell { row, wrong, lasts, .. } = *cell;
        let endured = lasts == Lasts::Once && wrong.is_retried(row);
        let means = if endured { "ok" } else { wrong.means(row.kind) };
        match answer {
            // Whose write landed finds it there when they ask again.
            Ok(_) if means == "ok" || (ask > 0 && wrong == Wrong::ReplyLost) => {
                self.assert_known(cell, answer);
            }
            Err(StoreError::Busy { doing } | StoreError::Unknown { doing }) => {
                assert_eq!(in_a_word(answer), means, "{cell:?}, asked {ask} times before: {answer:?}");
                assert!(row.doing.contains(doing), "{cell:?}: {doing}");
            }
            _ => unreachable!("{cell:?}, asked {ask} times before: {answer:?}, and not {means}"),
        }
    }

    /// What an undisturbed call answers; or that it is done, if it was and nobody was told.
    fn assert_known(&self, cell: &Cell, answer: &Answer) {
        let Ok(answer) = answer else { unreachable!("{cell:?}: {answer:?}") };
        let again = self.again.filter(|_| cell.wrong == Wrong::ReplyLost);
        let known = answer == self.answer || again.is_some_and(|again| answer.contains(again));
        assert!(known, "{cell:?}: {answer}, and not {}", self.answer);
    }
}

fn in_a_word(answer: &Answer) -> &'static str {
    match answer {
        Ok(_) => "ok",
        Err(StoreError::Busy { .. }) => "busy",
        Err(StoreError::Unknown { .. }) => "unknown",
        Err(StoreError::Broken { .. }) => "broken",
    }
}
