//! A verdict with its input and the result of every rule.

use std::fmt;

use domain::verdict::RequiredAssurance;
use domain::{Ruling, Verdict};
use serde::Serialize;
use serde_json::Value;

use crate::check::Catalogue;
use crate::check::rules::RuleEntry;
use crate::evaluate::Members;
use crate::evaluation_error::EvaluationError;
use crate::location::PolicyLocation;
use crate::member::{Member, RuleSet};

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    pub verdict: Verdict,
    /// The exact input of the rules; absent if the action cannot be evaluated.
    pub input: Option<Value>,
    /// Every rule of the bundle, strictest set first, then in the order of the bundle.
    pub rules: Vec<RuleTrace>,
    /// Why the rules returned no result.
    pub error: Option<EvaluationError>,
}

/// The result of one rule.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RuleTrace {
    pub rule: String,
    pub set: RuleSet,
    pub location: PolicyLocation,
    /// The messages of its members: none if the rule did not match, several if it matched in several ways.
    pub messages: Vec<String>,
}

impl RuleTrace {
    pub fn matched(&self) -> bool {
        !self.messages.is_empty()
    }
}

impl Explanation {
    pub(crate) fn new(
        verdict: Verdict,
        input: Option<Value>,
        catalogue: &Catalogue,
        members: Result<Members, EvaluationError>,
    ) -> Self {
        let (members, error) = match members {
            Ok(members) => (members, None),
            Err(error) => (Members::new(), Some(error)),
        };
        Self { verdict, input, rules: traces(catalogue, &members), error }
    }
}

fn traces(catalogue: &Catalogue, members: &[(RuleSet, Member)]) -> Vec<RuleTrace> {
    let messages = |rule: &str| {
        members
            .iter()
            .filter(|(_, member)| member.rule == rule)
            .map(|(_, member)| member.message.clone())
            .collect()
    };
    let trace = |(rule, entry): (&String, &RuleEntry)| RuleTrace {
        rule: rule.clone(),
        set: entry.set,
        location: entry.location.clone(),
        messages: messages(rule),
    };
    let mut traces: Vec<RuleTrace> = catalogue.rules.iter().map(trace).collect();
    traces.sort_by(|a, b| (a.set, &a.location).cmp(&(b.set, &b.location)));
    traces
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}, by policy {}", RulingText(&self.verdict.ruling), self.verdict.policy.short())?;
        for reason in &self.verdict.reasons {
            write!(f, "  because {}: {}", reason.rule, reason.message)?;
            match (&reason.file, reason.line) {
                (Some(file), Some(line)) => writeln!(f, " ({file}:{line})")?,
                _ => writeln!(f)?,
            }
        }
        writeln!(f, "rules")?;
        for trace in &self.rules {
            let mark = if trace.matched() { "match" } else { "-" };
            let RuleTrace { rule, set, location, .. } = trace;
            writeln!(f, "  {mark:<6}{:<15} {rule:<24} {}:{}", set.name(), location.file, location.line)?;
        }
        match &self.input {
            Some(input) => write!(f, "input\n{input:#}"),
            None => write!(f, "input\nnone: the rules were not evaluated"),
        }
    }
}

struct RulingText<'a>(&'a Ruling);

impl fmt::Display for RulingText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Ruling::Deny => f.write_str("deny"),
            Ruling::Allow => f.write_str("allow"),
            Ruling::NeedsApproval(requirement) => {
                let tier = format!("{:?}", requirement.tier).to_lowercase();
                write!(f, "needs approval by {} ({tier} tier)", approvers(requirement.people.count()))?;
                let groups: Vec<&str> = requirement.groups.iter().map(domain::GroupName::as_str).collect();
                if !groups.is_empty() {
                    write!(f, " of {}", groups.join(" or "))?;
                }
                match requirement.assurance {
                    RequiredAssurance::Any => Ok(()),
                    RequiredAssurance::IdentityProvider => {
                        f.write_str(", signed in through the identity provider")
                    }
                }
            }
        }
    }
}

fn approvers(count: usize) -> &'static str {
    if count == 1 { "one person" } else { "two people" }
}
