//! Undo: the effects of an ended run are reversed by another run, made from its receipts.
//!
//! An ended run never changes, so the undo is a run of its own: newest effect first, each an action with its own
//! verdict, approval and receipt, and evidence at the end. The fields of the calls are passed as data, never as text
//! that could be read as an expression.

use domain::plan::{Call, PlannedStep, Undo, Work};
use domain::receipt::ReceiptState;
use domain::{
    IdempotencyKey, Initiator, Plan, Receipt, Refusal, RunId, RunKey, RunRecord, RunStatus, StepId,
    StepRecord, StepSeq, ToolName, WorkflowName,
};
use serde_json::{Map, Value, json};
use store::Store;

use crate::admission::{StartResult, StartRun};
use crate::error::EngineError;
use crate::execution::bind::Memory;
use crate::{Engine, Loaded};

/// After this many failed undos a person has to look at the cause.
const UNDOS_MAX: u32 = 100;

/// What an undo would do, newest effect first.
#[derive(Debug, Clone, PartialEq)]
pub struct UndoPlan {
    pub run: RunKey,
    pub effects: Vec<UndoEffect>,
}

/// One effect of an ended run, and whether it would be undone.
#[derive(Debug, Clone, PartialEq)]
pub struct UndoEffect {
    pub step: StepId,
    pub seq: StepSeq,
    pub target: String,
    /// The call that undoes it, or why there is none.
    pub by: Result<UndoCall, NotUndoable>,
}

/// A call that undoes an effect.
#[derive(Debug, Clone, PartialEq)]
pub struct UndoCall {
    pub tool: ToolName,
    pub with: Map<String, Value>,
}

/// Why an effect is not undone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotUndoable {
    #[error("it is already rolled back")]
    Already,
    #[error("run {0} did it; this run reused that result")]
    AnotherRuns(RunId),
    #[error("an earlier step of the run did it, and is undone itself")]
    Earlier,
    #[error("neither its receipt nor the workflow has an inverse call")]
    NobodyKnows,
    #[error("the workflow's rollback cannot be evaluated: {0}")]
    Unbound(String),
}

impl<S: Store> Engine<S> {
    /// What an undo would do. Nothing is changed.
    pub async fn undo_plan(&self, run: &RunKey) -> Result<UndoPlan, EngineError> {
        let loaded = self.load(run).await?;
        if !loaded.record.status.is_terminal() {
            return Err(EngineError::NotFinished { run: run.clone(), status: loaded.record.status });
        }
        let steps = self.retry_busy(|| self.store.steps(run)).await?;
        let mut effects = Vec::new();
        for step in steps.iter().rev().filter(|step| !step.undo) {
            effects.extend(self.undo_effect(&loaded, &steps, step).await?);
        }
        Ok(UndoPlan { run: run.clone(), effects })
    }

    /// Starts a run that undoes `run`, or returns the one that was started before.
    pub async fn undo(&self, run: &RunKey, by: &Initiator) -> Result<StartResult, EngineError> {
        let loaded = self.load(run).await?;
        let undo = self.undo_plan(run).await?;
        let calls: Vec<_> =
            undo.effects.iter().filter_map(|effect| Some((effect.seq, effect.by.as_ref().ok()?))).collect();
        if calls.is_empty() {
            return Err(Refusal::NothingToRollBack.into());
        }
        let plan = undo_workflow(loaded.plan.plan(), &calls)?;
        let undo: Vec<_> = calls.iter().map(|(_, call)| Value::Object(call.with.clone())).collect();
        let key = self.undo_key(run, &plan).await?;
        let request = StartRun {
            tenant: run.tenant.clone(),
            workspace: loaded.record.workspace.clone(),
            plan,
            trigger_kind: "undo".to_owned(),
            record: loaded.record.trigger.record.clone(),
            key,
            input: json!({ "run": run.run, "undo": undo }),
            by: by.clone(),
        };
        self.start(request).await
    }

    /// The key of the undo that is active or has succeeded, or of the next one if the earlier ones failed.
    async fn undo_key(&self, run: &RunKey, plan: &Plan) -> Result<IdempotencyKey, EngineError> {
        for number in 0..UNDOS_MAX {
            let key = IdempotencyKey::new(&format!("undo:{}:{number}", run.run))
                .map_err(|error| EngineError::BadPlan { plan: plan.hash(), why: error.to_string() })?;
            let undo = RunKey { tenant: run.tenant.clone(), run: RunId::derive(&run.tenant, &key) };
            let record = self.retry_busy(|| self.store.load(&undo)).await?;
            let failed =
                |record: &RunRecord| matches!(record.status, RunStatus::FailedTerminal | RunStatus::Canceled);
            if !record.as_ref().is_some_and(failed) {
                return Ok(key);
            }
        }
        Err(Refusal::NothingToRollBack.into())
    }

