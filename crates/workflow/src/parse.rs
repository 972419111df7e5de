//! The whole file.

use std::collections::BTreeSet;

use domain::plan::{Environment, STEPS_MAX};
use domain::{Plan, PlannedStep, StepId, ToolName};
use serde_json::Value;

use crate::error::{Fault, WorkflowError};
use crate::fields::{Fields, choice, id, integer, wrong_kind};
use crate::governance;
use crate::place::Place;
use crate::step::step_id;
use crate::yaml::{self, Kind, Node};

/// Four for each step of the longest workflow. Compiling all of them takes milliseconds.
pub const EXPRESSIONS_MAX: usize = 256;

const WORKFLOW_FIELDS: [&str; 11] = [
    "workflow",
    "version",
    "environment",
    "author",
    "validation",
    "approval",
    "auto_approve",
    "trigger",
    "ticket",
    "sample",
    "steps",
];
pub(crate) const ENVIRONMENTS: [&str; 3] = ["dev", "staging", "prod"];

/// What is known of a file while its steps are read.
pub(crate) struct File<'s> {
    pub(crate) source: &'s str,
    pub(crate) tools: &'s BTreeSet<ToolName>,
    pub(crate) ids: Vec<StepId>,
    pub(crate) expressions: usize,
}

/// Reads a workflow. `tools` are those that steps may call, beside the two built-in ones, `wait.event` and
/// `approval.gate`.
pub fn parse(source: &str, tools: &BTreeSet<ToolName>) -> Result<Plan, WorkflowError> {
    let source = source.strip_prefix('\u{feff}').unwrap_or(source);
    let root = yaml::read(source)?;
    let fields = Fields::of(&root, "a workflow", &WORKFLOW_FIELDS)?;
    let nodes = step_nodes(&fields)?;
    let environment = environment(&fields)?;
    let validation = governance::validation(&fields, environment)?;
    let mut file = File { source, tools, ids: distinct_ids(nodes)?, expressions: 0 };
    let triggered_by = file.trigger(&fields)?;
    let ticket = file.ticket(&fields)?;
    let steps: Vec<PlannedStep> =
        nodes.iter().enumerate().map(|(seq, node)| file.step(seq, node)).collect::<Result<_, _>>()?;
    governance::final_only_fits(validation, &fields, steps.iter().map(|step| step.blast))?;
    Ok(Plan {
        workflow: id(fields.need("workflow")?, "`workflow`")?,
        version: integer(fields.need("version")?, "`version`", 1..=u32::MAX)?,
        environment,
        author: governance::author(&fields)?,
        validation,
        patience: governance::patience(&fields, environment)?,
        auto_approve: governance::auto_approve(&fields)?,
        triggered_by,
        ticket,
        sample: sample(source, &fields)?,
        steps,
    })
}

/// It is shown to people as it stands, so nothing in it is an expression.
fn sample(source: &str, fields: &Fields<'_>) -> Result<Option<Value>, WorkflowError> {
    match fields.get("sample") {
        None => Ok(None),
        Some(node) if matches!(node.value, Kind::Map(_)) => yaml::to_json(source, node).map(Some),
        Some(node) => Err(wrong_kind(node, "`sample`", "a map")),
    }
}

fn environment(fields: &Fields<'_>) -> Result<Environment, WorkflowError> {
    const ALL: [Environment; 3] = [Environment::Dev, Environment::Staging, Environment::Prod];
    match fields.get("environment") {
        None => Ok(Environment::default()),
        Some(node) => Ok(ALL[choice(node, "`environment`", &ENVIRONMENTS)?]),
    }
}

fn step_nodes<'n>(fields: &Fields<'n>) -> Result<&'n [Node], WorkflowError> {
    let node = fields.need("steps")?;
    let Kind::List(nodes) = &node.value else { return Err(wrong_kind(node, "`steps`", "a list")) };
    let refused = |fault| Err(WorkflowError::of(fields.key("steps").unwrap_or(node), fault));
    match nodes.len() {
        0 => refused(Fault::NoSteps),
        1..=STEPS_MAX => Ok(nodes),
        steps => refused(Fault::TooManySteps { steps }),
    }
}

/// The ids of all steps, in their order; expressions may not read a step that is not among them.
fn distinct_ids(nodes: &[Node]) -> Result<Vec<StepId>, WorkflowError> {
    let mut ids = Vec::with_capacity(nodes.len());
    for node in nodes {
        let id = step_id(node)?;
        if let Some(first) = ids.iter().position(|known| *known == id) {
            let first = Place::from(nodes[first].referenced).line;
            return Err(WorkflowError::of(node, Fault::DuplicateStep { id: id.into(), first }));
        }
        ids.push(id);
    }
    Ok(ids)
}

#[cfg(test)]
mod tests;
