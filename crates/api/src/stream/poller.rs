//! Finds the runs of a tenant that changed since the last poll, without reading all runs.
//!
//! A poll reads three lists: the newest runs back to those of the last poll, the unfinished runs by status, and the
//! runs that were unfinished at the last poll and are in neither list. A record counts the events of its run, so it
//! shows how many are new. A run that started and finished between two polls is among the newest.

use std::collections::{BTreeMap, BTreeSet};

use domain::{Event, RunId, RunRecord, RunStatus, Timestamp};
use engine::{EngineError, TenantHandle};
use store::{Cursor, RunQuery, Store};

use super::run::events;

/// The page size of a list of runs.
const PAGE: u32 = 100;

/// How far back a poll reads the list of the newest runs. The list is sorted by the clocks of the servers that admit
/// runs, so a run that is admitted later can appear a little further back.
const RANGE: usize = 100;

/// The maximum number of pages of new runs in one poll. Beyond that, listeners must resync.
const PAGES_MAX: usize = 50;

/// The number of events of a chain to read at once.
const ENTRIES: u32 = 100;

/// Why a poll is incomplete.
#[derive(Debug, thiserror::Error)]
pub(super) enum PollError {
    #[error("more runs have started than one poll reads")]
    TooMany,
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// The known state of the runs of a tenant.
pub(super) struct TenantPoller<S> {
    handle: TenantHandle<S>,
    /// The unfinished runs, with the number of events that were sent.
    watched: BTreeMap<RunId, u32>,
    newest: Vec<RunId>,
    since: Timestamp,
}

/// The latest record of each run in one poll.
#[derive(Default)]
struct LatestRecords(BTreeMap<RunId, RunRecord>);

impl LatestRecords {
    fn add(&mut self, record: RunRecord) {
        match self.0.get(&record.key.run) {
            Some(known) if known.version >= record.version => {}
            _ => {
                self.0.insert(record.key.run.clone(), record);
            }
        }
    }
}

impl<S: Store> TenantPoller<S> {
    /// The first poll. Events so far count as sent.
    pub(super) async fn start(handle: TenantHandle<S>) -> Result<Self, EngineError> {
        let since = handle.now();
        let page = handle.runs(RunQuery::newest(PAGE)).await?;
        let newest = page.runs.iter().take(RANGE).map(|record| record.key.run.clone()).collect();
        let mut poller = Self { handle, watched: BTreeMap::new(), newest, since };
        let mut found = LatestRecords::default();
        page.runs.into_iter().for_each(|record| found.add(record));
        poller.find_open(&mut found).await?;
        let open = found.0.into_iter().filter(|(_, record)| !record.status.is_terminal());
        poller.watched = open.map(|(run, record)| (run, record.events)).collect();
        Ok(poller)
    }

    pub(super) fn handle(&self) -> &TenantHandle<S> {
        &self.handle
    }

    /// The runs with new events, oldest run first.
    pub(super) async fn poll(&mut self) -> Result<Vec<RunRecord>, PollError> {
        let mut found = LatestRecords::default();
        self.find_newest(&mut found).await?;
        self.find_open(&mut found).await?;
        self.find_remaining(&found).await?;
        let left: Vec<RunId> =
            self.watched.keys().filter(|run| !found.0.contains_key(*run)).cloned().collect();
        for run in left {
            match self.handle.record(&run).await {
                Ok(record) => found.add(record),
                Err(EngineError::NoRun { .. } | EngineError::NotStarted { .. }) => {
                    self.watched.remove(&run);
                }
                Err(error) => return Err(error.into()),
            }
        }
        let has_new_events =
            |record: &RunRecord| self.watched.get(&record.key.run).is_some_and(|sent| *sent < record.events);
        let mut changed: Vec<RunRecord> = found.0.into_values().filter(has_new_events).collect();
        changed.sort_by_key(|record| record.created_at);
        Ok(changed)
    }

    /// The next new events of a run; empty after the last event that `record` counts.
    pub(super) async fn next_events(&mut self, record: &RunRecord) -> Result<Vec<Event>, EngineError> {
        let run = &record.key.run;
        let Some(sent) = self.watched.get(run).copied().filter(|sent| *sent < record.events) else {
            return Ok(Vec::new());
        };
        let limit = (record.events - sent).min(ENTRIES);
        let events = events(&self.handle, run, sent, limit).await?;
        self.watched.insert(run.clone(), sent + limit);
        if sent + limit == record.events && record.status.is_terminal() {
            self.watched.remove(run);
        }
        Ok(events)
    }

    /// The newest runs, down to the oldest one of the last poll.
    async fn find_newest(&mut self, found: &mut LatestRecords) -> Result<(), PollError> {
        let known: BTreeSet<&RunId> = self.newest.iter().collect();
        let floor = self.newest.last().filter(|_| self.newest.len() == RANGE);
        let mut newest = Vec::new();
        let mut before: Option<Cursor> = None;
        'pages: for page in 0.. {
            if page == PAGES_MAX {
                return Err(PollError::TooMany);
            }
            let query = RunQuery { before: before.take(), ..RunQuery::newest(PAGE) };
            let list = self.handle.runs(query).await?;
            for record in list.runs {
                let run = record.key.run.clone();
                if !known.contains(&run) {
                    self.watched.entry(run.clone()).or_insert(0);
                }
                let is_floor = floor == Some(&run);
                found.add(record);
                newest.push(run);
                if is_floor {
                    break 'pages;
                }
            }
            before = list.next;
            if before.is_none() {
                break;
            }
        }
        newest.truncate(RANGE);
        self.newest = newest;
        Ok(())
    }

    /// All unfinished runs.
    async fn find_open(&self, found: &mut LatestRecords) -> Result<(), EngineError> {
        for status in RunStatus::ALL.iter().copied().filter(|status| !status.is_terminal()) {
            let mut before = None;
            loop {
                let status = Some(status);
                let query = RunQuery { status, before, ..RunQuery::newest(PAGE) };
                let list = self.handle.runs(query).await?;
                list.runs.into_iter().for_each(|record| found.add(record));
                before = list.next;
                if before.is_none() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Unfinished runs that no poll has seen: a run can move from one list to another while both are read. It is older
    /// than the first poll, or admitted with a slow clock, so only its new events are sent.
    async fn find_remaining(&mut self, found: &LatestRecords) -> Result<(), EngineError> {
        let newest: BTreeSet<&RunId> = self.newest.iter().collect();
        for (run, record) in &found.0 {
            let is_seen = self.watched.contains_key(run) || newest.contains(run);
            if is_seen || record.status.is_terminal() {
                continue;
            }
            let events = events(&self.handle, run, 0, record.events).await?;
            let old = events.iter().take_while(|event| event.at < self.since).map(|event| event.n + 1).last();
            self.watched.insert(run.clone(), old.unwrap_or(0));
        }
        Ok(())
    }
}
