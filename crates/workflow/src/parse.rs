//! Parses the whole file.

use std::collections::{BTreeMap, BTreeSet};

use domain::plan::{Environment, STEPS_MAX};
use domain::{Plan, PlannedStep, StepId, ToolName};
use serde_json::Value;

use crate::error::{ParseErrorKind, StepLabel, WorkflowError};
use crate::fields::{Fields, choice, id, integer, wrong_type};
use crate::governance;
use crate::position::SourcePosition;
use crate::step::{label, step_id};
use crate::yaml::{self, Node, YamlValue};

/// Four for each step of the longest workflow. Compiling them all takes milliseconds.
pub const EXPRESSIONS_MAX: usize = 256;

const WORKFLOW_FIELDS: [&str; 12] = [
    "workflow",
    "version",
    "environment",
    "workspace",
    "author",
    "validation",
    "approval",
    "auto_approve",
    "trigger",
    "concurrency",
    "sample",
    "steps",
];

/// The state of parsing one file.
pub(crate) struct File<'s> {
    pub(crate) source: &'s str,
    pub(crate) tools: &'s ToolFields,
    pub(crate) ids: Vec<StepId>,
    pub(crate) expressions: usize,
}

/// The tools that a workflow may call, each with the fields of its `with`; `None` if they are not known.
pub type ToolFields = BTreeMap<ToolName, Option<Vec<&'static str>>>;

/// Parses a workflow. Steps may call `tools` and the built-in tools `wait.event` and `approval.gate`. The fields of `with`
/// are not checked.
pub fn parse(source: &str, tools: &BTreeSet<ToolName>) -> Result<Plan, WorkflowError> {
    parse_for(source, &tools.iter().map(|tool| (tool.clone(), None)).collect())
}

/// Parses a workflow and checks the fields of `with`.
pub fn parse_for(source: &str, tools: &ToolFields) -> Result<Plan, WorkflowError> {
    let source = source.strip_prefix('\u{feff}').unwrap_or(source);
    let root = yaml::parse(source)?;
    let workflow = || root.value.text_field("workflow").and_then(|name| name.parse().ok());
    plan(source, &root, tools).map_err(|error| error.in_workflow(workflow()))
}

fn plan(source: &str, root: &Node, tools: &ToolFields) -> Result<Plan, WorkflowError> {
    let fields = Fields::of(root, "a workflow", &WORKFLOW_FIELDS)?;
    let nodes = step_nodes(&fields)?;
    let environment = environment(&fields)?;
    let validation = governance::validation(&fields, environment)?;
    let mut file = File { source, tools, ids: distinct_ids(nodes)?, expressions: 0 };
    let triggered_by = file.trigger(&fields)?;
    let concurrency = file.concurrency(&fields)?;
    let step = |(seq, node)| file.step(seq, node).map_err(|error| error.in_step(label(seq, node)));
    let steps: Vec<PlannedStep> = nodes.iter().enumerate().map(step).collect::<Result<_, _>>()?;
    governance::check_final_only(validation, &fields, steps.iter().map(|step| step.blast_radius))?;
    Ok(Plan {
        workflow: id(fields.require("workflow")?, "`workflow`")?,
        version: integer(fields.require("version")?, "`version`", 1..=u32::MAX)?,
        environment,
        workspace: fields.get("workspace").map(|node| id(node, "`workspace`")).transpose()?,
        author: governance::author(&fields)?,
        validation,
        approval_timing: governance::approval_timing(&fields, environment)?,
        auto_approve: governance::auto_approve(&fields)?,
        triggered_by,
        concurrency,
        sample: sample(source, &fields)?,
        steps,
    })
}

/// The console shows the sample unchanged, so expressions in it are not evaluated.
fn sample(source: &str, fields: &Fields<'_>) -> Result<Option<Value>, WorkflowError> {
    match fields.get("sample") {
        None => Ok(None),
        Some(node) if matches!(node.value, YamlValue::Map(_)) => yaml::to_json(source, node).map(Some),
        Some(node) => Err(wrong_type(node, "`sample`", "a map")),
    }
}

fn environment(fields: &Fields<'_>) -> Result<Environment, WorkflowError> {
    fields.get("environment").map_or(Ok(Environment::default()), |node| choice(node, "`environment`"))
}

fn step_nodes<'n>(fields: &Fields<'n>) -> Result<&'n [Node], WorkflowError> {
    let node = fields.require("steps")?;
    let YamlValue::List(nodes) = &node.value else { return Err(wrong_type(node, "`steps`", "a list")) };
    let refused = |kind| Err(WorkflowError::of(fields.key("steps").unwrap_or(node), kind));
    match nodes.len() {
        0 => refused(ParseErrorKind::NoSteps),
        1..=STEPS_MAX => Ok(nodes),
        steps => refused(ParseErrorKind::TooManySteps { steps }),
    }
}

/// The ids of all steps, in order.
fn distinct_ids(nodes: &[Node]) -> Result<Vec<StepId>, WorkflowError> {
    let mut ids = Vec::with_capacity(nodes.len());
    for (seq, node) in nodes.iter().enumerate() {
        let id = step_id(node).map_err(|error| error.in_step(label(seq, node)))?;
        if let Some(first) = ids.iter().position(|known| *known == id) {
            let first = SourcePosition::from(nodes[first].referenced).line;
            let duplicate = ParseErrorKind::DuplicateStep { id: id.into(), first };
            return Err(WorkflowError::of(node, duplicate).in_step(StepLabel::Number(seq + 1)));
        }
        ids.push(id);
    }
    Ok(ids)
}

#[cfg(test)]
mod tests;
