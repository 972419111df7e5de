//! The attempts at each step, with worker and result.

use std::collections::BTreeMap;

use domain::{Event, EventBody, Failure, StepSeq, StepState, failure};
use strum::Display;

/// The history of each step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    steps: BTreeMap<StepSeq, StepHistory>,
}

/// The history of one step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StepHistory {
    /// The attempts, oldest first.
    pub attempts: Vec<StepAttempt>,
    /// The attempts to roll the step back, oldest first.
    pub rollback_attempts: Vec<StepAttempt>,
    /// The last failure; none after a success.
    pub failure: Option<Failure>,
}

/// One attempt at a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepAttempt {
    pub worker: String,
    pub status: AttemptStatus,
}

/// The result of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Display)]
#[strum(serialize_all = "snake_case")]
pub enum AttemptStatus {
    /// In progress.
    Running,
    /// Completed.
    Succeeded,
    /// Failed, or with an unknown outcome.
    Failed,
    /// The lease of the worker expired.
    LeaseExpired,
}

impl History {
    /// The history from `events` and the state of the current step.
    pub fn from_events(events: &[Event], current: (StepSeq, &StepState)) -> Self {
        let mut history = Self::default();
        let mut before = None;
        let mut undoing = false;
        for event in events {
            undoing |= matches!(event.body, EventBody::RollbackStarted { .. });
            history.steps.entry(event.seq).or_default().take(event, before, event.rollback);
            before = Some(&event.body);
        }
        history.steps.entry(current.0).or_default().add_current(current.1, undoing);
        history
    }

    pub fn step(&self, seq: StepSeq) -> StepHistory {
        self.steps.get(&seq).cloned().unwrap_or_default()
    }
}

impl StepHistory {
    /// The workers that attempted the step, each once, oldest first.
    pub fn workers(&self) -> Vec<&str> {
        let mut workers: Vec<&str> = Vec::new();
        for attempt in self.attempts.iter().chain(&self.rollback_attempts) {
            if !workers.contains(&attempt.worker.as_str()) {
                workers.push(&attempt.worker);
            }
        }
        workers
    }

    /// The attempt in progress, if there is one.
    pub fn running(&self) -> Option<&StepAttempt> {
        let newest = self.rollback_attempts.last().or(self.attempts.last());
        newest.filter(|newest| newest.status == AttemptStatus::Running)
    }

    fn add_attempt(&mut self, worker: impl Into<String>, status: AttemptStatus, undoing: bool) {
        let attempts = if undoing { &mut self.rollback_attempts } else { &mut self.attempts };
        attempts.push(StepAttempt { worker: worker.into(), status });
    }

    fn take(&mut self, event: &Event, before: Option<&EventBody>, undoing: bool) {
        // A take-over commits its finding together with the expired lease, without an attempt of its own.
        let on_take_over = matches!(before, Some(EventBody::LeaseExpired { .. }));
        let by = &event.by.id;
        match &event.body {
            EventBody::StepSucceeded { attempt, .. } | EventBody::StepRolledBack { attempt, .. } => {
                if let Some(attempt) = attempt {
                    self.add_attempt(attempt.worker.as_str(), AttemptStatus::Succeeded, undoing);
                }
                self.failure = None;
            }
            EventBody::LeaseExpired { previous_worker, .. } => {
                self.add_attempt(previous_worker.as_str(), AttemptStatus::LeaseExpired, undoing);
                let text = format!("the lease of {previous_worker} expired");
                self.failure = Some(Failure::new(failure::LEASE_EXPIRED, text));
            }
            EventBody::AttemptFailed { failure, .. }
            | EventBody::StepFailed { failure, .. }
            | EventBody::OutcomeUnknown { failure, .. } => {
                if !on_take_over {
                    self.add_attempt(by, AttemptStatus::Failed, undoing);
                }
                self.failure = Some(failure.clone());
            }
            EventBody::TimedOut { failure } | EventBody::ApprovalExpired { failure, .. } => {
                self.failure = Some(failure.clone());
            }
            EventBody::ApprovalVoted { vote, .. } if !vote.approve => {
                let text = format!("rejected by {}: {}", vote.person, vote.reason);
                self.failure = Some(Failure::new(failure::APPROVAL_REJECTED, text));
            }
            EventBody::ActionDenied { verdict, .. } => {
                let reasons =
                    verdict.reasons.iter().map(|reason| reason.message.as_str()).collect::<Vec<_>>();
                self.failure = Some(Failure::new(failure::POLICY_DENIED, reasons.join("; ")));
            }
            EventBody::RunResumed { .. } => self.failure = None,
            _ => {}
        }
    }

