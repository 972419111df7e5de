//! Drafts of decisions.
//!
//! A command works on a [`Draft`]: a copy of the record, and the events, step records, receipts and messages of the
//! same commit. Commands compose: finishing a step and claiming the next one are two commands on one draft, and one
//! commit.
//!
//! Two rules do not depend on the commands, because one omission would lose a run. When a draft is closed, pending work
//! gets a message, and every run that can still move gets a due time.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::approval::Approval;
use crate::chain::{self, ChainedEvent};
use crate::digest::Digest;
use crate::event::{Event, EventBody, RunStatusChange, StepStatusChange};
use crate::id::{ApprovalId, Fence, OpId, RunKey, SignalId, StepSeq, Version};
use crate::initiator::Initiator;
use crate::key::IdempotencyKey;
use crate::machine::{RunStatus, RunTransition, StepStatus, StepTransition};
use crate::plan::{Plan, PlannedStep};
use crate::queue::QueueName;
use crate::receipt::Receipt;
use crate::record::{Lease, ORPHANED_AFTER, RunRecord, Signal, StepRecord, StepState};
use crate::refusal::Refusal;
use crate::time::{Millis, Timestamp};
use crate::verdict::Verdict;

/// The maximum delay of a queue message. The due index wakes runs after longer delays.
pub const DELAY_MAX: Millis = Millis::mins(15);

/// How long after its delayed message a run becomes due.
const DELAY_GRACE: Millis = Millis::secs(60);

/// The minimum time between two wake messages of a run.
const WAKE_AGAIN_AFTER: Millis = Millis::secs(60);

/// The id, time and cause of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecisionContext {
    /// The id of the write.
    pub op: OpId,
    /// The time of the decision.
    pub now: Timestamp,
    /// Who or what caused it.
    pub by: Initiator,
}

/// The job that a message requests.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Job {
    /// Advance the run.
    Advance,
    /// Show the current state of an approval to its approvers.
    NotifyApproval {
        /// The approval.
        approval: ApprovalId,
        /// The revision that the commit writes. The message may arrive before the commit.
        revision: u32,
    },
    /// Page the on-call about an overdue approval, or resolve the page of one that has ended. A job of its own, so that
    /// neither the card nor the page waits for the other.
    PageOnCall {
        /// The approval.
        approval: ApprovalId,
        /// The revision that the commit writes.
        revision: u32,
    },
    /// Build the evidence of the run, which has ended.
    BuildEvidence,
    /// Start the run of an inbox entry.
    Start,
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Advance => f.write_str("advance"),
            Self::NotifyApproval { approval, revision } => write!(f, "notify_approval:{approval}:{revision}"),
            Self::PageOnCall { approval, revision } => write!(f, "page_on_call:{approval}:{revision}"),
            Self::BuildEvidence => f.write_str("build_evidence"),
            Self::Start => f.write_str("start"),
        }
    }
}

/// The text is not a job.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a job")]
pub struct UnknownJob(String);

impl std::str::FromStr for Job {
    type Err = UnknownJob;
    fn from_str(text: &str) -> Result<Self, UnknownJob> {
        let unknown = || UnknownJob(text.to_owned());
        match text {
            "advance" => return Ok(Self::Advance),
            "build_evidence" => return Ok(Self::BuildEvidence),
            "start" => return Ok(Self::Start),
            _ => {}
        }
        let (job, rest) = text.split_once(':').ok_or_else(unknown)?;
        let (approval, revision) = rest.rsplit_once(':').ok_or_else(unknown)?;
        let approval = approval.parse().map_err(|_| unknown())?;
        let revision = revision.parse().map_err(|_| unknown())?;
        match job {
            "notify_approval" => Ok(Self::NotifyApproval { approval, revision }),
            "page_on_call" => Ok(Self::PageOnCall { approval, revision }),
            _ => Err(unknown()),
        }
    }
}

/// A message about a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// The run.
    pub run: RunKey,
    /// The queue.
    pub queue: QueueName,
    /// The job.
    pub job: Job,
    /// The delay before delivery.
    pub delay: Millis,
}

/// A conditional write of a receipt.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceiptChange {
    /// The revision that is replaced; `None` if there must be no receipt.
    pub replaces: Option<u32>,
    /// The receipt of another run that this one replaces. It stays that run's record of its effect, so it is stored
    /// under that run.
    pub displaces: Option<Receipt>,
    /// The new receipt.
    pub receipt: Receipt,
}

/// The receipt that a decision was made from and does not change. The decision is superseded if another run has replaced
/// it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiptCheck {
    /// The key of the receipt.
    pub key: IdempotencyKey,
    /// The revision that must be current.
    pub revision: u32,
}

