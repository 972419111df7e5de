//! The flows: small workflows, what people do while they run, and how they may end.

use domain::RunStatus::{self, Canceled, FailedTerminal, Paused, Succeeded};

use crate::scenario::{Scenario, Skew};

/// What somebody does while the flow runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Script {
    /// Nothing: it is started and left alone.
    Nothing,
    /// The event is sent when the run waits for it.
    EventWhenWaiting,
    /// The event is sent at once, long before the run waits for it.
    EventAtOnce,
    /// People say yes whenever they are asked.
    Approve,
    /// A person says no when asked.
    Reject,
    /// A person says no the first time, an operator says to go on, and then people say yes.
    RejectThenApprove,
    /// Nobody answers before others have been told; then people say yes.
    ApproveWhenEscalated,
    /// One person says yes while another stops the run.
    ApproveAgainstCancel,
    /// When the run is over, an operator has it taken back by another run.
    UndoWhenOver,
    /// Somebody stops the run while a step is held.
    CancelWhenHeld,
    /// The message is doubled and doubled again, and copies arrive late and out of order.
    DoubleMessages,
    /// When the run pauses, an operator says to try again.
    RetryWhenPaused,
    /// When the run pauses, an operator has it rolled back.
    RollBackWhenPaused,
}

/// A flow.
#[derive(Debug, Clone, Copy)]
pub struct Flow {
    /// Its name in the report.
    pub name: &'static str,
    /// The workflow.
    pub(crate) workflow: &'static str,
    pub(crate) script: Script,
    /// How it may end without any fault.
    pub(crate) ends: &'static [RunStatus],
    /// How else it may end when something fails.
    pub(crate) may_end: &'static [RunStatus],
    /// Whether every pair of calls is tried as well.
    pub(crate) pairs: bool,
    /// How many effects the tenant allows in one run.
    pub(crate) writes_max: u32,
}

/// Enough for every flow but the one that is about it.
const MANY: u32 = 64;

