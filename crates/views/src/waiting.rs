//! Why a run does not move, and what would end that, down to the command to type.

use std::iter;

use domain::plan::{OnReject, OnTimeout};
use domain::record::{Intent, Request};
use domain::{
    Approval, EffectClass, Failure, Lease, Live, People, RunRecord, RunStatus, StepSeq, Stopped, Subject,
};

use crate::hint::quoted;
use crate::time::{distance, moment};

use super::Seen;

/// Why a run waits, and what ends that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// Why, in sentences.
    pub why: String,
    /// What ends it.
    pub ends: Vec<Way>,
}

/// One way to end a wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Way {
    /// What happens then.
    pub what: String,
    /// What to type for it; none if it happens by itself.
    pub command: Option<String>,
}

/// The effect that is under way, or whose outcome nobody knows.
pub(super) fn open_intent(record: &RunRecord) -> Option<&Intent> {
    match &record.live {
        Live::Running(lease) => lease.intent.as_ref(),
        live => live.open(),
    }
}

/// Why the run waits; none if it is over.
pub fn waiting(seen: &Seen) -> Option<Waiting> {
    let record = &seen.view.record;
    if record.status.is_terminal() {
        return None;
    }
    let mut waiting = match &record.live {
        _ if record.status == RunStatus::Paused => seen.paused(),
        Live::Ready { .. } => seen.ready(),
        Live::Running(lease) => seen.held(lease),
        Live::Retrying { .. } => seen.retrying(),
        Live::WaitingEvent { .. } => seen.for_event(),
        Live::WaitingApproval { .. } => seen.for_approval(),
        // Both stand on a run that is paused or over.
        Live::Unresolved { .. } | Live::Over { .. } => return None,
    };
    if record.status != RunStatus::Paused
        && let Some((all, stopped)) = seen.dispatch.forbids(record)
    {
        waiting = seen.held_up(waiting, all, stopped);
    }
    waiting.why += &requests(record);
    if record.cancel.is_some() && record.status != RunStatus::Paused {
        // Asking a second time changes nothing.
        let cancel = seen.cancel("").command;
        waiting.ends.retain(|way| way.command != cancel);
    }
    Some(waiting)
}

/// What people have asked for and the run will get round to.
fn requests(record: &RunRecord) -> String {
    let asked = |what: &str, request: &Request| {
        format!(
            " {} asked at {} to {what}; that happens as soon as the step lets it.",
            request.by,
            moment(request.at)
        )
    };
    let cancel = record.cancel.as_ref().map(|request| asked("stop the run", request));
    let pause = record.pause.as_ref().filter(|_| record.status != RunStatus::Paused);
    cancel.into_iter().chain(pause.map(|request| asked("pause the run", request))).collect()
}

impl Seen {
    fn step(&self) -> String {
        let at = self.view.record.at;
        self.view.plan().step(at).map_or_else(|| at.to_string(), |step| step.id.to_string())
    }

    /// The current step, or the undoing of it, as the subject of a sentence.
    fn work(&self) -> String {
        let step = self.step();
        if self.view.record.is_undoing() {
            format!("Taking back step {step}")
        } else {
            format!("Step {step}")
        }
    }

    fn command(&self, verb: &str, what: &str) -> Way {
        Way { what: what.to_owned(), command: Some(self.hints.run(verb, &self.view.record.key)) }
    }

    fn cancel(&self, what: &str) -> Way {
        self.command("cancel", what)
    }

    fn a_worker(&self) -> Way {
        Way {
            what: "a worker takes it; start one if none is running".into(),
            command: Some(self.hints.line("worker")),
        }
    }