    async fn undo_effect(
        &self,
        loaded: &Loaded,
        steps: &[StepRecord],
        step: &StepRecord,
    ) -> Result<Option<UndoEffect>, EngineError> {
        let tenant = &loaded.record.key.tenant;
        let (Some(key), Some(planned)) = (&step.receipt, loaded.plan.plan().step(step.seq)) else {
            return Ok(None);
        };
        let Some(receipt) = self.retry_busy(|| self.store.receipt(tenant, key)).await? else {
            return Ok(None);
        };
        let target = receipt.target.clone();
        let by = if steps.iter().any(|other| other.undo && other.seq == step.seq) {
            Err(NotUndoable::Already)
        } else if receipt.run != loaded.record.key.run {
            Err(NotUndoable::AnotherRuns(receipt.run))
        } else if !loaded.record.acted.has(step.seq) {
            Err(NotUndoable::Earlier)
        } else {
            self.undo_call(loaded, step.seq, planned, &receipt).await?
        };
        Ok(Some(UndoEffect { step: planned.id.clone(), seq: step.seq, target, by }))
    }

    async fn undo_call(
        &self,
        loaded: &Loaded,
        seq: StepSeq,
        planned: &PlannedStep,
        receipt: &Receipt,
    ) -> Result<Result<UndoCall, NotUndoable>, EngineError> {
        if let Some(Undo::Call(call)) = &planned.rollback {
            let template = loaded.plan.step(seq).and_then(|step| step.rollback.as_ref());
            let scope = match self.scope(loaded, &mut Memory::default(), &planned.rollback_reads).await {
                Err(error @ EngineError::NoPayload { .. }) => {
                    return Ok(Err(NotUndoable::Unbound(error.to_string())));
                }
                scope => scope?,
            };
            let bound = template.map(|template| template.bind(&scope));
            return Ok(match bound {
                Some(Ok(Value::Object(with))) => Ok(UndoCall { tool: call.tool.clone(), with }),
                Some(Err(error)) => Err(NotUndoable::Unbound(error.to_string())),
                Some(Ok(_)) | None => Err(NotUndoable::NobodyKnows),
            });
        }
        Ok(recorded_inverse(receipt).ok_or(NotUndoable::NobodyKnows))
    }
}

fn recorded_inverse(receipt: &Receipt) -> Option<UndoCall> {
    let ReceiptState::Done { inverse: Some(inverse), .. } = &receipt.state else { return None };
    let tool = ToolName::new(inverse["tool"].as_str()?).ok()?;
    Some(UndoCall { tool, with: inverse["with"].as_object()?.clone() })
}

/// A workflow of these calls, whose fields come with the trigger.
fn undo_workflow(of: &Plan, calls: &[(StepSeq, &UndoCall)]) -> Result<Plan, EngineError> {
    let bad = |why: String| EngineError::BadPlan { plan: of.hash(), why };
    let name: String = format!("undo-{}", of.workflow).chars().take(domain::id::ID_BYTES_MAX).collect();
    let workflow = WorkflowName::new(&name).map_err(|error| bad(error.to_string()))?;
    let mut steps = Vec::with_capacity(calls.len());
    for (index, (seq, call)) in calls.iter().enumerate() {
        let planned = of.step(*seq).ok_or_else(|| bad(format!("it has no step {}", seq.0)))?;
        let mut step = PlannedStep::new(planned.id.clone(), Work::Call(handed_over(index, call)));
        step.blast_radius = planned.blast_radius;
        step.critical = planned.critical;
        step.on_reject = planned.on_reject;
        step.reads.trigger = true;
        steps.push(step);
    }
    Ok(Plan {
        author: of.author.clone(),
        approval_timing: of.approval_timing,
        ..Plan::new(workflow, of.environment, steps)
    })
}

/// The call with its fields read from the trigger, by name.
fn handed_over(index: usize, call: &UndoCall) -> Call {
    let field = |name: &String| {
        let name_in_quotes = Value::String(name.clone()).to_string();
        (name.clone(), Value::String(format!("${{ trigger.undo[{index}][{name_in_quotes}] }}")))
    };
    Call { tool: call.tool.clone(), with: Value::Object(call.with.keys().map(field).collect()) }
}
