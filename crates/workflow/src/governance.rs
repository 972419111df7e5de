//! Approval settings: validation modes, deadlines, approvers and confidence thresholds.

use domain::plan::{ApprovalTiming, Environment, InputRefs, OnReject, Phase, Validation};
use domain::{ApprovalRequirement, ApproverCount, BlastRadius, GroupName, Millis, PersonId, Tier};
use serde_json::Value;

use crate::error::{ParseErrorKind, WorkflowError};
use crate::fields::{Fields, choice, duration, id, integer, wrong_type};
use crate::parse::File;
use crate::yaml::{Node, YamlValue, to_json};

const APPROVAL_FIELDS: [&str; 2] = ["sla", "expires_after"];

/// A shorter deadline always expires.
pub(crate) const APPROVAL_TIMEOUT_MIN: Millis = Millis::secs(1);

/// A quarter. A run that waits longer is most likely forgotten.
pub(crate) const APPROVAL_TIMEOUT_MAX: Millis = Millis::hours(24 * 90);

/// A longer list hardly restricts who may approve.
pub(crate) const GROUPS_MAX: usize = 8;

/// `validation`, or the default of the environment.
pub(crate) fn validation(fields: &Fields<'_>, environment: Environment) -> Result<Validation, WorkflowError> {
    let default = Validation::default_in(environment);
    fields.get("validation").map_or(Ok(default), |node| choice(node, "`validation`"))
}

/// Refuses `final_only` if a step has a blast radius above low.
pub(crate) fn check_final_only(
    validation: Validation,
    fields: &Fields<'_>,
    blasts: impl IntoIterator<Item = BlastRadius>,
) -> Result<(), WorkflowError> {
    let above_low = blasts.into_iter().any(|radius| radius > BlastRadius::Low);
    match fields.get("validation") {
        Some(node) if validation == Validation::FinalOnly && above_low => {
            Err(WorkflowError::of(node, ParseErrorKind::FinalOnlyTooFar))
        }
        Some(_) | None => Ok(()),
    }
}

pub(crate) fn author(fields: &Fields<'_>) -> Result<Option<PersonId>, WorkflowError> {
    fields.get("author").map(|node| id(node, "`author`")).transpose()
}

/// `approval`: the deadlines for approvers.
pub(crate) fn approval_timing(
    fields: &Fields<'_>,
    environment: Environment,
) -> Result<ApprovalTiming, WorkflowError> {
    let default = ApprovalTiming::default_in(environment);
    let Some(node) = fields.get("approval") else { return Ok(default) };
    let fields = Fields::of(node, "`approval`", &APPROVAL_FIELDS)?;
    let length = |name, what| {
        fields.get(name).map(|node| duration(node, what, APPROVAL_TIMEOUT_MIN..=APPROVAL_TIMEOUT_MAX))
    };
    Ok(ApprovalTiming {
        sla: length("sla", "`sla`").transpose()?.unwrap_or(default.sla),
        expires_after: length("expires_after", "`expires_after`")
            .transpose()?
            .unwrap_or(default.expires_after),
    })
}

/// `auto_approve`: the minimum confidence, in thousandths.
pub(crate) fn auto_approve(fields: &Fields<'_>) -> Result<Option<u16>, WorkflowError> {
    fields.get("auto_approve").map(|node| thousandths(node, "`auto_approve`")).transpose()
}

fn thousandths(node: &Node, what: &'static str) -> Result<u16, WorkflowError> {
    let YamlValue::Number(number) = &node.value else { return Err(wrong_type(node, what, "a number")) };
    domain::validation::thousandths(number).ok_or_else(|| {
        let range = "0 to 1".to_owned();
        WorkflowError::of(node, ParseErrorKind::OutOfRange { what, found: number.to_string(), range })
    })
}

pub(crate) fn phase(fields: &Fields<'_>) -> Result<Phase, WorkflowError> {
    fields.get("phase").map_or(Ok(Phase::default()), |node| choice(node, "`phase`"))
}

pub(crate) fn on_reject(fields: &Fields<'_>) -> Result<OnReject, WorkflowError> {
    fields.get("on_reject").map_or(Ok(OnReject::default()), |node| choice(node, "`on_reject`"))
}

/// `tier`, `people` and `groups` of a gate.
pub(crate) fn requirement(fields: &Fields<'_>) -> Result<ApprovalRequirement, WorkflowError> {
    let people = fields.get("people").map(|node| integer(node, "`people`", 1..=2)).transpose()?;
    Ok(ApprovalRequirement {
        tier: fields.get("tier").map_or(Ok(Tier::default()), |node| choice(node, "`tier`"))?,
        people: if people == Some(2) { ApproverCount::Two } else { ApproverCount::One },
        groups: fields.get("groups").map_or(Ok(Vec::new()), groups)?,
        // A gate accepts every credential; a policy can require more for the action after it.
        ..ApprovalRequirement::default()
    })
}

fn groups(node: &Node) -> Result<Vec<GroupName>, WorkflowError> {
    let YamlValue::List(items) = &node.value else { return Err(wrong_type(node, "`groups`", "a list")) };
    if items.len() > GROUPS_MAX {
        return Err(WorkflowError::of(
            node,
            ParseErrorKind::TooManyGroups { groups: items.len(), most: GROUPS_MAX },
        ));
    }
    items.iter().map(|item| id(item, "a group")).collect()
}

impl File<'_> {
    /// `confidence` of the step at `seq`: a number between 0 and 1, or an expression.
    pub(crate) fn confidence(
        &mut self,
        seq: usize,
        fields: &Fields<'_>,
    ) -> Result<(Option<Value>, InputRefs), WorkflowError> {
        let Some(node) = fields.get("confidence") else { return Ok((None, InputRefs::default())) };
        match &node.value {
            YamlValue::Number(_) => thousandths(node, "`confidence`").map(drop)?,
            YamlValue::Text(_) => {}
            _ => return Err(wrong_type(node, "`confidence`", "a number between 0 and 1, or an expression")),
        }
        Ok((Some(to_json(self.source, node)?), self.reads(node, seq)?))
    }
}
