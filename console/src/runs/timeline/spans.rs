//! What the time of each step was spent on, as the chain tells it.

use domain::view::step_status;
use domain::{ApprovalStatus, Event, EventBody, Live, StepSeq, StepStatus, Timestamp};
use telling::Seen;
use telling::time::{length, moment};

/// A run in time.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Timeline {
    /// When it was admitted.
    pub(super) from: Timestamp,
    /// When it ended, or now.
    pub(super) until: Timestamp,
    /// The steps.
    pub(super) rows: Vec<Row>,
}

/// A step in time.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    /// Its name.
    pub(super) step: String,
    /// How it stands.
    pub(super) status: StepStatus,
    /// What its time was spent on.
    pub(super) spans: Vec<Span>,
    /// What befell it.
    pub(super) marks: Vec<Mark>,
}

/// Some time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from: Timestamp,
    pub(super) until: Timestamp,
    pub(super) spent: Spent,
    /// In words.
    pub(super) says: String,
}

/// What time is spent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spent {
    /// Nobody has taken the step.
    Ready,
    /// A worker works.
    Work,
    /// A worker worked, and it came to nothing.
    Lost,
    /// It waits for an event, for people, or until it may be tried again.
    Waiting,
    /// It is held until somebody says how it goes on.
    Paused,
    /// It is taken back.
    Undo,
}

/// Something at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) at: Timestamp,
    pub(super) kind: Befell,
    /// In words.
    pub(super) says: String,
}

/// What befell a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Befell {
    /// A try failed.
    Failed,
    /// Another worker took over.
    TakenOver,
    /// People said yes.
    Yes,
    /// People or policy said no.
    No,
    /// Nobody knows what happened.
    Unknown,
}

/// What is going on while the chain is read.
struct Reading {
    rows: Vec<Row>,
    since: Timestamp,
    spent: Spent,
    what: String,
}

impl Timeline {
    /// What `events` tell of the run, and how it stands now.
    pub(super) fn of(look: &Seen, events: &[Event]) -> Self {
        let record = &look.view.record;
        let seqs = (0_u16..).map(StepSeq);
        let row = |(seq, step): (StepSeq, &domain::PlannedStep)| Row {
            step: step.id.to_string(),
            status: step_status(record, &look.view.steps, seq),
            spans: Vec::new(),
            marks: Vec::new(),
        };
        let rows = seqs.zip(&look.view.plan().steps).map(row).collect();
        let mut reading =
            Reading { rows, since: record.created_at, spent: Spent::Ready, what: "ready".to_owned() };
        for event in events {
            reading.take(event);
        }
        let until = record.completed_at.unwrap_or(look.now).max(record.created_at);
        reading.take_live(record.at, &record.live, until);
        Self { from: record.created_at, until, rows: reading.rows }
    }
}

impl Reading {
    /// What went on until `until` was time of the step at `seq`.
    fn close(&mut self, seq: StepSeq, until: Timestamp) {
        let (spent, what) = (self.spent, self.what.clone());
        self.add(seq, until, spent, &what);
    }

    fn add(&mut self, seq: StepSeq, until: Timestamp, spent: Spent, what: &str) {
        let from = self.since;
        self.since = until.max(from);
        // Nothing is seen of a step that was taken as soon as it was ready.
        if until <= from && matches!(spent, Spent::Ready) {
            return;
        }
        let says = format!("{what} for {}, from {}", length(until.max(from) - from), moment(from));
        if let Some(row) = self.rows.get_mut(seq.index()) {
            row.spans.push(Span { from, until: until.max(from), spent, says });
        }
    }

    fn then(&mut self, spent: Spent, what: impl Into<String>) {
        self.spent = spent;
        self.what = what.into();
    }

    fn mark(&mut self, event: &Event, kind: Befell, says: impl AsRef<str>) {
        if let Some(row) = self.rows.get_mut(event.seq.index()) {
            let says = format!("{}, at {}", says.as_ref(), moment(event.at));
            row.marks.push(Mark { at: event.at, kind, says });
        }
    }

