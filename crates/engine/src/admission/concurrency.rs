//! Concurrency keys: at most one active run for each.
//!
//! A key is taken in the commit that creates the run, conditional on the holder that was read here. A run that has ended
//! stays ended, so what is read here still holds at that commit.
//!
//! Entries that wait for a key form a wait queue in the store, and have no messages. A worker that finds the holder
//! ended wakes the first waiter: it sends the message of the entry. That is the worker that builds the evidence of
//! the holder, and any worker that adds an entry to the wait queue or removes one. The woken entry is due soon, so
//! the sweep replaces a lost message.

use std::sync::Arc;

use domain::inbox::START_DUE_AFTER;
use domain::{
    ConcurrencyKey, InboxEntry, InboxStatus, Millis, OnConflict, Plan, Refusal, RunKey, TenantId, Timestamp,
};
use serde_json::Value;
use store::{KeyAcquisition, KeyHolder, Store, StoreError, Waiter};

use crate::admission::AdmissionService;
use crate::error::{EngineError, error_chain};

/// A woken entry that has not started its run after this long, although the sweep sent its message again, cannot be
/// processed. It goes to the end of the wait queue.
const STUCK_AFTER: Millis = Millis::mins(10);

/// How many entries one call takes out of a wait queue. If there are more, the call fails and is repeated.
const REPAIRS_MAX: u32 = 100;

/// Whether a run may take its concurrency key.
pub(super) enum KeyStatus {
    /// It may, with this condition; `None` if the workflow has no key.
    Free(Option<KeyAcquisition>),
    Held(KeyConflict),
}

/// A key that cannot be taken now.
pub(super) struct KeyConflict {
    /// The run that holds the key, or the waiting entry that is next.
    pub(super) by: RunKey,
    key: ConcurrencyKey,
}

