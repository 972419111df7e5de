//! Evaluates policy on an action before the step is claimed.
//!
//! The verdict comes from the tenant's current policy. If the policy cannot be evaluated, the verdict is deny.
//! If no thread is free in time, there is no verdict, and the step is retried later.

use std::sync::Arc;

use domain::approval::possible_approvers;
use domain::command::PolicyEvaluation;
use domain::validation::{ActionContext, tighten};
use domain::{Action, ActionOrigin, Ruling, StepSeq, StepState, Tenant, Verdict};
use policy::VerdictCache;
use serde_json::Value;
use store::Store;

use crate::core::LoadedRun;
use crate::core::bundles::TenantBundle;
use crate::error::EngineError;
use crate::governance::GovernanceService;
use crate::governance::policy_input;

/// What a verdict depends on besides the run and the action.
struct PolicyQuestion {
    bundle: TenantBundle,
    tenant: Arc<Tenant>,
    seq: StepSeq,
    origin: ActionOrigin,
    confidence: Option<u16>,
    has_later_effect: bool,
}

impl<S: Store> GovernanceService<'_, S> {
    /// The verdict on `action` of the step at `seq` under the policy of `tenant`, with the confidence of its proposal in
    /// thousandths and the state `observed` in the external system.
    pub(crate) async fn assess(
        self,
        loaded: &LoadedRun,
        seq: StepSeq,
        (confidence, tenant): (Option<u16>, Tenant),
        (action, origin, observed): (&Action, ActionOrigin, Option<Value>),
    ) -> Result<PolicyEvaluation, EngineError> {
        let bundle = self.core.bundle(&tenant, &self.core.verdict_pool).await?;
        let has_later_effect = policy_input::has_later_effect(loaded.plan.plan(), &self.core.tools, seq);
        let tenant = Arc::new(tenant);
        let directory = Arc::clone(&tenant);
        let question = PolicyQuestion { bundle, tenant, seq, origin, confidence, has_later_effect };
        let verdict = if let Some(verdict) = question.quick_verdict(&self.core.verdicts, loaded, action) {
            verdict
        } else {
            // Other steps in this process must be able to renew their leases meanwhile.
            let (run, action, verdicts) = (loaded.clone(), action.clone(), Arc::clone(&self.core.verdicts));
            let evaluate = move |_: &dyn Fn() -> bool| question.verdict(&verdicts, &run, &action);
            self.core.verdict_pool.run(&loaded.record.key.tenant, evaluate).await?
        };
        warn_without_approvers(loaded, &verdict, &directory);
        Ok(PolicyEvaluation { verdict, observed })
    }
}

/// Logs that the directory has too few users who may approve the action. Its run waits until an admin adds one.
fn warn_without_approvers(loaded: &LoadedRun, verdict: &Verdict, tenant: &Tenant) {
    let Ruling::NeedsApproval(requirement) = &verdict.ruling else { return };
    let (run, needed) = (&loaded.record.key, requirement.people.count());
    let excluded = loaded.record.all_participants(loaded.plan.plan().author.as_ref());
    let possible = possible_approvers(requirement, &excluded, tenant);
    if loaded.approval.is_none() && possible.is_some_and(|possible| possible < needed) {
        tracing::warn!(
            event = "approval_without_approvers", %run, needed, possible,
            "too few users of the directory may approve; add a user or a group member"
        );
    }
}

impl PolicyQuestion {
    /// The verdict, unless it needs an evaluation of a policy of the tenant's own, which may take long. The default
    /// policy is known to be quick.
    fn quick_verdict(&self, verdicts: &VerdictCache, loaded: &LoadedRun, action: &Action) -> Option<Verdict> {
        let bundle = match &self.bundle {
            TenantBundle::Usable(bundle) if self.tenant.policy.is_some() => bundle,
            TenantBundle::Usable(_) | TenantBundle::Unusable { .. } => {
                return Some(self.verdict(verdicts, loaded, action));
            }
        };
        let context = self.context(loaded);
        let verdict = verdicts.get(bundle, &policy_input::facts(action, &context)?)?;
        Some(tighten(verdict, action, &context))
    }

    fn verdict(&self, verdicts: &VerdictCache, loaded: &LoadedRun, action: &Action) -> Verdict {
        let context = self.context(loaded);
        let verdict = match (&self.bundle, policy_input::facts(action, &context)) {
            (TenantBundle::Usable(bundle), Some(facts)) => verdicts.evaluate(bundle, &facts),
            (TenantBundle::Usable(bundle), None) => {
                policy::without_bundle(bundle.hash(), "the plan has no such step")
            }
            (TenantBundle::Unusable { hash, why }, _) => policy::without_bundle(*hash, why),
        };
        tighten(verdict, action, &context)
    }

    fn context<'a>(&'a self, loaded: &'a LoadedRun) -> ActionContext<'a> {
        let record = &loaded.record;
        ActionContext {
            plan: loaded.plan.plan(),
            record,
            seq: self.seq,
            caps: &self.tenant.caps,
            writes_done: writes_done(loaded, self.seq),
            origin: self.origin,
            attempt: if self.seq == record.at { record.step_state.attempts() } else { 0 },
            may_have_happened: self.seq == record.at && record.step_state.may_have_happened(),
            confidence: self.confidence,
            has_later_effect: self.has_later_effect,
        }
    }
}

/// How many effects the run will have had when the step at `seq` starts. A step that is prepared while the previous
/// step runs counts the effect of the previous step.
fn writes_done(loaded: &LoadedRun, seq: StepSeq) -> u32 {
    let record = &loaded.record;
    let ending =
        seq != record.at && matches!(&record.step_state, StepState::Running(lease) if lease.intent.is_some());
    record.effects.done.saturating_add(record.effects.unknown).saturating_add(u32::from(ending))
}
