//! Undo: the effects of an ended run are reversed by another run, made from its receipts.
//!
//! An ended run never changes, so the undo is a run of its own: newest effect first, each an action with its own
//! verdict, approval and receipt, and evidence at the end. The fields of the calls are passed as data, never as text
//! that could be read as an expression.

use std::collections::BTreeSet;

use domain::plan::{Call, PlannedStep, Undo, Work};
use domain::receipt::ReceiptState;
use domain::record::{Effects, Rejection, UNDO_TRIGGER};
use domain::{
    Approval, ConnectionName, IdempotencyKey, Inherited, Plan, Receipt, Refusal, Reversibility, RunId,
    RunKey, RunRecord, RunStatus, StepId, StepRecord, StepSeq, StepStatus, ToolName, WorkflowName,
};
use futures_util::stream::{self, StreamExt as _};
use serde_json::{Map, Value, json};
use store::Store;

use crate::admission::{AdmissionService, StartOutcome, StartResult, StartRun};
use crate::core::LoadedRun;
use crate::error::EngineError;
use crate::execution::ExecutionService;
use crate::execution::bind::RunCache;
use crate::operations::OperationsService;
use crate::tenant_handle::TenantHandle;

/// How many earlier undos are read at a time.
const UNDO_READS_MAX: usize = 32;

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
    pub connection: Option<ConnectionName>,
    pub with: Map<String, Value>,
}

/// Why an effect is not undone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotUndoable {
    #[error("already rolled back")]
    AlreadyRolledBack,
    #[error("performed by run {0}; this run reused its receipt")]
    PerformedByOtherRun(RunId),
    #[error("the effect changed nothing")]
    ChangedNothing,
    #[error("performed by an earlier step; this step reused its receipt")]
    SameAsEarlierStep,
    #[error("neither its receipt nor the workflow has an inverse call")]
    NoInverse,
    #[error("the workflow's rollback cannot be evaluated: {0}")]
    InvalidRollback(String),
}

/// The undos of a run that were started before.
struct EarlierUndos {
    /// The steps whose effect a failed undo has undone.
    done: BTreeSet<StepId>,
    /// The undo that is active or has succeeded.
    current: Option<RunKey>,
    /// The key of the next undo.
    next: IdempotencyKey,
    /// The last rejection of an action of a failed or canceled undo.
    rejected: Option<Rejection>,
}

/// Why there is no call that undoes an effect.
enum UndoCallError {
    NotUndoable(NotUndoable),
    /// What the call is computed from could not be read.
    Failed(EngineError),
}

impl From<NotUndoable> for UndoCallError {
    fn from(why: NotUndoable) -> Self {
        Self::NotUndoable(why)
    }
}

impl From<EngineError> for UndoCallError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::NoPayload { .. } => NotUndoable::InvalidRollback(error.to_string()).into(),
            error => Self::Failed(error),
        }
    }
}

impl<S: Store> TenantHandle<S> {
    /// What an undo would do. Nothing is changed.
    pub async fn undo_plan(&self, run: &RunId) -> Result<UndoPlan, EngineError> {
        let loaded = self.explain_missing_run(self.core.load(&self.key(run)).await).await?;
        let earlier = self.earlier_undos(run).await?;
        let effects = self.undo_effects(&loaded, &earlier.done).await?;
        Ok(UndoPlan { run: loaded.record.key, effects })
    }

    /// Starts a run that undoes `run`, or returns the one that was started before, unless it failed.
    pub async fn undo(&self, run: &RunId) -> Result<StartResult, EngineError> {
        let loaded = self.explain_missing_run(self.core.load(&self.key(run)).await).await?;
        let EarlierUndos { done, current, next: key, rejected: earlier } = self.earlier_undos(run).await?;
        if let Some(run) = current {
            return Ok(StartResult { run, new: false, outcome: StartOutcome::OwnRun });
        }
        let effects = self.undo_effects(&loaded, &done).await?;
        let calls: Vec<_> =
            effects.iter().filter_map(|effect| Some((effect.seq, effect.by.as_ref().ok()?))).collect();
        if calls.is_empty() {
            return Err(Refusal::NothingToRollBack.into());
        }
        let undo: Vec<_> = calls.iter().map(|(_, call)| Value::Object(call.with.clone())).collect();
        let request = StartRun {
            tenant: self.tenant.clone(),
            workspace: loaded.record.workspace.clone(),
            plan: undo_workflow(loaded.plan.plan(), &calls)?,
            trigger_kind: UNDO_TRIGGER.to_owned(),
            record: loaded.record.trigger.record.clone(),
            key,
            input: json!({ "run": run, "undo": undo }),
            by: self.by.clone(),
            applied_by: loaded.record.trigger.applied_by.clone(),
            inherited: Inherited {
                participants: loaded.record.all_participants(loaded.plan.plan().author.as_ref()),
                rejected: self.last_rejection(&loaded.record, earlier).await?,
            },
        };
        AdmissionService::new(&self.core).start(request).await
    }

