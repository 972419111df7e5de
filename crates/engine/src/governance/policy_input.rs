//! The policy input for a step. Pure, so that a dry run evaluates exactly what a worker would.

use connectors::ToolRegistry;
use domain::plan::{PlannedStep, Undo, Work};
use domain::validation::ActionContext;
use domain::{Action, EffectClass, Plan, RunRecord, StepSeq};
use policy::{CapUsage, PolicyRequest, RunContext, StepContext};
use serde_json::{Value, json};

/// The policy input about `action`; `None` if the plan has no such step.
pub fn facts<'a>(action: &'a Action, context: &ActionContext<'a>) -> Option<PolicyRequest<'a>> {
    let ActionContext { plan, record, caps, .. } = *context;
    let step = plan.step(context.seq)?;
    Some(PolicyRequest {
        action,
        step: StepContext {
            id: &step.id,
            blast_radius: step.blast_radius,
            critical: step.critical,
            phase: step.phase,
            rollback: record.is_rolling_back(),
            origin: context.origin,
            attempt: context.attempt.saturating_add(1),
        },
        run: RunContext {
            tenant: &record.key.tenant,
            workspace: &record.workspace,
            workflow: &record.workflow,
            version: record.workflow_version,
            environment: action.environment(plan.environment),
            trigger: &record.trigger.kind,
            requester: record.trigger.requester.as_ref(),
        },
        caps: CapUsage {
            writes_done: context.writes_done,
            writes_max: caps.max_writes_in(&record.workspace),
        },
    })
}

/// Whether a step after `seq` is certain to have an effect, as far as `tools` declare before they are bound.
pub fn has_later_effect(plan: &Plan, tools: &ToolRegistry, seq: StepSeq) -> bool {
    let class = |work: &Work| match work {
        Work::Call(call) => tools.get(&call.tool)?.effect_class(&call.with),
        Work::Wait { .. } | Work::Gate { .. } => None,
    };
    let later = plan.steps.iter().skip(seq.index() + 1);
    later.filter_map(|step| class(&step.work)).any(EffectClass::has_effect)
}

/// Whether the workflow declares a call that changes an external system as the rollback of `step`. `rollback: auto` is not
/// such a call: a tool that records an inverse knows that its action can be undone.
pub fn declares_rollback(tools: &ToolRegistry, step: &PlannedStep) -> bool {
    let Some(Undo::Call(call)) = &step.rollback else { return false };
    let class = tools.get(&call.tool).and_then(|tool| tool.effect_class(&call.with));
    // A class that depends on an expression is one of a tool that can have an effect.
    class.map_or_else(|| tools.get(&call.tool).is_some(), EffectClass::has_effect)
}

/// What expressions can read of the run itself.
pub fn run_facts(record: &RunRecord) -> Value {
    json!({
        "id": record.key.run,
        "tenant": record.key.tenant,
        "workspace": record.workspace,
        "workflow": record.workflow,
        "version": record.workflow_version,
        "created_at_ms": record.created_at,
    })
}
