//! The runs that a simulation starts.

use std::time::Duration;

use domain::RunStatus;
use testkit::Random;

/// The timer of [`Kind::Timer`] and [`Kind::KeyHolder`].
pub(crate) const TIMER: Duration = Duration::from_mins(2);

/// How many runs wait for the concurrency key of the [`Kind::KeyHolder`].
pub(crate) const WAITERS: usize = 40;

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
    /// A wait that reaches its deadline, with the concurrency key of [`Kind::Queued`].
    KeyHolder,
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
            Self::KeyHolder => {
                "workflow: holder\nversion: 1\nconcurrency: { key: line, on_conflict: queue }\nsteps:\n- { id: a, tool: wait.event, with: { event: e, timeout: 2m } }\n"
            }
        }
    }

    /// The statuses that a run may have at the end.
    pub(crate) fn final_statuses(self) -> &'static [RunStatus] {
        match self {
            Self::Plain | Self::Approved | Self::Queued => &[RunStatus::Succeeded],
            // If the worker dies during the effect, its outcome is unknown.
            Self::Slow => &[RunStatus::Succeeded, RunStatus::Paused],
            Self::Timer | Self::KeyHolder => &[RunStatus::FailedTerminal],
        }
    }

    /// The effects of a run that succeeds or whose timer fires.
    pub(crate) fn effects(self) -> usize {
        match self {
            Self::Plain | Self::Slow | Self::Approved | Self::Queued => 1,
            Self::Timer | Self::KeyHolder => 0,
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
            let tenant = if big { 0 } else { skewed_tenant(tenants, random) };
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
    planned.extend(line(tenants, time));
    planned.sort_by_key(|run| run.at);
    planned
}

/// When the run starts for whose key others wait.
pub(crate) fn line_starts(time: Duration) -> Duration {
    time / 4
}

/// A run that holds a concurrency key, and the runs that wait for it, of a tenant of their own.
fn line(tenant: usize, time: Duration) -> impl Iterator<Item = PlannedRun> {
    let holder = PlannedRun { at: line_starts(time), tenant, kind: Kind::KeyHolder };
    let waiter = PlannedRun { at: holder.at + Duration::from_secs(5), kind: Kind::Queued, ..holder };
    std::iter::once(holder).chain(std::iter::repeat_n(waiter, WAITERS))
}

/// A tenant other than the first; those with low numbers are more frequent.
fn skewed_tenant(tenants: usize, random: &mut Random) -> usize {
    let others = tenants.saturating_sub(1).max(1);
    let first = random.below(others);
    1 + first.min(random.below(others))
}