    /// The same while dispatch is stopped, so that no worker would take it.
    fn held_up(&self, waiting: Waiting, all: bool, stopped: &Stopped) -> Waiting {
        let whom = if all { "all tenants" } else { "this tenant" };
        let why = format!(
            "{} Nothing is begun: {} stopped dispatch for {whom} at {}, \u{201c}{}\u{201d}.",
            waiting.why,
            stopped.by.id,
            moment(stopped.at),
            stopped.reason
        );
        let start = if all {
            let what = "whoever runs the store starts dispatch again: countersign dispatch start --all";
            Way { what: what.into(), command: None }
        } else {
            let what = "dispatch is started again, and what waits goes on";
            Way { what: what.into(), command: Some(self.hints.line("dispatch start")) }
        };
        let a_worker = self.a_worker();
        let others = waiting.ends.into_iter().filter(|way| *way != a_worker);
        Waiting { why, ends: iter::once(start).chain(others).collect() }
    }

    fn ready(&self) -> Waiting {
        let why = format!("{} is ready, and no worker has taken it yet.", self.work());
        Waiting { why, ends: vec![self.a_worker(), self.cancel("stops the run")] }
    }

    fn held(&self, lease: &Lease) -> Waiting {
        let work = self.work();
        let until = format!("{} ({})", moment(lease.until), distance(lease.until, self.now));
        if lease.until > self.now {
            let why = format!("{work} is being worked on by {}, which holds it until {until}.", lease.owner);
            let what = "the worker finishes, or is silent for so long that another takes over";
            return Waiting {
                why,
                ends: vec![Way { what: what.into(), command: None }, self.cancel("stops the run")],
            };
        }
        let why = format!(
            "{work} is held by {}, which has not been heard of since its hold ran out at {until}.",
            lease.owner
        );
        Waiting { why, ends: vec![self.a_worker(), self.cancel("stops the run")] }
    }

    fn retrying(&self) -> Waiting {
        let Live::Retrying { attempt, not_before, failure, .. } = &self.view.record.live else {
            return self.ready();
        };
        let why =
            format!("{} failed in attempt {attempt}: {}: {}.", self.work(), failure.code, failure.message);
        let due =
            format!("it is tried again at {} ({})", moment(*not_before), distance(*not_before, self.now));
        Waiting { why, ends: vec![Way { what: due, command: None }, self.cancel("stops the run")] }
    }

    fn for_event(&self) -> Waiting {
        let Live::WaitingEvent { event, deadline, on_timeout } = &self.view.record.live else {
            return self.ready();
        };
        let signal =
            self.hints.line(&format!("run signal {} {event} --payload '{{}}'", self.view.record.key.run));
        let late = match on_timeout {
            OnTimeout::Fail => "the run fails",
            OnTimeout::Continue => "the run goes on without it",
        };
        let late = format!("at {} ({}) {late}", moment(*deadline), distance(*deadline, self.now));
        Waiting {
            why: format!("{} waits for the event {event} from outside.", self.work()),
            ends: vec![
                Way { what: "delivers the event".into(), command: Some(signal) },
                Way { what: late, command: None },
                self.cancel("stops the run"),
            ],
        }
    }

    fn for_approval(&self) -> Waiting {
        let Some(asked) = self.asked() else { return self.ready() };
        let answer = |verb: &str| {
            let rest = format!("approval {verb} {} {}", self.view.record.key.run, self.step());
            // Whoever asked for the run is most likely who reads this.
            let by = if asked.requester.is_some() { self.hints.answering() } else { "" };
            Some(self.hints.line(&format!("{rest}{by} --reason {}", quoted("…"))))
        };
        let no = match asked.on_reject {
            OnReject::Fail => "says no; the run fails",
            OnReject::Pause => "says no; the run pauses",
        };
        let yes = match asked.missing() {
            0 | 1 => "says yes; the run goes on",
            _ => "says yes; a second person must agree",
        };
        let expires = asked.expires_at;
        let late = format!(
            "at {} ({}) the run fails: nobody answered",
            moment(expires),
            distance(expires, self.now)
        );
        Waiting {
            why: format!("{} {}{}", self.work(), question(asked), whom(asked)),
            ends: vec![
                Way { what: yes.into(), command: answer("approve") },
                Way { what: no.into(), command: answer("reject") },
                Way { what: late, command: None },
            ],
        }
    }

