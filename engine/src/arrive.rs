//! Arrive: what comes in from outside is kept, then taken up.
//!
//! Accepting is two small writes: the arrival, and a message that it is there. Whoever sent it is told that it
//! was accepted only after both, and may send it again if it hears nothing. Taking it up finds the one workflow
//! that wants it and starts its run; done twice, it starts one run.

use std::sync::Arc;

use domain::{
    Applied, Arrival, Cause, Digest, Errand, Fate, IdempotencyKey, Initiator, Lane, Millis, Outgoing, Plan,
    RecordName, Refusal, RunKey, Source, TenantId, WorkflowName, WorkspaceId, json,
};
use serde_json::Value;
use store::{Accepted, Store, Write};
use workflow::CompiledPlan;

use crate::Engine;
use crate::admit::{StartRun, Started};
use crate::error::{EngineError, told};

/// What came, once it is known where from.
#[derive(Debug, Clone, PartialEq)]
pub struct Knock {
    /// For whom.
    pub tenant: TenantId,
    /// Names the request.
    pub key: IdempotencyKey,
    /// Where it comes from.
    pub source: Source,
    /// What it is about: a table, the name of an event.
    pub about: Option<String>,
    /// The record outside that it is about, if it names one.
    pub record: Option<RecordName>,
    /// Stands for what proved where it comes from.
    pub proof: Digest,
    /// What came.
    pub body: Value,
}

/// What was accepted, now or before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Welcome {
    /// The run it starts, if it starts one.
    pub run: RunKey,
    /// Whether it was new.
    pub new: bool,
    /// What has become of it.
    pub fate: Fate,
}

impl<S: Store> Engine<S> {
    /// Keeps what came and sees to it that it is taken up. It is durable when this returns.
    pub async fn accept(&self, knock: Knock) -> Result<Welcome, EngineError> {
        json::check(&knock.body).map_err(|source| EngineError::BadInput { what: "what came", source })?;
        let (body, fingerprint) = self.keep(&knock.tenant, &knock.body).await?;
        let arrival = Arrival {
            run: Arrival::run_of(&knock.tenant, &knock.key),
            key: knock.key,
            source: knock.source,
            about: knock.about,
            record: knock.record,
            proof: knock.proof,
            fingerprint,
            body,
            at: self.now(),
            fate: Fate::Waiting,
        };
        let welcome = match self.patiently(|| self.store.accept(arrival.clone())).await? {
            Accepted::New => Welcome { run: arrival.run, new: true, fate: Fate::Waiting },
            Accepted::Known(known) if known.fingerprint != fingerprint => {
                return Err(Refusal::KeyConflict { run: known.run }.into());
            }
            Accepted::Known(known) => Welcome { run: known.run, new: false, fate: known.fate },
        };
        // Whoever kept it the first time may have died before saying so.
        if welcome.fate == Fate::Waiting {
            let run = welcome.run.clone();
            let message = Outgoing { run, lane: Lane::Ingest, errand: Errand::Begin, delay: Millis(0) };
            self.patiently(|| self.store.send(&message)).await?;
        }
        Ok(welcome)
    }

    /// Takes up what came: starts its run, if a workflow wants it.
    pub async fn begin(&self, run: &RunKey) -> Result<(), EngineError> {
        let arrival = self.patiently(|| self.store.arrival(run)).await?;
        let Some(arrival) = arrival.filter(|arrival| arrival.fate == Fate::Waiting) else { return Ok(()) };
        let came = Arc::new(self.fetch(&run.tenant, &arrival.body).await?);
        let fate = match self.who_wants(&arrival, &came).await? {
            Wanted::By(plan) => self.start_from(&arrival, &plan, &came).await?,
            Wanted::ByNobody => Fate::Unwanted,
            Wanted::Unclear(why) => Fate::refused(&why),
        };
        tracing::info!(%run, source = %arrival.source, ?fate, "an arrival was taken up");
        self.patiently(|| self.store.settle(run, fate.clone())).await?;
        Ok(())
    }

