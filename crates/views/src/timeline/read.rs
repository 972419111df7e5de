//! From a chain to bars.
//!
//! The chain tells how each thing ended. That a worker took a step is no event of its own: it stands in the attempt
//! of the event that ends the work, or, while that goes on, in the lease.

use domain::{ApprovalStatus, Event, EventBody, RunStatus, StepSeq, StepStatus, Timestamp};

use super::{Bar, Doing, Mark, MarkKind, Now, Row, Timeline};
use crate::event::body;

pub(super) fn read(rows: Vec<Row>, events: &[Event], now: &Now) -> Timeline {
    let from = events.first().map_or(now.at, |event| event.at);
    let mut reader = Reader { rows, doing: Doing::Queued, since: from, due: None, undo: false, over: false };
    for event in events {
        reader.take(event);
    }
    if !reader.over {
        reader.go_on(now);
    }
    Timeline { from, until: reader.since, over: reader.over, rows: reader.rows }
}

/// How far the chain has been read.
struct Reader {
    rows: Vec<Row>,
    /// What is done since the last event that changed it.
    doing: Doing,
    since: Timestamp,
    /// When the next attempt is due.
    due: Option<Timestamp>,
    undo: bool,
    over: bool,
}

/// Where a bar goes, and how it ends.
struct End<'a> {
    seq: StepSeq,
    at: Timestamp,
    worker: Option<&'a str>,
    open: bool,
    vain: bool,
}

impl Reader {
    fn take(&mut self, event: &Event) {
        // Clocks of different workers may disagree; the order of the chain does not.
        let at = event.at.max(self.since);
        self.mark(event, at);
        let Some(next) = after(event) else { return };
        self.undo = event.undo;
        let (began, worker) = self.work(event);
        if let Some(began) = began {
            self.begin(event.seq, began.clamp(self.since, at));
        }
        self.end(&End { seq: event.seq, at, worker, open: false, vain: is_in_vain(event) });
        self.doing = next;
        self.due = match event.body {
            EventBody::AttemptFailed { not_before, .. } => Some(not_before),
            _ => None,
        };
        self.undo |= matches!(event.body, EventBody::RollbackStarted { .. });
        self.over = event.run.is_some_and(|run| run.to.is_terminal());
    }

    /// What has begun and not ended.
    fn go_on(&mut self, now: &Now) {
        let at = now.at.max(self.since);
        if let Some((_, began)) = &now.held {
            self.begin(now.seq, (*began).clamp(self.since, at));
        }
        let worker = now.held.as_ref().map(|(worker, _)| worker.as_str());
        self.end(&End { seq: now.seq, at, worker, open: true, vain: false });
    }

    /// Since when the work went on that `event` ends, if it is not told yet, and who did it.
    fn work<'a>(&self, event: &'a Event) -> (Option<Timestamp>, Option<&'a str>) {
        let unnoted = self.due.unwrap_or(self.since);
        match &event.body {
            EventBody::StepSucceeded { attempt: Some(attempt), .. }
            | EventBody::StepRolledBack { attempt: Some(attempt), .. } => {
                (Some(attempt.since), Some(attempt.worker.as_str()))
            }
            EventBody::LeaseExpired { silent, .. } => (Some(unnoted), Some(silent.as_str())),
            EventBody::AttemptFailed { .. }
            | EventBody::StepFailed { .. }
            | EventBody::OutcomeUnknown { .. } => (Some(unnoted), Some(event.by.id.as_str())),
            _ => (None, None),
        }
    }

    /// Work begins, if it has not begun before and nothing else is waited for.
    fn begin(&mut self, seq: StepSeq, at: Timestamp) {
        if matches!(self.doing, Doing::Queued | Doing::BackingOff) {
            self.end(&End { seq, at, worker: None, open: false, vain: false });
            self.doing = Doing::Working;
        }
    }

    /// Ends what was done. What took no time is not told.
    fn end(&mut self, end: &End<'_>) {
        let bar = Bar {
            doing: self.doing,
            undo: self.undo,
            from: self.since,
            until: end.at,
            open: end.open,
            vain: end.vain && self.doing == Doing::Working,
            worker: end.worker.filter(|_| self.doing == Doing::Working).map(str::to_owned),
        };
        self.since = end.at;
        // A call that took less than a millisecond was made all the same.
        let is_told = bar.until > bar.from || bar.open || bar.worker.is_some();
        if let Some(row) = self.rows.get_mut(end.seq.index()).filter(|_| is_told) {
            row.bars.push(bar);
        }
    }

    fn mark(&mut self, event: &Event, at: Timestamp) {
        let kind = match &event.body {
            EventBody::AttemptFailed { .. } => MarkKind::Retry,
            EventBody::LeaseExpired { .. } => MarkKind::TakeOver,
            EventBody::OutcomeUnknown { .. } => MarkKind::Unknown,
            EventBody::ApprovalVoted { vote, .. } => {
                if vote.approve {
                    MarkKind::Yes
                } else {
                    MarkKind::No
                }
            }
            EventBody::ActionDenied { .. } => MarkKind::No,
            _ if event.step.as_ref().is_some_and(|step| step.to == StepStatus::FailedTerminal) => {
                MarkKind::Failed
            }
            _ => return,
        };
        if let Some(row) = self.rows.get_mut(event.seq.index()) {
            row.marks.push(Mark { at, kind, text: body(event) });
        }
    }
}

/// Whether the work that `event` ends came to nothing.
fn is_in_vain(event: &Event) -> bool {
    matches!(
        event.body,
        EventBody::AttemptFailed { .. }
            | EventBody::StepFailed { .. }
            | EventBody::LeaseExpired { .. }
            | EventBody::OutcomeUnknown { .. }
    )
}

/// What is done after `event`; none if that does not change.
fn after(event: &Event) -> Option<Doing> {
    if event.run.is_some_and(|run| run.to == RunStatus::Paused) {
        return Some(Doing::Paused);
    }
    match &event.body {
        EventBody::EffectIntended { .. } | EventBody::LeaseExpired { .. } => Some(Doing::Working),
        EventBody::AttemptFailed { .. } => Some(Doing::BackingOff),
        EventBody::WaitOpened { .. } => Some(Doing::AwaitingEvent),
        EventBody::ApprovalRequested { .. } => Some(Doing::AwaitingPeople),
        EventBody::OutcomeUnknown { .. } | EventBody::RunPaused { .. } => Some(Doing::Paused),
        EventBody::ApprovalVoted { status: ApprovalStatus::Requested, .. }
        | EventBody::EventKept { .. }
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
        | EventBody::RollbackStarted { .. } => Some(Doing::Queued),
    }
}
