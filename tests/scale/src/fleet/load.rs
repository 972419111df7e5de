//! The runs that a simulation starts.

use std::time::Duration;

use domain::RunStatus;
use testkit::Random;

/// The timer of [`Kind::Timer`].
pub(crate) const TIMER: Duration = Duration::from_mins(2);

/// A kind of run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// An effect with a key.
    Plain,
    /// An effect that takes longer than a lease. A second attempt would repeat it.
    Slow,
    /// A wait that reaches its deadline.
    Timer,
    /// An effect that a person approves.
    Approved,
    /// An effect of a run that waits for its concurrency key.
    Queued,
}

impl Kind {
    pub(crate) fn workflow(self) -> &'static str {
        match self {
            Self::Plain => {
                "workflow: plain\nversion: 1\nenvironment: dev\nsteps: [{ id: a, tool: fleet.keyed }]\n"
            }
            Self::Slow => {
                "workflow: slow\nversion: 1\nenvironment: dev\nsteps: [{ id: a, tool: fleet.opaque, with: { takes_ms: 30000 } }]\n"
            }
            Self::Timer => {
                "workflow: timer\nversion: 1\nsteps: [{ id: a, tool: wait.event, with: { event: e, timeout: 2m } }]\n"
            }
            Self::Approved => {
                "workflow: approved\nversion: 1\nenvironment: prod\nsteps: [{ id: a, tool: fleet.keyed }]\n"
            }
            Self::Queued => {
                "workflow: queued\nversion: 1\nenvironment: dev\nconcurrency: { key: line, on_conflict: queue }\nsteps:\n- { id: a, tool: fleet.keyed, with: { takes_ms: 500 } }\n"
            }
        }
    }

    /// The statuses in which a run may be at the end.
    pub(crate) fn ends(self) -> &'static [RunStatus] {
        match self {
            Self::Plain | Self::Approved | Self::Queued => &[RunStatus::Succeeded],
            // If the worker dies during the effect, its outcome is unknown.
            Self::Slow => &[RunStatus::Succeeded, RunStatus::Paused],
            Self::Timer => &[RunStatus::FailedTerminal],
        }
    }
}

/// A run that is to be started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlannedRun {
    pub(crate) at: Duration,
    pub(crate) tenant: usize,
    pub(crate) kind: Kind,
}

/// The runs of a simulation, in order. The first tenant has half of them. A fifth of all runs start at once.
pub(crate) fn plan(runs: usize, tenants: usize, time: Duration, random: &mut Random) -> Vec<PlannedRun> {
    let mut planned: Vec<PlannedRun> = (0..runs)
        .map(|_| {
            let big = random.happens(500);
            let tenant = if big { 0 } else { skewed(tenants, random) };
            let at = if random.happens(200) { time / 2 } else { random.up_to(time) };
            let kind = match random.below(100) {
                0..60 => Kind::Plain,
                60..65 => Kind::Slow,
                65..80 => Kind::Timer,
                80..95 => Kind::Approved,
                _ => Kind::Queued,
            };
            PlannedRun { at, tenant, kind }
        })
        .collect();
    planned.sort_by_key(|run| run.at);
    planned
}

/// A tenant other than the first; those with low numbers are more frequent.
fn skewed(tenants: usize, random: &mut Random) -> usize {
    let others = tenants.saturating_sub(1).max(1);
    let first = random.below(others);
    1 + first.min(random.below(others))
}
