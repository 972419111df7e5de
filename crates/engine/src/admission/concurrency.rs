//! Concurrency keys: at most one active run for each.
//!
//! A key is taken in the commit that creates the run, conditional on the holder that was read here. A run that has ended
//! stays ended, so what is read here still holds at that commit.

use std::sync::Arc;

use domain::{ConcurrencyKey, InboxEntry, InboxStatus, Millis, OnConflict, Plan, Refusal, RunKey, Timestamp};
use serde_json::Value;
use store::{Hold, Holder, Store, StoreError, Waiter};

use crate::admission::AdmissionService;
use crate::error::{EngineError, error_chain};

/// A waiting entry is retried at least once a minute. One that missed three retries is no longer waited for.
const WAITER_SEEN_WITHIN: Millis = Millis::mins(3);

/// Whether a run may take its concurrency key.
pub(super) enum KeyStatus {
    /// It may, with this condition; `None` if the workflow has no key.
    Free(Option<Hold>),
    Held(KeyConflict),
}

/// A key that cannot be taken now.
pub(super) struct KeyConflict {
    /// The run that holds the key, or the waiting entry that is next.
    pub(super) by: RunKey,
    key: ConcurrencyKey,
    holder: Holder,
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

    /// Whether `run` may take the key. A request that waits has done so since `waiting_since`, and lets earlier ones pass.
    pub(super) async fn key_status(
        self,
        run: &RunKey,
        key: Option<ConcurrencyKey>,
        waiting_since: Option<Timestamp>,
    ) -> Result<KeyStatus, EngineError> {
        let Some(key) = key else { return Ok(KeyStatus::Free(None)) };
        let holder = self.core.retry_busy(|store| store.holder(&run.tenant, &key)).await?;
        let Some(holder) = holder else {
            return Ok(KeyStatus::Free(Some(Hold { concurrency_key: key, after: None })));
        };
        let holding = RunKey { tenant: run.tenant.clone(), run: holder.run.clone() };
        if self.is_active(&holding).await? {
            return Ok(KeyStatus::Held(KeyConflict { by: holding, key, holder }));
        }
        match self.earlier_waiter(run, waiting_since, &holder).await? {
            Some(by) => Ok(KeyStatus::Held(KeyConflict { by, key, holder })),
            None => Ok(KeyStatus::Free(Some(Hold { concurrency_key: key, after: Some(holder.run) }))),
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
            Err(StoreError::Busy { doing: of }) if of == doing => Ok(false),
            active => Ok(active?),
        }
    }

    /// The entry that goes before `run`: the registered waiter, if it is earlier, still pending, and seen lately.
    async fn earlier_waiter(
        self,
        run: &RunKey,
        waiting_since: Option<Timestamp>,
        holder: &Holder,
    ) -> Result<Option<RunKey>, EngineError> {
        let (Some(since), Some(next)) = (waiting_since, &holder.next) else { return Ok(None) };
        // A duplicate of a waiting request is later than the request itself, and must not wait for it.
        let is_earlier = next.run != run.run && (next.since, &next.run) < (since, &run.run);
        if !is_earlier || self.core.now() - next.seen > WAITER_SEEN_WITHIN {
            return Ok(None);
        }
        let next = RunKey { tenant: run.tenant.clone(), run: next.run.clone() };
        let entry = self.core.retry_busy(|store| store.entry(&next)).await?;
        Ok(entry.is_some_and(|entry| entry.status == InboxStatus::Pending).then_some(next))
    }

    /// Registers a waiting entry as the next one for the key, unless an earlier one is registered.
    pub(super) async fn enqueue_waiter(
        self,
        entry: &InboxEntry,
        conflict: KeyConflict,
    ) -> Result<(), EngineError> {
        let KeyConflict { key, holder, .. } = conflict;
        let (run, since) = (&entry.run, entry.at);
        if self.earlier_waiter(run, Some(since), &holder).await?.is_some() {
            return Ok(());
        }
        let next = Waiter { run: run.run.clone(), since, seen: self.core.now() };
        // A concurrent registration wins; the next retry sees which entry is first.
        self.core
            .retry_busy(|store| store.enqueue_waiter(&run.tenant, &key, holder.clone(), next.clone()))
            .await?;
        Ok(())
    }

    /// What happens to a request of `plan` whose key is held by `by`. It joins only a run of the same workflow: a run of
    /// another workflow does not do its work.
    pub(super) async fn on_conflict(self, plan: &Plan, by: &RunKey) -> Result<OnConflict, EngineError> {
        let rule = plan.concurrency.as_ref().map(|rule| rule.on_conflict).unwrap_or_default();
        if rule != OnConflict::Join {
            return Ok(rule);
        }
        let holding = self.core.retry_busy(|store| store.load(by)).await?;
        let same = holding.is_some_and(|run| run.workflow == plan.workflow);
        Ok(if same { OnConflict::Join } else { OnConflict::Queue })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::admission::start::tests::{engine, request};

    #[tokio::test(start_paused = true)]
    async fn a_holder_that_is_not_visible_yet_is_read_again() {
        let elsewhere = engine().admission().start(request()).await.unwrap().run;
        let engine = engine();
        let starts = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            engine.admission().start(request()).await.unwrap().run
        };
        let (active, run) = tokio::join!(engine.admission().is_active(&elsewhere), starts);
        assert_eq!((active.unwrap(), run), (true, elsewhere.clone()));

        let never = RunKey { tenant: "umbrella".parse().unwrap(), ..elsewhere };
        assert!(!engine.admission().is_active(&never).await.unwrap());
    }
}
