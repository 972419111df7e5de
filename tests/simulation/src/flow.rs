//! The flows: small workflows, the users' actions during the run, and the allowed final statuses.

use domain::RunStatus::{self, Canceled, FailedTerminal, Paused, Succeeded};

use crate::scenario::{Scenario, Skew};

/// What users and the queue do while the flow runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Script {
    /// No action after the start.
    Nothing,
    /// The event is sent when the run waits for it.
    EventWhenWaiting,
    /// The event is sent at the start, long before the run waits for it.
    EventAtStart,
    /// Two approvers approve every approval.
    Approve,
    /// An approver rejects.
    Reject,
    /// An approver rejects, an operator resumes the run, and then approvers approve.
    RejectThenApprove,
    /// Approvers answer only after the approval has escalated; then they approve.
    ApproveWhenEscalated,
    /// An approver approves while an operator cancels the run.
    ApproveDuringCancel,
    /// An operator undoes the finished run with another run.
    UndoWhenFinished,
    /// An operator cancels the run while a worker holds a step.
    CancelWhenRunning,
    /// The queue delivers duplicates of the message, late and out of order.
    DuplicateMessages,
    /// When the run pauses, an operator resumes it, and an approver approves another attempt.
    RetryWhenPaused,
    /// When the run pauses, an operator rolls it back.
    RollBackWhenPaused,
}

#[derive(Debug, Clone, Copy)]
pub struct Flow {
    /// The name in the report.
    pub name: &'static str,
    pub(crate) workflow: &'static str,
    pub(crate) script: Script,
    /// Allowed final statuses without faults.
    pub(crate) final_statuses: &'static [RunStatus],
    /// Additional final statuses allowed with faults.
    pub(crate) final_statuses_with_faults: &'static [RunStatus],
    /// Whether every pair of faults is run as well.
    pub(crate) pairs: bool,
    /// The tenant's cap on effects in one run.
    pub(crate) writes_max: u32,
}

/// A cap that only the flow about caps lowers.
const DEFAULT_WRITES_MAX: u32 = 64;

