//! Asking the rules: an input goes in, what each of the three sets holds comes out.

use std::num::NonZeroU32;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use regorus::Engine;
use regorus::utils::limits::ExecutionTimerConfig;
use serde_json::Value;

use crate::answer::{Answer, Set};
use crate::check::Catalogue;
use crate::fault::Fault;
use crate::size;

/// An honest policy answers in a hundredth of this, even on a machine that has other things to do; one that
/// does not must not hold up the runs of others.
const BUDGET: Duration = Duration::from_secs(1);

/// A person is shown sixteen reasons; a policy that has more than this to say about one action is wrong.
pub(crate) const ANSWERS_MAX: usize = 256;

/// The clock is looked at after so many steps of the evaluator. Looking at every one would cost
/// a tenth of the time, and what a hostile rule can pile up between two looks must stay small.
const STEPS_PER_LOOK: NonZeroU32 = NonZeroU32::MIN.saturating_add(3);

/// The limits under which rules are evaluated.
pub(crate) fn budget() -> ExecutionTimerConfig {
    ExecutionTimerConfig { limit: BUDGET, check_interval: STEPS_PER_LOOK }
}

/// The package that asks for all sets at once, so that what several rules need is worked out once.
pub(crate) const ENTRY_PACKAGE: &str = "countersign_entry";

/// The rule of that package.
pub(crate) const ENTRY_RULE: &str = "data.countersign_entry.answers";

/// The text of that package, for a bundle that adds to `sets`.
pub(crate) fn entry(sets: impl Iterator<Item = Set>) -> String {
    let fields: Vec<String> = sets.map(|set| format!("\"{0}\": data.countersign.{0}", set.name())).collect();
    format!("package {ENTRY_PACKAGE}\nanswers := {{{}}}\n", fields.join(", "))
}

/// What the rules say about `input`, or why they could not say it.
pub(crate) fn ask(engine: &Engine, catalogue: &Catalogue, input: regorus::Value) -> Result<Answers, Fault> {
    let asking = || {
        let mut engine = engine.clone();
        engine.set_input(input);
        engine.eval_rule(ENTRY_RULE.to_owned())
    };
    // Nothing of the clone outlives the call, so there is nothing left to be found half done.
    let asked = catch_unwind(AssertUnwindSafe(asking)).map_err(|_| Fault::Crashed)?;
    let answers = asked.map_err(|error| Fault::of_evaluation(&error.to_string()))?;
    let mut members = Vec::new();
    for set in catalogue.sets() {
        members.extend(members_of(set, &answers[set.name()])?);
    }
    match members.len() {
        answers if answers > ANSWERS_MAX => Err(Fault::TooManyAnswers { answers }),
        _ => members.into_iter().map(|(set, member)| read(catalogue, set, member)).collect(),
    }
}

/// What the rules said, each with the set it stands in.
pub(crate) type Answers = Vec<(Set, Answer)>;

fn members_of(set: Set, value: &regorus::Value) -> Result<Vec<(Set, Value)>, Fault> {
    let Ok(members) = value.as_set() else {
        return Err(misshapen(None, format!("`{}` is not a set", set.name())));
    };
    let member = |member| {
        if !size::is_small(member) {
            return Err(misshapen(None, format!("a member of `{}` is too large", set.name())));
        }
        serde_json::to_value(member).map_err(|error| misshapen(None, error.to_string()))
    };
    members.iter().map(|value| Ok((set, member(value)?))).collect()
}

fn misshapen(rule: Option<String>, why: String) -> Fault {
    Fault::Misshapen { rule, why, place: None }
}

fn read(catalogue: &Catalogue, set: Set, member: Value) -> Result<(Set, Answer), Fault> {
    let rule = member.get("rule").and_then(Value::as_str).map(str::to_owned);
    Answer::read(set, member).map(|answer| (set, answer)).map_err(|why| {
        let place = rule.as_ref().and_then(|rule| catalogue.rules.get(rule)).map(|named| named.place.clone());
        Fault::Misshapen { rule, why, place }
    })
}
