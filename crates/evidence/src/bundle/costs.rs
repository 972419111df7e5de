//! The costs of a run, by step, tool and model.
//!
//! Every total is a sum over the same lines, one for each outcome and one for each failed attempt with a cost, grouped by
//! a different key.

use std::collections::BTreeMap;

use domain::{Event, EventBody, ModelUsage, StepId, ToolName};
use serde::{Deserialize, Serialize};

use super::{BundleStep, ReceiptSummary, StepOutcome};

/// The costs of a run in millionths of a US dollar.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// Includes the cost of rollback actions and of failed attempts.
    pub total_microusd: u64,
    /// In the order of the plan. Each step includes its rollback and its failed attempts.
    pub steps: Vec<StepCost>,
    pub tools: Vec<ToolCost>,
    pub models: Vec<ModelCost>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepCost {
    pub step: StepId,
    pub microusd: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCost {
    pub tool: ToolName,
    pub microusd: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelCost {
    pub provider: String,
    pub model: String,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub microusd: u64,
}

/// The cost of one outcome or of one failed attempt.
struct CostLine<'a> {
    step: &'a StepId,
    tool: Option<&'a ToolName>,
    usage: Option<&'a ModelUsage>,
    microusd: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    microusd: u64,
    input_tokens: u64,
    output_tokens: u64,
}

impl Costs {
    pub(crate) fn new(
        steps: &[BundleStep],
        outcomes: &[StepOutcome],
        receipts: &[ReceiptSummary],
        events: &[Event],
    ) -> Self {
        let outcomes = outcomes.iter().filter_map(|outcome| outcome_line(steps, outcome, receipts));
        let lines: Vec<_> =
            outcomes.chain(events.iter().filter_map(|event| attempt_line(steps, event))).collect();
        Self {
            total_microusd: lines.iter().map(|line| line.microusd).fold(0, u64::saturating_add),
            steps: by_step(steps, &lines),
            tools: by_tool(&lines),
            models: by_model(&lines),
        }
    }
}

fn outcome_line<'a>(
    steps: &'a [BundleStep],
    outcome: &'a StepOutcome,
    receipts: &'a [ReceiptSummary],
) -> Option<CostLine<'a>> {
    let step = steps.get(outcome.seq.index())?;
    // A rollback may use another tool than the step; the receipt names it.
    let receipt = receipts.iter().find(|receipt| Some(&receipt.key) == outcome.receipt.as_ref());
    let tool = receipt.map(|receipt| &receipt.tool).or(step.tool.as_ref());
    let (usage, microusd) = (outcome.usage.as_ref(), outcome.cost_microusd);
    let costs = microusd > 0 || usage.is_some();
    costs.then_some(CostLine { step: &step.id, tool, usage, microusd })
}

/// The cost of a failed attempt.
fn attempt_line<'a>(steps: &'a [BundleStep], event: &'a Event) -> Option<CostLine<'a>> {
    let EventBody::AttemptCharged { cost_microusd, usage, .. } = &event.body else { return None };
    let step = steps.get(event.seq.index())?;
    Some(CostLine {
        step: &step.id,
        tool: step.tool.as_ref(),
        usage: usage.as_ref(),
        microusd: *cost_microusd,
    })
}

fn by_step(steps: &[BundleStep], lines: &[CostLine<'_>]) -> Vec<StepCost> {
    let sums = totals(lines, |line| Some(line.step));
    let in_order = steps.iter().filter_map(|step| sums.get_key_value(&step.id));
    in_order.map(|(step, sum)| StepCost { step: (*step).clone(), microusd: sum.microusd }).collect()
}

fn by_tool(lines: &[CostLine<'_>]) -> Vec<ToolCost> {
    let sums = totals(lines, |line| line.tool);
    sums.into_iter().map(|(tool, sum)| ToolCost { tool: tool.clone(), microusd: sum.microusd }).collect()
}

fn by_model(lines: &[CostLine<'_>]) -> Vec<ModelCost> {
    let sums = totals(lines, |line| line.usage.map(|usage| (&usage.provider, &usage.model)));
    let cost = |((provider, model), sum): ((&String, &String), Sum)| ModelCost {
        provider: provider.clone(),
        model: model.clone(),
        input_tokens: sum.input_tokens,
        output_tokens: sum.output_tokens,
        microusd: sum.microusd,
    };
    sums.into_iter().map(cost).collect()
}

/// The totals of the lines, grouped by `key`.
fn totals<'a, K: Ord>(lines: &[CostLine<'a>], key: impl Fn(&CostLine<'a>) -> Option<K>) -> BTreeMap<K, Sum> {
    let mut sums: BTreeMap<K, Sum> = BTreeMap::new();
    for line in lines {
        if let Some(key) = key(line) {
            sums.entry(key).or_default().add(line);
        }
    }
    sums
}

impl Sum {
    fn add(&mut self, line: &CostLine<'_>) {
        let (input, output) = line.usage.map_or((0, 0), |usage| (usage.input_tokens, usage.output_tokens));
        self.microusd = self.microusd.saturating_add(line.microusd);
        self.input_tokens = self.input_tokens.saturating_add(input);
        self.output_tokens = self.output_tokens.saturating_add(output);
    }
}
