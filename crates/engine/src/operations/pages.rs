//! Reads the active runs of a tenant page by page, in parts.
//!
//! A call over the network returns in time however many runs there are: it does a part of the work, and a bookmark
//! marks where the next part starts.

use std::collections::VecDeque;
use std::time::Duration;

use domain::{RunRecord, RunStatus, TenantId, Timestamp};
use serde::{Deserialize, Serialize};
use store::{Cursor, RunQuery, Store};
use tokio::time::Instant;

use crate::core::Core;
use crate::error::EngineError;

/// How many runs are read at a time; a part ends only between two pages.
const PAGE: u32 = 50;

/// How many runs make a part, give or take a page.
const PIECE_RUNS: usize = 200;

/// No page is read in a part that has taken this long. With the current page, and two seconds until every process has
/// seen a stop, that is well within the 30 s that a client waits.
const PIECE_FOR: Duration = Duration::from_secs(5);

/// Where a reader stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Bookmark {
    tenant: TenantId,
    status: RunStatus,
    before: Option<Cursor>,
    /// The tenants that come after this one. Listing them reads every unfinished run, so they are listed once.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    later: VecDeque<TenantId>,
}

impl Bookmark {
    /// The same position, with the tenants that come after it.
    pub(crate) fn followed_by(&self, later: VecDeque<TenantId>) -> Self {
        Self { later, ..self.clone() }
    }

    /// The tenants that are still to be read.
    pub(crate) fn tenants(&self) -> VecDeque<TenantId> {
        std::iter::once(&self.tenant).chain(&self.later).cloned().collect()
    }
}

pub(crate) struct Pages {
    tenant: TenantId,
    until: Option<Timestamp>,
    next: Option<Bookmark>,
}

impl Pages {
    /// The active runs of `tenant`, from the bookmark on; only those admitted before `until`, if given.
    pub(crate) fn of(tenant: &TenantId, until: Option<Timestamp>, from: Option<&Bookmark>) -> Self {
        let from = from.filter(|from| from.tenant == *tenant).cloned();
        let next = from.or_else(|| {
            let status = after(None)?;
            Some(Bookmark { tenant: tenant.clone(), status, before: None, later: VecDeque::new() })
        });
        Self { tenant: tenant.clone(), until, next }
    }

    /// The next page; `None` after the last one.
    pub(crate) async fn next<S: Store>(
        &mut self,
        core: &Core<S>,
    ) -> Result<Option<Vec<RunRecord>>, EngineError> {
        let Some(Bookmark { tenant, status, before, later }) = self.next.take() else { return Ok(None) };
        let query = RunQuery { status: Some(status), until: self.until, before, ..RunQuery::newest(PAGE) };
        let page = core.retry_busy(|store| store.runs(&self.tenant, query.clone())).await?;
        self.next = match page.next {
            Some(before) => Some(Bookmark { tenant, status, before: Some(before), later }),
            None => after(Some(status)).map(|status| Bookmark { tenant, status, before: None, later }),
        };
        Ok(Some(page.runs))
    }

    /// Where to continue; `None` after the last page.
    pub(crate) fn bookmark(&self) -> Option<&Bookmark> {
        self.next.as_ref()
    }
}

/// The status that is read after `status`.
fn after(status: Option<RunStatus>) -> Option<RunStatus> {
    let behind =
        RunStatus::ALL.iter().copied().skip_while(move |of| status.is_some_and(|status| *of != status));
    behind.skip(usize::from(status.is_some())).find(|status| !status.is_terminal())
}

/// The size of one part.
pub(crate) struct Piece {
    began: Instant,
    runs: usize,
}

impl Piece {
    pub(crate) fn begin() -> Self {
        Self { began: Instant::now(), runs: 0 }
    }

    pub(crate) fn took(&mut self, runs: usize) {
        self.runs += runs;
    }

    pub(crate) fn is_full(&self) -> bool {
        self.runs >= PIECE_RUNS || self.began.elapsed() >= PIECE_FOR
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_active_status_is_read_once() {
        let read: Vec<_> = std::iter::successors(after(None), |status| after(Some(*status))).collect();
        let expected: Vec<_> =
            RunStatus::ALL.iter().copied().filter(|status| !status.is_terminal()).collect();
        assert_eq!(read, expected);
    }
}
