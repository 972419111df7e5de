//! Parses one step.

use std::collections::BTreeSet;

use domain::effect::ACTION_BYTES_MAX;
use domain::plan::{Call, InputRefs, PlannedStep, Undo, Work};
use domain::retry_policy::RetryPolicy;
use domain::{BlastRadius, StepId, ToolName, json};
use serde_json::Value;
use strum::VariantNames as _;

use crate::builtin::{self, Builtin};
use crate::error::{ParseErrorKind, StepLabel, WorkflowError};
use crate::fields::{Fields, choice, flag, id, wrong_type};
use crate::governance;
use crate::literal_secret;
use crate::parse::File;
use crate::retry::retry;
use crate::yaml::{Node, YamlValue, key_text, to_json};

const STEP_FIELDS: [&str; 11] = [
    "id",
    "tool",
    "connection",
    "with",
    "retry",
    "blast_radius",
    "critical",
    "phase",
    "on_reject",
    "confidence",
    "rollback",
];
const CALL_FIELDS: [&str; 3] = ["tool", "connection", "with"];

/// The fields become part of an action, which also has a target, a key and defaults.
pub(crate) const WITH_BYTES_MAX: usize = ACTION_BYTES_MAX - 8 * 1024;

pub(crate) fn step_id(node: &Node) -> Result<StepId, WorkflowError> {
    id(fields(node)?.require("id")?, "`id`")
}

/// The label for errors of the step at `seq`.
pub(crate) fn label(seq: usize, node: &Node) -> StepLabel {
    match node.value.text_field("id").map(str::parse) {
        Some(Ok(id)) => StepLabel::Id(id),
        Some(Err(_)) | None => StepLabel::Number(seq + 1),
    }
}

fn fields(node: &Node) -> Result<Fields<'_>, WorkflowError> {
    Fields::of(node, "a step", &STEP_FIELDS)
}

impl File<'_> {
    pub(crate) fn step(&mut self, seq: usize, node: &Node) -> Result<PlannedStep, WorkflowError> {
        let fields = fields(node)?;
        let (work, mut reads) = self.work(seq, &fields)?;
        let (confidence, confidence_reads) = self.confidence(seq, &fields)?;
        reads.add(&confidence_reads);
        let (rollback, rollback_reads) = self.rollback(seq, &fields)?;
        Ok(PlannedStep {
            id: id(fields.require("id")?, "`id`")?,
            work,
            retry: fields.get("retry").map_or_else(|| Ok(RetryPolicy::default()), retry)?,
            blast_radius: blast_radius(&fields)?,
            critical: fields.get("critical").map_or(Ok(false), |node| flag(node, "`critical`"))?,
            phase: governance::phase(&fields)?,
            on_reject: governance::on_reject(&fields)?,
            confidence,
            rollback,
            reads,
            rollback_reads,
        })
    }

    fn work(&mut self, seq: usize, fields: &Fields<'_>) -> Result<(Work, InputRefs), WorkflowError> {
        let tool = self.tool(fields.require("tool")?)?;
        let Ok(builtin) = tool.as_str().parse::<Builtin>() else {
            let (call, reads) = self.call(seq, tool, fields)?;
            return Ok((Work::Call(call), reads));
        };
        builtin::refuse_call_fields(fields, builtin)?;
        let with = fields.require("with")?;
        match builtin {
            Builtin::Wait => builtin::wait(with),
            Builtin::Gate => builtin::gate(self, seq, with),
        }
    }

    fn call(
        &mut self,
        end: usize,
        tool: ToolName,
        fields: &Fields<'_>,
    ) -> Result<(Call, InputRefs), WorkflowError> {
        let connection = fields.get("connection").map(|node| id(node, "`connection`")).transpose()?;
        let with = fields.get("with");
        if let (Some(node), Some(Some(known))) = (with, self.tools.get(&tool)) {
            require_known(node, &tool, known)?;
        }
        let Some(node) = with else {
            let with = Value::Object(serde_json::Map::new());
            return Ok((Call { tool, connection, with }, InputRefs::default()));
        };
        if !matches!(node.value, YamlValue::Map(_)) {
            return Err(wrong_type(node, "`with`", "a map"));
        }
        if let Some(secret) = literal_secret::find(node) {
            return Err(WorkflowError::of(secret, ParseErrorKind::LiteralSecret));
        }
        let with = to_json(self.source, node)?;
        let bytes = json::canonical(&with).len();
        if bytes > WITH_BYTES_MAX {
            return Err(WorkflowError::of(node, ParseErrorKind::WithTooLarge { bytes }));
        }
        Ok((Call { tool, connection, with }, self.reads(node, end)?))
    }

    fn rollback(
        &mut self,
        seq: usize,
        fields: &Fields<'_>,
    ) -> Result<(Option<Undo>, InputRefs), WorkflowError> {
        let Some(node) = fields.get("rollback") else { return Ok((None, InputRefs::default())) };
        match &node.value {
            YamlValue::Text(word) if word == "auto" => Ok((Some(Undo::Auto), InputRefs::default())),
            YamlValue::Map(_) => self.undo(seq, node).map(|(call, reads)| (Some(Undo::Call(call)), reads)),
            _ => Err(wrong_type(node, "`rollback`", "`auto`, or a map with `tool` and `with`")),
        }
    }

    /// The rollback call of the step at `seq`. It runs after the step succeeded, so it may read the step's own output: for
    /// example, deleting a record needs the id from its creation.
    fn undo(&mut self, seq: usize, node: &Node) -> Result<(Call, InputRefs), WorkflowError> {
        let fields = Fields::of(node, "`rollback`", &CALL_FIELDS)?;
        let name = fields.require("tool")?;
        let tool = self.tool(name)?;
        if tool.as_str().parse::<Builtin>().is_ok() {
            return Err(WorkflowError::of(name, ParseErrorKind::BuiltinUndoes { tool: tool.into() }));
        }
        self.call(seq + 1, tool, &fields)
    }

    fn tool(&self, node: &Node) -> Result<ToolName, WorkflowError> {
        let tool: ToolName = id(node, "`tool`")?;
        if self.tools.contains_key(&tool) || tool.as_str().parse::<Builtin>().is_ok() {
            return Ok(tool);
        }
        let known: BTreeSet<&str> =
            self.tools.keys().map(ToolName::as_str).chain(Builtin::VARIANTS.iter().copied()).collect();
        let known = known.into_iter().map(str::to_owned).collect();
        Err(WorkflowError::of(node, ParseErrorKind::UnknownTool { tool: tool.into(), known }))
    }
}

/// A misspelled field would be refused when the step runs, or change what the step does: without `method`, a request is a
/// read.
fn require_known(with: &Node, tool: &ToolName, known: &[&'static str]) -> Result<(), WorkflowError> {
    let YamlValue::Map(map) = &with.value else { return Ok(()) };
    for (key, _) in map {
        let field = key_text(key)?;
        if !known.contains(&field) {
            let (field, tool) = (field.to_owned(), tool.to_string());
            let kind = ParseErrorKind::UnknownToolField { field, tool: tool.into(), expected: known.into() };
            return Err(WorkflowError::of(key, kind));
        }
    }
    Ok(())
}

fn blast_radius(fields: &Fields<'_>) -> Result<BlastRadius, WorkflowError> {
    fields.get("blast_radius").map_or(Ok(BlastRadius::default()), |node| choice(node, "`blast_radius`"))
}