    fn paused(&self) -> Waiting {
        match &self.view.record.live {
            Live::Unresolved { open: Some(intent), failure, .. } => self.outcome_unknown(intent, failure),
            Live::Unresolved { failure, .. } => {
                let why = format!("{} did not succeed: {}: {}.", self.work(), failure.code, failure.message);
                Waiting { why, ends: self.paused_ways("tries the step again") }
            }
            _ => {
                let retry = format!("lets the run go on with step {}", self.step());
                Waiting { why: self.paused_by(), ends: self.paused_ways(&retry) }
            }
        }
    }

    fn paused_by(&self) -> String {
        match &self.view.record.pause {
            Some(Request { by, reason, at }) if reason.is_empty() => {
                format!("Paused by {by} at {}.", moment(*at))
            }
            Some(Request { by, reason, at }) => format!("Paused by {by} at {}: {reason}.", moment(*at)),
            None => "Paused.".to_owned(),
        }
    }

    fn outcome_unknown(&self, intent: &Intent, failure: &Failure) -> Waiting {
        let (target, at) = match &self.open {
            Some(receipt) => (receipt.target.as_str(), format!(" at {}", moment(receipt.intended_at))),
            None => ("something outside", String::new()),
        };
        let why = format!(
            "Nobody knows whether step {} changed {target}. Its worker wrote down{at} that it was about to, and no \
             result was ever recorded ({}: {}). {} So nobody guesses: look at {target}, then decide. (Idempotency \
             key: {})",
            self.step(),
            failure.code,
            failure.message,
            promise(intent.class),
            intent.key,
        );
        Waiting { why, ends: self.paused_ways("does it again; if it happened before, it then happens twice") }
    }

    fn paused_ways(&self, retry: &str) -> Vec<Way> {
        let record = &self.view.record;
        let undoable = (0..record.at.0).map(StepSeq).any(|seq| {
            record.acted.has(seq) && self.view.plan().step(seq).is_some_and(|step| step.rollback.is_some())
        });
        let roll_back = (undoable && !record.is_undoing())
            .then(|| self.command("rollback", "takes earlier steps back, newest first, and stops"));
        [self.command("retry", retry)]
            .into_iter()
            .chain(roll_back)
            .chain([self.cancel("stops the run; what happened outside stands")])
            .collect()
    }
}

fn question(asked: &Approval) -> String {
    match &asked.subject {
        Subject::Question { message } => format!("asks a person: \u{201c}{message}\u{201d}"),
        Subject::Action { action, verdict } => {
            let why =
                verdict.because.iter().map(|reason| reason.says.as_str()).collect::<Vec<_>>().join("; ");
            let what = if asked.undo { "takes back" } else { "would change" };
            format!("{what} {} with {}, and people must agree first: {why}.", action.target, action.tool)
        }
    }
}

/// Who is asked, where that is not everybody.
fn whom(asked: &Approval) -> String {
    let mut parts = Vec::new();
    if asked.demand.people == People::Two {
        parts.push(format!("{} of 2 people have said yes.", asked.approvers().count()));
    }
    if !asked.demand.groups.is_empty() {
        let groups = asked.demand.groups.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        parts.push(format!("Asked are: {groups}."));
    }
    let excluded = asked.excluded().iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    if !excluded.is_empty() {
        parts.push(format!("Not {excluded}: nobody approves what they asked for or wrote."));
    }
    if parts.is_empty() { String::new() } else { format!(" {}", parts.join(" ")) }
}

/// Why asking the other side again is not safe, by what was promised about it.
fn promise(class: EffectClass) -> &'static str {
    match class {
        EffectClass::Opaque => "The workflow promises nothing about asking twice.",
        EffectClass::ReadOnly | EffectClass::NativeKey | EffectClass::CompareAndSet | EffectClass::LookUp => {
            "Asking again was tried as often as the workflow allows, or is no longer safe."
        }
    }
}
