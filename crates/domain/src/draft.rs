//! A decision in the making.
//!
//! A command works on a [`Draft`]: a copy of the record that it moves along, and the events, records,
//! receipts and messages that belong to the same commit. Commands compose — finishing a step and claiming
//! the next are two commands on one draft, and so one commit.
//!
//! Two things are never left to a command, because forgetting them once would lose a run: when a draft is
//! closed, whatever it leaves to be done now or later gets a message, and whatever can still move gets a
//! due time.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::approval::Approval;
use crate::chain::{self, SealedEvent};
use crate::digest::Digest;
use crate::event::{Event, EventBody, RunTransition, StepTransition};
use crate::id::{ApprovalId, Fence, OpId, RunKey, SignalId, StepSeq, Version};
use crate::initiator::Initiator;
use crate::machine::{RunMove, RunStatus, StepMove, StepStatus};
use crate::plan::{Plan, PlannedStep};
use crate::queue::QueueName;
use crate::receipt::Receipt;
use crate::record::{Lease, Live, ORPHANED_AFTER, RunRecord, Signal, StepRecord};
use crate::refusal::Refusal;
use crate::time::{Millis, Timestamp};

/// The longest delay a queue can be asked for; beyond it the due index wakes the run.
pub const DELAY_MAX: Millis = Millis::mins(15);

/// How long after a delayed message should have come the due index looks for itself.
const DELAY_GRACE: Millis = Millis::secs(60);

/// How long a woken run is left alone before it is woken again.
const WAKE_AGAIN_AFTER: Millis = Millis::secs(60);

/// What every decision is stamped with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    /// Names the write.
    pub op: OpId,
    /// When it is decided.
    pub now: Timestamp,
    /// Who or what caused it.
    pub by: Initiator,
}

/// What a message asks for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Job {
    /// The run has something to do now.
    Advance,
    /// People should be shown how this request for approval stands.
    NotifyApproval(ApprovalId),
    /// The run is over, and its evidence is to be put together.
    BuildEvidence,
    /// Something came in that may start this run.
    Start,
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Advance => f.write_str("advance"),
            Self::NotifyApproval(approval) => write!(f, "notify_approval:{approval}"),
            Self::BuildEvidence => f.write_str("build_evidence"),
            Self::Start => f.write_str("start"),
        }
    }
}

/// The text names no job.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an job")]
pub struct UnknownJob(String);

impl std::str::FromStr for Job {
    type Err = UnknownJob;
    fn from_str(text: &str) -> Result<Self, UnknownJob> {
        let unknown = || UnknownJob(text.to_owned());
        match (text, text.strip_prefix("notify_approval:")) {
            ("advance", _) => Ok(Self::Advance),
            ("build_evidence", _) => Ok(Self::BuildEvidence),
            ("start", _) => Ok(Self::Start),
            (_, Some(approval)) => approval.parse().map(Self::NotifyApproval).map_err(|_| unknown()),
            (_, None) => Err(unknown()),
        }
    }
}

/// A message about a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// Which run.
    pub run: RunKey,
    /// Which way it goes.
    pub queue: QueueName,
    /// What for.
    pub job: Job,
    /// How long the message is held back.
    pub delay: Millis,
}

/// A write of a receipt, conditional on what it replaces.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceiptChange {
    /// The revision that must stand there; `None` means that nothing may.
    pub replaces: Option<u32>,
    /// The receipt of another run whose place this one takes. It stays that run's account of what it did,
    /// so it is kept under its name.
    pub displaces: Option<Receipt>,
    /// The receipt.
    pub receipt: Receipt,
}

/// A write of an event from outside.
#[derive(Debug, Clone, PartialEq)]
pub enum SignalChange {
    /// Record this delivery; one of this id must not exist.
    Record(Box<Signal>),
    /// The kept delivery was used.
    Use(SignalId),
}

/// Everything one commit writes, or nothing of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// The version the decision was made from; `None` means that the run must not exist.
    pub replaces: Option<Version>,
    /// When somebody would have looked at the run, as it stood before.
    pub was_due: Option<Timestamp>,
    /// The run's record.
    pub record: RunRecord,
    /// The new entries of its chain.
    pub events: Vec<SealedEvent>,
    /// Records of steps that ended.
    pub steps: Vec<StepRecord>,
    /// Receipts.
    pub receipts: Vec<ReceiptChange>,
    /// Events from outside.
    pub signals: Vec<SignalChange>,
    /// Requests for approval, as they stand now. The run's version guards them too.
    pub approvals: Vec<Approval>,
    /// Messages, sent if and only if the rest is written.
    pub outgoing: Vec<Outgoing>,
}