    async fn start_from(
        &self,
        arrival: &Arrival,
        plan: &CompiledPlan,
        came: &Value,
    ) -> Result<Fate, EngineError> {
        let wish = StartRun {
            tenant: arrival.run.tenant.clone(),
            workspace: WorkspaceId::default(),
            plan: plan.plan().clone(),
            trigger_kind: arrival.source.to_string(),
            key: arrival.key.clone(),
            record: arrival.record.clone(),
            input: came.clone(),
            by: Initiator::new(Cause::Webhook, arrival.source.as_str()),
        };
        match self.start(wish).await {
            Ok(Started { new: true, .. }) => Ok(Fate::Begun),
            // Whoever started it the first time may have died before saying so. Nobody would look at the run for
            // minutes then; one message too many finds nothing to do.
            Ok(Started { run, new: false }) => {
                let message = Outgoing { run, lane: Lane::Steps, errand: Errand::Walk, delay: Millis(0) };
                self.patiently(|| self.store.send(&message)).await?;
                Ok(Fate::Begun)
            }
            Err(EngineError::Refused(refusal)) => Ok(Fate::refused(&refusal.to_string())),
            Err(error) => Err(error),
        }
    }

    /// The workflow that wants what came. If two do, nobody may guess.
    async fn who_wants(&self, arrival: &Arrival, came: &Arc<Value>) -> Result<Wanted, EngineError> {
        let tenant = &arrival.run.tenant;
        let applied = self.patiently(|| self.store.applied(tenant)).await?;
        let mut unclear = None;
        let mut wanting: Option<Arc<CompiledPlan>> = None;
        for applied in applied.iter().filter(|applied| is_about(applied, arrival)) {
            let plan = self.plan(tenant, applied.plan).await?;
            match (plan.wants(came), &wanting) {
                (Ok(false), _) => {}
                (Ok(true), None) => wanting = Some(plan),
                (Ok(true), Some(first)) => {
                    let both = (&first.plan().workflow, &applied.workflow);
                    return Ok(Wanted::Unclear(format!("workflows {} and {} both want it", both.0, both.1)));
                }
                (Err(error), _) => {
                    unclear = Some(format!("`when` of workflow {}: {}", applied.workflow, told(&error)));
                }
            }
        }
        Ok(match (wanting, unclear) {
            (Some(plan), _) => Wanted::By(plan),
            (None, Some(why)) => Wanted::Unclear(why),
            (None, None) => Wanted::ByNobody,
        })
    }

    /// Puts a workflow to use: from now on its trigger starts runs of it.
    pub async fn apply(&self, tenant: &TenantId, plan: &Plan, by: Initiator) -> Result<Applied, EngineError> {
        self.keep_plan(tenant, plan).await?;
        let applied = Applied {
            tenant: tenant.clone(),
            workflow: plan.workflow.clone(),
            version: plan.version,
            plan: plan.hash(),
            triggered_by: plan.triggered_by.clone(),
            at: self.now(),
            by,
        };
        match self.patiently(|| self.store.apply(applied.clone())).await? {
            Write::Committed => Ok(applied),
            Write::Superseded => {
                Err(Refusal::NotNewer { workflow: applied.workflow, version: applied.version }.into())
            }
        }
    }

    /// Every version of a workflow that was put to use, the newest first.
    pub async fn versions(
        &self,
        tenant: &TenantId,
        workflow: &WorkflowName,
    ) -> Result<Vec<Applied>, EngineError> {
        Ok(self.patiently(|| self.store.versions(tenant, workflow)).await?)
    }

    /// The workflows in use, by name.
    pub async fn applied(&self, tenant: &TenantId) -> Result<Vec<Applied>, EngineError> {
        Ok(self.patiently(|| self.store.applied(tenant)).await?)
    }
}

/// Who wants what came.
enum Wanted {
    By(Arc<CompiledPlan>),
    ByNobody,
    /// Nobody can say, and why.
    Unclear(String),
}

fn is_about(applied: &Applied, arrival: &Arrival) -> bool {
    applied
        .triggered_by
        .as_ref()
        .is_some_and(|by| by.source == arrival.source && (by.about.is_none() || by.about == arrival.about))
}
