//! Admit: a trigger becomes a run.

use std::sync::Arc;

use domain::command::{Admit, admit};
use domain::inbox::REMEMBERED_FOR;
use domain::json::InvalidJson;
use domain::payload::INLINE_BYTES_MAX;
use domain::{
    Asked, Cause, Digest, IdempotencyKey, InboxEntry, InboxStatus, Initiator, Millis, Payload, PersonId,
    Plan, RecordName, Refusal, RunId, RunKey, RunRecord, Source, TenantId, Ticket, Timestamp, TraceContext,
    WhenTaken, WorkspaceId, json, payload::Fingerprint,
};
use serde_json::Value;
use store::{Admission, BlobKind, Hold, Holder, InLine, Store, StoreError, Write, trace};
use workflow::CompiledPlan;

use crate::Engine;
use crate::accept::{AcceptResult, InboundEvent};
use crate::commit::ROUNDS_MAX;
use crate::error::{EngineError, told};
use crate::journal;

/// Whoever waits for a ticket looks once a minute; one that missed three looks is not waited for.
const SEEN_WITHIN: Millis = Millis::mins(3);

/// A wish to start a run.
#[derive(Debug, Clone, PartialEq)]
pub struct StartRun {
    /// For whom.
    pub tenant: TenantId,
    /// For which part of them.
    pub workspace: WorkspaceId,
    /// What it does.
    pub plan: Plan,
    /// What kind of thing asks.
    pub trigger_kind: String,
    /// Names the request: the same key is the same run for ever.
    pub key: IdempotencyKey,
    /// The record outside that it is about, if one is named.
    pub record: Option<RecordName>,
    /// What comes with it.
    pub input: Value,
    /// Who or what asks.
    pub by: Initiator,
}

/// The run that a request is answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// Which run.
    pub run: RunKey,
    /// Whether this request started it, or is now waiting to.
    pub new: bool,
    /// How the request stands to it.
    pub place: Place,
}

impl Started {
    /// Another request's run, about the same ticket.
    fn joined(run: RunKey) -> Self {
        Self { run, new: false, place: Place::Joined }
    }
}

/// How a request stands to the run that it is answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// It is the request's own.
    Own,
    /// It is another request's, about the same ticket.
    Joined,
    /// It is the request's own, and begins when this run, which is about the same ticket, is over.
    Behind(RunKey),
}

/// What became of a wish.
pub(crate) enum Tried {
    /// Its run is there.
    Started(Started),
    /// It must wait for its ticket, if it does.
    Taken(Taken),
}

/// A ticket that cannot be taken.
pub(crate) struct Taken {
    /// The run that has it, or goes first.
    pub(crate) by: RunKey,
    ticket: Ticket,
    holder: Holder,
}

/// Whether a ticket can be taken.
enum Look {
    /// In this way, if the run is about one at all.
    Free(Option<Hold>),
    /// Not now.
    Taken(Taken),
}

impl StartRun {
    fn request(&self, input: Fingerprint, trace: Option<TraceContext>) -> Admit {
        Admit {
            tenant: self.tenant.clone(),
            workspace: self.workspace.clone(),
            trigger_kind: self.trigger_kind.clone(),
            key: self.key.clone(),
            record: self.record.clone(),
            trace,
            input,
        }
    }

    /// The wish as something that came in: to be kept until its ticket is free, or to be known again.
    fn knock(self) -> InboundEvent {
        let asked = Asked {
            plan: self.plan.hash(),
            workspace: self.workspace,
            trigger_kind: self.trigger_kind,
            by: self.by,
        };
        let parts = [self.tenant.as_str(), self.key.as_str()];
        InboundEvent {
            proof: Digest::of_parts("countersign/asked/v1", &parts),
            tenant: self.tenant,
            key: self.key,
            source: Source::Api,
            about: None,
            record: self.record,
            dedupe_key: None,
            body: self.input,
            asked: Some(asked),
        }
    }

