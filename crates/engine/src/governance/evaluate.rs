//! Evaluates policy on an action before the step is claimed.
//!
//! The verdict comes from the tenant's current policy. If the policy cannot be evaluated, the verdict is deny.
//! If no thread is free in time, there is no verdict, and the step is retried later.

use domain::command::Assessment;
use domain::validation::{ActionContext, tighten};
use domain::{Action, ActionOrigin, Live, StepSeq};
use serde_json::Value;
use store::Store;

use crate::core::Loaded;
use crate::core::bundles::TenantBundle;
use crate::error::EngineError;
use crate::governance::GovernanceService;
use crate::governance::policy_input;

impl<S: Store> GovernanceService<'_, S> {
    /// The verdict on `action` of the step at `seq`, with the confidence of its proposal in thousandths and the state
    /// that was `found` in the external system.
    pub(crate) async fn assess(
        self,
        loaded: &Loaded,
        seq: StepSeq,
        confidence: Option<u16>,
        (action, origin, found): (&Action, ActionOrigin, Option<Value>),
    ) -> Result<Assessment, EngineError> {
        let tenant = self.tenant(&loaded.record.key.tenant).await?;
        let bundle = self.core.bundle(&tenant, &self.core.verdict_pool).await?;
        let is_built_in = tenant.policy.is_none();
        let more_to_come = policy_input::more_to_come(loaded.plan.plan(), &self.core.tools, seq);
        let (asking, action) = (loaded.clone(), action.clone());
        let evaluate = move |_: &dyn Fn() -> bool| {
            let around = ActionContext {
                plan: asking.plan.plan(),
                record: &asking.record,
                seq,
                caps: &tenant.caps,
                writes_done: writes_done(&asking, seq),
                origin,
                attempt: if seq == asking.record.at { asking.record.live.attempts() } else { 0 },
                may_have_happened: seq == asking.record.at && asking.record.live.may_have_happened(),
                confidence,
                more_to_come,
            };
            let verdict = match (bundle, policy_input::facts(&action, &around)) {
                (TenantBundle::Usable(bundle), Some(facts)) => bundle.evaluate(&facts),
                (TenantBundle::Usable(bundle), None) => {
                    policy::without_bundle(bundle.hash(), "the plan has no such step")
                }
                (TenantBundle::Unusable { hash, why }, _) => policy::without_bundle(hash, &why),
            };
            tighten(verdict, &action, &around)
        };
        // A tenant's policy may take long, and other steps in this process must be able to renew their leases
        // meanwhile. The shipped policy is known to be quick.
        let verdict = if is_built_in {
            evaluate(&|| false)
        } else {
            self.core.verdict_pool.run(&loaded.record.key.tenant, evaluate).await?
        };
        Ok(Assessment { verdict, observed: found })
    }
}

/// How many effects the run will have had when the step at `seq` starts. A step that is prepared while the previous
/// one is still held comes after that one's effect.
fn writes_done(loaded: &Loaded, seq: StepSeq) -> u32 {
    let record = &loaded.record;
    let ending = seq != record.at && matches!(&record.live, Live::Running(lease) if lease.intent.is_some());
    record.effects.done.saturating_add(record.effects.unknown).saturating_add(u32::from(ending))
}