impl<S: Store> AdmissionService<'_, S> {
    /// The concurrency key of a run with this input, if its workflow has one.
    pub(super) async fn concurrency_key(
        self,
        run: &RunKey,
        plan: &Plan,
        input: &Value,
    ) -> Result<Option<ConcurrencyKey>, EngineError> {
        let Some(rule) = &plan.concurrency else { return Ok(None) };
        let compiled = self.core.plan(&run.tenant, plan.hash()).await?;
        let workflow = &plan.workflow;
        let invalid = |why| Refusal::InvalidConcurrencyKey { workflow: workflow.clone(), why };
        match compiled.concurrency_key(&Arc::new(input.clone())) {
            None => Ok(None),
            Some(Ok(text)) if text.trim().is_empty() => Err(invalid("it is empty".to_owned()).into()),
            Some(Ok(text)) => Ok(Some(ConcurrencyKey::derive(&run.tenant, workflow, rule.scope, &text))),
            Some(Err(error)) => Err(invalid(error_chain(&error)).into()),
        }
    }

    /// Whether `run` may take the key. `waiting_since` is when a queued request arrived; requests that arrived earlier go
    /// first.
    pub(super) async fn key_status(
        self,
        run: &RunKey,
        key: Option<ConcurrencyKey>,
        waiting_since: Option<Timestamp>,
    ) -> Result<KeyStatus, EngineError> {
        let Some(key) = key else { return Ok(KeyStatus::Free(None)) };
        let holder = self.core.retry_busy(|store| store.holder(&run.tenant, &key)).await?;
        let Some(holder) = holder else {
            return Ok(KeyStatus::Free(Some(KeyAcquisition { concurrency_key: key, previous_holder: None })));
        };
        let holder_run = RunKey { tenant: run.tenant.clone(), run: holder.run.clone() };
        if self.is_active(&holder_run).await? {
            return Ok(KeyStatus::Held(KeyConflict { by: holder_run, key }));
        }
        let hold = KeyAcquisition { concurrency_key: key, previous_holder: Some(holder.run.clone()) };
        let Some(since) = waiting_since else { return Ok(KeyStatus::Free(Some(hold))) };
        let head = self.first_waiter(&run.tenant, &key, holder).await?;
        // A duplicate of a waiting request is later than the request itself, and must not wait for it.
        let is_earlier = |head: &Waiter| head.run != run.run && (head.since, &head.run) < (since, &run.run);
        match head.filter(is_earlier) {
            Some(head) => {
                let by = RunKey { tenant: run.tenant.clone(), run: head.run };
                Ok(KeyStatus::Held(KeyConflict { by, key }))
            }
            None => Ok(KeyStatus::Free(Some(hold))),
        }
    }

    /// Whether the run that holds a key has not ended. Key and run are written in one transaction but are separate items:
    /// a reader may see the key held and the run missing, and then reads again.
    async fn is_active(self, run: &RunKey) -> Result<bool, EngineError> {
        let doing = "load the run that holds a concurrency key";
        let read = async |store: &S| {
            let record = store.load(run).await?;
            record.map(|record| !record.status.is_terminal()).ok_or(StoreError::Busy { doing })
        };
        match self.core.retry_busy(read).await {
            // The run still does not exist, so it never will, and nothing waits for it.
            Err(StoreError::Busy { doing: operation }) if operation == doing => Ok(false),
            active => Ok(active?),
        }
    }

    /// The first waiter for a key whose holder has ended. Entries that no longer wait are removed, and those that
    /// cannot be processed go to the end.
    async fn first_waiter(
        self,
        tenant: &TenantId,
        key: &ConcurrencyKey,
        holder: KeyHolder,
    ) -> Result<Option<Waiter>, EngineError> {
        let mut next = holder.next;
        for _ in 0..REPAIRS_MAX {
            let Some(head) = next else { return Ok(None) };
            let run = RunKey { tenant: tenant.clone(), run: head.run.clone() };
            let entry = match self.core.retry_busy(|store| store.entry(&run)).await {
                Err(error @ StoreError::Broken { .. }) => {
                    let error = error_chain(&error);
                    tracing::error!(event = "waiting_entry_unreadable", %run, error, "entry removed from its wait queue");
                    None
                }
                entry => entry?,
            };
            let waits = entry.is_some_and(|entry| entry.status == InboxStatus::Pending);
            let now = self.core.now();
            let stuck = head.woken.is_some_and(|woken| now - woken > STUCK_AFTER);
            if waits && !stuck {
                return Ok(Some(head));
            }
            if waits {
                tracing::warn!(event = "waiting_entry_stuck", %run, "waiting entry goes to the end of the wait queue");
                let last = Waiter { since: now, woken: None, ..head.clone() };
                self.core.retry_busy(|store| store.enqueue_waiter(tenant, key, last.clone())).await?;
            }
            self.core.retry_busy(|store| store.remove_waiter(tenant, key, head.clone())).await?;
            next = self.core.retry_busy(|store| store.holder(tenant, key)).await?.and_then(|now| now.next);
        }
        Err(StoreError::Busy { doing: "remove entries that no longer wait from a wait queue" }.into())
    }

    /// Puts a pending entry into the wait queue of its key. It needs no message from here on.
    pub(super) async fn add_to_wait_queue(
        self,
        entry: &InboxEntry,
        conflict: KeyConflict,
    ) -> Result<(), EngineError> {
        let (tenant, key) = (&entry.run.tenant, &conflict.key);
        let waiter = Waiter { run: entry.run.run.clone(), since: entry.at, woken: None };
        self.core.retry_busy(|store| store.enqueue_waiter(tenant, key, waiter.clone())).await?;
        let due_at = InboxEntry::due_while_waiting(self.core.now());
        self.core.retry_busy(|store| store.postpone_entry(&entry.run, due_at)).await?;
        // The holder may have ended before this entry was in the wait queue.
        self.wake_first_waiter(tenant, key).await
    }

    /// Wakes the first waiter for the key of `run`, which has ended or was not started.
    pub(crate) async fn wake_next(self, run: &RunKey, plan: &Plan, input: &Value) -> Result<(), EngineError> {
        match self.concurrency_key(run, plan, input).await {
            Ok(Some(key)) => self.wake_first_waiter(&run.tenant, &key).await,
            // A run without a valid key holds none.
            Ok(None) | Err(EngineError::Refused(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Sends the message of the first waiter, if the holder of the key has ended. A message too many finds the key
    /// taken, or nothing to do.
    async fn wake_first_waiter(self, tenant: &TenantId, key: &ConcurrencyKey) -> Result<(), EngineError> {
        let holder = self.core.retry_busy(|store| store.holder(tenant, key)).await?;
        let Some(holder) = holder.filter(|holder| holder.next.is_some()) else { return Ok(()) };
        if self.is_active(&RunKey { tenant: tenant.clone(), run: holder.run.clone() }).await? {
            return Ok(());
        }
        let Some(head) = self.first_waiter(tenant, key, holder).await? else { return Ok(()) };
        let (run, now) = (RunKey { tenant: tenant.clone(), run: head.run.clone() }, self.core.now());
        if head.woken.is_none() {
            let woken = Waiter { woken: Some(now), ..head };
            self.core.retry_busy(|store| store.enqueue_waiter(tenant, key, woken.clone())).await?;
        }
        // The due time comes first: a process that dies before it sends the message leaves it to the sweep.
        self.core.retry_busy(|store| store.postpone_entry(&run, now + START_DUE_AFTER)).await?;
        self.enqueue_entry(&run, Millis(0)).await
    }

    /// What happens to a request of `plan` whose key is held by `by`. It joins only a run of the same workflow: a run of
    /// another workflow does not do its work.
    pub(super) async fn on_conflict(self, plan: &Plan, by: &RunKey) -> Result<OnConflict, EngineError> {
        let rule = plan.concurrency.as_ref().map(|rule| rule.on_conflict).unwrap_or_default();
        if rule != OnConflict::Join {
            return Ok(rule);
        }
        let holder = self.core.retry_busy(|store| store.load(by)).await?;
        let same = holder.is_some_and(|run| run.workflow == plan.workflow);
        Ok(if same { OnConflict::Join } else { OnConflict::Queue })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::admission::start::tests::{engine, request};

    #[tokio::test(start_paused = true)]
    async fn holder_that_is_not_visible_yet_is_read_again() {
        let expected = engine().admission().start(request()).await.unwrap().run;
        let engine = engine();
        let starts = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            engine.admission().start(request()).await.unwrap().run
        };
        let (active, run) = tokio::join!(engine.admission().is_active(&expected), starts);
        assert_eq!((active.unwrap(), run), (true, expected.clone()));

        let never = RunKey { tenant: "umbrella".parse().unwrap(), ..expected };
        assert!(!engine.admission().is_active(&never).await.unwrap());
    }
}