/// Every flow. Where an event is to be waited for, the wait is longer than the clocks are wrong: a deadline
/// is as good as the worst clock among the workers, and no better.
pub const FLOWS: &[Flow] = &[
    Flow {
        name: "plain",
        workflow: "steps:\n\
            - { id: a, tool: sim.read, with: { say: hello } }\n\
            - { id: b, tool: sim.keyed, with: { say: '${ steps.a.said }' } }\n",
        script: Script::Nothing,
        ends: &[Succeeded],
        may_end: &[],
        pairs: true,
        writes_max: MANY,
    },
    Flow {
        name: "hand-off",
        workflow: "steps:\n\
            - { id: a, tool: sim.keyed, with: { say: 1 } }\n\
            - { id: b, tool: sim.cas, with: { say: '${ steps.a.said }' } }\n\
            - { id: c, tool: sim.lookup, with: { say: '${ steps.b.said }' } }\n\
            - { id: d, tool: sim.read, with: { say: '${ steps.a.said + trigger.n }' } }\n",
        script: Script::Nothing,
        ends: &[Succeeded],
        may_end: &[],
        pairs: false,
        writes_max: MANY,
    },
    Flow {
        name: "retry",
        workflow: "steps:\n- { id: a, tool: sim.keyed, with: { fails: 1 }, retry: { attempts: 9 } }\n",
        script: Script::Nothing,
        ends: &[Succeeded],
        may_end: &[],
        pairs: false,
        writes_max: MANY,
    },
    Flow {
        name: "exhausted",
        workflow: "steps:\n- { id: a, tool: sim.keyed, with: { fails: 99 }, retry: { attempts: 3 } }\n",
        script: Script::Nothing,
        ends: &[FailedTerminal],
        // The last attempt was interrupted: then nobody can say that it failed.
        may_end: &[Paused],
        pairs: false,
        writes_max: MANY,
    },
    Flow {
        name: "wait then event",
        workflow: "steps:\n\
            - { id: w, tool: wait.event, with: { event: go, timeout: 6h } }\n\
            - { id: b, tool: sim.keyed, with: { say: '${ steps.w.go }' } }\n",
        script: Script::EventWhenWaiting,
        ends: &[Succeeded],
        may_end: &[],
        pairs: false,
        writes_max: MANY,
    },
    Flow {
        name: "event then wait",
        workflow: "steps:\n\
            - { id: a, tool: sim.read, with: { takes_ms: 3000 } }\n\
            - { id: w, tool: wait.event, with: { event: go, timeout: 6h } }\n\
            - { id: b, tool: sim.keyed, with: { say: '${ steps.w.go }' } }\n",
        script: Script::EventAtOnce,
        ends: &[Succeeded],
        may_end: &[],
        pairs: false,
        writes_max: MANY,
    },
    Flow {
        name: "wait timed out",
        workflow: "steps:\n\
            - { id: a, tool: sim.keyed }\n\
            - { id: w, tool: wait.event, with: { event: go, timeout: 2m } }\n\
            - { id: b, tool: sim.keyed }\n",
        script: Script::Nothing,
        ends: &[FailedTerminal],
        may_end: &[],
        pairs: false,
        writes_max: MANY,
    },
    Flow {
        name: "approval",
        workflow: "steps:\n\
            - { id: ask, tool: approval.gate, with: { message: 'go on?' } }\n\
            - { id: b, tool: sim.opaque }\n",
        script: Script::Approve,
        ends: &[Succeeded],
        may_end: &[Paused],
        pairs: false,
        writes_max: MANY,
    },
    Flow {
        name: "rejection",
        workflow: "steps:\n\
            - { id: ask, tool: approval.gate, with: { message: 'go on?' } }\n\
            - { id: b, tool: sim.keyed }\n",
        script: Script::Reject,
        ends: &[FailedTerminal],
        may_end: &[],
        pairs: false,
        writes_max: MANY,
    },
    Flow {
        name: "cancel while running",
        workflow: "steps:\n\
            - { id: a, tool: sim.keyed, with: { takes_ms: 15000 }, rollback: { tool: sim.keyed, with: { say: back } } }\n\
            - { id: b, tool: sim.keyed }\n",
        script: Script::CancelWhenHeld,
        ends: &[Canceled],
        // The wish may come after the run has ended.
        may_end: &[Succeeded],
        pairs: false,
        writes_max: MANY,
    },
    Flow {
        name: "cancel while reading",
        workflow: "steps:\n\
            - { id: a, tool: sim.read, with: { takes_ms: 25000 } }\n\
            - { id: b, tool: sim.keyed }\n",
        script: Script::CancelWhenHeld,
        ends: &[Canceled],
        may_end: &[Succeeded],
        pairs: false,
        writes_max: MANY,
    },
    Flow {
        name: "take-over, read only",
        workflow: "steps:\n- { id: a, tool: sim.read }\n",
        script: Script::Nothing,
        ends: &[Succeeded],
        may_end: &[],
        pairs: true,
        writes_max: MANY,
    },
    Flow {
        name: "take-over, native key",
        workflow: "steps:\n- { id: a, tool: sim.keyed }\n",
        script: Script::Nothing,
        ends: &[Succeeded],
        may_end: &[],
        pairs: true,
        writes_max: MANY,
    },
    Flow {
        name: "take-over, compare and set",
        workflow: "steps:\n- { id: a, tool: sim.cas }\n",
        script: Script::Nothing,
        ends: &[Succeeded],
        may_end: &[],
        pairs: true,
        writes_max: MANY,
    },
    Flow {
        name: "take-over, look-up",
        workflow: "steps:\n- { id: a, tool: sim.lookup, with: { takes_ms: 35000 } }\n",
        script: Script::Nothing,
        ends: &[Succeeded],
        may_end: &[],
        pairs: true,
        writes_max: MANY,
    },
    Flow {
        name: "take-over, opaque",
        workflow: "steps:\n- { id: a, tool: sim.opaque }\n",
        script: Script::Nothing,
        ends: &[Succeeded],
        may_end: &[Paused],
        pairs: true,
        writes_max: MANY,
    },
    Flow {
        name: "opaque, an operator retries",
        workflow: "steps:\n- { id: a, tool: sim.opaque }\n- { id: b, tool: sim.keyed }\n",
        script: Script::RetryWhenPaused,
        ends: &[Succeeded],
        may_end: &[],
        pairs: false,
        writes_max: MANY,
    },
    Flow {
        name: "opaque, an operator rolls back",
        workflow: "steps:\n\
            - { id: a, tool: sim.keyed, rollback: { tool: sim.keyed, with: { say: back } } }\n\
            - { id: b, tool: sim.lookup, rollback: { tool: sim.cas } }\n\
            - { id: c, tool: sim.opaque }\n",
        script: Script::RollBackWhenPaused,
        ends: &[Succeeded],
        may_end: &[Canceled],
        pairs: false,
        writes_max: MANY,
    },
    Flow {
        name: "doubled and reordered messages",
        workflow: "steps:\n\
            - { id: a, tool: sim.keyed, with: { takes_ms: 400 } }\n\
            - { id: b, tool: sim.lookup, with: { takes_ms: 400 } }\n\
            - { id: c, tool: sim.opaque, with: { takes_ms: 400 } }\n",
        script: Script::DoubleMessages,
        ends: &[Succeeded],
        may_end: &[Paused],
        pairs: false,
        writes_max: MANY,
    },
    Flow {
        name: "an approved action",
        workflow: "environment: prod\nsteps:\n\
            - { id: a, tool: sim.cas, with: { say: hello } }\n\
            - { id: b, tool: sim.read }\n",
        script: Script::Approve,
        ends: &[Succeeded],
        may_end: &[],
        pairs: true,
        writes_max: MANY,
    },
    Flow {
        name: "an action that two people approve",
        workflow: "steps:\n- { id: a, tool: sim.keyed, blast_radius: high }\n",
        script: Script::Approve,
        ends: &[Succeeded],
        may_end: &[],
        pairs: false,
        writes_max: MANY,
    },
    Flow {
        name: "rejected, paused, retried, approved",
        workflow: "environment: prod\nsteps:\n- { id: a, tool: sim.lookup, on_reject: pause }\n",
        script: Script::RejectThenApprove,
        ends: &[Succeeded],
        may_end: &[],
        pairs: false,
        writes_max: MANY,
    },
    Flow {
        name: "escalated, then approved",
        workflow: "environment: prod\napproval: { sla: 2m, expires_after: 6h }\nsteps:\n- { id: a, tool: sim.keyed }\n",
        script: Script::ApproveWhenEscalated,
        ends: &[Succeeded],
        may_end: &[],
        pairs: false,
        writes_max: MANY,
    },
    Flow {
        name: "nobody answers",
        workflow: "environment: prod\napproval: { sla: 1m, expires_after: 3m }\nsteps:\n\
            - { id: a, tool: sim.read }\n- { id: b, tool: sim.opaque }\n",
        script: Script::Nothing,
        ends: &[FailedTerminal],
        may_end: &[],
        pairs: false,
        writes_max: MANY,
    },
    Flow {
        name: "approve against cancel",
        workflow: "environment: prod\nsteps:\n- { id: a, tool: sim.keyed }\n",
        script: Script::ApproveAgainstCancel,
        ends: &[Canceled, Succeeded],
        may_end: &[],
        pairs: false,
        writes_max: MANY,
    },
    Flow {
        name: "denied by the caps, and taken back",
        workflow: "steps:\n\
            - { id: a, tool: sim.keyed, rollback: { tool: sim.keyed, with: { say: back } } }\n\
            - { id: b, tool: sim.keyed }\n",
        script: Script::Nothing,
        ends: &[FailedTerminal],
        may_end: &[],
        pairs: false,
        writes_max: 1,
    },
    Flow {
        name: "a failure takes back what was done",
        workflow: "steps:\n\
            - { id: a, tool: sim.cas, with: { say: there }, rollback: auto }\n\
            - { id: b, tool: sim.lookup, rollback: { tool: sim.keyed } }\n\
            - { id: c, tool: sim.read, with: { fails: 99 }, retry: { attempts: 1 } }\n",
        script: Script::Nothing,
        ends: &[FailedTerminal],
        may_end: &[],
        pairs: false,
        writes_max: MANY,
    },
    Flow {
        name: "taking back needs approval too",
        workflow: "environment: prod\nsteps:\n\
            - { id: a, tool: sim.keyed, rollback: { tool: sim.keyed, with: { say: back } } }\n\
            - { id: b, tool: sim.read, with: { fails: 99 }, retry: { attempts: 1 } }\n",
        script: Script::Approve,
        ends: &[FailedTerminal],
        may_end: &[],
        pairs: false,
        writes_max: MANY,
    },
    Flow {
        name: "a finished run is undone by another",
        workflow: "steps:\n\
            - { id: a, tool: sim.keyed, with: { say: 1 } }\n\
            - { id: b, tool: sim.cas, with: { say: 2 } }\n",
        script: Script::UndoWhenOver,
        ends: &[Succeeded],
        may_end: &[],
        pairs: false,
        writes_max: MANY,
    },
];

impl Flow {
    /// Every call of the flow when nothing fails and all clocks are right.
    pub fn trace(&'static self) -> Vec<String> {
        Scenario { flow: self, points: Vec::new(), skew: Skew::None }.play().trace
    }
}
