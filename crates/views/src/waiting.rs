//! Why a run waits, and the commands that end the wait.

use std::iter;

use domain::plan::{OnReject, OnTimeout};
use domain::record::{Intent, OperatorRequest, Rejection};
use domain::verdict::RequiredAssurance;
use domain::{
    Approval, ApproverCount, DispatchStop, EffectClass, Failure, Lease, RunRecord, RunStatus, StepSeq,
    StepState, Subject,
};

use crate::hint::quoted;
use crate::time::{relative, timestamp};

use super::RunSnapshot;

/// Why a run waits, and what ends the wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The reason, in sentences.
    pub reason: String,
    /// The actions and events that end the wait.
    pub next_actions: Vec<NextAction>,
}

/// An action or an event that ends a wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextAction {
    /// The effect of the action.
    pub description: String,
    /// The command; none if it happens automatically.
    pub command: Option<String>,
}

/// The effect that is in progress, or whose outcome is unknown.
pub(super) fn open_intent(record: &RunRecord) -> Option<&Intent> {
    match &record.step_state {
        StepState::Running(lease) => lease.intent.as_ref(),
        step_state => step_state.open(),
    }
}

/// Why the run waits; none if it has finished.
pub fn waiting(snapshot: &RunSnapshot) -> Option<Waiting> {
    let record = &snapshot.view.record;
    if record.status.is_terminal() {
        return None;
    }
    let mut waiting = match &record.step_state {
        _ if record.status == RunStatus::Paused => snapshot.paused(),
        StepState::Ready { .. } => snapshot.ready(),
        StepState::Running(lease) => snapshot.leased(lease),
        StepState::Retrying { .. } => snapshot.retrying(),
        StepState::WaitingEvent { .. } => snapshot.waiting_for_event(),
        StepState::WaitingApproval { .. } => snapshot.waiting_for_approval(),
        // A run in one of these states is paused or has finished.
        StepState::Unresolved { .. } | StepState::Ended { .. } => return None,
    };
    if record.status != RunStatus::Paused
        && let Some((all, stopped)) = snapshot.dispatch.stop_for(record)
    {
        waiting = snapshot.dispatch_stopped(waiting, all, stopped);
    }
    waiting.reason += &requests(record);
    if record.cancel.is_some() && record.status != RunStatus::Paused {
        // A second request changes nothing.
        let cancel = snapshot.cancel("").command;
        waiting.next_actions.retain(|action| action.command != cancel);
    }
    Some(waiting)
}

/// The requests that the run has not carried out yet.
fn requests(record: &RunRecord) -> String {
    let sentence = |what: &str, request: &OperatorRequest| {
        format!(
            " {} requested at {} to {what}; this applies after the current step.",
            request.by,
            timestamp(request.at)
        )
    };
    let cancel = record.cancel.as_ref().map(|request| sentence("cancel the run", request));
    let pause = record.pause.as_ref().filter(|_| record.status != RunStatus::Paused);
    cancel.into_iter().chain(pause.map(|request| sentence("pause the run", request))).collect()
}

impl RunSnapshot {
    fn step(&self) -> String {
        let at = self.view.record.at;
        self.view.plan().step(at).map_or_else(|| at.to_string(), |step| step.id.to_string())
    }

    /// The current step, or its rollback, as the subject of a sentence.
    fn work(&self) -> String {
        let step = self.step();
        if self.view.record.is_rolling_back() {
            format!("The rollback of step {step}")
        } else {
            format!("Step {step}")
        }
    }

    fn command(&self, verb: &str, what: &str) -> NextAction {
        NextAction {
            description: what.to_owned(),
            command: Some(self.hints.run(verb, &self.view.record.key)),
        }
    }

    fn cancel(&self, what: &str) -> NextAction {
        self.command("cancel", what)
    }

    fn start_worker(&self) -> NextAction {
        NextAction {
            description: "starts a worker; a running worker takes the step automatically".into(),
            command: Some(self.hints.line("worker")),
        }
    }

    /// The wait of a run while dispatch is stopped and no worker takes its step.
    fn dispatch_stopped(&self, waiting: Waiting, all: bool, stopped: &DispatchStop) -> Waiting {
        let whom = if all { "all tenants" } else { "this tenant" };
        let why = format!(
            "{} Dispatch is stopped: {} stopped it for {whom} at {}, \u{201c}{}\u{201d}.",
            waiting.reason,
            stopped.by.id,
            timestamp(stopped.at),
            stopped.reason
        );
        let start = if all {
            let what = "the operator of the store starts dispatch: countersign dispatch start --all";
            NextAction { description: what.into(), command: None }
        } else {
            let what = "starts dispatch; waiting runs continue";
            NextAction { description: what.into(), command: Some(self.hints.line("dispatch start")) }
        };
        let start_worker = self.start_worker();
        let others = waiting.next_actions.into_iter().filter(|action| *action != start_worker);
        Waiting { reason: why, next_actions: iter::once(start).chain(others).collect() }
    }