    /// The undos of `run` that were started before. Their number is not limited: otherwise a user could start and cancel
    /// undos until the run cannot be undone any more.
    async fn earlier_undos(&self, run: &RunId) -> Result<EarlierUndos, EngineError> {
        let (mut done, mut rejected) = (BTreeSet::new(), None);
        let (mut first, mut count) = (0, 1);
        loop {
            let mut records = stream::iter(first..first + count)
                .map(|number| self.undo_run(run, number))
                .buffered(UNDO_READS_MAX);
            while let Some(read) = records.next().await {
                let (next, undo, record) = read?;
                let Some(record) = record else {
                    return Ok(EarlierUndos { done, current: None, next, rejected });
                };
                if !matches!(record.status, RunStatus::FailedTerminal | RunStatus::Canceled) {
                    return Ok(EarlierUndos { done, current: Some(undo), next, rejected });
                }
                if record.effects != Effects::default() {
                    done.extend(self.steps_done(&record).await?);
                }
                rejected = self.last_rejection(&record, rejected).await?;
            }
            (first, count) = (first + count, (count * 2).min(UNDO_READS_MAX));
        }
    }

    /// The last rejection of an action of an undo, or of a rollback in another run; `earlier` if there is none.
    async fn last_rejection(
        &self,
        record: &RunRecord,
        earlier: Option<Rejection>,
    ) -> Result<Option<Rejection>, EngineError> {
        let is_undo = record.undone_run().is_some();
        let approvals = OperationsService::new(&self.core).approvals_of(record).await?;
        let rejections = approvals.iter().filter(|approval| is_undo || approval.rollback);
        let rejections = rejections.filter_map(Approval::rejection);
        Ok(rejections.chain(earlier).max_by_key(|rejection| rejection.at))
    }

    /// The key and the name of the undo with this number, and its record if it was started.
    async fn undo_run(
        &self,
        run: &RunId,
        number: usize,
    ) -> Result<(IdempotencyKey, RunKey, Option<RunRecord>), EngineError> {
        let key = IdempotencyKey::new(&format!("undo:{run}:{number}"))
            .map_err(|_| EngineError::NoRun { run: self.key(run) })?;
        let undo = self.key(&RunId::derive(&self.tenant, &key));
        let record = self.core.retry_busy(|store| store.load(&undo)).await?;
        Ok((key, undo, record))
    }

    /// The steps that an ended undo performed.
    async fn steps_done(&self, undo: &RunRecord) -> Result<Vec<StepId>, EngineError> {
        let plan = self.core.plan(&self.tenant, undo.plan).await?;
        let steps = self.core.retry_busy(|store| store.steps(&undo.key)).await?;
        let done = steps.iter().filter(|step| step.status == StepStatus::Succeeded && !step.rollback);
        Ok(done.filter_map(|step| Some(plan.plan().step(step.seq)?.id.clone())).collect())
    }

    /// The effects of an ended run, newest first.
    async fn undo_effects(
        &self,
        loaded: &LoadedRun,
        done: &BTreeSet<StepId>,
    ) -> Result<Vec<UndoEffect>, EngineError> {
        let run = &loaded.record.key;
        if !loaded.record.status.is_terminal() {
            return Err(EngineError::NotFinished { run: run.clone(), status: loaded.record.status });
        }
        let steps = self.core.retry_busy(|store| store.steps(run)).await?;
        let mut effects = Vec::new();
        for step in steps.iter().rev().filter(|step| !step.rollback) {
            effects.extend(self.undo_effect(loaded, &steps, (step, done)).await?);
        }
        Ok(effects)
    }

