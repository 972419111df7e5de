//! Arrive: what comes in from outside is kept, then taken up.
//!
//! Accepting is two small writes: the entry, and a message that it is there. Whoever sent it is told that it
//! was accepted only after both, and may send it again if it hears nothing. Taking it up finds the one workflow
//! that wants it and starts its run; done twice, it starts one run.

use std::sync::Arc;

use domain::inbox::WAITING_MAX;
use domain::{
    Applied, Asked, Cause, Digest, IdempotencyKey, InboxEntry, InboxStatus, Initiator, Job, Millis, Outgoing,
    Plan, QueueName, RecordName, Refusal, RunKey, Source, TenantId, Timestamp, WhenTaken, WorkflowName,
    WorkspaceId, json,
};
use serde_json::Value;
use store::{Accepted, Again, Store, Write};
use workflow::CompiledPlan;

use crate::Engine;
use crate::admit::{StartRun, Started, Tried};
use crate::advance::AdvanceResult;
use crate::error::{EngineError, told};
use crate::journal;

/// How long before an entry the message goes that it is there, for somebody who may be cut off in between: longer than
/// anybody who may be waits.
const AHEAD: Millis = Millis::secs(10);

/// How soon an entry whose ticket is taken is looked at again. Runs are over in seconds, or in hours.
const LOOK_AGAIN_MIN: Millis = Millis::secs(1);
const LOOK_AGAIN_MAX: Millis = Millis::secs(60);

/// What came, once it is known where from.
#[derive(Debug, Clone, PartialEq)]
pub struct InboundEvent {
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
    /// Stands for what it tells, where the same may be told twice in other words.
    pub dedupe_key: Option<Digest>,
    /// What came.
    pub body: Value,
    /// What is asked for by name; otherwise the workflow that wants it is looked for.
    pub asked: Option<Asked>,
}

/// What was accepted, now or before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptResult {
    /// The run it starts, if it starts one.
    pub run: RunKey,
    /// Whether it was new.
    pub new: bool,
    /// What has become of it.
    pub status: InboxStatus,
}

impl<S: Store> Engine<S> {
    /// Keeps what came and sees to it that it is taken up. It is durable when this returns.
    pub async fn accept(&self, knock: InboundEvent) -> Result<AcceptResult, EngineError> {
        let welcome = self.come_in(knock, InboxStatus::Pending).await?;
        // Whoever kept it the first time may have died before saying so.
        if welcome.status == InboxStatus::Pending {
            self.tell_of(&welcome.run, Millis(0)).await?;
        }
        Ok(welcome)
    }

    /// The same for somebody who is not waited for and cannot send it again: one more message goes ahead, so that what is
    /// kept is taken up even if nobody gets as far as saying so. If nothing is kept, it finds nothing. While it waits for its
    /// ticket, two messages look after it.
    pub async fn accept_at_once(&self, knock: InboundEvent) -> Result<AcceptResult, EngineError> {
        self.tell_of(&InboxEntry::run_of(&knock.tenant, &knock.key), AHEAD).await?;
        self.accept(knock).await
    }

    /// Sees to it that somebody takes up what came for `run`, in a while.
    async fn tell_of(&self, run: &RunKey, delay: Millis) -> Result<(), EngineError> {
        let message = Outgoing { run: run.clone(), queue: QueueName::Ingest, job: Job::Start, delay };
        Ok(self.retry_busy(|| self.store.send(&message)).await?)
    }

    /// Keeps what came, of which `status` has become by now.
    pub(crate) async fn come_in(
        &self,
        knock: InboundEvent,
        status: InboxStatus,
    ) -> Result<AcceptResult, EngineError> {
        json::check(&knock.body).map_err(|source| EngineError::BadInput { what: "what came", source })?;
        let (body, fingerprint) = self.keep(&knock.tenant, &knock.body).await?;
        let entry = InboxEntry {
            run: InboxEntry::run_of(&knock.tenant, &knock.key),
            key: knock.key,
            source: knock.source,
            about: knock.about,
            record: knock.record,
            proof: knock.proof,
            dedupe_key: knock.dedupe_key,
            fingerprint,
            body,
            asked: knock.asked,
            at: self.now(),
            tries: 0,
            status,
        };
        match self.retry_busy(|| self.store.accept(entry.clone())).await? {
            Accepted::New => Ok(AcceptResult { run: entry.run, new: true, status: entry.status }),
            Accepted::Known(known) if entry.conflicts_with(&known) => {
                Err(Refusal::KeyConflict { run: known.run }.into())
            }
            Accepted::Known(known) => {
                // Our own write whose reply was lost, and a slot that two look at, came once.
                let came_again = *known != entry && known.source != Source::Schedule;
                let (welcome, stands) = self.known(*known).await?;
                if came_again && stands {
                    journal::known(&welcome.run, entry.source.as_str());
                }
                Ok(welcome)
            }
        }
    }