impl Decision {
    /// Whether committing this would change anything about `from`, which it was made from: a repetition
    /// is answered, and leaves a run that is over as it is.
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

/// A decision in the making.
#[derive(Debug)]
pub struct Draft<'p> {
    /// The run's plan.
    pub plan: &'p Plan,
    /// What the decision is stamped with.
    pub stamp: Stamp,
    /// The record as the commands so far have moved it.
    pub record: RunRecord,
    /// The request for approval that the current step waits for or carries, if it does.
    asked: Option<Approval>,
    pub(crate) events: Vec<SealedEvent>,
    pub(crate) steps: Vec<StepRecord>,
    pub(crate) receipts: Vec<ReceiptChange>,
    pub(crate) signals: Vec<SignalChange>,
    approvals: Vec<Approval>,
    shows: Vec<ApprovalId>,
    was_over: bool,
    was_due: Option<Timestamp>,
    replaces: Option<Version>,
    #[expect(clippy::option_option, reason = "whether the run moved, and whether it was anywhere before")]
    run_from: Option<Option<RunStatus>>,
    step_from: Option<(StepSeq, StepStatus, StepStatus)>,
    woken: bool,
}

impl<'p> Draft<'p> {
    /// A draft on top of `record`.
    pub fn new(record: RunRecord, plan: &'p Plan, stamp: Stamp) -> Self {
        let replaces = Some(record.version);
        Self::onto(record, replaces, plan, stamp)
    }

    /// A draft of a run that does not exist yet.
    pub(crate) fn first(record: RunRecord, plan: &'p Plan, stamp: Stamp) -> Self {
        let mut draft = Self::onto(record, None, plan, stamp);
        draft.run_from = Some(None);
        draft
    }

    fn onto(mut record: RunRecord, replaces: Option<Version>, plan: &'p Plan, stamp: Stamp) -> Self {
        record.version = record.version.next();
        record.op = stamp.op.clone();
        Self {
            plan,
            stamp,
            was_over: record.status.is_terminal(),
            was_due: record.due_at,
            record,
            asked: None,
            approvals: Vec::new(),
            shows: Vec::new(),
            events: Vec::new(),
            steps: Vec::new(),
            receipts: Vec::new(),
            signals: Vec::new(),
            replaces,
            run_from: None,
            step_from: None,
            woken: false,
        }
    }

    /// The same draft with the request for approval that the record names.
    #[must_use]
    pub fn knowing(mut self, approval: Option<Approval>) -> Self {
        self.asked = approval;
        self
    }

    /// The request for approval that the record names as `id`.
    pub(crate) fn asked(&self, id: &ApprovalId) -> Result<Approval, Refusal> {
        let asked = self.asked.as_ref().filter(|approval| approval.id == *id);
        asked.cloned().ok_or_else(|| Refusal::UnknownApproval { approval: id.clone() })
    }

    /// Writes `approval` as it now stands.
    pub(crate) fn keep_approval(&mut self, mut approval: Approval) {
        approval.revision = approval.revision.saturating_add(1);
        self.approvals.retain(|kept| kept.id != approval.id);
        self.approvals.push(approval.clone());
        self.asked = Some(approval);
    }

    /// Writes `approval` as it now stands, and has people shown it.
    pub(crate) fn show_approval(&mut self, approval: Approval) {
        if !self.shows.contains(&approval.id) {
            self.shows.push(approval.id.clone());
        }
        self.keep_approval(approval);
    }

    /// When this is decided.
    pub fn now(&self) -> Timestamp {
        self.stamp.now
    }

    /// Closes the draft.
    pub fn close(mut self) -> Decision {
        let outgoing = self.messages();
        self.record.due_at = self.due();
        Decision {
            replaces: self.replaces,
            was_due: self.was_due,
            record: self.record,
            events: self.events,
            steps: self.steps,
            receipts: self.receipts,
            signals: self.signals,
            approvals: self.approvals,
            outgoing,
        }
    }

    /// What must be sent so that nothing waits for a message that nobody sends.
    fn messages(&self) -> Vec<Outgoing> {
        let send = |queue, job, delay| Outgoing { run: self.record.key.clone(), queue, job, delay };
        let walk = self.advance_in().map(|delay| send(self.advance_queue(), Job::Advance, delay));
        let show = |approval: &ApprovalId| {
            send(QueueName::Decisions, Job::NotifyApproval(approval.clone()), Millis(0))
        };
        let ended = self.record.status.is_terminal() && !self.was_over;
        let seal = ended.then(|| send(QueueName::Steps, Job::BuildEvidence, Millis(0)));
        walk.into_iter().chain(self.shows.iter().map(show)).chain(seal).collect()
    }

    /// Which way a message goes that has the run walked: whatever a person said is heard at once.
    fn advance_queue(&self) -> QueueName {
        let said = self.events.iter().any(|sealed| sealed.event.is_a_persons_word());
        if said { QueueName::Decisions } else { QueueName::Steps }
    }

    /// In how long somebody should walk the run, if a message is to tell them.
    fn advance_in(&self) -> Option<Millis> {
        match &self.record.live {
            _ if self.record.status.is_terminal() || self.record.status == RunStatus::Paused => None,
            _ if self.woken => Some(Millis(0)),
            Live::Ready { .. } => Some(Millis(0)),
            Live::Retrying { not_before, .. } => {
                Some(*not_before - self.now()).filter(|delay| *delay <= DELAY_MAX)
            }
            // A holder has its message; a wait is woken by what ends it, or by the due index.
            Live::Running(_)
            | Live::Unresolved { .. }
            | Live::WaitingEvent { .. }
            | Live::WaitingApproval { .. }
            | Live::Over { .. } => None,
        }
    }

