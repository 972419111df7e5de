//! Govern: what policy says about an action, before anybody may take it.
//!
//! The verdict is asked for when a step is about to be taken, from the tenant's policy as it stands then.
//! Whatever keeps policy from answering is a deny.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use domain::command::Governed;
use domain::validation::{Circumstances, thousandths, tighten};
use domain::{Action, ApiKey, Digest, KeyId, Live, StepSeq, Tenant, TenantId};
use policy::Bundle;
use serde_json::Value;
use store::Store;

use crate::binding::Memory;
use crate::error::EngineError;
use crate::{Engine, Loaded, question};

/// A worker serves a few tenants; a bundle takes some hundred kilobytes.
const BUNDLES_MAX: usize = 64;

/// Policies in memory, by hash: what is remembered is never wrong.
#[derive(Default)]
pub(crate) struct Bundles {
    known: Mutex<BTreeMap<Digest, Bundle>>,
}

impl Bundles {
    fn get(&self, hash: &Digest) -> Option<Bundle> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(hash).cloned()
    }

    fn put(&self, bundle: Bundle) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= BUNDLES_MAX {
            known.clear();
        }
        known.insert(bundle.hash(), bundle);
    }
}

impl<S: Store> Engine<S> {
    /// What a tenant has settled; nothing, if it has not said.
    pub async fn tenant(&self, tenant: &TenantId) -> Result<Tenant, EngineError> {
        let settled = self.retry_busy(|| self.store.tenant(tenant)).await?;
        Ok(settled.unwrap_or_else(|| Tenant::new(tenant.clone())))
    }

    /// A key that somebody may prove themselves with.
    pub async fn api_key(&self, tenant: &TenantId, id: &KeyId) -> Result<Option<ApiKey>, EngineError> {
        Ok(self.retry_busy(|| self.store.key(tenant, id)).await?)
    }

    /// What policy says about `action` of the step at `seq`, with what was `found` outside.
    pub(crate) async fn judged(
        &self,
        loaded: &Loaded,
        memory: &mut Memory,
        seq: StepSeq,
        (action, found): (&Action, Option<Value>),
    ) -> Result<Governed, EngineError> {
        let confidence = self.confidence(loaded, memory, seq).await?;
        let tenant = self.tenant(&loaded.record.key.tenant).await?;
        let (bundle, ships) = (self.bundle(&tenant).await?, tenant.policy.is_none());
        let more_to_come = question::more_to_come(loaded.plan.plan(), &self.tools, seq);
        let (asking, action) = (loaded.clone(), action.clone());
        let judge = move |_: &dyn Fn() -> bool| {
            let around = Circumstances {
                plan: asking.plan.plan(),
                record: &asking.record,
                seq,
                caps: &tenant.caps,
                writes_done: writes_done(&asking, seq),
                attempt: if seq == asking.record.at { attempts(&asking.record.live) } else { 0 },
                confidence,
                more_to_come,
            };
            let said = match (bundle, question::facts(&action, &around)) {
                (Ok(bundle), Some(facts)) => bundle.judge(&facts),
                (Ok(bundle), None) => policy::without_bundle(bundle.hash(), "the plan has no such step"),
                (Err((hash, why)), _) => policy::without_bundle(hash, &why),
            };
            tighten(said, &action, &around)
        };
        // Whoever else holds a step here must be able to show that they are alive, however long a tenant's policy thinks.
        // The one that we ship is known to be quick.
        let verdict =
            if ships { judge(&|| false) } else { self.judges.run(&loaded.record.key.tenant, judge).await? };
        Ok(Governed { verdict, found })
    }

    /// The policy that counts for a tenant, or its hash and why it cannot be asked.
    pub async fn bundle(&self, tenant: &Tenant) -> Result<Result<Bundle, (Digest, String)>, EngineError> {
        let Some(hash) = tenant.policy else {
            return Ok(Bundle::shipped().map_err(|error| (Digest::ZERO, error.to_string())));
        };
        if let Some(bundle) = self.bundles.get(&hash) {
            return Ok(Ok(bundle));
        }
        let files = self.retry_busy(|| self.store.policy(&tenant.tenant, &hash)).await?;
        let Some(files) = files else {
            return Ok(Err((hash, format!("the policy {hash} is not in the store"))));
        };
        Ok(match Bundle::parse(files) {
            Ok(bundle) if bundle.hash() == hash => {
                self.bundles.put(bundle.clone());
                Ok(bundle)
            }
            Ok(_) => Err((hash, format!("what the store keeps as policy {hash} is another one"))),
            Err(error) => Err((hash, error.to_string())),
        })
    }

    /// How sure whoever proposed the step is, in thousandths. An expression that gives no number between 0
    /// and 1 means that nobody is sure, and so does one that reads what is kept no more.
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

/// How many attempts there were. An effect that may have happened was attempted, whatever is counted.
fn attempts(live: &Live) -> u32 {
    let open = u32::from(live.open().is_some());
    live.attempt().max(open)
}

/// How many effects the run will have had when the step at `seq` begins. A step that is prepared while the
/// one before it is still held comes after that one's effect.
fn writes_done(loaded: &Loaded, seq: StepSeq) -> u32 {
    let record = &loaded.record;
    let ending = seq != record.at && matches!(&record.live, Live::Running(lease) if lease.intent.is_some());
    record.effects.done.saturating_add(record.effects.unknown).saturating_add(u32::from(ending))
}