    /// What becomes of the wish if its ticket is taken.
    pub(crate) fn when_taken(&self) -> WhenTaken {
        self.plan.ticket.as_ref().map(|rule| rule.when_taken).unwrap_or_default()
    }

    /// The refusal of the wish because its ticket is taken by `run`.
    pub(crate) fn refused(&self, run: RunKey) -> Refusal {
        Refusal::TicketTaken { run, workflow: self.plan.workflow.clone() }
    }
}

fn unfit(source: InvalidJson) -> EngineError {
    EngineError::BadInput { what: "the run's input", source }
}

/// The run that a key names, if the request was the same: the same workflow, in whichever version, the same record
/// and the same input.
fn started_before(first: &RunRecord, wish: &StartRun, input: Fingerprint) -> Result<Started, EngineError> {
    let run = first.key.clone();
    let same = first.trigger.input == input.sha256
        && first.trigger.record == wish.record
        && first.workflow == wish.plan.workflow;
    if !same {
        return Err(Refusal::KeyConflict { run }.into());
    }
    Ok(Started { run, new: false, place: Place::Own })
}

impl<S: Store> Engine<S> {
    /// Starts a run, or finds the one that the same request started before. If the workflow has one run at a time
    /// for each ticket and there is one, it says what becomes of the request.
    pub async fn start(&self, wish: StartRun) -> Result<Started, EngineError> {
        if let Some(joined) = self.joined_before(&wish).await? {
            journal::known(&joined.run, &wish.trigger_kind);
            return Ok(joined);
        }
        let by = match Box::pin(self.try_start(&wish, self.now())).await? {
            Tried::Started(started) => {
                if !started.new {
                    journal::known(&started.run, &wish.trigger_kind);
                }
                return Ok(started);
            }
            Tried::Taken(Taken { by, .. }) => by,
        };
        match wish.when_taken() {
            WhenTaken::Join => self.join(wish, by).await,
            WhenTaken::Refuse => Err(wish.refused(by).into()),
            WhenTaken::Queue => self.wait_behind(wish, by).await,
        }
    }

    /// The run that the same request was answered with before, if it joined one. A key that waits for something else
    /// is a conflict: what waits would lose it.
    async fn joined_before(&self, wish: &StartRun) -> Result<Option<Started>, EngineError> {
        let run = InboxEntry::run_of(&wish.tenant, &wish.key);
        let Some(known) = self.retry_busy(|| self.store.entry(&run)).await? else { return Ok(None) };
        json::check(&wish.input).map_err(unfit)?;
        let same = known.fingerprint == Fingerprint::of(&wish.input)
            && known.record == wish.record
            && self.asks_for(&known, &wish.plan).await?;
        if !same {
            return Err(Refusal::KeyConflict { run }.into());
        }
        let InboxStatus::Joined { run: other } = known.status else { return Ok(None) };
        // Of two that asked at once, one may have joined and the other found the ticket free: a run of its own counts.
        let own = self.retry_busy(|| self.store.load(&run)).await?;
        Ok(own.is_none().then(|| Started::joined(RunKey { run: other, ..run })))
    }

    /// Whether what came asks for this workflow, in whichever version.
    async fn asks_for(&self, entry: &InboxEntry, plan: &Plan) -> Result<bool, EngineError> {
        match &entry.asked {
            Some(asked) if asked.plan != plan.hash() => {
                let asked = self.plan(&entry.run.tenant, asked.plan).await?;
                Ok(asked.plan().workflow == plan.workflow)
            }
            _ => Ok(true),
        }
    }