    /// When somebody should look at the run if nobody has. An entry in the index is another write on
    /// DynamoDB, so a due time that still serves is left as it is.
    fn due(&self) -> Option<Timestamp> {
        let now = self.now();
        if self.record.status.is_terminal() || self.record.status == RunStatus::Paused {
            return None;
        }
        let due = match &self.record.live {
            Live::Ready { .. } | Live::Running(_) | Live::Unresolved { .. } | Live::Over { .. } => {
                let latest = now + ORPHANED_AFTER;
                self.record.due_at.filter(|due| *due > now && *due <= latest).unwrap_or(latest)
            }
            Live::Retrying { not_before, .. } if *not_before - now <= DELAY_MAX => *not_before + DELAY_GRACE,
            Live::Retrying { not_before, .. } => *not_before,
            Live::WaitingEvent { deadline, .. } => *deadline,
            Live::WaitingApproval { nudge_at, .. } => *nudge_at,
        };
        Some(if self.woken { due.max(now + WAKE_AGAIN_AFTER) } else { due })
    }

    /// Sends a message whatever the state is; the sweep's way.
    pub(crate) fn wake(&mut self) {
        self.woken = true;
    }

    /// The current step of the plan.
    pub fn step(&self) -> Result<&'p PlannedStep, Refusal> {
        let seq = self.record.at;
        self.plan.step(seq).ok_or_else(|| Refusal::OffPlan { run: self.record.key.clone(), seq: seq.0 })
    }

    /// Refuses if the run is over.
    pub(crate) fn open(&self) -> Result<(), Refusal> {
        match self.record.status {
            status if status.is_terminal() => Err(Refusal::Terminal { run: self.record.key.clone(), status }),
            _ => Ok(()),
        }
    }

    /// The lease, if it is held under `fence`.
    pub(crate) fn held(&self, fence: Fence) -> Result<Lease, Refusal> {
        self.open()?;
        match &self.record.live {
            Live::Running(lease) if lease.fence == fence => Ok(lease.clone()),
            Live::Running(_)
            | Live::Ready { .. }
            | Live::Retrying { .. }
            | Live::Unresolved { .. }
            | Live::WaitingEvent { .. }
            | Live::WaitingApproval { .. }
            | Live::Over { .. } => Err(Refusal::StaleFence { yours: fence, held: self.record.fence }),
        }
    }

    /// Moves the run; the next event says so.
    pub(crate) fn move_run(&mut self, by: RunMove) -> Result<(), Refusal> {
        let from = self.record.status;
        self.record.status = from.after(by)?;
        self.run_from.get_or_insert(Some(from));
        if self.record.status.is_terminal() {
            self.record.completed_at = Some(self.stamp.now);
        }
        Ok(())
    }

    /// Moves the current step; the next event says so. `live` must be the state that the move leads to.
    /// While the run rolls back, the live state is that of the undoing, which is work like any other; the
    /// step itself stays succeeded until it is rolled back.
    pub(crate) fn move_step(&mut self, by: StepMove, live: Live) -> Result<(), Refusal> {
        let from = self.record.live.status();
        let to = from.after(by)?;
        debug_assert_eq!(to, live.status(), "{by:?}");
        self.record.live = live;
        if !self.record.is_undoing() {
            self.note_step(self.record.at, from, to);
        }
        Ok(())
    }

    /// Notes a step's transition for the next event.
    pub(crate) fn note_step(&mut self, seq: StepSeq, from: StepStatus, to: StepStatus) {
        let from = self.step_from.filter(|(noted, ..)| *noted == seq).map_or(from, |(_, from, _)| from);
        self.step_from = Some((seq, from, to));
    }

    /// Records what happened, with the transitions made since the last event; gives back its number.
    pub(crate) fn record_event(&mut self, body: EventBody) -> u32 {
        let n = self.record.events;
        let event = Event {
            n,
            at: self.stamp.now,
            by: self.stamp.by.clone(),
            seq: self.record.at,
            undo: self.record.is_undoing(),
            run: self.run_transition(),
            step: self.step_transition(),
            body,
        };
        let sealed = chain::seal(&self.record.key, &self.record.head, event);
        self.record.events = n.saturating_add(1);
        self.record.head = sealed.hash;
        self.events.push(sealed);
        n
    }

    fn run_transition(&mut self) -> Option<RunTransition> {
        let from = self.run_from.take()?;
        let to = self.record.status;
        (from != Some(to)).then_some(RunTransition { from, to })
    }

    fn step_transition(&mut self) -> Option<StepTransition> {
        let (seq, from, to) = self.step_from.take()?;
        let id = self.plan.step(seq)?.id.clone();
        (from != to).then_some(StepTransition { seq, id, from, to })
    }

    /// The seed of this step's jitter: the same for everybody who decides about it.
    pub(crate) fn jitter_seed(&self) -> Digest {
        Digest::of_parts(
            "countersign/jitter-seed/v1",
            &[self.record.key.run.as_str().as_bytes(), &self.record.at.0.to_be_bytes()],
        )
    }
}