/// Every flow. Waits for an event are longer than the clock skew, because a deadline is only as accurate as
/// the worst clock among the workers. The longest flow comes first, so that it does not run alone at the end.
pub const FLOWS: &[Flow] = &[
    Flow {
        name: "approved action",
        workflow: "environment: prod\nsteps:\n\
            - { id: a, tool: sim.cas, with: { value: hello } }\n\
            - { id: b, tool: sim.read }\n",
        script: Script::Approve,
        final_statuses: &[Succeeded],
        final_statuses_with_faults: &[],
        pairs: true,
        writes_max: DEFAULT_WRITES_MAX,
    },
    Flow {
        name: "plain",
        workflow: "steps:\n\
            - { id: a, tool: sim.read, with: { value: hello } }\n\
            - { id: b, tool: sim.keyed, with: { value: '${ steps.a.value }' } }\n",
        script: Script::Nothing,
        final_statuses: &[Succeeded],
        final_statuses_with_faults: &[],
        pairs: true,
        writes_max: DEFAULT_WRITES_MAX,
    },
    Flow {
        name: "hand-off",
        workflow: "steps:\n\
            - { id: a, tool: sim.keyed, with: { value: 1 } }\n\
            - { id: b, tool: sim.cas, with: { value: '${ steps.a.value }' } }\n\
            - { id: c, tool: sim.lookup, with: { value: '${ steps.b.value }' } }\n\
            - { id: d, tool: sim.read, with: { value: '${ steps.a.value + trigger.n }' } }\n",
        script: Script::Nothing,
        final_statuses: &[Succeeded],
        final_statuses_with_faults: &[],
        pairs: false,
        writes_max: DEFAULT_WRITES_MAX,
    },
    Flow {
        name: "retry",
        workflow: "steps:\n- { id: a, tool: sim.keyed, with: { fails: 1 }, retry: { attempts: 9 } }\n",
        script: Script::Nothing,
        final_statuses: &[Succeeded],
        final_statuses_with_faults: &[],
        pairs: false,
        writes_max: DEFAULT_WRITES_MAX,
    },
    Flow {
        name: "exhausted",
        workflow: "steps:\n- { id: a, tool: sim.keyed, with: { fails: 99 }, retry: { attempts: 3 } }\n",
        script: Script::Nothing,
        final_statuses: &[FailedTerminal],
        // If a fault interrupts the last attempt, its outcome is unknown.
        final_statuses_with_faults: &[Paused],
        pairs: false,
        writes_max: DEFAULT_WRITES_MAX,
    },
    Flow {
        name: "wait then event",
        workflow: "steps:\n\
            - { id: w, tool: wait.event, with: { event: go, timeout: 6h } }\n\
            - { id: b, tool: sim.keyed, with: { value: '${ steps.w.go }' } }\n",
        script: Script::EventWhenWaiting,
        final_statuses: &[Succeeded],
        final_statuses_with_faults: &[],
        pairs: false,
        writes_max: DEFAULT_WRITES_MAX,
    },
    Flow {
        name: "event then wait",
        workflow: "steps:\n\
            - { id: a, tool: sim.read, with: { takes_ms: 3000 } }\n\
            - { id: w, tool: wait.event, with: { event: go, timeout: 6h } }\n\
            - { id: b, tool: sim.keyed, with: { value: '${ steps.w.go }' } }\n",
        script: Script::EventAtStart,
        final_statuses: &[Succeeded],
        final_statuses_with_faults: &[],
        pairs: false,
        writes_max: DEFAULT_WRITES_MAX,
    },
    Flow {
        name: "wait timed out",
        workflow: "steps:\n\
            - { id: a, tool: sim.keyed }\n\
            - { id: w, tool: wait.event, with: { event: go, timeout: 2m } }\n\
            - { id: b, tool: sim.keyed }\n",
        script: Script::Nothing,
        final_statuses: &[FailedTerminal],
        final_statuses_with_faults: &[],
        pairs: false,
        writes_max: DEFAULT_WRITES_MAX,
    },
    Flow {
        name: "approval",
        workflow: "steps:\n\
            - { id: ask, tool: approval.gate, with: { message: 'go on?' } }\n\
            - { id: b, tool: sim.opaque, retry: { attempts: 5 } }\n",
        script: Script::Approve,
        final_statuses: &[Succeeded],
        final_statuses_with_faults: &[Paused],
        pairs: false,
        writes_max: DEFAULT_WRITES_MAX,
    },
    Flow {
        name: "rejection",
        workflow: "steps:\n\
            - { id: ask, tool: approval.gate, with: { message: 'go on?' } }\n\
            - { id: b, tool: sim.keyed }\n",
        script: Script::Reject,
        final_statuses: &[FailedTerminal],
        final_statuses_with_faults: &[],
        pairs: false,
        writes_max: DEFAULT_WRITES_MAX,
    },
    Flow {
        name: "cancel while running",
        workflow: "steps:\n\
            - { id: a, tool: sim.keyed, with: { takes_ms: 15000 }, rollback: { tool: sim.keyed, with: { value: back } } }\n\
            - { id: b, tool: sim.keyed }\n",
        script: Script::CancelWhenRunning,
        final_statuses: &[Canceled],
        // The cancellation may arrive after the run has ended.
        final_statuses_with_faults: &[Succeeded],
        pairs: false,
        writes_max: DEFAULT_WRITES_MAX,
    },
    Flow {
        name: "cancel while reading",
        workflow: "steps:\n\
            - { id: a, tool: sim.read, with: { takes_ms: 25000 } }\n\
            - { id: b, tool: sim.keyed }\n",
        script: Script::CancelWhenRunning,
        final_statuses: &[Canceled],
        final_statuses_with_faults: &[Succeeded],
        pairs: false,
        writes_max: DEFAULT_WRITES_MAX,
    },
    Flow {
        name: "take-over, read only",
        workflow: "steps:\n- { id: a, tool: sim.read }\n",
        script: Script::Nothing,
        final_statuses: &[Succeeded],
        final_statuses_with_faults: &[],
        pairs: true,
        writes_max: DEFAULT_WRITES_MAX,
    },
    Flow {
        name: "take-over, native key",
        workflow: "steps:\n- { id: a, tool: sim.keyed }\n",
        script: Script::Nothing,
        final_statuses: &[Succeeded],
        final_statuses_with_faults: &[],
        pairs: true,
        writes_max: DEFAULT_WRITES_MAX,
    },
    Flow {
        name: "take-over, compare and set",
        workflow: "steps:\n- { id: a, tool: sim.cas }\n",
        script: Script::Nothing,
        final_statuses: &[Succeeded],
        final_statuses_with_faults: &[],
        pairs: true,
        writes_max: DEFAULT_WRITES_MAX,
    },
    Flow {
        name: "take-over, look-up",
        workflow: "steps:\n- { id: a, tool: sim.lookup, with: { takes_ms: 35000 } }\n",
        script: Script::Nothing,
        final_statuses: &[Succeeded],
        final_statuses_with_faults: &[],
        pairs: true,
        writes_max: DEFAULT_WRITES_MAX,
    },
    Flow {
        name: "take-over, opaque",
        workflow: "steps:\n- { id: a, tool: sim.opaque, retry: { attempts: 5 } }\n",
        script: Script::Nothing,
        final_statuses: &[Succeeded],
        final_statuses_with_faults: &[Paused],
        pairs: true,
        writes_max: DEFAULT_WRITES_MAX,
    },
    Flow {
        name: "opaque, operator retries",
        workflow: "steps:\n- { id: a, tool: sim.opaque, retry: { attempts: 5 } }\n- { id: b, tool: sim.keyed }\n",
        script: Script::RetryWhenPaused,
        final_statuses: &[Succeeded],
        final_statuses_with_faults: &[],
        pairs: false,
        writes_max: DEFAULT_WRITES_MAX,
    },
    Flow {
        name: "opaque, operator rolls back",
        workflow: "steps:\n\
            - { id: a, tool: sim.keyed, rollback: { tool: sim.keyed, with: { value: back } } }\n\
            - { id: b, tool: sim.lookup, rollback: { tool: sim.cas } }\n\
            - { id: c, tool: sim.opaque, retry: { attempts: 5 } }\n",
        script: Script::RollBackWhenPaused,
        final_statuses: &[Succeeded],
        final_statuses_with_faults: &[Canceled],
        pairs: false,
        writes_max: DEFAULT_WRITES_MAX,
    },
    Flow {
        name: "duplicate and reordered messages",
        workflow: "steps:\n\
            - { id: a, tool: sim.keyed, with: { takes_ms: 400 } }\n\
            - { id: b, tool: sim.lookup, with: { takes_ms: 400 } }\n\
            - { id: c, tool: sim.opaque, with: { takes_ms: 400 }, retry: { attempts: 5 } }\n",
        script: Script::DuplicateMessages,
        final_statuses: &[Succeeded],
        final_statuses_with_faults: &[Paused],
        pairs: false,
        writes_max: DEFAULT_WRITES_MAX,
    },
    Flow {
        name: "action with two approvals",
        workflow: "steps:\n- { id: a, tool: sim.keyed, blast_radius: high }\n",
        script: Script::Approve,
        final_statuses: &[Succeeded],
        final_statuses_with_faults: &[],
        pairs: false,
        writes_max: DEFAULT_WRITES_MAX,
    },
    Flow {
        name: "rejected, paused, retried, approved",
        workflow: "environment: prod\nsteps:\n- { id: a, tool: sim.lookup, on_reject: pause }\n",
        script: Script::RejectThenApprove,
        final_statuses: &[Succeeded],
        final_statuses_with_faults: &[],
        pairs: false,
        writes_max: DEFAULT_WRITES_MAX,
    },
    Flow {
        name: "escalated, then approved",
        workflow: "environment: prod\napproval: { sla: 2m, expires_after: 6h }\nsteps:\n- { id: a, tool: sim.keyed }\n",
        script: Script::ApproveWhenEscalated,
        final_statuses: &[Succeeded],
        final_statuses_with_faults: &[],
        pairs: false,
        writes_max: DEFAULT_WRITES_MAX,
    },
    Flow {
        name: "approval expires",
        workflow: "environment: prod\napproval: { sla: 1m, expires_after: 3m }\nsteps:\n\
            - { id: a, tool: sim.read }\n- { id: b, tool: sim.opaque, retry: { attempts: 5 } }\n",
        script: Script::Nothing,
        final_statuses: &[FailedTerminal],
        final_statuses_with_faults: &[],
        pairs: false,
        writes_max: DEFAULT_WRITES_MAX,
    },
    Flow {
        name: "approve against cancel",
        workflow: "environment: prod\nsteps:\n- { id: a, tool: sim.keyed }\n",
        script: Script::ApproveDuringCancel,
        final_statuses: &[Canceled, Succeeded],
        final_statuses_with_faults: &[],
        pairs: false,
        writes_max: DEFAULT_WRITES_MAX,
    },
    Flow {
        name: "denied by caps, rolled back",
        workflow: "steps:\n\
            - { id: a, tool: sim.keyed, rollback: { tool: sim.keyed, with: { value: back } } }\n\
            - { id: b, tool: sim.keyed }\n",
        script: Script::Nothing,
        final_statuses: &[FailedTerminal],
        final_statuses_with_faults: &[],
        pairs: false,
        writes_max: 1,
    },
    Flow {
        name: "failure rolls back",
        workflow: "steps:\n\
            - { id: a, tool: sim.cas, with: { value: there }, rollback: auto }\n\
            - { id: b, tool: sim.lookup, rollback: { tool: sim.keyed } }\n\
            - { id: c, tool: sim.read, with: { fails: 99 }, retry: { attempts: 1 } }\n",
        script: Script::Nothing,
        final_statuses: &[FailedTerminal],
        final_statuses_with_faults: &[],
        pairs: false,
        writes_max: DEFAULT_WRITES_MAX,
    },
    Flow {
        name: "rollback needs approval",
        workflow: "environment: prod\nsteps:\n\
            - { id: a, tool: sim.keyed, rollback: { tool: sim.keyed, with: { value: back } } }\n\
            - { id: b, tool: sim.read, with: { fails: 99 }, retry: { attempts: 1 } }\n",
        script: Script::Approve,
        final_statuses: &[FailedTerminal],
        final_statuses_with_faults: &[],
        pairs: false,
        writes_max: DEFAULT_WRITES_MAX,
    },
    Flow {
        name: "finished run undone by another",
        workflow: "steps:\n\
            - { id: a, tool: sim.keyed, with: { value: 1 } }\n\
            - { id: b, tool: sim.cas, with: { value: 2 } }\n",
        script: Script::UndoWhenFinished,
        final_statuses: &[Succeeded],
        final_statuses_with_faults: &[],
        pairs: false,
        writes_max: DEFAULT_WRITES_MAX,
    },
];

impl Flow {
    /// Every call of the flow without faults and without clock skew.
    pub fn trace(&'static self) -> Vec<String> {
        Scenario { flow: self, points: Vec::new(), skew: Skew::None }.run().trace
    }
}