/// A write of a signal.
#[derive(Debug, Clone, PartialEq)]
pub enum SignalChange {
    /// Record this delivery. Its id must be new.
    Record(Box<Signal>),
    /// Mark the buffered delivery as used.
    Use(SignalId),
}

/// The content of one commit. All of it is written, or nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// The version that the decision was made from; `None` if the run must not exist.
    pub replaces: Option<Version>,
    /// The due time before the decision.
    pub was_due: Option<Timestamp>,
    /// The record of the run.
    pub record: RunRecord,
    /// The new events of the chain.
    pub events: Vec<ChainedEvent>,
    /// The records of steps that ended.
    pub steps: Vec<StepRecord>,
    /// The changed receipts.
    pub receipts: Vec<ReceiptChange>,
    /// The receipts that must not have changed.
    pub receipt_checks: Vec<ReceiptCheck>,
    /// The changed signals.
    pub signals: Vec<SignalChange>,
    /// The changed approvals. The run's version guards them too.
    pub approvals: Vec<Approval>,
    /// The messages, sent if and only if the rest is written.
    pub outgoing: Vec<Outgoing>,
}

impl Decision {
    /// Whether the commit would change `from`, the record that the decision was made from. A repeated command changes
    /// nothing.
    pub fn changes(&self, from: &RunRecord) -> bool {
        let same = RunRecord {
            version: from.version,
            op: from.op.clone(),
            due_at: from.due_at,
            ..self.record.clone()
        };
        !self.events.is_empty() || !self.outgoing.is_empty() || same != *from
    }
}

/// A decision in progress.
#[derive(Debug)]
pub struct Draft<'p> {
    /// The plan of the run.
    pub plan: &'p Plan,
    /// The id, time and cause of the decision.
    pub context: DecisionContext,
    /// The record as changed by the commands so far.
    pub record: RunRecord,
    /// The approval that the current step waits for or carries.
    approval: Option<Approval>,
    pub(crate) events: Vec<ChainedEvent>,
    pub(crate) steps: Vec<StepRecord>,
    pub(crate) receipts: Vec<ReceiptChange>,
    receipt_checks: Vec<ReceiptCheck>,
    pub(crate) signals: Vec<SignalChange>,
    approvals: Vec<Approval>,
    notifications: Vec<ApprovalId>,
    was_terminal: bool,
    was_due: Option<Timestamp>,
    replaces: Option<Version>,
    #[expect(clippy::option_option, reason = "whether the run moved, and whether it existed before")]
    run_from: Option<Option<RunStatus>>,
    step_from: Option<(StepSeq, StepStatus, StepStatus)>,
    woken: bool,
    read_verdict: Option<Verdict>,
}

impl<'p> Draft<'p> {
    /// A draft based on `record`.
    pub fn new(record: RunRecord, plan: &'p Plan, context: DecisionContext) -> Self {
        let replaces = Some(record.version);
        Self::based_on(record, replaces, plan, context)
    }

    /// The draft of a run that does not exist yet.
    pub(crate) fn first(record: RunRecord, plan: &'p Plan, context: DecisionContext) -> Self {
        let mut draft = Self::based_on(record, None, plan, context);
        draft.run_from = Some(None);
        draft
    }

    fn based_on(
        mut record: RunRecord,
        replaces: Option<Version>,
        plan: &'p Plan,
        context: DecisionContext,
    ) -> Self {
        record.version = record.version.next();
        record.op = context.op.clone();
        Self {
            plan,
            context,
            was_terminal: record.status.is_terminal(),
            was_due: record.due_at,
            record,
            approval: None,
            approvals: Vec::new(),
            notifications: Vec::new(),
            events: Vec::new(),
            steps: Vec::new(),
            receipts: Vec::new(),
            receipt_checks: Vec::new(),
            signals: Vec::new(),
            replaces,
            run_from: None,
            step_from: None,
            woken: false,
            read_verdict: None,
        }
    }

    /// Adds the approval that the record names.
    #[must_use]
    pub fn with_approval(mut self, approval: Option<Approval>) -> Self {
        self.approval = approval;
        self
    }

    /// Adds the verdict on the read that the attempt performed. The first event of the draft records it.
    #[must_use]
    pub fn with_read_verdict(mut self, verdict: Option<Verdict>) -> Self {
        self.read_verdict = verdict.map(Verdict::abridged);
        self
    }

