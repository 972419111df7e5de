//! Finding runs: the due index and run lists.

use std::collections::BTreeSet;
use std::sync::Arc;

use domain::command::{Cancel, Pause};
use domain::record::ORPHANED_AFTER;
use domain::{Millis, RunId, RunRecord, RunStatus, Timestamp};
use store::{Clock as _, Cursor, Due, RunPage, RunQuery, Store, SystemClock, Write};

use crate::fixtures::{LedgerRun as Run, NOON, calls, claim, tenant};

cases![
    only_due_runs_are_found,
    longest_overdue_runs_come_first,
    due_respects_its_limit,
    due_skips_excluded_tenants_before_its_limit,
    finished_or_paused_run_is_not_due,
    run_is_found_at_its_new_due_time,
    runs_are_listed_by_status,
    run_pages_are_newest_first_without_gap_or_repeat,
    later_runs_do_not_change_a_page,
    last_page_has_no_cursor,
    run_list_has_only_the_tenants_runs,
    runs_are_filtered,
    record_filter_is_scoped_to_the_tenant,
];

/// More than two pages of seven.
const MANY: usize = 20;

/// When a run that was last written at noon is due.
fn due_time() -> Timestamp {
    NOON + ORPHANED_AFTER
}

async fn only_due_runs_are_found<S: Store>(store: Arc<S>) {
    let run = Run::start(&*store, "acme", "request", &calls(1)).await;
    assert!(store.due(Timestamp(due_time().0 - 1), 10).await.unwrap().is_empty());
    assert_eq!(store.due(due_time(), 10).await.unwrap(), [Due::Run(run.key().clone())]);
}

/// Three runs of two tenants, due in another order than they were started in.
async fn overdue<S: Store>(store: &S) -> Vec<Due> {
    let mut runs = Vec::new();
    for (owner, request, hours) in [("acme", "a", 2), ("umbrella", "b", 3), ("acme", "c", 1)] {
        let run = Run::start(store, owner, request, &calls(1)).await;
        let (decision, _) = run.decide_at(NOON + Millis::hours(hours), claim(request, None));
        assert_eq!(store.commit(decision).await.unwrap(), Write::Committed);
        runs.push((hours, run.key().clone()));
    }
    runs.sort();
    runs.into_iter().map(|(_, key)| Due::Run(key)).collect()
}

async fn longest_overdue_runs_come_first<S: Store>(store: Arc<S>) {
    let expected = overdue(&*store).await;
    assert_eq!(store.due(NOON + Millis::hours(9), 10).await.unwrap(), expected);
}

async fn due_respects_its_limit<S: Store>(store: Arc<S>) {
    let expected = overdue(&*store).await;
    assert_eq!(store.due(NOON + Millis::hours(9), 2).await.unwrap(), expected[..2]);
}

async fn due_skips_excluded_tenants_before_its_limit<S: Store>(store: Arc<S>) {
    let expected = overdue(&*store).await;
    let then = NOON + Millis::hours(9);
    let of_others =
        |but: &str| expected.iter().filter(|due| due.run().tenant != tenant(but)).cloned().collect();
    for but in ["acme", "umbrella", "initech"] {
        let found = store.due_excluding(&BTreeSet::from([tenant(but)]), then, 10).await.unwrap();
        let others: Vec<Due> = of_others(but);
        assert_eq!(found, others, "excluding {but}");
    }
    let found = store.due_excluding(&BTreeSet::from([tenant("acme")]), then, 1).await.unwrap();
    assert_eq!(found, expected[2..], "excluded runs do not count towards the limit");
    let all = BTreeSet::from([tenant("acme"), tenant("umbrella")]);
    assert!(store.due_excluding(&all, then, 10).await.unwrap().is_empty());
}

async fn finished_or_paused_run_is_not_due<S: Store>(store: Arc<S>) {
    let mut over = Run::start(&*store, "acme", "over", &calls(1)).await;
    let mut paused = Run::start(&*store, "acme", "paused", &calls(1)).await;
    over.commit(&*store, Cancel { reason: "enough".to_owned() }).await;
    paused.commit(&*store, Pause { reason: "a look".to_owned() }).await;
    assert!(store.due(NOON + Millis::hours(9), 10).await.unwrap().is_empty());
}

