//! A verdict with all that led to it, for whoever wonders.

use std::fmt;

use domain::{Ruling, Verdict};
use serde::Serialize;
use serde_json::Value;

use crate::answer::{Answer, Set};
use crate::check::Catalogue;
use crate::evaluate::Answers;
use crate::fault::Fault;
use crate::place::Place;

/// A verdict, the exact input it was made from, and what every rule had to say.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// The verdict.
    pub verdict: Verdict,
    /// What the rules saw; absent if the facts could not be put to them.
    pub input: Option<Value>,
    /// Every rule of the bundle, in the order in which they stand in it.
    pub rules: Vec<Trace>,
    /// Why the rules gave no answer, if they gave none.
    pub fault: Option<Fault>,
}

/// What one rule had to say.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trace {
    /// Its name.
    pub rule: String,
    /// The set it adds to.
    pub set: Set,
    /// Where it begins.
    pub place: Place,
    /// What it said: nothing if it did not hold, more than one thing if it held in several ways.
    pub said: Vec<String>,
}

impl Trace {
    /// Whether it held.
    pub fn fired(&self) -> bool {
        !self.said.is_empty()
    }
}

impl Explanation {
    pub(crate) fn new(
        verdict: Verdict,
        input: Option<Value>,
        catalogue: &Catalogue,
        answers: Result<Answers, Fault>,
    ) -> Self {
        let (answers, fault) = match answers {
            Ok(answers) => (answers, None),
            Err(fault) => (Answers::new(), Some(fault)),
        };
        Self { verdict, input, rules: traces(catalogue, &answers), fault }
    }
}

fn traces(catalogue: &Catalogue, answers: &[(Set, Answer)]) -> Vec<Trace> {
    let said = |rule: &str| {
        answers
            .iter()
            .filter(|(_, answer)| answer.rule == rule)
            .map(|(_, answer)| answer.says.clone())
            .collect()
    };
    let trace = |(rule, named): (&String, &crate::check::rules::Named)| Trace {
        rule: rule.clone(),
        set: named.set,
        place: named.place.clone(),
        said: said(rule),
    };
    let mut traces: Vec<Trace> = catalogue.rules.iter().map(trace).collect();
    traces.sort_by(|a, b| (a.set, &a.place).cmp(&(b.set, &b.place)));
    traces
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}, by policy {}", Said(&self.verdict.ruling), self.verdict.policy.short())?;
        for reason in &self.verdict.because {
            write!(f, "  because {}: {}", reason.rule, reason.says)?;
            match (&reason.file, reason.line) {
                (Some(file), Some(line)) => writeln!(f, " ({file}:{line})")?,
                _ => writeln!(f)?,
            }
        }
        writeln!(f, "rules")?;
        for trace in &self.rules {
            let mark = if trace.fired() { "held" } else { "-" };
            let Trace { rule, set, place, .. } = trace;
            writeln!(f, "  {mark:<5}{:<15} {rule:<24} {}:{}", set.name(), place.file, place.line)?;
        }
        match &self.input {
            Some(input) => write!(f, "input\n{input:#}"),
            None => write!(f, "input\nnone: the rules were not asked"),
        }
    }
}

/// A ruling in words.
struct Said<'a>(&'a Ruling);

impl fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Ruling::Deny => f.write_str("deny"),
            Ruling::Allow => f.write_str("allow"),
            Ruling::NeedsApproval(demand) => {
                let tier = format!("{:?}", demand.tier).to_lowercase();
                write!(f, "needs approval by {} ({tier} tier)", people(demand.people.count()))?;
                let groups: Vec<&str> = demand.groups.iter().map(domain::GroupName::as_str).collect();
                if groups.is_empty() { Ok(()) } else { write!(f, " of {}", groups.join(" or ")) }
            }
        }
    }
}

fn people(count: usize) -> &'static str {
    if count == 1 { "one person" } else { "two people" }
}
