//! Evaluates policy on an action before the step is claimed.
//!
//! The verdict comes from the tenant's current policy. If the policy cannot be evaluated, the verdict is deny.
//! If no thread is free in time, there is no verdict, and the step is retried later.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use domain::command::Assessment;
use domain::validation::{ActionContext, thousandths, tighten};
use domain::{Action, ApiKey, Digest, KeyId, Live, StepSeq, Tenant, TenantId};
use policy::PolicyBundle;
use serde_json::Value;
use store::Store;

use crate::error::EngineError;
use crate::execution::bind::Memory;
use crate::governance::policy_input;
use crate::{Engine, Loaded};

/// A worker serves a few tenants; a bundle takes some hundred kilobytes.
const BUNDLES_MAX: usize = 64;

/// Policies in memory, by hash, so a cached policy is never stale.
#[derive(Default)]
pub(crate) struct Bundles {
    known: Mutex<BTreeMap<Digest, PolicyBundle>>,
}

impl Bundles {
    fn get(&self, hash: &Digest) -> Option<PolicyBundle> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(hash).cloned()
    }

    fn put(&self, bundle: PolicyBundle) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= BUNDLES_MAX {
            known.clear();
        }
        known.insert(bundle.hash(), bundle);
    }
}

impl<S: Store> Engine<S> {
    /// The settings of a tenant; defaults if it has none.
    pub async fn tenant(&self, tenant: &TenantId) -> Result<Tenant, EngineError> {
        let settled = self.retry_busy(|| self.store.tenant(tenant)).await?;
        Ok(settled.unwrap_or_else(|| Tenant::new(tenant.clone())))
    }

    pub async fn api_key(&self, tenant: &TenantId, id: &KeyId) -> Result<Option<ApiKey>, EngineError> {
        Ok(self.retry_busy(|| self.store.key(tenant, id)).await?)
    }

    /// The verdict on `action` of the step at `seq`, with the state that was `found` in the external system.
    pub(crate) async fn assess(
        &self,
        loaded: &Loaded,
        memory: &mut Memory,
        seq: StepSeq,
        (action, found): (&Action, Option<Value>),
    ) -> Result<Assessment, EngineError> {
        let confidence = self.confidence(loaded, memory, seq).await?;
        let tenant = self.tenant(&loaded.record.key.tenant).await?;
        let (bundle, is_built_in) = (self.bundle(&tenant).await?, tenant.policy.is_none());
        let more_to_come = policy_input::more_to_come(loaded.plan.plan(), &self.tools, seq);
        let (asking, action) = (loaded.clone(), action.clone());
        let evaluate = move |_: &dyn Fn() -> bool| {
            let around = ActionContext {
                plan: asking.plan.plan(),
                record: &asking.record,
                seq,
                caps: &tenant.caps,
                writes_done: writes_done(&asking, seq),
                attempt: if seq == asking.record.at { attempts(&asking.record.live) } else { 0 },
                confidence,
                more_to_come,
            };
            let verdict = match (bundle, policy_input::facts(&action, &around)) {
                (Ok(bundle), Some(facts)) => bundle.evaluate(&facts),
                (Ok(bundle), None) => policy::without_bundle(bundle.hash(), "the plan has no such step"),
                (Err((hash, why)), _) => policy::without_bundle(hash, &why),
            };
            tighten(verdict, &action, &around)
        };
        // A tenant's policy may take long, and other steps in this process must be able to renew their leases
        // meanwhile. The shipped policy is known to be quick.
        let verdict = if is_built_in {
            evaluate(&|| false)
        } else {
            self.verdict_pool.run(&loaded.record.key.tenant, evaluate).await?
        };
        Ok(Assessment { verdict, observed: found })
    }

    /// The current policy of a tenant, or its hash and why it cannot be evaluated.
    pub async fn bundle(
        &self,
        tenant: &Tenant,
    ) -> Result<Result<PolicyBundle, (Digest, String)>, EngineError> {
        let Some(hash) = tenant.policy else {
            return Ok(PolicyBundle::built_in().map_err(|error| (Digest::ZERO, error.to_string())));
        };
        if let Some(bundle) = self.bundles.get(&hash) {
            return Ok(Ok(bundle));
        }
        let files = self.retry_busy(|| self.store.policy(&tenant.tenant, &hash)).await?;
        let Some(files) = files else {
            return Ok(Err((hash, format!("policy {hash} is not in the store"))));
        };
        Ok(match PolicyBundle::parse(files) {
            Ok(bundle) if bundle.hash() == hash => {
                self.bundles.put(bundle.clone());
                Ok(bundle)
            }
            Ok(_) => Err((hash, format!("the stored files of policy {hash} have another hash"))),
            Err(error) => Err((hash, error.to_string())),
        })
    }

    /// The confidence of the step's proposal, in thousandths. An expression without a number between 0 and 1 counts
    /// as no confidence, and so does one that reads an expired payload.
    async fn confidence(
        &self,
        loaded: &Loaded,
        memory: &mut Memory,
        seq: StepSeq,
    ) -> Result<Option<u16>, EngineError> {
        let (Some(step), Some(template)) =
            (loaded.plan.plan().step(seq), loaded.plan.step(seq).and_then(|step| step.confidence.as_ref()))
        else {
            return Ok(None);
        };
        let scope = match self.scope(loaded, memory, &step.reads).await {
            Err(EngineError::NoPayload { .. }) => return Ok(None),
            scope => scope?,
        };
        let number = template.bind(&scope).ok().and_then(|value| value.as_number().cloned());
        Ok(number.as_ref().and_then(thousandths))
    }
}

/// The number of attempts. An effect that may have happened counts as attempted.
fn attempts(live: &Live) -> u32 {
    let open = u32::from(live.open().is_some());
    live.attempt().max(open)
}

/// How many effects the run will have had when the step at `seq` starts. A step that is prepared while the previous
/// one is still held comes after that one's effect.
fn writes_done(loaded: &Loaded, seq: StepSeq) -> u32 {
    let record = &loaded.record;
    let ending = seq != record.at && matches!(&record.live, Live::Running(lease) if lease.intent.is_some());
    record.effects.done.saturating_add(record.effects.unknown).saturating_add(u32::from(ending))
}