async fn run_is_found_at_its_new_due_time<S: Store>(store: Arc<S>) {
    let run = Run::start(&*store, "acme", "request", &calls(1)).await;
    let (decision, _) = run.decide_at(NOON + Millis::hours(1), claim("effect", None));
    store.commit(decision).await.unwrap();
    assert!(store.due(due_time(), 10).await.unwrap().is_empty());
    assert_eq!(store.due(due_time() + Millis::hours(1), 10).await.unwrap(), [Due::Run(run.key().clone())]);
}

fn query(status: Option<RunStatus>, before: Option<Cursor>, limit: u32) -> RunQuery {
    RunQuery { status, before, ..RunQuery::newest(limit) }
}

fn ids(page: &RunPage) -> Vec<RunId> {
    page.runs.iter().map(|run| run.key.run.clone()).collect()
}

async fn runs_are_listed_by_status<S: Store>(store: Arc<S>) {
    let queued = Run::start(&*store, "acme", "queued", &calls(1)).await;
    let mut running = Run::start(&*store, "acme", "running", &calls(1)).await;
    let mut canceled = Run::start(&*store, "acme", "canceled", &calls(1)).await;
    running.claim(&*store, "effect").await;
    canceled.commit(&*store, Cancel { reason: "enough".to_owned() }).await;

    for run in [queued, running, canceled] {
        let page = store.runs(&tenant("acme"), query(Some(run.record.status), None, 10)).await.unwrap();
        assert_eq!(page.runs, [run.record]);
    }
    let paused = store.runs(&tenant("acme"), query(Some(RunStatus::Paused), None, 10)).await.unwrap();
    assert!(paused.runs.is_empty());
}

/// `count` runs of one tenant, newest first, every third canceled, interleaved with runs of another tenant.
async fn many<S: Store>(store: &S, count: usize) -> Vec<(RunId, RunStatus)> {
    let mut runs = Vec::new();
    for n in 0..count {
        Run::start(store, "umbrella", &format!("request-{n}"), &calls(1)).await;
        let mut run = Run::start(store, "acme", &format!("request-{n}"), &calls(1)).await;
        if n % 3 == 0 {
            run.commit(store, Cancel { reason: "enough".to_owned() }).await;
        }
        runs.push((run.key().run.clone(), run.record.status));
    }
    runs.reverse();
    runs
}

/// All pages of a list of at most [`MANY`] runs.
async fn pages<S: Store>(store: &S, status: Option<RunStatus>, limit: u32) -> Vec<RunId> {
    let mut found = Vec::new();
    let mut before = None;
    loop {
        let page = store.runs(&tenant("acme"), query(status, before, limit)).await.unwrap();
        assert!(page.runs.len() <= limit as usize);
        found.extend(ids(&page));
        assert!(found.len() <= MANY, "a run is on two pages");
        before = page.next;
        if before.is_none() {
            return found;
        }
    }
}

async fn run_pages_are_newest_first_without_gap_or_repeat<S: Store>(store: Arc<S>) {
    let runs = many(&*store, MANY).await;
    for status in [None, Some(RunStatus::Queued), Some(RunStatus::Canceled)] {
        let expected: Vec<_> = runs
            .iter()
            .filter(|(_, current)| status.is_none_or(|wanted| wanted == *current))
            .map(|(run, _)| run.clone())
            .collect();
        for limit in [1, 7, 100] {
            assert_eq!(pages(&*store, status, limit).await, expected, "{status:?} by {limit}");
        }
    }
}

async fn later_runs_do_not_change_a_page<S: Store>(store: Arc<S>) {
    let runs = many(&*store, 6).await;
    let first = store.runs(&tenant("acme"), query(None, None, 3)).await.unwrap();
    Run::start(&*store, "acme", "latecomer", &calls(1)).await;
    let second = store.runs(&tenant("acme"), query(None, first.next.clone(), 3)).await.unwrap();
    let expected: Vec<_> = runs.into_iter().map(|(run, _)| run).collect();
    assert_eq!([ids(&first), ids(&second)].concat(), expected);
}

