//! Who decides: validation modes, how long people have, who is asked, and how sure a proposer must be.

use domain::plan::{Environment, OnReject, Patience, Phase, Reads, Validation};
use domain::{Blast, Demand, GroupName, Millis, People, PersonId, Tier};
use serde_json::Value;

use crate::error::{Fault, WorkflowError};
use crate::fields::{Fields, choice, duration, id, integer, wrong_kind};
use crate::parse::File;
use crate::yaml::{Kind, Node, to_json};

pub(crate) const VALIDATIONS: [&str; 4] = ["per_step", "per_phase", "critical_only", "final_only"];
pub(crate) const PHASES: [&str; 3] = ["prechecks", "main", "postchecks"];
pub(crate) const TIERS: [&str; 3] = ["low", "medium", "high"];
pub(crate) const ON_REJECT: [&str; 2] = ["fail", "pause"];
const PATIENCE_FIELDS: [&str; 2] = ["sla", "expires_after"];

/// A shorter wait could not be met by anybody.
pub(crate) const PATIENCE_MIN: Millis = Millis::secs(1);

/// After a quarter nobody remembers what the run was for.
pub(crate) const PATIENCE_MAX: Millis = Millis::hours(24 * 90);

/// More groups than this are everybody.
pub(crate) const GROUPS_MAX: usize = 8;

/// `validation`, or what the environment asks for.
pub(crate) fn validation(fields: &Fields<'_>, environment: Environment) -> Result<Validation, WorkflowError> {
    const ALL: [Validation; 4] =
        [Validation::PerStep, Validation::PerPhase, Validation::CriticalOnly, Validation::FinalOnly];
    match fields.get("validation") {
        None => Ok(Validation::default_in(environment)),
        Some(node) => Ok(ALL[choice(node, "`validation`", &VALIDATIONS)?]),
    }
}

/// Refuses `final_only` where a step reaches farther than that mode is for.
pub(crate) fn final_only_fits(
    validation: Validation,
    fields: &Fields<'_>,
    blasts: impl IntoIterator<Item = Blast>,
) -> Result<(), WorkflowError> {
    let far = blasts.into_iter().any(|blast| blast > Blast::Low);
    match fields.get("validation") {
        Some(node) if validation == Validation::FinalOnly && far => {
            Err(WorkflowError::of(node, Fault::FinalOnlyTooFar))
        }
        Some(_) | None => Ok(()),
    }
}

/// `author`.
pub(crate) fn author(fields: &Fields<'_>) -> Result<Option<PersonId>, WorkflowError> {
    fields.get("author").map(|node| id(node, "`author`")).transpose()
}

/// `approval`: how long people have.
pub(crate) fn patience(fields: &Fields<'_>, environment: Environment) -> Result<Patience, WorkflowError> {
    let default = Patience::default_in(environment);
    let Some(node) = fields.get("approval") else { return Ok(default) };
    let fields = Fields::of(node, "`approval`", &PATIENCE_FIELDS)?;
    let length = |name, what| fields.get(name).map(|node| duration(node, what, PATIENCE_MIN..=PATIENCE_MAX));
    Ok(Patience {
        sla: length("sla", "`sla`").transpose()?.unwrap_or(default.sla),
        expires_after: length("expires_after", "`expires_after`")
            .transpose()?
            .unwrap_or(default.expires_after),
    })
}

/// `auto_approve`: how sure a proposer must be, in thousandths.
pub(crate) fn auto_approve(fields: &Fields<'_>) -> Result<Option<u16>, WorkflowError> {
    fields.get("auto_approve").map(|node| thousandths(node, "`auto_approve`")).transpose()
}

fn thousandths(node: &Node, what: &'static str) -> Result<u16, WorkflowError> {
    let Kind::Number(number) = &node.value else { return Err(wrong_kind(node, what, "a number")) };
    domain::validation::thousandths(number).ok_or_else(|| {
        let (least, most) = ("0".to_owned(), "1".to_owned());
        WorkflowError::of(node, Fault::OutOfRange { what, found: number.to_string(), least, most })
    })
}

/// `phase`.
pub(crate) fn phase(fields: &Fields<'_>) -> Result<Phase, WorkflowError> {
    match fields.get("phase") {
        None => Ok(Phase::default()),
        Some(node) => {
            Ok([Phase::Prechecks, Phase::Main, Phase::Postchecks][choice(node, "`phase`", &PHASES)?])
        }
    }
}

/// `on_reject`.
pub(crate) fn on_reject(fields: &Fields<'_>) -> Result<OnReject, WorkflowError> {
    match fields.get("on_reject") {
        None => Ok(OnReject::default()),
        Some(node) => Ok([OnReject::Fail, OnReject::Pause][choice(node, "`on_reject`", &ON_REJECT)?]),
    }
}

/// `tier`, `people` and `groups` of a gate.
pub(crate) fn demand(fields: &Fields<'_>) -> Result<Demand, WorkflowError> {
    let tier = fields.get("tier").map(|node| choice(node, "`tier`", &TIERS)).transpose()?;
    let people = fields.get("people").map(|node| integer(node, "`people`", 1..=2)).transpose()?;
    Ok(Demand {
        tier: tier.map_or(Tier::default(), |tier| [Tier::Low, Tier::Medium, Tier::High][tier]),
        people: if people == Some(2) { People::Two } else { People::One },
        groups: fields.get("groups").map_or(Ok(Vec::new()), groups)?,
    })
}

fn groups(node: &Node) -> Result<Vec<GroupName>, WorkflowError> {
    let Kind::List(items) = &node.value else { return Err(wrong_kind(node, "`groups`", "a list")) };
    if items.len() > GROUPS_MAX {
        return Err(WorkflowError::of(node, Fault::TooManyGroups { groups: items.len(), most: GROUPS_MAX }));
    }
    items.iter().map(|item| id(item, "a group")).collect()
}

impl File<'_> {
    /// `confidence` of the step at `seq`: a number between 0 and 1, or an expression that gives one.
    pub(crate) fn confidence(
        &mut self,
        seq: usize,
        fields: &Fields<'_>,
    ) -> Result<(Option<Value>, Reads), WorkflowError> {
        let Some(node) = fields.get("confidence") else { return Ok((None, Reads::default())) };
        match &node.value {
            Kind::Number(_) => thousandths(node, "`confidence`").map(drop)?,
            Kind::Text(_) => {}
            _ => return Err(wrong_kind(node, "`confidence`", "a number between 0 and 1, or an expression")),
        }
        Ok((Some(to_json(self.source, node)?), self.reads(node, seq)?))
    }
}