    /// The approval `id`, if the record names it.
    pub(crate) fn approval(&self, id: &ApprovalId) -> Result<Approval, Refusal> {
        let approval = self.approval.as_ref().filter(|approval| approval.id == *id);
        approval.cloned().ok_or_else(|| Refusal::UnknownApproval { approval: id.clone() })
    }

    /// Writes `approval`.
    pub(crate) fn save_approval(&mut self, mut approval: Approval) {
        approval.revision = approval.revision.saturating_add(1);
        self.approvals.retain(|saved| saved.id != approval.id);
        self.approvals.push(approval.clone());
        self.approval = Some(approval);
    }

    /// Writes `approval` and requests a notification about it.
    pub(crate) fn publish_approval(&mut self, approval: Approval) {
        if !self.notifications.contains(&approval.id) {
            self.notifications.push(approval.id.clone());
        }
        self.save_approval(approval);
    }

    /// Makes the decision depend on `receipt`. A receipt that the decision changes is checked by the change.
    pub(crate) fn depend_on(&mut self, receipt: &Receipt) {
        if self.receipts.iter().all(|change| change.receipt.key != receipt.key) {
            let (key, revision) = (receipt.key.clone(), receipt.revision);
            self.receipt_checks.push(ReceiptCheck { key, revision });
        }
    }

    /// The time of the decision.
    pub fn now(&self) -> Timestamp {
        self.context.now
    }

    /// Closes the draft.
    pub fn close(mut self) -> Decision {
        let outgoing = self.messages();
        self.record.due_at = self.next_due();
        Decision {
            replaces: self.replaces,
            was_due: self.was_due,
            record: self.record,
            events: self.events,
            steps: self.steps,
            receipts: self.receipts,
            receipt_checks: self.receipt_checks,
            signals: self.signals,
            approvals: self.approvals,
            outgoing,
        }
    }

    /// The messages for the pending work.
    fn messages(&self) -> Vec<Outgoing> {
        let send = |queue, job, delay| Outgoing { run: self.record.key.clone(), queue, job, delay };
        let advance = self.advance_delay().map(|delay| send(self.advance_queue(), Job::Advance, delay));
        let notify = |approval: &Approval| {
            let (id, revision) = (approval.id.clone(), approval.revision);
            let page = approval.escalated_at.map(|_| Job::PageOnCall { approval: id.clone(), revision });
            let jobs = [Some(Job::NotifyApproval { approval: id, revision }), page];
            jobs.into_iter().flatten().map(|job| send(QueueName::Decisions, job, Millis(0)))
        };
        let notifications = self.approvals.iter().filter(|saved| self.notifications.contains(&saved.id));
        let ended = self.record.status.is_terminal() && !self.was_terminal;
        let evidence = ended.then(|| send(QueueName::Steps, Job::BuildEvidence, Millis(0)));
        advance.into_iter().chain(notifications.flat_map(notify)).chain(evidence).collect()
    }

    /// Decisions by users take effect at once, so they bypass the backlog of steps.
    fn advance_queue(&self) -> QueueName {
        let human = self.events.iter().any(|chained| chained.event.is_human_decision());
        if human { QueueName::Decisions } else { QueueName::Steps }
    }

    /// The delay of the message to advance the run; `None` if no message is needed.
    fn advance_delay(&self) -> Option<Millis> {
        match &self.record.step_state {
            _ if self.record.status.is_terminal() || self.record.status == RunStatus::Paused => None,
            _ if self.woken => Some(Millis(0)),
            StepState::Ready { .. } => Some(Millis(0)),
            StepState::Retrying { not_before, .. } => {
                Some(*not_before - self.now()).filter(|delay| *delay <= DELAY_MAX)
            }
            // A leased step has its message. An event, a vote or the due index wakes a waiting step.
            StepState::Running(_)
            | StepState::Unresolved { .. }
            | StepState::WaitingEvent { .. }
            | StepState::WaitingApproval { .. }
            | StepState::Ended { .. } => None,
        }
    }

    /// When the sweep wakes the run, unless it is advanced before. A due time that is still useful is kept, because
    /// each change is another index write on DynamoDB.
    fn next_due(&self) -> Option<Timestamp> {
        let now = self.now();
        if self.record.status.is_terminal() || self.record.status == RunStatus::Paused {
            return None;
        }
        let due = match &self.record.step_state {
            StepState::Ready { .. }
            | StepState::Running(_)
            | StepState::Unresolved { .. }
            | StepState::Ended { .. } => {
                let latest = now + ORPHANED_AFTER;
                self.record.due_at.filter(|due| *due > now && *due <= latest).unwrap_or(latest)
            }
            StepState::Retrying { not_before, .. } if *not_before - now <= DELAY_MAX => {
                *not_before + DELAY_GRACE
            }
            StepState::Retrying { not_before, .. } => *not_before,
            StepState::WaitingEvent { deadline, .. } => *deadline,
            StepState::WaitingApproval { next_reminder_at, .. } => *next_reminder_at,
        };
        Some(if self.woken { due.max(now + WAKE_AGAIN_AFTER) } else { due })
    }

