//! Dispatch: whether anything is begun at all, and ending what is under way.

use engine::Backout;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use views::time::moment;

/// Dispatch is stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Stopped {
    /// By whom.
    pub by: String,
    /// Why.
    pub reason: String,
    /// When.
    pub at: String,
    /// Since when what was under way is being ended, if it is.
    pub backout: Option<String>,
}

impl From<domain::Stopped> for Stopped {
    fn from(stopped: domain::Stopped) -> Self {
        Self {
            by: stopped.by.id,
            reason: stopped.reason,
            at: moment(stopped.at),
            backout: stopped.backout.map(moment),
        }
    }
}

/// How the switch stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Dispatch {
    /// Whether nothing is begun for the tenant, for whichever of the two reasons.
    pub stopped: bool,
    /// Set while nothing is begun for anybody.
    pub all: Option<Stopped>,
    /// Set while nothing is begun for this tenant.
    pub tenant: Option<Stopped>,
}

impl From<engine::Dispatch> for Dispatch {
    fn from(dispatch: engine::Dispatch) -> Self {
        Self {
            stopped: dispatch.is_stopped(),
            all: dispatch.fleet.map(Stopped::from),
            tenant: dispatch.tenant.map(Stopped::from),
        }
    }
}

/// A wish that nothing is begun any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StopDispatch {
    /// Why; what is beyond 512 characters is cut off.
    #[schema(pattern = "^[^\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\ufffe\\uffff]*$")]
    pub reason: String,
}

/// Dispatch was started again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DispatchStarted {
    /// How many runs can go on, as far as all requests of this start have come.
    pub announced: u64,
    /// Set while nothing is begun for anybody all the same.
    pub all: Option<Stopped>,
    /// The cursor to go on with, while there are runs that nobody was told of. Left alone, they go on by themselves
    /// after some minutes.
    pub next: Option<String>,
}

/// A wish to end every run that is under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BackOut {
    /// Why; kept with every run for ever. What is beyond 512 characters is cut off.
    #[schema(pattern = "^[^\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\ufffe\\uffff]*$")]
    pub reason: String,
    /// Only count the runs that would be ended: nothing is stopped, nothing is ended.
    #[serde(default)]
    pub dry_run: bool,
}

/// What became of the runs that were under way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BackedOut {
    /// How many would be ended, as far as all requests of this count have come; only where nothing was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub under_way: Option<u64>,
    /// Ended, by all requests of this backout together.
    pub canceled: u64,
    /// Asked to end, and still finishing a step, settling an effect or taking one back.
    pub finishing: u64,
    /// Paused over an effect that nobody can account for. A person decides.
    pub need_a_person: u64,
    /// Not asked: others kept changing them, or they cannot be read. Send it again.
    pub left: u64,
    /// Whether all of them are over.
    pub done: bool,
    /// The cursor to go on with, while there is something left to be looked at.
    pub next: Option<String>,
}

impl BackedOut {
    /// So many would be ended.
    pub fn would_be(under_way: u64) -> Self {
        Self { under_way: Some(under_way), ..Self::default() }
    }

    /// The same, where it goes on with `next`.
    #[must_use]
    pub fn going_on(self, next: Option<String>) -> Self {
        Self { done: self.done && next.is_none(), next, ..self }
    }
}

impl From<Backout> for BackedOut {
    fn from(told: Backout) -> Self {
        let Backout { canceled, finishing, need_a_person, left } = told;
        let done = told.is_done();
        Self { under_way: None, canceled, finishing, need_a_person, left, done, next: None }
    }
}