    /// What came before and is delivered again, and whether what became of it stands. If nothing was started it may be
    /// taken up again, some times.
    async fn known(&self, known: InboxEntry) -> Result<(AcceptResult, bool), EngineError> {
        let InboxEntry { run, status, .. } = &known;
        let Some(tries) = known.may_try_again(self.now()) else {
            return Ok((AcceptResult { run: known.run, new: false, status: known.status }, true));
        };
        let keep_until = known.source.waiting_kept_until(self.now());
        let again = Again { was: status.clone(), tries, keep_until };
        // Whoever was faster has let it wait, too.
        self.retry_busy(|| self.store.reopen(run, again.clone())).await?;
        Ok((AcceptResult { run: known.run, new: false, status: InboxStatus::Pending }, false))
    }

    /// Why there is no `run`: nobody was to start it, or what came in to do so has not, and what has become of that.
    pub async fn no_run(&self, run: RunKey) -> EngineError {
        let entry = self.retry_busy(|| self.store.entry(&run)).await;
        match entry {
            Ok(Some(InboxEntry { status, .. })) => EngineError::NotBegun { run, status },
            Ok(None) => EngineError::NoRun { run },
            Err(error) => error.into(),
        }
    }

    /// Takes up what came: starts its run, if a workflow wants it and its ticket is free.
    pub async fn begin(&self, run: &RunKey) -> Result<AdvanceResult, EngineError> {
        let entry = self.retry_busy(|| self.store.entry(run)).await?;
        let waits = entry.filter(|entry| entry.status == InboxStatus::Pending);
        let Some(entry) = waits else { return Ok(AdvanceResult::Done) };
        let came = Arc::new(self.fetch(&run.tenant, &entry.body).await?);
        let found = match &entry.asked {
            Some(asked) => Wanted::By(self.plan(&run.tenant, asked.plan).await?),
            None => self.who_wants(&entry, &came).await?,
        };
        let status = match found {
            Wanted::By(plan) => self.start_from(&entry, &plan, &came).await?,
            Wanted::ByNobody => InboxStatus::Unmatched { at: self.now() },
            Wanted::Unclear(why) => InboxStatus::rejected(&why, self.now()),
        };
        if status == InboxStatus::Pending {
            return Ok(AdvanceResult::NotBefore(look_again(&entry, self.now())));
        }
        tracing::info!(%run, source = %entry.source, ?status, "an entry was taken up");
        let forget_at = self.now() + entry.source.remembered_for();
        self.retry_busy(|| self.store.settle(run, status.clone(), forget_at)).await?;
        Ok(AdvanceResult::Done)
    }

    async fn start_from(
        &self,
        entry: &InboxEntry,
        plan: &CompiledPlan,
        came: &Value,
    ) -> Result<InboxStatus, EngineError> {
        let wish = wish(entry, plan, came);
        match self.try_start(&wish, entry.at).await {
            Ok(Tried::Started(Started { new: true, .. })) => Ok(InboxStatus::Started),
            Ok(Tried::Started(Started { run, .. })) => self.begun_before(run).await,
            Ok(Tried::Taken(taken)) => match wish.when_taken() {
                WhenTaken::Join => Ok(InboxStatus::Joined { run: taken.by.run }),
                WhenTaken::Queue if self.now() < entry.at + WAITING_MAX => {
                    self.enqueue_waiter(entry, taken).await?;
                    Ok(InboxStatus::Pending)
                }
                WhenTaken::Queue | WhenTaken::Refuse => {
                    Ok(InboxStatus::rejected(&wish.refused(taken.by).to_string(), self.now()))
                }
            },
            // Whoever started it died before saying so, and since then another workflow has come to want what came.
            Err(EngineError::Refused(Refusal::KeyConflict { run })) if self.is_of(&run, entry).await? => {
                self.begun_before(run).await
            }
            Err(EngineError::Refused(refusal)) => Ok(InboxStatus::rejected(&refusal.to_string(), self.now())),
            Err(error) => Err(error),
        }
    }

