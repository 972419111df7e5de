//! Evaluates the rules: an input goes in, the members of the three sets come out.

use std::num::NonZeroU32;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use regorus::Engine;
use regorus::utils::limits::ExecutionTimerConfig;
use serde_json::Value;

use crate::check::Catalogue;
use crate::evaluation_error::EvaluationError;
use crate::member::{Member, RuleSet};
use crate::size;

/// About a hundred times as long as a normal policy takes on a busy machine. A slower policy would delay other runs.
const TIME_LIMIT: Duration = Duration::from_secs(1);

/// A verdict shows sixteen reasons. A policy that returns more members than this for one action is faulty.
pub(crate) const MEMBERS_MAX: usize = 256;

/// The evaluator checks the time limit once per this many steps. A check at every step costs a tenth of the time, and
/// a hostile rule must not be able to allocate much between two checks.
const STEPS_PER_CHECK: NonZeroU32 = NonZeroU32::MIN.saturating_add(3);

/// The limits of one evaluation.
pub(crate) fn time_limit() -> ExecutionTimerConfig {
    ExecutionTimerConfig { limit: TIME_LIMIT, check_interval: STEPS_PER_CHECK }
}

/// A generated package that reads all sets in one query, so that rules shared between sets are evaluated once.
pub(crate) const ENTRY_PACKAGE: &str = "countersign_entry";

pub(crate) const ENTRY_RULE: &str = "data.countersign_entry.answers";

/// The source of [`ENTRY_PACKAGE`] for a bundle that adds to `sets`.
pub(crate) fn entry_source(sets: impl Iterator<Item = RuleSet>) -> String {
    let fields: Vec<String> = sets.map(|set| format!("\"{0}\": data.countersign.{0}", set.name())).collect();
    format!("package {ENTRY_PACKAGE}\nanswers := {{{}}}\n", fields.join(", "))
}

/// The members that the rules return for `input`.
pub(crate) fn evaluate(
    engine: &Engine,
    catalogue: &Catalogue,
    input: regorus::Value,
) -> Result<Members, EvaluationError> {
    let evaluation = || {
        let mut engine = engine.clone();
        engine.set_input(input);
        engine.eval_rule(ENTRY_RULE.to_owned())
    };
    // The clone is dropped after the call, so a panic leaves no partially updated state behind.
    let result = catch_unwind(AssertUnwindSafe(evaluation)).map_err(|_| EvaluationError::Crashed)?;
    let sets = result.map_err(|error| EvaluationError::from_evaluator(&error.to_string()))?;
    let mut members = Vec::new();
    for set in catalogue.sets() {
        members.extend(members_of(set, &sets[set.name()])?);
    }
    match members.len() {
        members if members > MEMBERS_MAX => Err(EvaluationError::TooManyMembers { members }),
        _ => members.into_iter().map(|(set, member)| parse(catalogue, set, member)).collect(),
    }
}

/// The members that the rules returned, each with its set.
pub(crate) type Members = Vec<(RuleSet, Member)>;

fn members_of(set: RuleSet, value: &regorus::Value) -> Result<Vec<(RuleSet, Value)>, EvaluationError> {
    let Ok(members) = value.as_set() else {
        return Err(invalid(format!("`{}` is not a set", set.name())));
    };
    let member = |member| {
        if !size::is_small(member) {
            return Err(invalid(format!("a member of `{}` is too large", set.name())));
        }
        serde_json::to_value(member).map_err(|error| invalid(error.to_string()))
    };
    members.iter().map(|value| Ok((set, member(value)?))).collect()
}

fn invalid(why: String) -> EvaluationError {
    EvaluationError::InvalidMember { rule: None, why, location: None }
}

fn parse(catalogue: &Catalogue, set: RuleSet, member: Value) -> Result<(RuleSet, Member), EvaluationError> {
    let rule = member.get("rule").and_then(Value::as_str).map(str::to_owned);
    Member::parse(set, member).map(|member| (set, member)).map_err(|why| {
        let entry = rule.as_ref().and_then(|rule| catalogue.rules.get(rule));
        let location = entry.map(|entry| entry.location.clone());
        EvaluationError::InvalidMember { rule, why, location }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_of_the_evaluator_is_an_error() {
        let mut engine = Engine::new();
        let crash = |values: Vec<regorus::Value>| Ok(values.into_iter().nth(9).unwrap());
        engine.add_extension("crash".to_owned(), 1, Box::new(crash)).unwrap();
        engine.add_policy("p.rego".to_owned(), "package countersign\nallow := crash(1)".to_owned()).unwrap();
        engine.add_policy("entry.rego".to_owned(), entry_source([RuleSet::Allow].into_iter())).unwrap();
        let error = evaluate(&engine, &Catalogue::default(), regorus::Value::new_object()).unwrap_err();
        assert_eq!(error, EvaluationError::Crashed);
        assert_eq!(error.verdict(domain::Digest::ZERO).ruling, domain::Ruling::Deny);
    }
}
