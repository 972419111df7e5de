//! Every run of a tenant that is not over, a page at a time.

use domain::{RunRecord, RunStatus, TenantId, Timestamp};
use store::{RunQuery, Store};

use crate::Engine;
use crate::error::EngineError;

/// So many runs are looked at in one go.
const PAGE: u32 = 200;

/// Where a reader of all of them is.
pub(crate) struct Pages {
    tenant: TenantId,
    until: Option<Timestamp>,
    statuses: std::array::IntoIter<RunStatus, { RunStatus::ALL.len() }>,
    next: Option<RunQuery>,
}

impl Pages {
    /// The runs of `tenant` that are not over; of those the ones admitted before `until`, if that is given.
    pub(crate) fn of(tenant: &TenantId, until: Option<Timestamp>) -> Self {
        Self { tenant: tenant.clone(), until, statuses: RunStatus::ALL.into_iter(), next: None }
    }

    /// The next page; `None` after the last one.
    pub(crate) async fn next<S: Store>(
        &mut self,
        engine: &Engine<S>,
    ) -> Result<Option<Vec<RunRecord>>, EngineError> {
        let Some(query) = self.next.take().or_else(|| self.of_next_status()) else { return Ok(None) };
        let page = engine.patiently(|| engine.store.runs(query.clone())).await?;
        self.next = page.next.map(|next| RunQuery { before: Some(next), ..query });
        Ok(Some(page.runs))
    }

    fn of_next_status(&mut self) -> Option<RunQuery> {
        let status = self.statuses.find(|status| !status.is_terminal())?;
        Some(RunQuery {
            status: Some(status),
            until: self.until,
            ..RunQuery::newest(self.tenant.clone(), PAGE)
        })
    }
}