    /// Answers with the run that has the ticket, and keeps that: sent again, the request is answered with the same run,
    /// even if that is over by then.
    async fn join(&self, wish: StartRun, by: RunKey) -> Result<Started, EngineError> {
        let status = InboxStatus::Joined { run: by.run.clone() };
        let AcceptResult { run, status: stands, .. } = self.come_in(wish.knock(), status.clone()).await?;
        match stands {
            // Whoever was faster with the same request was told.
            InboxStatus::Joined { run } => Ok(Started::joined(RunKey { run, ..by })),
            InboxStatus::Started => Ok(Started { run, new: false, place: Place::Own }),
            InboxStatus::Pending | InboxStatus::Unmatched { .. } | InboxStatus::Rejected { .. } => {
                // It waited while the workflow said so.
                let forget_at = self.now() + REMEMBERED_FOR;
                self.retry_busy(|| self.store.settle(&run, status.clone(), forget_at)).await?;
                Ok(Started::joined(by))
            }
        }
    }

    /// Keeps the wish until the ticket is free.
    async fn wait_behind(&self, wish: StartRun, by: RunKey) -> Result<Started, EngineError> {
        let AcceptResult { run, new, status } = self.accept(wish.knock()).await?;
        match status {
            InboxStatus::Rejected { reason, .. } => Err(Refusal::NotStarted { run, why: reason }.into()),
            InboxStatus::Pending
            | InboxStatus::Started
            | InboxStatus::Joined { .. }
            | InboxStatus::Unmatched { .. } => Ok(Started { run, new, place: Place::Behind(by) }),
        }
    }

    /// Starts a run, finds the one that the same request started before, or says who has its ticket. The wish waits
    /// `since` then.
    pub(crate) async fn try_start(&self, wish: &StartRun, since: Timestamp) -> Result<Tried, EngineError> {
        json::check(&wish.input).map_err(unfit)?;
        if wish.by.cause == Cause::User && PersonId::new(&wish.by.id).is_err() {
            return Err(EngineError::NotAPerson { id: wish.by.id.clone() });
        }
        let (input, fingerprint) = self.keep(&wish.tenant, &wish.input).await?;
        self.keep_plan(&wish.tenant, &wish.plan).await?;
        let run = RunKey { tenant: wish.tenant.clone(), run: RunId::derive(&wish.tenant, &wish.key) };
        let ticket = self.ticket_of(&run, wish).await?;
        for _ in 0..ROUNDS_MAX {
            let waits = (wish.when_taken() == WhenTaken::Queue).then_some(since);
            let hold = match self.look_at(&run, ticket, waits).await? {
                Look::Free(hold) => hold,
                Look::Taken(taken) => {
                    // A key names its run for ever, even if another has the ticket by now.
                    let first = self.retry_busy(|| self.store.load(&run)).await?;
                    let Some(first) = first else { return Ok(Tried::Taken(taken)) };
                    return Ok(Tried::Started(started_before(&first, wish, fingerprint)?));
                }
            };
            let decision = admit(
                wish.request(fingerprint, trace::told_for(&run)),
                &wish.plan,
                self.stamp(wish.by.clone()),
            );
            let op = decision.record.op.clone();
            let admission = Admission { decision, input: input.clone(), hold };
            if self.retry_busy(|| self.store.admit(admission.clone())).await? == Write::Committed {
                journal::created(&run, &wish.plan.workflow);
                return Ok(Tried::Started(Started { run, new: true, place: Place::Own }));
            }
            // Without a run of this key, it was the ticket that somebody else took.
            if let Some(first) = self.retry_busy(|| self.store.load(&run)).await? {
                let started = started_before(&first, wish, fingerprint)?;
                // Our own write whose reply was lost; if others have written since, it was still the same request.
                let new = first.op == op;
                if new {
                    journal::created(&run, &wish.plan.workflow);
                    Box::pin(self.send_again(&admission.decision)).await;
                }
                return Ok(Tried::Started(Started { new, ..started }));
            }
        }
        Err(EngineError::Contended { run, rounds: ROUNDS_MAX })
    }

