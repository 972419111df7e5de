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
use crate::operations::dispatch::DispatchScope;

/// How many runs are read at a time; a part ends only between two pages.
const PAGE_RUNS: u32 = 50;

/// How many tenants are listed at a time. Listing tenants reads every unfinished run of the installation, however few are
/// taken, so one list is for a whole pass. Only a process with direct access to the store works on all tenants, and this
/// many take about 10 MB of its memory.
const TENANTS_LISTED: u32 = 100_000;

/// How many runs make a part, give or take a page.
const PART_RUNS: usize = 200;

/// No page is read in a part that has taken this long. With the current page, and two seconds until every process has
/// seen a stop, that is well within the 30 s that a client waits.
const PART_TIME: Duration = Duration::from_secs(5);

/// Where a reader stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ResumePosition {
    tenant: TenantId,
    status: RunStatus,
    before: Option<Cursor>,
    /// The next tenants. Listing tenants reads every unfinished run, so many are listed at once.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    later: VecDeque<TenantId>,
    /// Whether there may be tenants after those.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    more: bool,
}

impl ResumePosition {
    /// The same position, with the tenants that come after it.
    pub(crate) fn with_later_tenants(&self, tenants: Tenants) -> Self {
        let Self { tenant, status, before, .. } = self.clone();
        Self { tenant, status, before, later: tenants.next, more: tenants.more }
    }
}

/// The tenants of a scope that have active runs, in order.
pub(crate) struct Tenants {
    next: VecDeque<TenantId>,
    last: Option<TenantId>,
    /// Whether there may be tenants after `next`.
    more: bool,
}

impl Tenants {
    /// The tenants from the bookmark on. A bookmark may come from a client, and does not extend the scope. The later
    /// tenants are taken from the bookmark: copying them for each part would take longer with each tenant.
    pub(crate) fn of(scope: &DispatchScope, from: &mut Option<ResumePosition>) -> Self {
        let (next, more) = match (scope, from) {
            (DispatchScope::Tenant(tenant), _) => (VecDeque::from([tenant.clone()]), false),
            (DispatchScope::All, Some(from)) => {
                let mut next = std::mem::take(&mut from.later);
                next.push_front(from.tenant.clone());
                (next, from.more)
            }
            (DispatchScope::All, None) => (VecDeque::new(), true),
        };
        Self { next, last: None, more }
    }

    pub(crate) async fn next<S: Store>(&mut self, core: &Core<S>) -> Result<Option<TenantId>, EngineError> {
        if self.next.is_empty() && self.more {
            let after = self.last.as_ref();
            let listed = core.retry_busy(|store| store.tenants(after, TENANTS_LISTED)).await?;
            self.more = u32::try_from(listed.len()).is_ok_and(|count| count >= TENANTS_LISTED);
            self.next = listed.into();
        }
        self.last = self.next.pop_front();
        Ok(self.last.clone())
    }
}

pub(crate) struct Pages {
    tenant: TenantId,
    until: Option<Timestamp>,
    next: Option<ResumePosition>,
}

impl Pages {
    /// The active runs of `tenant`, from the bookmark on; only those admitted before `until`, if given.
    pub(crate) fn of(tenant: &TenantId, until: Option<Timestamp>, from: Option<&ResumePosition>) -> Self {
        let from = from.filter(|from| from.tenant == *tenant).cloned();
        let next = from.or_else(|| {
            let status = next_status(None)?;
            let (later, more) = (VecDeque::new(), false);
            Some(ResumePosition { tenant: tenant.clone(), status, before: None, later, more })
        });
        Self { tenant: tenant.clone(), until, next }
    }

    /// The next page; `None` after the last one.
    pub(crate) async fn next<S: Store>(
        &mut self,
        core: &Core<S>,
    ) -> Result<Option<Vec<RunRecord>>, EngineError> {
        let Some(ResumePosition { tenant, status, before, later, more }) = self.next.take() else {
            return Ok(None);
        };
        let query =
            RunQuery { status: Some(status), until: self.until, before, ..RunQuery::newest(PAGE_RUNS) };
        let page = core.retry_busy(|store| store.runs(&self.tenant, query.clone())).await?;
        self.next = match page.next {
            Some(before) => Some(ResumePosition { tenant, status, before: Some(before), later, more }),
            None => next_status(Some(status)).map(|status| ResumePosition {
                tenant,
                status,
                before: None,
                later,
                more,
            }),
        };
        Ok(Some(page.runs))
    }

    /// Where to continue; `None` after the last page.
    pub(crate) fn bookmark(&self) -> Option<&ResumePosition> {
        self.next.as_ref()
    }
}

/// The status that is read after `status`.
fn next_status(status: Option<RunStatus>) -> Option<RunStatus> {
    let from_status =
        RunStatus::ALL.iter().copied().skip_while(move |other| status.is_some_and(|status| *other != status));
    from_status.skip(usize::from(status.is_some())).find(|status| !status.is_terminal())
}

/// Ends a part after a number of runs, or after a time.
pub(crate) struct BatchLimit {
    started: Instant,
    runs: usize,
}

impl BatchLimit {
    pub(crate) fn start() -> Self {
        Self { started: Instant::now(), runs: 0 }
    }

    pub(crate) fn add(&mut self, runs: usize) {
        self.runs += runs;
    }

    pub(crate) fn is_full(&self) -> bool {
        self.runs >= PART_RUNS || self.started.elapsed() >= PART_TIME
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_active_status_is_read_once() {
        let read: Vec<_> =
            std::iter::successors(next_status(None), |status| next_status(Some(*status))).collect();
        let expected: Vec<_> =
            RunStatus::ALL.iter().copied().filter(|status| !status.is_terminal()).collect();
        assert_eq!(read, expected);
    }
}
