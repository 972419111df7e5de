//! The question that policy is asked about a step, from what is known around it. Pure, so that it can be put
//! without running anything: a forecast asks exactly what a worker would.

use connectors::Toolbox;
use domain::plan::Work;
use domain::validation::Circumstances;
use domain::{Action, EffectClass, Plan, RunRecord, StepSeq};
use policy::{CapsState, Facts, RunFacts, StepFacts};
use serde_json::{Value, json};

/// What policy is asked about `action`; nothing, if the plan has no such step.
pub fn facts<'a>(action: &'a Action, around: &Circumstances<'a>) -> Option<Facts<'a>> {
    let Circumstances { plan, record, caps, .. } = *around;
    let step = plan.step(around.seq)?;
    Some(Facts {
        action,
        step: StepFacts {
            id: &step.id,
            blast: step.blast,
            critical: step.critical,
            phase: step.phase,
            undo: record.is_undoing(),
            attempt: around.attempt.saturating_add(1),
        },
        run: RunFacts {
            tenant: &record.key.tenant,
            workspace: &record.workspace,
            workflow: &record.workflow,
            version: record.workflow_version,
            environment: plan.environment,
            trigger: &record.trigger.kind,
            requester: record.trigger.requester.as_ref(),
        },
        caps: CapsState { writes_done: around.writes_done, writes_max: caps.max_writes_per_run },
    })
}

/// Whether a step after `seq` is certain to have an effect, as far as `tools` say before they are bound.
pub fn more_to_come(plan: &Plan, tools: &Toolbox, seq: StepSeq) -> bool {
    let class = |work: &Work| match work {
        Work::Call(call) => tools.get(&call.tool)?.declares(&call.with),
        Work::Wait { .. } | Work::Gate { .. } => None,
    };
    let later = plan.steps.iter().skip(seq.index() + 1);
    later.filter_map(|step| class(&step.work)).any(EffectClass::has_effect)
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
