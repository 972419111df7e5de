//! Reads a timeline from a chain.
//!
//! The chain has an event for the end of each activity. A claim is no event: the attempt in the event that ends the
//! work names its start, and the lease names it while the work is in progress.

use domain::{ApprovalStatus, Event, EventBody, RunStatus, StepSeq, StepStatus, Timestamp};

use super::{Activity, LiveStep, Mark, MarkKind, Segment, Timeline, TimelineRow};
use crate::event::body_text;

pub(super) fn read(rows: Vec<TimelineRow>, events: &[Event], now: &LiveStep) -> Timeline {
    let from = events.first().map_or(now.at, |event| event.at);
    let mut reader =
        Reader { rows, activity: Activity::Queued, since: from, due: None, rollback: false, finished: false };
    for event in events {
        reader.read_event(event);
    }
    if !reader.finished {
        reader.add_open(now);
    }
    Timeline { from, until: reader.since, finished: reader.finished, rows: reader.rows }
}

/// The state after a part of the chain.
struct Reader {
    rows: Vec<TimelineRow>,
    /// The activity since `since`.
    activity: Activity,
    since: Timestamp,
    /// The earliest time of the next attempt.
    due: Option<Timestamp>,
    rollback: bool,
    finished: bool,
}

/// The end of the current activity.
struct ActivityEnd<'a> {
    seq: StepSeq,
    at: Timestamp,
    worker: Option<&'a str>,
    open: bool,
    failed: bool,
}

impl Reader {
    fn read_event(&mut self, event: &Event) {
        // Clocks of workers may differ; the order of the chain is authoritative.
        let at = event.at.max(self.since);
        self.mark(event, at);
        let Some(next) = next_activity(event) else { return };
        self.rollback = event.rollback;
        let (start, worker) = self.finished_work(event);
        if let Some(start) = start {
            self.start_work(event.seq, start.clamp(self.since, at));
        }
        self.end(&ActivityEnd { seq: event.seq, at, worker, open: false, failed: is_failed_attempt(event) });
        self.activity = next;
        self.due = match event.body {
            EventBody::AttemptFailed { not_before, .. } => Some(not_before),
            _ => None,
        };
        self.rollback |= matches!(event.body, EventBody::RollbackStarted { .. });
        self.finished = event.run.is_some_and(|run| run.to.is_terminal());
    }

    /// Adds the activity in progress.
    fn add_open(&mut self, now: &LiveStep) {
        let at = now.at.max(self.since);
        if let Some((_, start)) = &now.held {
            self.start_work(now.seq, (*start).clamp(self.since, at));
        }
        let worker = now.held.as_ref().map(|(worker, _)| worker.as_str());
        self.end(&ActivityEnd { seq: now.seq, at, worker, open: true, failed: false });
    }

