//! Starts runs: those requested by name, and those that inbox entries trigger.

use std::sync::Arc;

use domain::inbox::{DEDUPE_TTL, PENDING_MAX};
use domain::payload::Fingerprint;
use domain::{
    AppliedWorkflow, Cause, Digest, InboxEntry, InboxStatus, Inherited, Initiator, Job, Millis, OnConflict,
    Outgoing, PersonId, Plan, QueueName, Refusal, RunKey, Source, StartRequest, WorkflowName, json,
};
use serde_json::Value;
use store::Store;
use workflow::CompiledPlan;

use super::admit::AdmitResult;
use super::concurrency::KeyConflict;
use super::inbox::{AcceptResult, InboundEvent};
use super::request::{StartApplied, StartOutcome, StartResult, StartRun, invalid_input};
use crate::admission::AdmissionService;
use crate::core::AdvanceResult;
use crate::core::journal;
use crate::error::{EngineError, error_chain};
use crate::tenant_handle::TenantHandle;

impl StartRun {
    /// The request as an event, to be stored while it waits or to recognize a duplicate.
    fn into_event(self) -> InboundEvent {
        let start_request = StartRequest {
            plan: self.plan.hash(),
            workspace: Some(self.workspace),
            trigger_kind: self.trigger_kind,
            by: self.by,
            applied_by: self.applied_by,
        };
        let parts = [self.tenant.as_str(), self.key.as_str()];
        InboundEvent {
            proof: Digest::of_parts("countersign/start-request/v1", &parts),
            tenant: self.tenant,
            key: self.key,
            source: Source::Api,
            topic: None,
            record: self.record,
            dedupe_key: None,
            body: self.input,
            start_request: Some(start_request),
        }
    }

    fn conflict(&self, run: RunKey) -> Refusal {
        Refusal::ConcurrencyConflict { run, workflow: self.plan.workflow.clone() }
    }
}

/// The workflow that an entry triggers.
enum Match {
    One(Arc<CompiledPlan>, Option<PersonId>),
    None,
    /// More than one, or a `when` that cannot be evaluated.
    Unclear(String),
}

impl<S: Store> TenantHandle<S> {
    /// Starts a run of an applied workflow, or returns the one that the same request started before.
    pub async fn start(
        &self,
        workflow: &WorkflowName,
        request: StartApplied,
    ) -> Result<StartResult, EngineError> {
        let StartApplied { key, trigger_kind, workspace, record, input } = request;
        let (applied, plan) = self.applied(workflow).await?;
        let workspace =
            plan.plan().workspace_of_run(workspace.as_ref()).ok_or_else(|| EngineError::OtherWorkspace {
                workflow: workflow.clone(),
                workspace: plan.plan().workspace.clone().unwrap_or_default(),
            })?;
        let request = StartRun {
            tenant: self.tenant.clone(),
            workspace,
            plan: plan.plan().clone(),
            trigger_kind: trigger_kind.to_owned(),
            record,
            key,
            input,
            by: self.by.clone(),
            applied_by: applied.applied_by(),
            inherited: Inherited::default(),
        };
        AdmissionService::new(&self.core).start(request).await
    }
}