    /// Whoever started it the first time may have died before saying so. Nobody would look at the run for minutes
    /// then; one message too many finds nothing to do.
    async fn begun_before(&self, run: RunKey) -> Result<InboxStatus, EngineError> {
        let message = Outgoing { run, queue: QueueName::Steps, job: Job::Advance, delay: Millis(0) };
        self.retry_busy(|| self.store.send(&message)).await?;
        Ok(InboxStatus::Started)
    }

    /// Whether `run` was started by `entry`. What is asked for by name has one workflow, and no other can have come to
    /// want it.
    async fn is_of(&self, run: &RunKey, entry: &InboxEntry) -> Result<bool, EngineError> {
        if entry.asked.is_some() {
            return Ok(false);
        }
        let started = self.retry_busy(|| self.store.load(run)).await?;
        Ok(started.is_some_and(|run| run.trigger.input == entry.fingerprint.sha256))
    }

    /// The workflow that wants what came. If two do, nobody may guess.
    async fn who_wants(&self, entry: &InboxEntry, came: &Arc<Value>) -> Result<Wanted, EngineError> {
        let tenant = &entry.run.tenant;
        let applied = self.retry_busy(|| self.store.applied(tenant)).await?;
        let mut unclear = None;
        let mut wanting: Option<Arc<CompiledPlan>> = None;
        for applied in applied.iter().filter(|applied| is_about(applied, entry)) {
            let plan = self.plan(tenant, applied.plan).await?;
            // There may be many, and others want to go on meanwhile.
            tokio::task::yield_now().await;
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
        // Who put a version to use, and when, is not forgotten because somebody does it again.
        let versions = self.versions(tenant, &plan.workflow).await?;
        let known =
            versions.into_iter().find(|known| known.version == plan.version && known.plan == plan.hash());
        let applied = known.unwrap_or_else(|| Applied {
            tenant: tenant.clone(),
            workflow: plan.workflow.clone(),
            version: plan.version,
            plan: plan.hash(),
            triggered_by: plan.triggered_by.clone(),
            at: self.now(),
            by,
        });
        let due = self.first_slot(plan)?;
        match self.retry_busy(|| self.store.apply(applied.clone(), due)).await? {
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
        Ok(self.retry_busy(|| self.store.versions(tenant, workflow)).await?)
    }

    /// The workflows in use, by name.
    pub async fn applied(&self, tenant: &TenantId) -> Result<Vec<Applied>, EngineError> {
        Ok(self.retry_busy(|| self.store.applied(tenant)).await?)
    }
}

/// The run that an entry starts.
fn wish(entry: &InboxEntry, plan: &CompiledPlan, came: &Value) -> StartRun {
    let source = entry.source.as_str();
    let asked = entry.asked.clone().unwrap_or_else(|| Asked {
        plan: plan.plan().hash(),
        workspace: WorkspaceId::default(),
        trigger_kind: source.to_owned(),
        by: Initiator::new(Cause::Webhook, source),
    });
    StartRun {
        tenant: entry.run.tenant.clone(),
        workspace: asked.workspace,
        plan: plan.plan().clone(),
        trigger_kind: asked.trigger_kind,
        key: entry.key.clone(),
        record: entry.record.clone(),
        input: came.clone(),
        by: asked.by,
    }
}

/// When an entry whose ticket is taken is looked at again: soon if it is new, and at most a minute late.
fn look_again(entry: &InboxEntry, now: Timestamp) -> Timestamp {
    let waited = now - entry.at;
    now + Millis(waited.0 / 4).clamp(LOOK_AGAIN_MIN, LOOK_AGAIN_MAX)
}

/// Who wants what came.
enum Wanted {
    By(Arc<CompiledPlan>),
    ByNobody,
    /// Nobody can say, and why.
    Unclear(String),
}

fn is_about(applied: &Applied, entry: &InboxEntry) -> bool {
    applied
        .triggered_by
        .as_ref()
        .is_some_and(|by| by.source == entry.source && (by.about.is_none() || by.about == entry.about))
}
