//! A page of a long list: fifty runs of one status, among a million.
//!
//! A thousand runs are made by real commits, in the statuses that a store fills up with, and their rows are then
//! copied under new ids until there are as many as wanted. What is measured is the store's own call, as an API
//! would make it, at the beginning of the list and deep inside it.

use std::path::Path;
use std::time::{Duration, Instant};

use domain::{RunStatus, TenantId, Timestamp};
use serde::Serialize;
use store::{Cursor, Ledger as _, RunQuery, SqliteOptions, SqliteStore};

use crate::bench::{Bench, Load};
use crate::report::{ms, percentile};

/// The runs that are made by real commits: one in ten ends as nobody wished.
const MADE: u32 = 1_000;

/// So many are on a page.
const PAGE: u32 = 50;

/// Looks at each kind of list.
const LOOKS: u32 = 1_000;

/// What was promised.
const P99_MAX: Duration = Duration::from_millis(20);

/// What is listed.
#[derive(Debug, Serialize)]
pub(crate) struct Lists {
    runs: u32,
    page: u32,
    looks: u32,
    /// The list by status that takes longest.
    by_status_ms_p50: f64,
    by_status_ms_p99: f64,
    each: Vec<List>,
}

#[derive(Debug, Serialize)]
struct List {
    of: String,
    ms_p50: f64,
    ms_p99: f64,
}

/// Fills a store with so many runs and lists them.
pub(crate) async fn measure(runs: u32) -> Result<Lists, String> {
    let bench = Bench::new(Load { runs: MADE * 9 / 10, in_flight: 64, steps: 5 })?;
    let furnished = Box::pin(bench.furnish(MADE / 10)).await?;
    copy(&furnished.path, runs)?;
    let store = SqliteStore::open(&furnished.path, SqliteOptions::default()).map_err(told)?;
    let mut each = Vec::new();
    for status in [RunStatus::Succeeded, RunStatus::Queued, RunStatus::Canceled, RunStatus::Paused] {
        let of = RunQuery { status: Some(status), ..RunQuery::newest(PAGE) };
        each.push(list(status.as_str(), &look(&store, &furnished.tenant, &of, runs).await?));
    }
    let longest = |part: fn(&List) -> f64| each.iter().map(part).fold(0.0, f64::max);
    let (by_status_ms_p50, by_status_ms_p99) = (longest(|list| list.ms_p50), longest(|list| list.ms_p99));
    for (of, query) in others(furnished.middle) {
        each.push(list(of, &look(&store, &furnished.tenant, &query, runs).await?));
    }
    Ok(Lists { runs, page: PAGE, looks: LOOKS, by_status_ms_p50, by_status_ms_p99, each })
}

impl Lists {
    /// What was promised and is not so.
    pub(crate) fn missed(&self) -> Option<String> {
        let most = ms(P99_MAX);
        (self.by_status_ms_p99 > most).then(|| {
            format!("a page of a status takes {} ms at p99; promised: {most}", self.by_status_ms_p99)
        })
    }
}

/// Lists that go by something else.
fn others(middle: Timestamp) -> [(&'static str, RunQuery); 4] {
    let newest = || RunQuery::newest(PAGE);
    let failed = Some(RunStatus::Canceled);
    [
        ("all", newest()),
        ("a record", RunQuery { record: "bench:record:7".parse().ok(), ..newest() }),
        ("before a time", RunQuery { until: Some(middle), ..newest() }),
        ("canceled before a time", RunQuery { status: failed, until: Some(middle), ..newest() }),
    ]
}

/// Looks at pages of a list, from its beginning and from places spread over all of it.
async fn look(
    store: &SqliteStore,
    tenant: &TenantId,
    query: &RunQuery,
    runs: u32,
) -> Result<Vec<Duration>, String> {
    let mut took = Vec::new();
    for n in 0..LOOKS {
        // Half of all people look at the beginning.
        let place = (n % 2 == 1)
            .then(|| Cursor::new((u64::from(runs) * u64::from(n) / u64::from(LOOKS)).to_string()));
        let query = RunQuery { before: place, ..query.clone() };
        let began = Instant::now();
        let page = store.runs(tenant, query).await.map_err(told)?;
        took.push(began.elapsed());
        if n == 0 && page.runs.is_empty() {
            return Err("a list is empty".to_owned());
        }
    }
    took.sort_unstable();
    Ok(took)
}

fn list(of: &str, took: &[Duration]) -> List {
    List { of: of.to_owned(), ms_p50: ms(percentile(took, 50)), ms_p99: ms(percentile(took, 99)) }
}

/// Copies the rows of runs until there are so many. A copy has an id and a time of its own; every thousandth is about
/// the same record.
fn copy(path: &Path, runs: u32) -> Result<(), String> {
    let conn = rusqlite::Connection::open(path).map_err(told)?;
    conn.execute_batch("PRAGMA synchronous = OFF").map_err(told)?;
    for n in 1..runs.div_ceil(MADE) {
        conn.execute(
            "INSERT INTO runs (tenant, run, status, version, due_at, body, created_at, record) \
             SELECT tenant, run || '-' || ?1, status, version, due_at, replace(body, run, run || '-' || ?1), \
                    created_at + ?1 * 1000, iif(id = 7, 'bench:record:7', NULL) \
             FROM runs WHERE id <= ?2 ORDER BY id",
            (n, MADE),
        )
        .map_err(told)?;
    }
    conn.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").map_err(told)
}

fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}
