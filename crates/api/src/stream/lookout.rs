//! What changed among a tenant's runs since the last look, without going through all of them.
//!
//! Three lists tell: the newest runs as far back as the last look reached, the runs that are not over, by their
//! status, and those that were not over at the last look and are in neither. A record counts its run's events, so it
//! shows how many are new. A run that began and ended between two looks is among the newest.

use std::collections::{BTreeMap, BTreeSet};

use domain::{Event, RunId, RunRecord, RunStatus, Timestamp};
use engine::{EngineError, TenantHandle};
use store::{Cursor, RunQuery, Store};

use super::run::events;

/// How many runs are listed at once.
const PAGE: u32 = 100;

/// How far back the list of the newest runs is read at every look. Lists are by the clocks of those who admit runs,
/// so one that is admitted later may stand a little further back.
const RANGE: usize = 100;

/// How many pages of new runs a look goes through. More have not begun since the last one, or nobody could follow.
const PAGES_MAX: usize = 50;

/// How many entries of a chain are read at once.
const ENTRIES: u32 = 100;

/// What one look did not cover.
#[derive(Debug, thiserror::Error)]
pub(super) enum Overlooked {
    /// So much has begun that it was not gone through.
    #[error("more runs have begun than one look goes through")]
    TooMany,
    /// The store did not answer.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// What is known of a tenant's runs.
pub(super) struct Lookout<S> {
    handle: TenantHandle<S>,
    /// The runs that are not over, and how many events of each have been told.
    watched: BTreeMap<RunId, u32>,
    /// The newest runs, newest first.
    newest: Vec<RunId>,
    since: Timestamp,
}

/// What one look found: the newest record of each run.
#[derive(Default)]
struct Found(BTreeMap<RunId, RunRecord>);

impl Found {
    fn add(&mut self, record: RunRecord) {
        match self.0.get(&record.key.run) {
            Some(known) if known.version >= record.version => {}
            _ => {
                self.0.insert(record.key.run.clone(), record);
            }
        }
    }
}

impl<S: Store> Lookout<S> {
    /// Looks for the first time: what has happened so far has been told.
    pub(super) async fn begin(handle: TenantHandle<S>) -> Result<Self, EngineError> {
        let since = handle.now();
        let page = handle.runs(RunQuery::newest(PAGE)).await?;
        let newest = page.runs.iter().take(RANGE).map(|record| record.key.run.clone()).collect();
        let mut lookout = Self { handle, watched: BTreeMap::new(), newest, since };
        let mut found = Found::default();
        page.runs.into_iter().for_each(|record| found.add(record));
        lookout.find_open(&mut found).await?;
        let open = found.0.into_iter().filter(|(_, record)| !record.status.is_terminal());
        lookout.watched = open.map(|(run, record)| (run, record.events)).collect();
        Ok(lookout)
    }

    /// The handle it looks from.
    pub(super) fn handle(&self) -> &TenantHandle<S> {
        &self.handle
    }

    /// The runs of which something is to be told, those that began first in front.
    pub(super) async fn look(&mut self) -> Result<Vec<RunRecord>, Overlooked> {
        let mut found = Found::default();
        self.find_newest(&mut found).await?;
        self.find_open(&mut found).await?;
        self.find_stragglers(&found).await?;
        let left: Vec<RunId> =
            self.watched.keys().filter(|run| !found.0.contains_key(*run)).cloned().collect();
        for run in left {
            match self.handle.record(&run).await {
                Ok(record) => found.add(record),
                Err(EngineError::NoRun { .. } | EngineError::NotBegun { .. }) => {
                    self.watched.remove(&run);
                }
                Err(error) => return Err(error.into()),
            }
        }
        let is_news =
            |record: &RunRecord| self.watched.get(&record.key.run).is_some_and(|told| *told < record.events);
        let mut news: Vec<RunRecord> = found.0.into_values().filter(is_news).collect();
        news.sort_by_key(|record| record.created_at);
        Ok(news)
    }

    /// The next events of a run of which something is to be told; none, when all that `record` counts have been.
    pub(super) async fn tell(&mut self, record: &RunRecord) -> Result<Vec<Event>, EngineError> {
        let run = &record.key.run;
        let Some(told) = self.watched.get(run).copied().filter(|told| *told < record.events) else {
            return Ok(Vec::new());
        };
        let limit = (record.events - told).min(ENTRIES);
        let events = events(&self.handle, run, told, limit).await?;
        self.watched.insert(run.clone(), told + limit);
        if told + limit == record.events && record.status.is_terminal() {
            self.watched.remove(run);
        }
        Ok(events)
    }

    /// The newest runs, down to the oldest that the last look had among them.
    async fn find_newest(&mut self, found: &mut Found) -> Result<(), Overlooked> {
        let known: BTreeSet<&RunId> = self.newest.iter().collect();
        let floor = self.newest.last().filter(|_| self.newest.len() == RANGE);
        let mut newest = Vec::new();
        let mut before: Option<Cursor> = None;
        'pages: for page in 0.. {
            if page == PAGES_MAX {
                return Err(Overlooked::TooMany);
            }
            let wanted = RunQuery { before: before.take(), ..RunQuery::newest(PAGE) };
            let list = self.handle.runs(wanted).await?;
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

    /// All runs that are not over.
    async fn find_open(&self, found: &mut Found) -> Result<(), EngineError> {
        for status in RunStatus::ALL.into_iter().filter(|status| !status.is_terminal()) {
            let mut before = None;
            loop {
                let status = Some(status);
                let wanted = RunQuery { status, before, ..RunQuery::newest(PAGE) };
                let list = self.handle.runs(wanted).await?;
                list.runs.into_iter().for_each(|record| found.add(record));
                before = list.next;
                if before.is_none() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Runs that are not over and that no look has seen: one may slip from one list into another while both are
    /// read. It is older than the first look, or by a clock that is behind, so of its events the new ones are told.
    async fn find_stragglers(&mut self, found: &Found) -> Result<(), EngineError> {
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