impl<S: Store> AdmissionService<'_, S> {
    /// Starts a run, or finds the one that the same request started before. If another run holds the concurrency key, the
    /// request joins it, waits, or is rejected.
    pub async fn start(self, request: StartRun) -> Result<StartResult, EngineError> {
        if let Some(joined) = self.joined_before(&request).await? {
            journal::log_duplicate(&joined.run, &request.trigger_kind);
            return Ok(joined);
        }
        let by = match Box::pin(self.admit(&request, self.core.now())).await? {
            AdmitResult::Started(started) => {
                if !started.new {
                    journal::log_duplicate(&started.run, &request.trigger_kind);
                }
                return Ok(started);
            }
            AdmitResult::Conflict(conflict) => conflict.by,
        };
        match self.on_conflict(&request.plan, &by).await? {
            OnConflict::Join => self.join(request, by).await,
            OnConflict::Reject => Err(request.conflict(by).into()),
            OnConflict::Queue => self.wait_for(request, by).await,
        }
    }

    /// The run that the same request joined before. A key that an entry with other content uses is a conflict.
    async fn joined_before(self, request: &StartRun) -> Result<Option<StartResult>, EngineError> {
        let run = InboxEntry::run_of(&request.tenant, &request.key);
        let Some(entry) = self.core.retry_busy(|store| store.entry(&run)).await? else { return Ok(None) };
        json::check(&request.input).map_err(invalid_input)?;
        let same = entry.fingerprint == Fingerprint::of(&request.input)
            && entry.record == request.record
            && self.requests_workflow(&entry, &request.plan).await?;
        if !same {
            return Err(Refusal::KeyConflict { run }.into());
        }
        let InboxStatus::Joined { run: other } = entry.status else { return Ok(None) };
        // Of two concurrent requests, one may have joined while the other found the key free. Then its own run counts.
        let own = self.core.retry_busy(|store| store.load(&run)).await?;
        Ok(own.is_none().then(|| StartResult::joined(RunKey { run: other, ..run })))
    }

    /// Whether an entry requests this workflow, in any version.
    async fn requests_workflow(self, entry: &InboxEntry, plan: &Plan) -> Result<bool, EngineError> {
        match &entry.start_request {
            Some(request) if request.plan != plan.hash() => {
                let requested = self.core.plan(&entry.run.tenant, request.plan).await?;
                Ok(requested.plan().workflow == plan.workflow)
            }
            _ => Ok(true),
        }
    }

    /// Answers with the run that holds the concurrency key, and stores that answer: the same request gets the same run
    /// again, also after that run has ended.
    async fn join(self, request: StartRun, by: RunKey) -> Result<StartResult, EngineError> {
        let status = InboxStatus::Joined { run: by.run.clone() };
        let AcceptResult { run, status: current, .. } =
            self.store_event(request.into_event(), status.clone()).await?;
        match current {
            // A concurrent duplicate may have joined another run first.
            InboxStatus::Joined { run } => Ok(StartResult::joined(RunKey { run, ..by })),
            InboxStatus::Started => Ok(StartResult { run, new: false, outcome: StartOutcome::OwnRun }),
            InboxStatus::Pending | InboxStatus::Unmatched { .. } | InboxStatus::Rejected { .. } => {
                // It waited under an earlier version of the workflow.
                let forget_at = self.core.now() + DEDUPE_TTL;
                self.core.retry_busy(|store| store.set_status(&run, status.clone(), forget_at)).await?;
                Ok(StartResult::joined(by))
            }
        }
    }

    /// Stores the request until its concurrency key is free.
    async fn wait_for(self, request: StartRun, by: RunKey) -> Result<StartResult, EngineError> {
        let AcceptResult { run, new, status } = self.accept(request.into_event()).await?;
        match status {
            InboxStatus::Rejected { reason, .. } => Err(Refusal::NotStarted { run, why: reason }.into()),
            InboxStatus::Pending
            | InboxStatus::Started
            | InboxStatus::Joined { .. }
            | InboxStatus::Unmatched { .. } => {
                Ok(StartResult { run, new, outcome: StartOutcome::WaitsFor(by) })
            }
        }
    }

    /// Processes a pending inbox entry: starts its run, if a workflow matches and its concurrency key is free.
    pub async fn process_entry(self, run: &RunKey) -> Result<AdvanceResult, EngineError> {
        let entry = self.core.retry_busy(|store| store.entry(run)).await?;
        let pending = entry.filter(|entry| entry.status == InboxStatus::Pending);
        let Some(entry) = pending else { return Ok(AdvanceResult::Done) };
        let event = Arc::new(self.core.payload(&run.tenant, &entry.body).await?);
        let workflow = match &entry.start_request {
            Some(request) => {
                Match::One(self.core.plan(&run.tenant, request.plan).await?, request.applied_by.clone())
            }
            None => self.matching_workflow(&entry, &event).await?,
        };
        match workflow {
            Match::One(plan, applied_by) => {
                let request = request(&entry, &plan, &event, applied_by);
                let (status, new) = self.start_entry(&entry, &request).await?;
                // An entry that waits for its key stays pending.
                if status != InboxStatus::Pending {
                    self.finish_entry(&entry, status).await?;
                    // One that does not take the key may have been the first waiter for it.
                    if !new {
                        self.wake_next(run, &request.plan, &event).await?;
                    }
                }
            }
            Match::None => self.finish_entry(&entry, InboxStatus::Unmatched { at: self.core.now() }).await?,
            Match::Unclear(why) => {
                self.finish_entry(&entry, InboxStatus::rejected(&why, self.core.now())).await?;
            }
        }
        Ok(AdvanceResult::Done)
    }

    async fn finish_entry(self, entry: &InboxEntry, status: InboxStatus) -> Result<(), EngineError> {
        journal::log_entry_processed(&entry.run, entry.source, &status);
        let forget_at = self.core.now() + entry.source.dedupe_ttl();
        self.core.retry_busy(|store| store.set_status(&entry.run, status.clone(), forget_at)).await?;
        Ok(())
    }

    /// Starts the run of an entry. Returns the status of the entry, and whether the run is new.
    async fn start_entry(
        self,
        entry: &InboxEntry,
        request: &StartRun,
    ) -> Result<(InboxStatus, bool), EngineError> {
        let status = match self.admit(request, entry.at).await {
            Ok(AdmitResult::Started(StartResult { new: true, .. })) => {
                return Ok((InboxStatus::Started, true));
            }
            Ok(AdmitResult::Started(StartResult { run, .. })) => self.announce_started(run).await?,
            Ok(AdmitResult::Conflict(conflict)) => self.resolve_conflict(entry, request, conflict).await?,
            // The run was started before its entry could be updated, and another workflow matches the event by now.
            Err(EngineError::Refused(Refusal::KeyConflict { run }))
                if self.is_started_by(&run, entry).await? =>
            {
                self.announce_started(run).await?
            }
            Err(EngineError::Refused(refusal)) => {
                InboxStatus::rejected(&refusal.to_string(), self.core.now())
            }
            Err(error) => return Err(error),
        };
        Ok((status, false))
    }

    /// The status of an entry whose concurrency key is held.
    async fn resolve_conflict(
        self,
        entry: &InboxEntry,
        request: &StartRun,
        conflict: KeyConflict,
    ) -> Result<InboxStatus, EngineError> {
        let by = conflict.by.clone();
        match self.on_conflict(&request.plan, &by).await? {
            OnConflict::Join => Ok(InboxStatus::Joined { run: by.run }),
            OnConflict::Queue if self.core.now() < entry.at + PENDING_MAX => {
                self.add_to_wait_queue(entry, conflict).await?;
                Ok(InboxStatus::Pending)
            }
            OnConflict::Queue | OnConflict::Reject => {
                Ok(InboxStatus::rejected(&request.conflict(by).to_string(), self.core.now()))
            }
        }
    }

    /// Sends the first message of a run that was started before. The process that started it may have died before it
    /// sent one; a message too many finds nothing to do.
    async fn announce_started(self, run: RunKey) -> Result<InboxStatus, EngineError> {
        let message = Outgoing { run, queue: QueueName::Steps, job: Job::Advance, delay: Millis(0) };
        self.core.retry_busy(|store| store.send(&message)).await?;
        Ok(InboxStatus::Started)
    }

    /// Whether `entry` started `run`. A run requested by name has one workflow, so no other can match it later.
    async fn is_started_by(self, run: &RunKey, entry: &InboxEntry) -> Result<bool, EngineError> {
        if entry.start_request.is_some() {
            return Ok(false);
        }
        let started = self.core.retry_busy(|store| store.load(run)).await?;
        Ok(started.is_some_and(|run| run.trigger.input == entry.fingerprint.sha256))
    }

    /// The one workflow whose trigger matches the event.
    async fn matching_workflow(self, entry: &InboxEntry, event: &Arc<Value>) -> Result<Match, EngineError> {
        let tenant = &entry.run.tenant;
        let applied = self.core.retry_busy(|store| store.applied(tenant)).await?;
        let mut unclear = None;
        let mut matching: Option<(Arc<CompiledPlan>, Option<PersonId>)> = None;
        for applied in applied.iter().filter(|applied| matches_source(applied, entry)) {
            let plan = self.core.plan(tenant, applied.plan).await?;
            // A tenant may have many workflows: other tasks run in between.
            tokio::task::yield_now().await;
            match (plan.matches(event), &matching) {
                (Ok(false), _) => {}
                (Ok(true), None) => matching = Some((plan, applied.applied_by())),
                (Ok(true), Some((first, _))) => {
                    let both = (&first.plan().workflow, &applied.workflow);
                    return Ok(Match::Unclear(format!("workflows {} and {} both match it", both.0, both.1)));
                }
                (Err(error), _) => {
                    unclear =
                        Some(format!("`when` of workflow {}: {}", applied.workflow, error_chain(&error)));
                }
            }
        }
        Ok(match (matching, unclear) {
            (Some((plan, applied_by)), _) => Match::One(plan, applied_by),
            (None, Some(why)) => Match::Unclear(why),
            (None, None) => Match::None,
        })
    }
}