async fn last_page_has_no_cursor<S: Store>(store: Arc<S>) {
    assert_eq!(store.runs(&tenant("acme"), query(None, None, 3)).await.unwrap().next, None);
    many(&*store, 3).await;
    assert_eq!(store.runs(&tenant("acme"), query(None, None, 3)).await.unwrap().next, None);
    assert!(store.runs(&tenant("acme"), query(None, None, 2)).await.unwrap().next.is_some());
}

async fn run_list_has_only_the_tenants_runs<S: Store>(store: Arc<S>) {
    many(&*store, 5).await;
    let owners: BTreeSet<_> = store
        .runs(&tenant("acme"), query(None, None, 100))
        .await
        .unwrap()
        .runs
        .into_iter()
        .map(|run| run.key.tenant)
        .collect();
    assert_eq!(owners, BTreeSet::from([tenant("acme")]));
    assert!(store.runs(&tenant("initech"), query(None, None, 100)).await.unwrap().runs.is_empty());
}

/// The time between two runs where their times matter: more than the resolution of the clock.
const APART: Millis = Millis(5);

const WORKSPACES: [&str; 2] = ["main", "payments"];

/// Runs of two workspaces about two records and about none, every other one canceled, newest first; each starts at its own
/// time.
async fn admit_about_records<S: Store>(store: &S) -> Vec<RunRecord> {
    let records = [Some("servicenow:incident:9d38"), Some("github:acme/shop#7"), None];
    let mut runs = Vec::new();
    for n in 0..MANY {
        let now = SystemClock.now();
        let record = records[n % records.len()];
        let workspace = WORKSPACES[n / 2 % WORKSPACES.len()];
        let mut run = Run::start_about(store, &format!("request-{n}"), (workspace, record), now).await;
        if n % 2 == 0 {
            run.commit(store, Cancel { reason: "enough".to_owned() }).await;
        }
        runs.push(run.record);
        tokio::time::sleep(APART.std()).await;
    }
    runs.reverse();
    runs
}

/// All runs that match a query, page by page.
async fn all<S: Store>(store: &S, mut query: RunQuery) -> Vec<RunRecord> {
    let mut runs = Vec::new();
    loop {
        let page = store.runs(&tenant("acme"), query.clone()).await.unwrap();
        runs.extend(page.runs);
        match page.next {
            Some(next) => query.before = Some(next),
            None => return runs,
        }
    }
}

async fn runs_are_filtered<S: Store>(store: Arc<S>) {
    let runs = admit_about_records(&*store).await;
    let times = [None, Some(runs[3].created_at), Some(runs[MANY - 4].created_at), Some(Timestamp(i64::MAX))];
    let records = [None, Some("servicenow:incident:9d38"), Some("github:acme/shop#7"), Some("other:record")];
    for record in records.map(|record| record.map(|record| record.parse().unwrap())) {
        for status in [None, Some(RunStatus::Queued), Some(RunStatus::Canceled), Some(RunStatus::Succeeded)] {
            for (since, until) in times.iter().flat_map(|since| times.map(|until| (*since, until))) {
                for workspace in [None, Some("payments"), Some("other")] {
                    let workspace = workspace.map(|workspace| workspace.parse().unwrap());
                    let record = record.clone();
                    let query = RunQuery { status, record, workspace, since, until, ..RunQuery::newest(3) };
                    let expected: Vec<_> = runs.iter().filter(|run| query.matches(run)).cloned().collect();
                    assert_eq!(all(&*store, query.clone()).await, expected, "{query:?}");
                }
            }
        }
    }
}

async fn record_filter_is_scoped_to_the_tenant<S: Store>(store: Arc<S>) {
    admit_about_records(&*store).await;
    let record = Some("servicenow:incident:9d38".parse().unwrap());
    let query = RunQuery { record, ..RunQuery::newest(10) };
    assert_eq!(store.runs(&tenant("umbrella"), query).await.unwrap().runs, []);
}
