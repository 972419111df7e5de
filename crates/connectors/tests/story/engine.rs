//! What the runtime does with a tool, in short: survey, propose, perform, and again where that is safe.

use std::time::Duration;

use connectors::{Ask, Call, LookUp, Outcome, Survey, Tool};
use domain::command::Certainty::MayHaveHappened;
use domain::{Action, EffectClass, Failure, Fence, Millis, RunId, RunKey, StepId, TenantId};
use serde_json::Value;

/// More than any call here needs; a call that goes on for ever is a flaw of its own.
const ATTEMPTS_MAX: u32 = 4;

pub(crate) fn run(id: &str) -> RunKey {
    RunKey { tenant: TenantId::new("acme").unwrap(), run: RunId::new(id).unwrap() }
}

pub(crate) fn step() -> StepId {
    StepId::new("step").unwrap()
}

/// Looks, and proposes from what was found.
pub(crate) async fn propose_in(
    run: &RunKey,
    tool: &dyn Tool,
    with: &Value,
    undo: bool,
) -> Result<Action, Failure> {
    let step = step();
    let ask = |found| Ask { run, step: &step, undo, fields: with.clone(), found };
    let found = match tool.survey(&ask(None)).await {
        Survey::NotNeeded => None,
        Survey::Found(found) => Some(found),
        Survey::Later { failure, .. } | Survey::Never(failure) => return Err(failure),
    };
    let action = tool.propose(ask(found.as_ref()))?;
    assert_eq!(action.check(), Ok(()), "an action must be one that can be judged");
    assert_eq!(tool.propose(ask(found.as_ref())).as_ref(), Ok(&action), "a proposal must be pure");
    assert_eq!(tool.declares(with), Some(action.class), "a file must declare what is proposed");
    Ok(action)
}

pub(crate) async fn propose(tool: &dyn Tool, with: &Value) -> Result<Action, Failure> {
    propose_in(&run("run-1"), tool, with, false).await
}

pub(crate) async fn attempt(tool: &dyn Tool, action: &Action, again: bool) -> Outcome {
    attempt_within(tool, action, again, Duration::from_mins(1)).await
}

pub(crate) async fn attempt_within(
    tool: &dyn Tool,
    action: &Action,
    again: bool,
    time_left: Duration,
) -> Outcome {
    let (run, step) = (run("run-1"), step());
    tool.perform(Call { run: &run, step: &step, action, fence: Fence(1), time_left, again }).await
}

pub(crate) async fn look_up(tool: &dyn Tool, action: &Action) -> LookUp {
    let (run, step, time_left) = (run("run-1"), step(), Duration::from_mins(1));
    let call = Call { run: &run, step: &step, action, fence: Fence(2), time_left, again: true };
    tool.look_up(call).await
}

/// How a call that was repeated came to its end.
#[derive(Debug)]
pub(crate) struct Ending {
    pub(crate) outcome: Outcome,
    /// How often a person had to say that it may be tried again.
    pub(crate) people_asked: u32,
}

/// Repeats a call the way the runtime does. Where acting again is not known to be safe, a person says so.
pub(crate) async fn persist(tool: &dyn Tool, action: &Action) -> Ending {
    let (mut open, mut people_asked) = (false, 0);
    for _ in 0..ATTEMPTS_MAX {
        let outcome = attempt(tool, action, open).await;
        let Outcome::Retryable { certainty, .. } = &outcome else {
            return Ending { outcome, people_asked };
        };
        open |= *certainty == MayHaveHappened;
        people_asked += u32::from(open && action.class == EffectClass::Opaque);
    }
    panic!("{} does not come to an end", action.tool)
}

/// The outcome in one word.
pub(crate) fn gist(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Done(_) => "done",
        Outcome::Terminal(_) => "terminal",
        Outcome::Retryable { certainty: MayHaveHappened, .. } => "may have happened",
        Outcome::Retryable { .. } => "did not happen",
    }
}

/// What a failed call says, and how long the other side asked us to stay away.
pub(crate) fn failure(outcome: &Outcome) -> (&Failure, Option<Millis>) {
    match outcome {
        Outcome::Terminal(failure) => (failure, None),
        Outcome::Retryable { failure, retry_after, .. } => (failure, *retry_after),
        Outcome::Done(done) => panic!("{done:?}"),
    }
}