/// The run that an entry starts.
fn request(entry: &InboxEntry, plan: &CompiledPlan, event: &Value, applied_by: Option<PersonId>) -> StartRun {
    let source = entry.source.as_str();
    let start = entry.start_request.clone().unwrap_or_else(|| StartRequest {
        plan: plan.plan().hash(),
        workspace: None,
        trigger_kind: source.to_owned(),
        by: Initiator::new(Cause::Webhook, source),
        applied_by,
    });
    StartRun {
        tenant: entry.run.tenant.clone(),
        // A request that names another workspace than the workflow was refused.
        workspace: plan.plan().workspace_of_run(start.workspace.as_ref()).unwrap_or_default(),
        plan: plan.plan().clone(),
        trigger_kind: start.trigger_kind,
        key: entry.key.clone(),
        record: entry.record.clone(),
        input: event.clone(),
        by: start.by,
        applied_by: start.applied_by,
        inherited: Inherited::default(),
    }
}

fn matches_source(applied: &AppliedWorkflow, entry: &InboxEntry) -> bool {
    applied
        .triggered_by
        .as_ref()
        .is_some_and(|by| by.source == entry.source && (by.topic.is_none() || by.topic == entry.topic))
}

#[cfg(test)]
pub(super) mod tests {
    use connectors::HostAllowList;
    use serde_json::json;
    use store::{SqliteOptions, SqliteStore, SystemClock};

    use super::*;
    use crate::{ConnectionParts, Engine, EngineParts, Timing};

    pub(in crate::admission) fn engine() -> Engine<SqliteStore> {
        Engine::new(EngineParts {
            store: Arc::new(SqliteStore::memory(SqliteOptions::default()).unwrap()),
            tools: connectors::standard_tools(HostAllowList::default()),
            connections: ConnectionParts::default(),
            clock: Arc::new(SystemClock),
            me: "w".parse().unwrap(),
            timing: Timing::default(),
            notifier: None,
            evidence_signer: None,
        })
    }

    pub(in crate::admission) fn request() -> StartRun {
        let source = "workflow: w\nversion: 1\nsteps:\n  - { id: a, tool: transform }\n";
        StartRun {
            tenant: "acme".parse().unwrap(),
            workspace: domain::WorkspaceId::default(),
            plan: workflow::parse(source, &["transform".parse().unwrap()].into()).unwrap(),
            trigger_kind: "test".to_owned(),
            record: None,
            key: "k".parse().unwrap(),
            input: json!({}),
            by: Initiator::new(Cause::User, "ada"),
            applied_by: None,
            inherited: Inherited::default(),
        }
    }
}