    /// Sends a message in any state; used by the sweep.
    pub(crate) fn wake(&mut self) {
        self.woken = true;
    }

    /// The current step of the plan.
    pub fn step(&self) -> Result<&'p PlannedStep, Refusal> {
        let seq = self.record.at;
        self.plan.step(seq).ok_or_else(|| Refusal::OffPlan { run: self.record.key.clone(), seq: seq.0 })
    }

    /// Refuses if the run has ended.
    pub(crate) fn ensure_active(&self) -> Result<(), Refusal> {
        match self.record.status {
            status if status.is_terminal() => Err(Refusal::Terminal { run: self.record.key.clone(), status }),
            _ => Ok(()),
        }
    }

    /// The lease, if its fence is `fence`.
    pub(crate) fn lease(&self, fence: Fence) -> Result<Lease, Refusal> {
        self.ensure_active()?;
        match &self.record.step_state {
            StepState::Running(lease) if lease.fence == fence => Ok(lease.clone()),
            StepState::Running(_)
            | StepState::Ready { .. }
            | StepState::Retrying { .. }
            | StepState::Unresolved { .. }
            | StepState::WaitingEvent { .. }
            | StepState::WaitingApproval { .. }
            | StepState::Ended { .. } => Err(Refusal::StaleFence { yours: fence, held: self.record.fence }),
        }
    }

    /// Moves the run. The next event records the transition.
    pub(crate) fn move_run(&mut self, by: RunTransition) -> Result<(), Refusal> {
        let from = self.record.status;
        self.record.status = from.after(by)?;
        self.run_from.get_or_insert(Some(from));
        if self.record.status.is_terminal() {
            self.record.completed_at = Some(self.context.now);
        }
        Ok(())
    }

    /// Moves the current step to `step_state`. The next event records the transition. During a rollback the state is
    /// that of the rollback; the step itself stays succeeded until it is rolled back.
    pub(crate) fn move_step(&mut self, by: StepTransition, step_state: StepState) -> Result<(), Refusal> {
        let from = self.record.step_state.status();
        let to = from.after(by)?;
        debug_assert_eq!(to, step_state.status(), "{by:?}");
        self.record.step_state = step_state;
        if !self.record.is_rolling_back() {
            self.record_step_transition(self.record.at, from, to);
        }
        Ok(())
    }

    /// Records a step transition for the next event.
    pub(crate) fn record_step_transition(&mut self, seq: StepSeq, from: StepStatus, to: StepStatus) {
        let from = self.step_from.filter(|(pending, ..)| *pending == seq).map_or(from, |(_, from, _)| from);
        self.step_from = Some((seq, from, to));
    }

    /// Appends an event with the transitions since the last one, and returns its number.
    pub(crate) fn record_event(&mut self, body: EventBody) -> u32 {
        let n = self.record.events;
        let event = Event {
            n,
            at: self.context.now,
            by: self.context.by.clone(),
            seq: self.record.at,
            rollback: self.record.is_rolling_back(),
            run: self.run_transition(),
            step: self.step_transition(),
            read_verdict: self.read_verdict.take(),
            body,
        };
        if n > 0 {
            self.record.participants.add_from(&event);
        }
        let chained = chain::chain_event(&self.record.key, &self.record.head, event);
        self.record.events = n.saturating_add(1);
        self.record.head = chained.hash;
        self.events.push(chained);
        n
    }

    fn run_transition(&mut self) -> Option<RunStatusChange> {
        let from = self.run_from.take()?;
        let to = self.record.status;
        (from != Some(to)).then_some(RunStatusChange { from, to })
    }

    fn step_transition(&mut self) -> Option<StepStatusChange> {
        let (seq, from, to) = self.step_from.take()?;
        let id = self.plan.step(seq)?.id.clone();
        (from != to).then_some(StepStatusChange { seq, id, from, to })
    }

    /// The seed of the step's jitter, the same on every worker.
    pub(crate) fn jitter_seed(&self) -> Digest {
        Digest::of_parts(
            "countersign/jitter-seed/v1",
            &[self.record.key.run.as_str().as_bytes(), &self.record.at.0.to_be_bytes()],
        )
    }
}