    /// The ticket that the run would be about, if the workflow asks for one.
    async fn ticket_of(&self, run: &RunKey, wish: &StartRun) -> Result<Option<Ticket>, EngineError> {
        if wish.plan.ticket.is_none() {
            return Ok(None);
        }
        let plan = self.plan(&run.tenant, wish.plan.hash()).await?;
        let workflow = &wish.plan.workflow;
        let no_ticket = |why| Refusal::NoTicket { workflow: workflow.clone(), why };
        match plan.ticket(&Arc::new(wish.input.clone())) {
            None => Ok(None),
            Some(Ok(text)) if text.trim().is_empty() => Err(no_ticket("it is empty".to_owned()).into()),
            Some(Ok(text)) => Ok(Some(Ticket::derive(&wish.tenant, workflow, &text))),
            Some(Err(error)) => Err(no_ticket(told(&error)).into()),
        }
    }

    /// Whether the ticket can be taken for `run`, which `waits` since then where it may. A run that is over stays so,
    /// so what is found of it here holds when the ticket is taken.
    async fn look_at(
        &self,
        run: &RunKey,
        ticket: Option<Ticket>,
        waits: Option<Timestamp>,
    ) -> Result<Look, EngineError> {
        let Some(ticket) = ticket else { return Ok(Look::Free(None)) };
        let holder = self.retry_busy(|| self.store.holder(&run.tenant, &ticket)).await?;
        let Some(holder) = holder else { return Ok(Look::Free(Some(Hold { ticket, after: None }))) };
        let has_it = RunKey { tenant: run.tenant.clone(), run: holder.run.clone() };
        if self.is_under_way(&has_it).await? {
            return Ok(Look::Taken(Taken { by: has_it, ticket, holder }));
        }
        match self.goes_before(run, waits, &holder).await? {
            Some(by) => Ok(Look::Taken(Taken { by, ticket, holder })),
            None => Ok(Look::Free(Some(Hold { ticket, after: Some(holder.run) }))),
        }
    }

    /// Whether the run that has a ticket has not ended. Both are written at once, but in different parts of a table:
    /// whoever reads one after the other may see the ticket taken and the run not begun yet, and looks again.
    async fn is_under_way(&self, run: &RunKey) -> Result<bool, EngineError> {
        let doing = "look at the run that has a ticket";
        let look = || async {
            let record = self.store.load(run).await?;
            record.map(|record| !record.status.is_terminal()).ok_or(StoreError::Busy { doing })
        };
        match self.retry_busy(look).await {
            // It never will: whatever became of it, nobody is to wait for it.
            Err(StoreError::Busy { doing: of }) if of == doing => Ok(false),
            known => Ok(known?),
        }
    }

    /// Who goes before `run`: whoever is in line, came earlier and waits still. One that was not seen for a while may
    /// never come, and is not waited for.
    async fn goes_before(
        &self,
        run: &RunKey,
        waits: Option<Timestamp>,
        holder: &Holder,
    ) -> Result<Option<RunKey>, EngineError> {
        let (Some(since), Some(next)) = (waits, &holder.next) else { return Ok(None) };
        // A request that waits and is sent again comes later than it did: nobody goes before themselves.
        let later = next.run != run.run && (since, &run.run) > (next.since, &next.run);
        if !later || self.now() - next.seen > SEEN_WITHIN {
            return Ok(None);
        }
        let next = RunKey { tenant: run.tenant.clone(), run: next.run.clone() };
        let entry = self.retry_busy(|| self.store.entry(&next)).await?;
        Ok(entry.is_some_and(|entry| entry.status == InboxStatus::Pending).then_some(next))
    }

    /// Puts an entry that waits for its ticket first in line, unless somebody goes before it.
    pub(crate) async fn enqueue_waiter(&self, entry: &InboxEntry, taken: Taken) -> Result<(), EngineError> {
        let Taken { ticket, holder, .. } = taken;
        let (run, since) = (&entry.run, entry.at);
        if self.goes_before(run, Some(since), &holder).await?.is_some() {
            return Ok(());
        }
        let next = InLine { run: run.run.clone(), since, seen: self.now() };
        // Whoever was faster is in line; the next look tells who goes first.
        self.retry_busy(|| self.store.enqueue_waiter(&run.tenant, &ticket, holder.clone(), next.clone()))
            .await?;
        Ok(())
    }

