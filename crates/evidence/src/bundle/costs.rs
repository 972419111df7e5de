//! What a run cost, rolled up.
//!
//! Every roll-up is a sum over the same lines, one for each step that ended, by another name taken from the
//! line.

use std::collections::BTreeMap;

use domain::{StepId, ToolName, Usage};
use serde::{Deserialize, Serialize};

use super::{Outcome, ReceiptSummary, Step};

/// What a run cost, in millionths of a US dollar.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// All of it, with what taking back cost.
    pub total_microusd: u64,
    /// By step, in the order of the plan; taking back is counted with the step.
    pub steps: Vec<StepCost>,
    /// By tool.
    pub tools: Vec<ToolCost>,
    /// By provider and model.
    pub models: Vec<ModelCost>,
}

/// What a step cost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepCost {
    /// Which step.
    pub step: StepId,
    /// How much.
    pub microusd: u64,
}

/// What the calls of a tool cost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCost {
    /// Which tool.
    pub tool: ToolName,
    /// How much.
    pub microusd: u64,
}

/// What the use of a model cost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelCost {
    /// Whose.
    pub provider: String,
    /// Which model.
    pub model: String,
    /// How much went in.
    pub input_tokens: u64,
    /// How much came out.
    pub output_tokens: u64,
    /// How much it cost.
    pub microusd: u64,
}

/// What the end of one step cost.
struct Line<'a> {
    step: &'a StepId,
    tool: Option<&'a ToolName>,
    usage: Option<&'a Usage>,
    microusd: u64,
}

/// A sum of lines.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    microusd: u64,
    input_tokens: u64,
    output_tokens: u64,
}

impl Costs {
    /// The costs of `outcomes`.
    pub(crate) fn of(steps: &[Step], outcomes: &[Outcome], receipts: &[ReceiptSummary]) -> Self {
        let lines: Vec<_> = outcomes.iter().filter_map(|outcome| line(steps, outcome, receipts)).collect();
        Self {
            total_microusd: lines.iter().map(|line| line.microusd).fold(0, u64::saturating_add),
            steps: by_step(steps, &lines),
            tools: by_tool(&lines),
            models: by_model(&lines),
        }
    }
}

fn line<'a>(steps: &'a [Step], outcome: &'a Outcome, receipts: &'a [ReceiptSummary]) -> Option<Line<'a>> {
    let step = steps.get(outcome.seq.index())?;
    // An undoing may have been done by another tool than the step; its receipt knows.
    let receipt = receipts.iter().find(|receipt| Some(&receipt.key) == outcome.receipt.as_ref());
    let tool = receipt.map(|receipt| &receipt.tool).or(step.tool.as_ref());
    let (usage, microusd) = (outcome.usage.as_ref(), outcome.cost_microusd);
    let costs = microusd > 0 || usage.is_some();
    costs.then_some(Line { step: &step.id, tool, usage, microusd })
}

fn by_step(steps: &[Step], lines: &[Line<'_>]) -> Vec<StepCost> {
    let sums = rolled_up(lines, |line| Some(line.step));
    let in_order = steps.iter().filter_map(|step| sums.get_key_value(&step.id));
    in_order.map(|(step, sum)| StepCost { step: (*step).clone(), microusd: sum.microusd }).collect()
}

fn by_tool(lines: &[Line<'_>]) -> Vec<ToolCost> {
    let sums = rolled_up(lines, |line| line.tool);
    sums.into_iter().map(|(tool, sum)| ToolCost { tool: tool.clone(), microusd: sum.microusd }).collect()
}

fn by_model(lines: &[Line<'_>]) -> Vec<ModelCost> {
    let sums = rolled_up(lines, |line| line.usage.map(|usage| (&usage.provider, &usage.model)));
    let cost = |((provider, model), sum): ((&String, &String), Sum)| ModelCost {
        provider: provider.clone(),
        model: model.clone(),
        input_tokens: sum.input_tokens,
        output_tokens: sum.output_tokens,
        microusd: sum.microusd,
    };
    sums.into_iter().map(cost).collect()
}

/// The sums of the lines that have the same name.
fn rolled_up<'a, K: Ord>(lines: &[Line<'a>], name: impl Fn(&Line<'a>) -> Option<K>) -> BTreeMap<K, Sum> {
    let mut sums: BTreeMap<K, Sum> = BTreeMap::new();
    for line in lines {
        if let Some(name) = name(line) {
            sums.entry(name).or_default().add(line);
        }
    }
    sums
}

impl Sum {
    fn add(&mut self, line: &Line<'_>) {
        let (input, output) = line.usage.map_or((0, 0), |usage| (usage.input_tokens, usage.output_tokens));
        self.microusd = self.microusd.saturating_add(line.microusd);
        self.input_tokens = self.input_tokens.saturating_add(input);
        self.output_tokens = self.output_tokens.saturating_add(output);
    }
}