    fn ready(&self) -> Waiting {
        let why = format!("{} is ready. No worker has claimed it yet.", self.work());
        Waiting { reason: why, next_actions: vec![self.start_worker(), self.cancel("cancels the run")] }
    }

    fn leased(&self, lease: &Lease) -> Waiting {
        let work = self.work();
        let until = format!("{} ({})", timestamp(lease.until), relative(lease.until, self.now));
        if lease.until > self.now {
            let why = format!("{work} is in progress on {}, with a lease until {until}.", lease.owner);
            let what = "the worker finishes; if its lease expires, another worker takes over";
            return Waiting {
                reason: why,
                next_actions: vec![
                    NextAction { description: what.into(), command: None },
                    self.cancel("cancels the run"),
                ],
            };
        }
        let why = format!("{work} was claimed by {}, whose lease expired at {until}.", lease.owner);
        Waiting { reason: why, next_actions: vec![self.start_worker(), self.cancel("cancels the run")] }
    }

    fn retrying(&self) -> Waiting {
        let StepState::Retrying { attempt, not_before, failure, .. } = &self.view.record.step_state else {
            return self.ready();
        };
        let why =
            format!("{} failed in attempt {attempt}: {}: {}.", self.work(), failure.code, failure.message);
        let due =
            format!("the retry starts at {} ({})", timestamp(*not_before), relative(*not_before, self.now));
        Waiting {
            reason: why,
            next_actions: vec![
                NextAction { description: due, command: None },
                self.cancel("cancels the run"),
            ],
        }
    }

    fn waiting_for_event(&self) -> Waiting {
        let StepState::WaitingEvent { event, deadline, on_timeout } = &self.view.record.step_state else {
            return self.ready();
        };
        let signal =
            self.hints.line(&format!("run signal {} {event} --payload '{{}}'", self.view.record.key.run));
        let late = match on_timeout {
            OnTimeout::Fail => "the run fails",
            OnTimeout::Continue => "the run continues without it",
        };
        let late = format!("at {} ({}) {late}", timestamp(*deadline), relative(*deadline, self.now));
        Waiting {
            reason: format!("{} waits for the external event {event}.", self.work()),
            next_actions: vec![
                NextAction { description: "delivers the event".into(), command: Some(signal) },
                NextAction { description: late, command: None },
                self.cancel("cancels the run"),
            ],
        }
    }

    fn waiting_for_approval(&self) -> Waiting {
        let Some(approval) = self.approval() else { return self.ready() };
        let answer = |verb: &str| {
            let rest = format!("approval {verb} {} {}", self.view.record.key.run, self.step());
            // The reader is most likely the requester, who may not approve.
            let by = if approval.excluded.is_empty() { "" } else { self.hints.by_option() };
            Some(self.hints.line(&format!("{rest}{by} --reason {}", quoted("…"))))
        };
        let reject = match approval.on_reject {
            OnReject::Fail => "rejects; the run fails",
            OnReject::Pause => "rejects; the run pauses",
        };
        let approve = match approval.missing() {
            0 | 1 => "approves; the run continues",
            _ => "approves; a second approver is required",
        };
        let expires = approval.expires_at;
        let late = format!(
            "at {} ({}) the approval expires and the run fails",
            timestamp(expires),
            relative(expires, self.now)
        );
        let mut reason = format!("{} {}{}", self.work(), subject(approval), approvers(approval));
        let mut next_actions = vec![
            NextAction { description: approve.into(), command: answer("approve") },
            NextAction { description: reject.into(), command: answer("reject") },
            NextAction { description: late, command: None },
        ];
        if self.tenant.as_ref().is_some_and(|tenant| approval.lacks_approvers(tenant)) {
            reason += " Too few users of the directory may approve it.";
            let add = "an admin adds a user to `people` or to the group; then this user can approve";
            let command = Some(self.hints.line("tenant set"));
            next_actions.insert(0, NextAction { description: add.into(), command });
        }
        if let Some(unposted) = &self.unposted {
            reason = format!("{reason} It is not posted to Slack: {unposted}.");
            let correct = "an admin corrects the connections; then the request is posted";
            let command = Some(self.hints.line("connection list"));
            next_actions.insert(0, NextAction { description: correct.into(), command });
        }
        Waiting { reason, next_actions }
    }