    /// Keeps a plan that runs can then be started from.
    pub async fn keep_plan(&self, tenant: &TenantId, plan: &Plan) -> Result<(), EngineError> {
        let hash = plan.hash();
        if self.plans.has(tenant, &hash) {
            return Ok(());
        }
        let compiled = CompiledPlan::compile(plan.clone())
            .map_err(|error| EngineError::BadPlan { plan: hash, why: error.to_string() })?;
        self.retry_busy(|| self.store.put_plan(tenant, plan)).await?;
        self.plans.put(tenant, hash, Arc::new(compiled));
        Ok(())
    }

    /// A payload as the ledger keeps it: in place if it is small, by pointer if not.
    pub(crate) async fn keep(
        &self,
        tenant: &TenantId,
        value: &Value,
    ) -> Result<(Payload, Fingerprint), EngineError> {
        let canonical = json::canonical(value);
        let fingerprint = Fingerprint::of_canonical(&canonical);
        if canonical.len() <= INLINE_BYTES_MAX {
            return Ok((Payload::Inline(value.clone()), fingerprint));
        }
        let blob =
            self.retry_busy(|| self.store.put_blob(BlobKind::Payloads, tenant, canonical.clone())).await?;
        Ok((Payload::Blob(blob), fingerprint))
    }

    /// A payload's value, wherever it is kept.
    pub(crate) async fn fetch(&self, tenant: &TenantId, payload: &Payload) -> Result<Value, EngineError> {
        match payload {
            Payload::Inline(value) => Ok(value.clone()),
            Payload::Blob(blob) => {
                let missing = || EngineError::NoPayload {
                    payload: Fingerprint { sha256: blob.sha256, bytes: blob.bytes },
                };
                let bytes = self
                    .retry_busy(|| self.store.blob(BlobKind::Payloads, tenant, blob))
                    .await?
                    .ok_or_else(missing)?;
                json::parse(&bytes)
                    .map_err(|source| EngineError::BadInput { what: "a stored payload", source })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use connectors::{Allow, Settings};
    use domain::{Cause, Initiator};
    use serde_json::json;
    use store::{SqliteOptions, SqliteStore, SystemClock};

    use super::*;
    use crate::{Parts, Timing};

    fn engine() -> Engine<SqliteStore> {
        Engine::new(Parts {
            store: Arc::new(SqliteStore::memory(SqliteOptions::default()).unwrap()),
            tools: connectors::standard(Allow::default(), Settings::default()),
            clock: Arc::new(SystemClock),
            me: "w".parse().unwrap(),
            timing: Timing::default(),
            shows: None,
            sealing: None,
        })
    }

    fn wish() -> StartRun {
        let source = "workflow: w\nversion: 1\nsteps:\n  - { id: a, tool: transform }\n";
        StartRun {
            tenant: "acme".parse().unwrap(),
            workspace: WorkspaceId::default(),
            plan: workflow::parse(source, &["transform".parse().unwrap()].into()).unwrap(),
            trigger_kind: "test".to_owned(),
            record: None,
            key: "k".parse().unwrap(),
            input: json!({}),
            by: Initiator::new(Cause::User, "ada"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_that_has_a_ticket_and_is_not_seen_yet_is_waited_for_and_not_for_ever() {
        let elsewhere = engine().start(wish()).await.unwrap().run;
        let engine = engine();
        let begins = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            engine.start(wish()).await.unwrap().run
        };
        let (under_way, run) = tokio::join!(engine.is_under_way(&elsewhere), begins);
        assert_eq!((under_way.unwrap(), run), (true, elsewhere.clone()));

        let never = RunKey { tenant: "umbrella".parse().unwrap(), ..elsewhere };
        assert!(!engine.is_under_way(&never).await.unwrap());
    }
}
