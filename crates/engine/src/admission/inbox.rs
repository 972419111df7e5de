//! The inbox: an event is stored before it is acknowledged.
//!
//! Accepting is two writes: the entry, and a message on the ingest queue. The sender gets its reply after both, and sends
//! the event again if no reply arrives. A pending entry is in the due index, so the sweep replaces a lost message.
//! Processing an entry twice starts one run.

use domain::inbox::START_DUE_AFTER;
use domain::{
    Digest, IdempotencyKey, InboxEntry, InboxStatus, Job, Millis, Outgoing, QueueName, RecordName, Refusal,
    RunKey, Source, StartRequest, TenantId, json,
};
use serde_json::Value;
use store::{Reopen, Store, StoredEntry};

use crate::admission::AdmissionService;
use crate::core::journal;
use crate::error::EngineError;

/// How long the message that is sent before the entry is delayed: longer than the sender of an event may be cut off.
const SENT_AHEAD_DELAY: Millis = Millis::secs(10);

/// An authenticated event.
#[derive(Debug, Clone, PartialEq)]
pub struct InboundEvent {
    pub tenant: TenantId,
    /// The same key is the same event.
    pub key: IdempotencyKey,
    pub source: Source,
    /// The table or the event name that triggers select by.
    pub topic: Option<String>,
    /// The external record that the event is about.
    pub record: Option<RecordName>,
    /// Hash of what authenticated the sender. The same proof is the same event, also under another key.
    pub proof: Digest,
    /// Hash of the content, for sources that deliver one event several times with different bytes.
    pub dedupe_key: Option<Digest>,
    pub body: Value,
    /// Set if a run was requested by name. Otherwise the workflow is found by its trigger.
    pub start_request: Option<StartRequest>,
}

/// What was accepted, now or before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptResult {
    /// The run that the event starts, if it starts one.
    pub run: RunKey,
    /// False for a duplicate.
    pub new: bool,
    pub status: InboxStatus,
}

impl<S: Store> AdmissionService<'_, S> {
    /// Stores an event and announces it. The event is durable when this returns.
    pub async fn accept(self, event: InboundEvent) -> Result<AcceptResult, EngineError> {
        let accepted = self.store_event(event, InboxStatus::Pending).await?;
        // A duplicate is announced again: the process that stored the first may have died before it sent the message.
        if accepted.status == InboxStatus::Pending {
            self.enqueue_entry(&accepted.run, Millis(0)).await?;
        }
        Ok(accepted)
    }

    /// Like [`accept`](Self::accept), for a sender that does not wait for the reply and cannot send again: one delayed
    /// message goes out before the entry is stored, so that a process that dies in between loses nothing. If nothing was
    /// stored, the message finds no entry.
    pub async fn accept_without_retry(self, event: InboundEvent) -> Result<AcceptResult, EngineError> {
        self.enqueue_entry(&InboxEntry::run_of(&event.tenant, &event.key), SENT_AHEAD_DELAY).await?;
        self.accept(event).await
    }

    pub(super) async fn enqueue_entry(self, run: &RunKey, delay: Millis) -> Result<(), EngineError> {
        let message = Outgoing { run: run.clone(), queue: QueueName::Ingest, job: Job::Start, delay };
        Ok(self.core.retry_busy(|store| store.send(&message)).await?)
    }

    /// Sends the message of an overdue entry again; returns whether it did. The message comes before the new due time,
    /// so a process that dies in between sends it twice.
    pub(crate) async fn resend_entry(self, run: &RunKey) -> Result<bool, EngineError> {
        let entry = self.core.retry_busy(|store| store.entry(run)).await?;
        let pending = entry.filter(|entry| entry.status == InboxStatus::Pending);
        let Some(entry) = pending else { return Ok(false) };
        self.enqueue_entry(run, Millis(0)).await?;
        let due_at = entry.due_again(self.core.now());
        self.core.retry_busy(|store| store.postpone_entry(run, due_at)).await?;
        journal::log_entry_resent(run, entry.source);
        Ok(true)
    }

    /// Stores an event with this status, or finds the entry that it duplicates.
    pub(super) async fn store_event(
        self,
        event: InboundEvent,
        status: InboxStatus,
    ) -> Result<AcceptResult, EngineError> {
        json::check(&event.body).map_err(|source| EngineError::BadInput { what: "the event", source })?;
        let (body, fingerprint) = self.core.put_payload(&event.tenant, &event.body).await?;
        let entry = InboxEntry {
            run: InboxEntry::run_of(&event.tenant, &event.key),
            key: event.key,
            source: event.source,
            topic: event.topic,
            record: event.record,
            proof: event.proof,
            dedupe_key: event.dedupe_key,
            fingerprint,
            body,
            start_request: event.start_request,
            at: self.core.now(),
            tries: 0,
            status,
        };
        match self.core.retry_busy(|store| store.accept(entry.clone())).await? {
            StoredEntry::New => Ok(AcceptResult { run: entry.run, new: true, status: entry.status }),
            StoredEntry::Duplicate(first) if entry.conflicts_with(&first) => {
                Err(Refusal::KeyConflict { run: first.run }.into())
            }
            StoredEntry::Duplicate(first) => {
                // An own write whose reply was lost, and a scheduled time that two sweeps process, are no duplicates.
                let is_duplicate = *first != entry && first.source != Source::Schedule;
                let (accepted, reopened) = self.handle_duplicate(*first).await?;
                if is_duplicate && !reopened {
                    journal::log_duplicate(&accepted.run, entry.source.as_str());
                }
                Ok(accepted)
            }
        }
    }

    /// The result of a duplicate, and whether its entry was reopened. An entry that started no run is processed again, a
    /// few times.
    async fn handle_duplicate(self, first: InboxEntry) -> Result<(AcceptResult, bool), EngineError> {
        let InboxEntry { run, status, .. } = &first;
        let Some(tries) = first.next_try(self.core.now()) else {
            return Ok((AcceptResult { run: first.run, new: false, status: first.status }, false));
        };
        let reopen = Reopen { was: status.clone(), tries, due_at: self.core.now() + START_DUE_AFTER };
        // A concurrent duplicate that wins reopens it, too.
        self.core.retry_busy(|store| store.reopen(run, reopen.clone())).await?;
        Ok((AcceptResult { run: first.run, new: false, status: InboxStatus::Pending }, true))
    }
}
