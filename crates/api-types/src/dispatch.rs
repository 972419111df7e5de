//! The dispatch switch and backout.

use engine::Backout;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use views::time::rfc3339_millis;

/// Dispatch is stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Stopped {
    pub by: String,
    pub reason: String,
    pub at: String,
    /// The start of the backout, if one is in progress.
    pub backout: Option<String>,
}

impl From<domain::DispatchStop> for Stopped {
    fn from(stopped: domain::DispatchStop) -> Self {
        Self {
            by: stopped.by.id,
            reason: stopped.reason,
            at: rfc3339_millis(stopped.at),
            backout: stopped.backout.map(rfc3339_millis),
        }
    }
}

/// The state of the dispatch switch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Dispatch {
    /// Whether dispatch is stopped for the tenant, by either switch.
    pub stopped: bool,
    /// Set while dispatch is stopped for all tenants.
    pub all: Option<Stopped>,
    /// Set while dispatch is stopped for this tenant.
    pub tenant: Option<Stopped>,
}

impl From<engine::DispatchState> for Dispatch {
    fn from(dispatch: engine::DispatchState) -> Self {
        Self {
            stopped: dispatch.is_stopped(),
            all: dispatch.fleet.map(Stopped::from),
            tenant: dispatch.tenant.map(Stopped::from),
        }
    }
}

/// A request to stop dispatch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StopDispatch {
    /// The reason, truncated after 512 characters.
    #[schema(pattern = "^[^\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\ufffe\\uffff]*$")]
    pub reason: String,
}

/// Dispatch was started again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DispatchStarted {
    /// The number of runs announced to workers so far, over all requests of this start.
    pub announced: u64,
    /// Set if dispatch is still stopped for all tenants.
    pub all: Option<Stopped>,
    /// The cursor to continue with, while some runs are not announced yet. Without another request, these runs
    /// continue after some minutes.
    pub next: Option<String>,
}

/// A request to cancel every unfinished run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BackOutRequest {
    /// The reason, stored with every run. Truncated after 512 characters.
    #[schema(pattern = "^[^\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\ufffe\\uffff]*$")]
    pub reason: String,
    /// Only count the runs; change nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// The progress of a backout.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BackedOut {
    /// The number of runs counted so far, over all requests; only for a dry run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub under_way: Option<u64>,
    /// Runs that are canceled, over all requests of this backout.
    pub canceled: u64,
    /// Runs that are asked to cancel and still finish a step, resolve an effect or roll one back.
    pub finishing: u64,
    /// Runs that are paused because the outcome of an effect is unknown. An operator decides.
    pub need_a_person: u64,
    /// Runs that are not asked yet, because of concurrent changes or a read error. Send the request again.
    pub left: u64,
    /// Whether all runs have ended.
    pub done: bool,
    /// The cursor to continue with, while runs are left.
    pub next: Option<String>,
}

impl BackedOut {
    pub fn dry_run(under_way: u64) -> Self {
        Self { under_way: Some(under_way), ..Self::default() }
    }

    #[must_use]
    pub fn continued_by(self, next: Option<String>) -> Self {
        Self { done: self.done && next.is_none(), next, ..self }
    }
}

impl From<Backout> for BackedOut {
    fn from(backout: Backout) -> Self {
        let Backout { canceled, finishing, need_a_person, left } = backout;
        let done = backout.is_done();
        Self { under_way: None, canceled, finishing, need_a_person, left, done, next: None }
    }
}
