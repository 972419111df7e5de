//! Every run of a tenant that is not over, a page at a time and a piece at a time.
//!
//! Whoever asks over the network is answered in time, however many runs there are: a piece of the work is done, and a
//! bookmark says where the next one begins.

use std::time::Duration;

use domain::{RunRecord, RunStatus, TenantId, Timestamp};
use serde::{Deserialize, Serialize};
use store::{Cursor, RunQuery, Store};
use tokio::time::Instant;

use crate::Engine;
use crate::error::EngineError;

/// So many runs are looked at in one go; a piece ends only between two pages.
const PAGE: u32 = 50;

/// So many runs make a piece, give or take a page.
const PIECE_RUNS: usize = 200;

/// No page is begun in a piece that has taken this long. With the page under way, and two seconds until everybody has
/// heard of a stop, that is well inside the half minute that a client waits.
const PIECE_FOR: Duration = Duration::from_secs(5);

/// Where a reader of all of them left off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Bookmark {
    tenant: TenantId,
    status: RunStatus,
    before: Option<Cursor>,
}

impl Bookmark {
    /// Those of `tenants` that are still to be read. They are in order.
    pub(crate) fn rest(from: Option<&Self>, tenants: Vec<TenantId>) -> impl Iterator<Item = TenantId> {
        let first = from.map(|from| from.tenant.clone());
        tenants.into_iter().filter(move |tenant| first.as_ref().is_none_or(|first| tenant >= first))
    }
}

/// A reader of all of them.
pub(crate) struct Pages {
    tenant: TenantId,
    until: Option<Timestamp>,
    next: Option<Bookmark>,
}

impl Pages {
    /// The runs of `tenant` that are not over; of those the ones admitted before `until`, if that is given. From a
    /// bookmark of this tenant on, or else all of them.
    pub(crate) fn of(tenant: &TenantId, until: Option<Timestamp>, from: Option<&Bookmark>) -> Self {
        let from = from.filter(|from| from.tenant == *tenant).cloned();
        let next = from.or_else(|| {
            let status = after(None)?;
            Some(Bookmark { tenant: tenant.clone(), status, before: None })
        });
        Self { tenant: tenant.clone(), until, next }
    }

    /// The next page; `None` after the last one.
    pub(crate) async fn next<S: Store>(
        &mut self,
        engine: &Engine<S>,
    ) -> Result<Option<Vec<RunRecord>>, EngineError> {
        let Some(Bookmark { tenant, status, before }) = self.next.take() else { return Ok(None) };
        let query = RunQuery { status: Some(status), until: self.until, before, ..RunQuery::newest(PAGE) };
        let page = engine.retry_busy(|| engine.store.runs(&self.tenant, query.clone())).await?;
        self.next = match page.next {
            Some(before) => Some(Bookmark { tenant, status, before: Some(before) }),
            None => after(Some(status)).map(|status| Bookmark { tenant, status, before: None }),
        };
        Ok(Some(page.runs))
    }

    /// Where it goes on; nowhere after the last page.
    pub(crate) fn bookmark(&self) -> Option<&Bookmark> {
        self.next.as_ref()
    }
}

/// The status whose runs are read after those in `status`, or first.
fn after(status: Option<RunStatus>) -> Option<RunStatus> {
    let behind = RunStatus::ALL.into_iter().skip_while(move |of| status.is_some_and(|status| *of != status));
    behind.skip(usize::from(status.is_some())).find(|status| !status.is_terminal())
}

/// How much of the work is done in one go.
pub(crate) struct Piece {
    began: Instant,
    runs: usize,
}

impl Piece {
    pub(crate) fn begin() -> Self {
        Self { began: Instant::now(), runs: 0 }
    }

    /// So many runs were looked at.
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
    fn every_status_of_a_run_that_is_not_over_is_read_once() {
        let read: Vec<_> = std::iter::successors(after(None), |status| after(Some(*status))).collect();
        let expected: Vec<_> = RunStatus::ALL.into_iter().filter(|status| !status.is_terminal()).collect();
        assert_eq!(read, expected);
    }
}
