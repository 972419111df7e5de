//! A page of a long list: fifty runs of one status, among a million.
//!
//! A thousand runs are committed, in the usual statuses, and their rows are then copied under new ids. The benchmark
//! measures the store call that the API makes, at the beginning of the list and deep inside it.

use std::path::Path;
use std::time::{Duration, Instant};

use domain::{RunStatus, TenantId, Timestamp};
use serde::Serialize;
use store::{Cursor, Ledger as _, RunQuery, SqliteOptions, SqliteStore};

use crate::bench::{Bench, Load};
use crate::report::{ms, percentile};

/// The runs that are committed. One in ten does not succeed.
const COMMITTED: u32 = 1_000;

const PAGE: u32 = 50;

/// The number of queries for each kind of list.
const QUERIES: u32 = 1_000;

/// The limit.
const P99_MAX: Duration = Duration::from_millis(20);

#[derive(Debug, Serialize)]
pub(crate) struct ListReport {
    runs: u32,
    page: u32,
    queries: u32,
    /// The slowest list by status.
    by_status_ms_p50: f64,
    by_status_ms_p99: f64,
    each: Vec<ListTiming>,
}

#[derive(Debug, Serialize)]
struct ListTiming {
    of: String,
    ms_p50: f64,
    ms_p99: f64,
}

/// Fills a store with `runs` runs and lists them.
pub(crate) async fn measure(runs: u32) -> Result<ListReport, String> {
    let bench = Bench::new(Load { runs: COMMITTED * 9 / 10, in_flight: 64, steps: 5 })?;
    let filled = Box::pin(bench.fill(COMMITTED / 10)).await?;
    copy(&filled.path, runs)?;
    let store = SqliteStore::open(&filled.path, SqliteOptions::default()).map_err(to_text)?;
    let mut each = Vec::new();
    for status in [RunStatus::Succeeded, RunStatus::Queued, RunStatus::Canceled, RunStatus::Paused] {
        let of = RunQuery { status: Some(status), ..RunQuery::newest(PAGE) };
        each.push(list(status.as_str(), &query_pages(&store, &filled.tenant, &of, runs).await?));
    }
    let longest = |part: fn(&ListTiming) -> f64| each.iter().map(part).fold(0.0, f64::max);
    let (by_status_ms_p50, by_status_ms_p99) = (longest(|list| list.ms_p50), longest(|list| list.ms_p99));
    for (of, query) in others(filled.middle) {
        each.push(list(of, &query_pages(&store, &filled.tenant, &query, runs).await?));
    }
    Ok(ListReport { runs, page: PAGE, queries: QUERIES, by_status_ms_p50, by_status_ms_p99, each })
}

impl ListReport {
    /// A message if the limit is exceeded.
    pub(crate) fn limit_exceeded(&self) -> Option<String> {
        let most = ms(P99_MAX);
        (self.by_status_ms_p99 > most).then(|| {
            format!("a page by status takes {} ms at p99; the limit is {most} ms", self.by_status_ms_p99)
        })
    }
}

/// Lists with other filters.
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

/// Queries pages at the beginning of a list and at positions spread over it.
async fn query_pages(
    store: &SqliteStore,
    tenant: &TenantId,
    query: &RunQuery,
    runs: u32,
) -> Result<Vec<Duration>, String> {
    let mut took = Vec::new();
    for n in 0..QUERIES {
        // Half of the queries start at the beginning.
        let place = (n % 2 == 1)
            .then(|| Cursor::new((u64::from(runs) * u64::from(n) / u64::from(QUERIES)).to_string()));
        let query = RunQuery { before: place, ..query.clone() };
        let began = Instant::now();
        let page = store.runs(tenant, query).await.map_err(to_text)?;
        took.push(began.elapsed());
        if n == 0 && page.runs.is_empty() {
            return Err("a page is empty".to_owned());
        }
    }
    took.sort_unstable();
    Ok(took)
}

fn list(of: &str, took: &[Duration]) -> ListTiming {
    ListTiming { of: of.to_owned(), ms_p50: ms(percentile(took, 50)), ms_p99: ms(percentile(took, 99)) }
}

/// Copies the rows of runs until there are `runs`. A copy has its own id and time; every thousandth has the same record.
fn copy(path: &Path, runs: u32) -> Result<(), String> {
    let conn = rusqlite::Connection::open(path).map_err(to_text)?;
    conn.execute_batch("PRAGMA synchronous = OFF").map_err(to_text)?;
    for n in 1..runs.div_ceil(COMMITTED) {
        conn.execute(
            "INSERT INTO runs (tenant, run, status, version, due_at, body, created_at, record) \
             SELECT tenant, run || '-' || ?1, status, version, due_at, replace(body, run, run || '-' || ?1), \
                    created_at + ?1 * 1000, iif(id = 7, 'bench:record:7', NULL) \
             FROM runs WHERE id <= ?2 ORDER BY id",
            (n, COMMITTED),
        )
        .map_err(to_text)?;
    }
    conn.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").map_err(to_text)
}

fn to_text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