    fn paused(&self) -> Waiting {
        match &self.view.record.step_state {
            StepState::Unresolved { open: Some(intent), failure, .. } => {
                self.outcome_unknown(intent, failure)
            }
            StepState::Unresolved { failure, .. } => {
                let why = format!("{} failed: {}: {}.", self.work(), failure.code, failure.message);
                Waiting { reason: why, next_actions: self.paused_actions("retries the step") }
            }
            _ => {
                let retry = format!("resumes the run at step {}", self.step());
                Waiting { reason: self.paused_by(), next_actions: self.paused_actions(&retry) }
            }
        }
    }

    fn paused_by(&self) -> String {
        match &self.view.record.pause {
            Some(OperatorRequest { by, reason, at }) if reason.is_empty() => {
                format!("Paused by {by} at {}.", timestamp(*at))
            }
            Some(OperatorRequest { by, reason, at }) => {
                format!("Paused by {by} at {}: {reason}.", timestamp(*at))
            }
            None => "Paused.".to_owned(),
        }
    }

    fn outcome_unknown(&self, intent: &Intent, failure: &Failure) -> Waiting {
        let (target, at) = match &self.open {
            Some(receipt) => (receipt.target.as_str(), format!(" at {}", timestamp(receipt.intended_at))),
            None => ("the external system", String::new()),
        };
        let why = format!(
            "The outcome of step {} is unknown: it may have changed {target}. The worker recorded the intent{at}, but \
             no result ({}: {}). {} Check {target}, then decide. (Idempotency key: {})",
            self.step(),
            failure.code,
            failure.message,
            unsafe_retry(intent.class),
            intent.key,
        );
        Waiting {
            reason: why,
            next_actions: self.paused_actions("repeats the effect; if it happened before, it happens twice"),
        }
    }

    fn paused_actions(&self, retry: &str) -> Vec<NextAction> {
        let record = &self.view.record;
        let undoable = (0..record.at.0).map(StepSeq).any(|seq| {
            record.acted.has(seq) && self.view.plan().step(seq).is_some_and(|step| step.rollback.is_some())
        });
        let roll_back = (undoable && !record.is_rolling_back()).then(|| {
            self.command(
                "rollback",
                "rolls back earlier steps that declare a rollback, newest first, and ends the run",
            )
        });
        [self.command("retry", retry)]
            .into_iter()
            .chain(roll_back)
            .chain([self.cancel("cancels the run; its effects stay")])
            .collect()
    }
}

fn subject(approval: &Approval) -> String {
    match &approval.subject {
        Subject::Question { message } => format!("waits for approval: \u{201c}{message}\u{201d}"),
        Subject::Action { action, verdict, .. } => {
            let why =
                verdict.reasons.iter().map(|reason| reason.message.as_str()).collect::<Vec<_>>().join("; ");
            let what = if approval.rollback { "a rollback of" } else { "a change of" };
            format!("waits for approval of {what} {} with {}: {why}.", action.target, action.tool)
        }
    }
}

/// Who may approve, where not every approver may.
fn approvers(approval: &Approval) -> String {
    let mut parts = Vec::new();
    if approval.requirement.people == ApproverCount::Two {
        parts.push(format!("{} of 2 approvers have approved.", approval.approvers().count()));
    }
    if !approval.requirement.groups.is_empty() {
        let groups =
            approval.requirement.groups.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        parts.push(format!("Groups: {groups}."));
    }
    if approval.requirement.assurance == RequiredAssurance::IdentityProvider {
        parts.push("Approvers must sign in through the identity provider.".to_owned());
    }
    let excluded: Vec<_> = approval
        .excluded
        .each()
        .map(|participant| format!("{} ({})", participant.person, participant.role.as_str()))
        .collect();
    if !excluded.is_empty() {
        parts.push(format!("Excluded: {}.", excluded.join(", ")));
    }
    parts.extend(history(approval));
    if parts.is_empty() { String::new() } else { format!(" {}", parts.join(" ")) }
}

/// What approvers must know about earlier attempts and requests.
fn history(approval: &Approval) -> impl Iterator<Item = String> {
    let attempted = approval.attempted_at.map(|at| format!("The action may already have happened at {at}."));
    let rejected = approval.rejected.as_ref().map(|rejection| {
        let Rejection { by, at, reason } = rejection;
        let reason = if reason.is_empty() { "no reason given" } else { reason };
        format!("An earlier request was rejected by {by} at {at}: {reason}.")
    });
    attempted.into_iter().chain(rejected)
}

/// Why repeating the call is not safe, by effect class.
fn unsafe_retry(class: EffectClass) -> &'static str {
    match class {
        EffectClass::Opaque => "The workflow declares no way to detect a duplicate.",
        EffectClass::Pure
        | EffectClass::ReadOnly
        | EffectClass::NativeKey
        | EffectClass::CompareAndSet
        | EffectClass::LookUp => "The retries of the workflow are exhausted, or another retry is not safe.",
    }
}
