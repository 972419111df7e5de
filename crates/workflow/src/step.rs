//! One step of the file.

use domain::plan::{Call, PlannedStep, Reads, Undo, Work};
use domain::schedule::RetryPolicy;
use domain::{Blast, StepId, ToolName};
use serde_json::Value;

use crate::builtin::{self, Builtin};
use crate::error::{Fault, WorkflowError, listed};
use crate::fields::{Fields, choice, flag, id, wrong_kind};
use crate::governance;
use crate::parse::File;
use crate::retry::retry;
use crate::yaml::{Kind, Node, to_json};

const STEP_FIELDS: [&str; 10] = [
    "id",
    "tool",
    "with",
    "retry",
    "blast_radius",
    "critical",
    "phase",
    "on_reject",
    "confidence",
    "rollback",
];
const CALL_FIELDS: [&str; 2] = ["tool", "with"];
pub(crate) const BLASTS: [&str; 3] = ["low", "medium", "high"];

/// The id of the step that `node` describes.
pub(crate) fn step_id(node: &Node) -> Result<StepId, WorkflowError> {
    id(fields(node)?.need("id")?, "`id`")
}

fn fields(node: &Node) -> Result<Fields<'_>, WorkflowError> {
    Fields::of(node, "a step", &STEP_FIELDS)
}

impl File<'_> {
    /// The step at `seq`, which `node` describes.
    pub(crate) fn step(&mut self, seq: usize, node: &Node) -> Result<PlannedStep, WorkflowError> {
        let fields = fields(node)?;
        let (work, mut reads) = self.work(seq, &fields)?;
        let (confidence, also) = self.confidence(seq, &fields)?;
        reads.add(&also);
        let (rollback, rollback_reads) = self.rollback(seq, &fields)?;
        Ok(PlannedStep {
            id: id(fields.need("id")?, "`id`")?,
            work,
            retry: fields.get("retry").map_or_else(|| Ok(RetryPolicy::default()), retry)?,
            blast: blast(&fields)?,
            critical: fields.get("critical").map_or(Ok(false), |node| flag(node, "`critical`"))?,
            phase: governance::phase(&fields)?,
            on_reject: governance::on_reject(&fields)?,
            confidence,
            rollback,
            reads,
            rollback_reads,
        })
    }

    fn work(&mut self, seq: usize, fields: &Fields<'_>) -> Result<(Work, Reads), WorkflowError> {
        let tool = self.tool(fields.need("tool")?)?;
        let Some(builtin) = Builtin::named(tool.as_str()) else {
            let (call, reads) = self.call(seq, tool, fields.get("with"))?;
            return Ok((Work::Call(call), reads));
        };
        builtin::refuse_call_fields(fields, builtin)?;
        let with = fields.need("with")?;
        match builtin {
            Builtin::Wait => builtin::wait(with),
            Builtin::Gate => builtin::gate(self, seq, with),
        }
    }

    fn call(
        &mut self,
        end: usize,
        tool: ToolName,
        with: Option<&Node>,
    ) -> Result<(Call, Reads), WorkflowError> {
        let Some(node) = with else {
            return Ok((Call { tool, with: Value::Object(serde_json::Map::new()) }, Reads::default()));
        };
        if !matches!(node.value, Kind::Map(_)) {
            return Err(wrong_kind(node, "`with`", "a map"));
        }
        let with = to_json(self.source, node)?;
        Ok((Call { tool, with }, self.reads(node, end)?))
    }

    fn rollback(&mut self, seq: usize, fields: &Fields<'_>) -> Result<(Option<Undo>, Reads), WorkflowError> {
        let Some(node) = fields.get("rollback") else { return Ok((None, Reads::default())) };
        match &node.value {
            Kind::Text(word) if word == "auto" => Ok((Some(Undo::Auto), Reads::default())),
            Kind::Map(_) => self.undo(seq, node).map(|(call, reads)| (Some(Undo::Call(call)), reads)),
            _ => Err(wrong_kind(node, "`rollback`", "`auto`, or a map with `tool` and `with`")),
        }
    }

    /// The call that undoes the step at `seq`. It runs after the step has succeeded, so it may read the
    /// step's own output: whoever deletes a record needs the id that creating it gave.
    fn undo(&mut self, seq: usize, node: &Node) -> Result<(Call, Reads), WorkflowError> {
        let fields = Fields::of(node, "`rollback`", &CALL_FIELDS)?;
        let named = fields.need("tool")?;
        let tool = self.tool(named)?;
        if Builtin::named(tool.as_str()).is_some() {
            return Err(WorkflowError::of(named, Fault::BuiltinUndoes { tool: tool.into() }));
        }
        self.call(seq + 1, tool, fields.get("with"))
    }

    fn tool(&self, node: &Node) -> Result<ToolName, WorkflowError> {
        let tool: ToolName = id(node, "`tool`")?;
        if self.tools.contains(&tool) || Builtin::named(tool.as_str()).is_some() {
            return Ok(tool);
        }
        let mut known: Vec<&str> =
            self.tools.iter().map(ToolName::as_str).chain(Builtin::ALL.map(Builtin::name)).collect();
        known.sort_unstable();
        known.dedup();
        Err(WorkflowError::of(node, Fault::UnknownTool { tool: tool.into(), known: listed(known) }))
    }
}

fn blast(fields: &Fields<'_>) -> Result<Blast, WorkflowError> {
    match fields.get("blast_radius") {
        None => Ok(Blast::default()),
        Some(node) => Ok([Blast::Low, Blast::Medium, Blast::High][choice(node, "`blast_radius`", &BLASTS)?]),
    }
}