    async fn undo_effect(
        &self,
        loaded: &LoadedRun,
        steps: &[StepRecord],
        (step, done): (&StepRecord, &BTreeSet<StepId>),
    ) -> Result<Option<UndoEffect>, EngineError> {
        let (Some(key), Some(planned)) = (&step.receipt, loaded.plan.plan().step(step.seq)) else {
            return Ok(None);
        };
        let Some(receipt) = self.core.retry_busy(|store| store.receipt(&self.tenant, key)).await? else {
            return Ok(None);
        };
        let target = receipt.target.clone();
        let rolled_back = steps.iter().any(|other| other.rollback && other.seq == step.seq);
        let by = if rolled_back || done.contains(&planned.id) {
            Err(NotUndoable::AlreadyRolledBack)
        } else if receipt.run != loaded.record.key.run {
            Err(NotUndoable::PerformedByOtherRun(receipt.run))
        } else if receipt.reversibility == Reversibility::NoEffect {
            Err(NotUndoable::ChangedNothing)
        } else if !loaded.record.acted.has(step.seq) {
            Err(NotUndoable::SameAsEarlierStep)
        } else {
            match self.undo_call(loaded, step.seq, planned, &receipt).await {
                Ok(call) => Ok(call),
                Err(UndoCallError::NotUndoable(why)) => Err(why),
                Err(UndoCallError::Failed(error)) => return Err(error),
            }
        };
        Ok(Some(UndoEffect { step: planned.id.clone(), seq: step.seq, target, by }))
    }

    async fn undo_call(
        &self,
        loaded: &LoadedRun,
        seq: StepSeq,
        planned: &PlannedStep,
        receipt: &Receipt,
    ) -> Result<UndoCall, UndoCallError> {
        let Some(Undo::Call(call)) = &planned.rollback else {
            return Ok(recorded_inverse(receipt).ok_or(NotUndoable::NoInverse)?);
        };
        let template = loaded.plan.step(seq).and_then(|step| step.rollback.as_ref());
        let reads = &planned.rollback_reads;
        let scope = ExecutionService::new(&self.core).scope(loaded, &mut RunCache::default(), reads).await?;
        match template.map(|template| template.bind(&scope)) {
            Some(Ok(Value::Object(with))) => {
                Ok(UndoCall { tool: call.tool.clone(), connection: call.connection.clone(), with })
            }
            Some(Err(error)) => Err(NotUndoable::InvalidRollback(error.to_string()).into()),
            Some(Ok(_)) | None => Err(NotUndoable::NoInverse.into()),
        }
    }
}

fn recorded_inverse(receipt: &Receipt) -> Option<UndoCall> {
    let ReceiptState::Done { inverse: Some(inverse), .. } = &receipt.state else { return None };
    let tool = ToolName::new(inverse["tool"].as_str()?).ok()?;
    let connection = inverse["connection"].as_str().and_then(|name| ConnectionName::new(name).ok());
    Some(UndoCall { tool, connection, with: inverse["with"].as_object()?.clone() })
}

/// A workflow of these calls, whose fields come with the trigger.
fn undo_workflow(plan: &Plan, calls: &[(StepSeq, &UndoCall)]) -> Result<Plan, EngineError> {
    let bad = |why: String| EngineError::BadPlan { plan: plan.hash(), why };
    let name: String = format!("undo-{}", plan.workflow).chars().take(domain::id::ID_BYTES_MAX).collect();
    let workflow = WorkflowName::new(&name).map_err(|error| bad(error.to_string()))?;
    let mut steps = Vec::with_capacity(calls.len());
    for (index, (seq, call)) in calls.iter().enumerate() {
        let planned = plan.step(*seq).ok_or_else(|| bad(format!("it has no step {}", seq.0)))?;
        let mut step = PlannedStep::new(planned.id.clone(), Work::Call(call_from_trigger(index, call)));
        step.blast_radius = planned.blast_radius;
        step.critical = planned.critical;
        step.on_reject = planned.on_reject;
        step.reads.trigger = true;
        steps.push(step);
    }
    Ok(Plan {
        author: plan.author.clone(),
        approval_timing: plan.approval_timing,
        ..Plan::new(workflow, plan.environment, steps)
    })
}

/// The call with its fields read from the trigger, by name.
fn call_from_trigger(index: usize, call: &UndoCall) -> Call {
    let field = |name: &String| {
        let quoted = Value::String(name.clone()).to_string();
        (name.clone(), Value::String(format!("${{ trigger.undo[{index}][{quoted}] }}")))
    };
    let UndoCall { tool, connection, with } = call;
    let with = Value::Object(with.keys().map(field).collect());
    Call { tool: tool.clone(), connection: connection.clone(), with }
}