    fn take(&mut self, event: &Event) {
        let (seq, at) = (event.seq, event.at);
        match &event.body {
            EventBody::StepSucceeded { attempt, .. } | EventBody::StepRolledBack { attempt, .. } => {
                let undo = matches!(event.body, EventBody::StepRolledBack { .. });
                let work = if undo { Spent::Undo } else { Spent::Work };
                if let Some(attempt) = attempt {
                    if !matches!(self.spent, Spent::Work) {
                        self.close(seq, attempt.since);
                    }
                    let what = if undo { "taken back" } else { "worked on" };
                    self.add(seq, at, work, &format!("{what} by {}", attempt.worker));
                } else {
                    self.close(seq, at);
                }
                self.then(Spent::Ready, "ready");
            }
            EventBody::EffectIntended { .. } => {
                self.close(seq, at);
                self.then(Spent::Work, format!("worked on by {}", event.by.id));
            }
            EventBody::AttemptFailed { failure, number, .. } => {
                let who = &event.by.id;
                self.add(seq, at, Spent::Lost, &format!("tried by {who}, in vain,"));
                let says = format!("attempt {} failed: {}: {}", number + 1, failure.code, failure.message);
                self.mark(event, Befell::Failed, says);
                self.then(Spent::Waiting, "waits to be tried again");
            }
            EventBody::StepFailed { failure, .. } => {
                self.add(seq, at, Spent::Lost, &format!("tried by {}, in vain,", event.by.id));
                self.mark(
                    event,
                    Befell::Failed,
                    format!("failed for good: {}: {}", failure.code, failure.message),
                );
                self.then(Spent::Ready, "ready");
            }
            EventBody::LeaseExpired { silent, .. } => {
                self.add(seq, at, Spent::Lost, &format!("held by {silent}, which went silent,"));
                self.mark(
                    event,
                    Befell::TakenOver,
                    format!("{silent} went silent; {} took over", event.by.id),
                );
                self.then(Spent::Work, format!("worked on by {}", event.by.id));
            }
            EventBody::OutcomeUnknown { failure, .. } => {
                self.add(seq, at, Spent::Lost, "tried");
                self.mark(event, Befell::Unknown, format!("outcome unknown: {}", failure.message));
                self.then(Spent::Paused, "held until a person decides");
            }
            _ => self.take_of_people(event),
        }
    }

    fn take_of_people(&mut self, event: &Event) {
        let (seq, at) = (event.seq, event.at);
        match &event.body {
            EventBody::WaitOpened { event: name, .. } => {
                self.close(seq, at);
                self.then(Spent::Waiting, format!("waits for the event {name}"));
            }
            EventBody::ApprovalRequested { .. } => {
                self.close(seq, at);
                self.then(Spent::Waiting, "waits for people");
            }
            EventBody::EventDelivered { .. }
            | EventBody::ApprovalWithdrawn { .. }
            | EventBody::RunResumed { .. }
            | EventBody::RollbackStarted { .. } => {
                self.close(seq, at);
                self.then(Spent::Ready, "ready");
            }
            EventBody::TimedOut { failure } | EventBody::ApprovalExpired { failure, .. } => {
                self.close(seq, at);
                self.mark(event, Befell::Failed, format!("ran out of time: {}", failure.message));
                self.then(Spent::Ready, "ready");
            }
            EventBody::ApprovalVoted { vote, status, .. } => {
                let (kind, word) =
                    if vote.approve { (Befell::Yes, "said yes") } else { (Befell::No, "said no") };
                self.mark(event, kind, format!("{} {word}{}", vote.person, because(&vote.reason)));
                if *status != ApprovalStatus::Requested {
                    self.close(seq, at);
                    self.then(Spent::Ready, "ready");
                }
            }
            EventBody::ActionDenied { target, .. } => {
                self.close(seq, at);
                self.mark(event, Befell::No, format!("policy said no to changing {target}"));
            }
            EventBody::RunPaused { reason } => {
                self.close(seq, at);
                self.then(Spent::Paused, format!("held by {}{}", event.by.id, because(reason)));
            }
            _ => {}
        }
    }