    /// The start of the work that `event` ends, and its worker.
    fn finished_work<'a>(&self, event: &'a Event) -> (Option<Timestamp>, Option<&'a str>) {
        let estimated = self.due.unwrap_or(self.since);
        match &event.body {
            EventBody::StepSucceeded { attempt: Some(attempt), .. }
            | EventBody::StepRolledBack { attempt: Some(attempt), .. } => {
                (Some(attempt.since), Some(attempt.worker.as_str()))
            }
            EventBody::LeaseExpired { previous_worker: silent, .. } => {
                (Some(estimated), Some(silent.as_str()))
            }
            EventBody::AttemptFailed { .. }
            | EventBody::StepFailed { .. }
            | EventBody::OutcomeUnknown { .. } => (Some(estimated), Some(event.by.id.as_str())),
            _ => (None, None),
        }
    }

    /// Starts work, unless work or another wait is in progress.
    fn start_work(&mut self, seq: StepSeq, at: Timestamp) {
        if matches!(self.activity, Activity::Queued | Activity::BackingOff) {
            self.end(&ActivityEnd { seq, at, worker: None, open: false, failed: false });
            self.activity = Activity::Working;
        }
    }

    /// Ends the current activity. An activity without duration adds no segment.
    fn end(&mut self, end: &ActivityEnd<'_>) {
        let segment = Segment {
            activity: self.activity,
            rollback: self.rollback,
            from: self.since,
            until: end.at,
            open: end.open,
            failed: end.failed && self.activity == Activity::Working,
            worker: end.worker.filter(|_| self.activity == Activity::Working).map(str::to_owned),
        };
        self.since = end.at;
        // A call within one millisecond is shown, too.
        let is_shown = segment.until > segment.from || segment.open || segment.worker.is_some();
        if let Some(row) = self.rows.get_mut(end.seq.index()).filter(|_| is_shown) {
            row.segments.push(segment);
        }
    }

    fn mark(&mut self, event: &Event, at: Timestamp) {
        let kind = match &event.body {
            EventBody::AttemptFailed { .. } => MarkKind::Retry,
            EventBody::LeaseExpired { .. } => MarkKind::TakeOver,
            EventBody::OutcomeUnknown { .. } => MarkKind::Unknown,
            EventBody::ApprovalVoted { vote, .. } => {
                if vote.approve {
                    MarkKind::Approved
                } else {
                    MarkKind::Rejected
                }
            }
            EventBody::ActionDenied { .. } => MarkKind::Rejected,
            _ if event.step.as_ref().is_some_and(|step| step.to == StepStatus::FailedTerminal) => {
                MarkKind::Failed
            }
            _ => return,
        };
        if let Some(row) = self.rows.get_mut(event.seq.index()) {
            row.marks.push(Mark { at, kind, text: body_text(event) });
        }
    }
}

/// Whether `event` ends a failed attempt.
fn is_failed_attempt(event: &Event) -> bool {
    matches!(
        event.body,
        EventBody::AttemptFailed { .. }
            | EventBody::StepFailed { .. }
            | EventBody::LeaseExpired { .. }
            | EventBody::OutcomeUnknown { .. }
    )
}

/// The activity after `event`; none if the event does not change it.
fn next_activity(event: &Event) -> Option<Activity> {
    if event.run.is_some_and(|run| run.to == RunStatus::Paused) {
        return Some(Activity::Paused);
    }
    match &event.body {
        EventBody::EffectIntended { .. } | EventBody::LeaseExpired { .. } => Some(Activity::Working),
        EventBody::AttemptFailed { .. } => Some(Activity::BackingOff),
        EventBody::WaitOpened { .. } => Some(Activity::AwaitingEvent),
        EventBody::ApprovalRequested { .. } => Some(Activity::AwaitingApproval),
        EventBody::OutcomeUnknown { .. } | EventBody::RunPaused { .. } => Some(Activity::Paused),
        EventBody::ApprovalVoted { status: ApprovalStatus::Requested, .. }
        | EventBody::AttemptCharged { .. }
        | EventBody::EventBuffered { .. }
        | EventBody::ApprovalReminded { .. }
        | EventBody::ApprovalEscalated { .. }
        | EventBody::CancelRequested { .. }
        | EventBody::PauseRequested { .. } => None,
        EventBody::RunAdmitted { .. }
        | EventBody::StepSucceeded { .. }
        | EventBody::StepFailed { .. }
        | EventBody::StepRolledBack { .. }
        | EventBody::EventDelivered { .. }
        | EventBody::TimedOut { .. }
        | EventBody::ActionDenied { .. }
        | EventBody::ApprovalVoted { .. }
        | EventBody::ApprovalExpired { .. }
        | EventBody::ApprovalWithdrawn { .. }
        | EventBody::RunCanceled { .. }
        | EventBody::RunFailed { .. }
        | EventBody::RunResumed { .. }
        | EventBody::RollbackStarted { .. } => Some(Activity::Queued),
    }
}
