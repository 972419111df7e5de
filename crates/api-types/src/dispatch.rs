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
    pub backout_started_at: Option<String>,
}

impl From<domain::DispatchStop> for Stopped {
    fn from(stopped: domain::DispatchStop) -> Self {
        Self {
            by: stopped.by.id,
            reason: stopped.reason,
            at: rfc3339_millis(stopped.at),
            backout_started_at: stopped.backout.map(rfc3339_millis),
        }
    }
}

/// The state of the dispatch switch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Dispatch {
    /// Whether dispatch is stopped for the tenant, by either switch.
    pub stopped: bool,
    /// Set while dispatch is stopped for all tenants.
    pub all_tenants: Option<Stopped>,
    /// Set while dispatch is stopped for this tenant.
    pub tenant: Option<Stopped>,
}

impl From<engine::DispatchState> for Dispatch {
    fn from(dispatch: engine::DispatchState) -> Self {
        Self {
            stopped: dispatch.is_stopped(),
            all_tenants: dispatch.fleet.map(Stopped::from),
            tenant: dispatch.tenant.map(Stopped::from),
        }
    }
}

/// A request to stop dispatch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StopDispatch {
    /// The reason, truncated after 512 characters.
    pub reason: String,
}

/// Dispatch was started again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DispatchStarted {
    /// The number of waiting runs enqueued for workers so far, over all requests of this start.
    pub enqueued: u64,
    /// Set if dispatch is still stopped for all tenants.
    pub all_tenants: Option<Stopped>,
    /// The cursor to continue with, while some runs are not enqueued yet. Without another request, these runs
    /// continue after some minutes.
    pub next: Option<String>,
}

/// A request to cancel every unfinished run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BackOutRequest {
    /// The reason, stored with every run. Truncated after 512 characters.
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
    pub unfinished: Option<u64>,
    /// Runs that are canceled, over all requests of this backout.
    pub canceled: u64,
    /// Runs with a cancel request that still finish a step, resolve an effect or roll one back.
    pub canceling: u64,
    /// Runs that are paused because the outcome of an effect is unknown. An operator decides.
    pub needs_operator: u64,
    /// Runs without a cancel request yet, because of concurrent changes or a read error. Send the request again.
    pub remaining: u64,
    /// Whether all runs have ended.
    pub done: bool,
    /// The cursor to continue with, while runs remain.
    pub next: Option<String>,
}

impl BackedOut {
    pub fn dry_run(unfinished: u64) -> Self {
        Self { unfinished: Some(unfinished), ..Self::default() }
    }

    #[must_use]
    pub fn with_cursor(self, next: Option<String>) -> Self {
        Self { done: self.done && next.is_none(), next, ..self }
    }
}

impl From<Backout> for BackedOut {
    fn from(backout: Backout) -> Self {
        Self {
            unfinished: None,
            canceled: backout.canceled,
            canceling: backout.canceling,
            needs_operator: backout.needs_operator,
            remaining: backout.remaining,
            done: backout.is_done(),
            next: None,
        }
    }
}