    /// What goes on now.
    fn take_live(&mut self, at: StepSeq, live: &Live, until: Timestamp) {
        match live {
            Live::Over { .. } => {}
            Live::Running(lease) => {
                if !matches!(self.spent, Spent::Work) {
                    self.close(at, lease.since);
                }
                self.add(at, until, Spent::Work, &format!("being worked on by {}", lease.owner));
            }
            Live::Ready { .. }
            | Live::Retrying { .. }
            | Live::Unresolved { .. }
            | Live::WaitingEvent { .. }
            | Live::WaitingApproval { .. } => self.close(at, until),
        }
    }
}

fn because(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(": {reason}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::event::Attempt;
    use domain::payload::Fingerprint;
    use domain::{Cause, Fence, Initiator};

    const STEP: StepSeq = StepSeq(0);

    fn reading() -> Reading {
        let row =
            Row { step: "assign".to_owned(), status: StepStatus::Succeeded, spans: vec![], marks: vec![] };
        Reading { rows: vec![row], since: Timestamp(0), spent: Spent::Ready, what: "ready".to_owned() }
    }

    fn event(at: i64, by: &str, body: EventBody) -> Event {
        let by = Initiator::new(Cause::System, by);
        Event { n: 0, at: Timestamp(at), by, seq: STEP, undo: false, run: None, step: None, body }
    }

    fn done(worker: &str, since: i64) -> EventBody {
        let attempt =
            Attempt { number: 0, worker: worker.parse().unwrap(), fence: Fence(1), since: Timestamp(since) };
        let output = Fingerprint::of(&serde_json::json!(1));
        EventBody::StepSucceeded {
            attempt: Some(attempt),
            output,
            receipt: None,
            cost_microusd: 0,
            usage: None,
        }
    }

    type Spans = Vec<(Spent, i64, i64)>;

    /// What the time of the step was spent on, and what befell it.
    fn told(events: &[Event]) -> (Spans, Vec<(Befell, i64)>) {
        let mut reading = reading();
        for event in events {
            reading.take(event);
        }
        let row = reading.rows.remove(0);
        let spans = row.spans.iter().map(|span| (span.spent, span.from.0, span.until.0)).collect();
        (spans, row.marks.iter().map(|mark| (mark.kind, mark.at.0)).collect())
    }

    #[test]
    fn a_step_that_was_tried_twice_shows_the_failure_and_the_wait_between() {
        let failure = domain::Failure::new("BUSY", "come back later");
        let failed = EventBody::AttemptFailed { number: 0, failure, not_before: Timestamp(300) };
        let (spans, marks) = told(&[event(100, "w1", failed), event(500, "w1", done("w1", 300))]);
        assert_eq!(spans, [(Spent::Lost, 0, 100), (Spent::Waiting, 100, 300), (Spent::Work, 300, 500)]);
        assert_eq!(marks, [(Befell::Failed, 100)]);
    }

    #[test]
    fn a_step_that_was_taken_over_shows_for_how_long_it_was_held_in_silence() {
        let silent = EventBody::LeaseExpired { silent: "w1".parse().unwrap(), fence: Fence(2), number: 1 };
        let (spans, marks) = told(&[event(400, "w2", silent), event(500, "w2", done("w2", 400))]);
        assert_eq!(spans, [(Spent::Lost, 0, 400), (Spent::Work, 400, 500)]);
        assert_eq!(marks, [(Befell::TakenOver, 400)]);
    }

    #[test]
    fn a_step_that_waits_and_is_paused_shows_both() {
        let wait = EventBody::WaitOpened { event: "news".parse().unwrap(), deadline: Timestamp(900) };
        let paused = EventBody::RunPaused { reason: String::new() };
        let resumed = EventBody::RunResumed { reason: String::new() };
        let events = [event(100, "w1", wait), event(200, "ada", paused), event(300, "ada", resumed)];
        let (spans, _) = told(&events);
        assert_eq!(spans, [(Spent::Ready, 0, 100), (Spent::Waiting, 100, 200), (Spent::Paused, 200, 300)]);
    }
}