    fn add_current(&mut self, current: &StepState, undoing: bool) {
        match current {
            StepState::Running(lease) => {
                self.add_attempt(lease.owner.as_str(), AttemptStatus::Running, undoing);
            }
            StepState::Retrying { failure, .. } | StepState::Unresolved { failure, .. } => {
                self.failure = Some(failure.clone());
            }
            StepState::Ready { .. }
            | StepState::WaitingEvent { .. }
            | StepState::WaitingApproval { .. }
            | StepState::Ended { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::event::{Attempt, ReceiptRef, StepStatusChange};
    use domain::payload::Fingerprint;
    use domain::{Cause, Digest, Fence, Initiator, StepStatus, Timestamp, WorkerId};

    const FIRST: StepSeq = StepSeq(0);
    const SECOND: StepSeq = StepSeq(1);
    const READY: StepState = StepState::FRESH;

    fn worker(name: &str) -> WorkerId {
        name.parse().unwrap()
    }

    fn event(by: &str, (seq, to): (StepSeq, StepStatus), body: EventBody) -> Event {
        let id = "a".parse().unwrap();
        let step = StepStatusChange { seq, id, from: StepStatus::Running, to };
        let by = Initiator::new(Cause::System, by);
        Event {
            n: 0,
            at: Timestamp(0),
            by,
            seq,
            rollback: false,
            run: None,
            step: Some(step),
            read_verdict: None,
            body,
        }
    }

    fn done(seq: StepSeq, by: &str) -> Event {
        let attempt = Attempt { number: 0, worker: worker(by), fence: Fence(1), since: Timestamp(0) };
        let output = Fingerprint::of(&serde_json::json!(1));
        let attempt = Some(attempt);
        let body = EventBody::StepSucceeded { attempt, output, receipt: None, cost_microusd: 0, usage: None };
        event(by, (seq, StepStatus::Succeeded), body)
    }

    fn silent(who: &str, by: &str) -> Event {
        let body = EventBody::LeaseExpired { previous_worker: worker(who), fence: Fence(2), number: 1 };
        event(by, (SECOND, StepStatus::Running), body)
    }

    fn unknown(by: &str) -> Event {
        let receipt = ReceiptRef { key: "k".parse().unwrap(), action: Digest::ZERO };
        let body =
            EventBody::OutcomeUnknown { receipt, failure: Failure::new("OUTCOME_UNKNOWN", "who knows") };
        event(by, (SECOND, StepStatus::FailedRetryable), body)
    }

    fn ends(history: &History, seq: StepSeq) -> Vec<(String, AttemptStatus)> {
        history.step(seq).attempts.into_iter().map(|attempt| (attempt.worker, attempt.status)).collect()
    }

    #[test]
    fn expired_lease_is_an_attempt_of_the_current_step() {
        let events = [done(FIRST, "w1"), silent("w1", "w2"), done(SECOND, "w2")];
        let history = History::from_events(&events, (SECOND, &READY));
        assert_eq!(ends(&history, FIRST), [("w1".to_owned(), AttemptStatus::Succeeded)]);
        assert_eq!(
            ends(&history, SECOND),
            [("w1".to_owned(), AttemptStatus::LeaseExpired), ("w2".to_owned(), AttemptStatus::Succeeded)]
        );
        assert_eq!(history.step(SECOND).workers(), ["w1", "w2"]);
        assert_eq!(history.step(SECOND).failure, None);
    }

    #[test]
    fn take_over_finding_is_no_attempt() {
        let events = [done(FIRST, "w1"), silent("w1", "w2"), unknown("w2")];
        let history = History::from_events(&events, (SECOND, &READY));
        assert_eq!(ends(&history, SECOND), [("w1".to_owned(), AttemptStatus::LeaseExpired)]);
        assert_eq!(history.step(SECOND).failure.unwrap().code, "OUTCOME_UNKNOWN");
    }

    #[test]
    fn unknown_outcome_is_an_attempt_of_its_worker() {
        let events = [done(FIRST, "w1"), unknown("w1")];
        let history = History::from_events(&events, (SECOND, &READY));
        assert_eq!(ends(&history, SECOND), [("w1".to_owned(), AttemptStatus::Failed)]);
    }
}
