//! Runs, plans, receipts and event chains.
//!
//! The item of an event that finishes a step is also the record of that step. A step is then found by its key, and
//! a commit writes one item less. The chain is therefore read from two ranges of the run's partition.

use std::collections::BTreeSet;

use domain::chain::StoredEvent;
use domain::plan::STEPS_MAX;
use domain::record::Signal;
use domain::{
    ConcurrencyKey, Decision, Digest, IdempotencyKey, Millis, Payload, Plan, Receipt, RunKey, RunRecord,
    SignalId, StepRecord, StepSeq, TenantId, Timestamp,
};

use crate::blobs::Blobs;
use crate::error::StoreError;
use crate::ledger::{Admission, Due, KeyHolder, Ledger, RunPage, RunQuery, Waiter, Write};
use crate::queue::Queue;

use super::error::AwsError;
use super::index::missing_attribute;
use super::item::{
    BODY, BUFFERED, DIGEST, EVENT, Item, NUMBER, RUN, WOKEN_AT, number, read_number, read_text,
};
use super::key::{Key, SK};
use super::{AwsStore, Condition, build_item};

impl<Q, B> Ledger for AwsStore<Q, B>
where
    Q: Queue + Send + Sync + 'static,
    B: Blobs + Send + Sync + 'static,
{
    /// DynamoDB gives no bound for its global indexes. They are usually late by less than a second.
    const INDEX_DELAY: Millis = Millis::secs(10);

    async fn put_plan(&self, tenant: &TenantId, plan: &Plan) -> Result<(), StoreError> {
        let doing = "store a plan";
        let item = build_item(
            &Key::plan(tenant, &plan.hash()),
            [(BODY, self.encode_body(tenant, plan, doing).await?)],
        );
        // If the item exists, it is the same plan: the hash is in the key.
        self.put(item, Condition::is_new(), doing).await.map(drop)
    }

    async fn plan(&self, tenant: &TenantId, hash: &Digest) -> Result<Option<Plan>, StoreError> {
        self.get_body(&Key::plan(tenant, hash), "read a plan").await
    }

    async fn admit(&self, admission: Admission) -> Result<Write, StoreError> {
        let Admission { decision, input, hold } = admission;
        self.write_decision(decision, Some(input), hold).await
    }

    async fn holder(
        &self,
        tenant: &TenantId,
        concurrency_key: &ConcurrencyKey,
    ) -> Result<Option<KeyHolder>, StoreError> {
        let doing = "find the holder of a concurrency key";
        let (first, last) =
            (Key::concurrency_key(tenant, concurrency_key), Key::last_waiter(tenant, concurrency_key));
        let mut items = self.range((&first, &last), 2, doing).await?.into_iter();
        let Some(item) = items.next().filter(|item| Key::of(item).as_ref() == Some(&first)) else {
            return Ok(None);
        };
        let run = read_text(&item, RUN).and_then(|run| run.parse().ok());
        let next = items
            .next()
            .map(|item| decode_waiter(&item).ok_or_else(|| missing_attribute(SK, doing)))
            .transpose()?;
        run.map(|run| Some(KeyHolder { run, next })).ok_or_else(|| missing_attribute(RUN, doing))
    }

    async fn enqueue_waiter(
        &self,
        tenant: &TenantId,
        concurrency_key: &ConcurrencyKey,
        waiter: Waiter,
    ) -> Result<(), StoreError> {
        let doing = "enqueue a run for a concurrency key";
        let mut item = Key::waiter(tenant, concurrency_key, &waiter).item();
        item.extend(waiter.woken.map(|at| (WOKEN_AT.to_owned(), number(at.0))));
        let put = self.client.put_item().table_name(&*self.table).set_item(Some(item));
        put.send().await.map(drop).map_err(|error| AwsError::from_sdk(error).into_write_error(doing))
    }

    async fn remove_waiter(
        &self,
        tenant: &TenantId,
        concurrency_key: &ConcurrencyKey,
        waiter: Waiter,
    ) -> Result<(), StoreError> {
        let key = Key::waiter(tenant, concurrency_key, &waiter);
        self.delete_item(&key, "remove a run from the wait queue of a concurrency key").await
    }

    async fn commit(&self, decision: Decision) -> Result<Write, StoreError> {
        self.write_decision(decision, None, None).await
    }

    async fn load(&self, run: &RunKey) -> Result<Option<RunRecord>, StoreError> {
        self.get_body(&Key::run(run), "load a run").await
    }

    async fn input(&self, run: &RunKey) -> Result<Option<Payload>, StoreError> {
        self.get_body(&Key::event(run, 0), "read the input of a run").await
    }

    async fn step(
        &self,
        run: &RunKey,
        seq: StepSeq,
        rollback: bool,
    ) -> Result<Option<StepRecord>, StoreError> {
        self.get_body(&Key::step(run, seq, rollback), "read a step").await
    }

    async fn steps(&self, run: &RunKey) -> Result<Vec<StepRecord>, StoreError> {
        let doing = "list the steps of a run";
        self.decode_steps(&self.step_items(run, doing).await?, doing).await
    }

    async fn events(&self, run: &RunKey, from: u32, limit: u32) -> Result<Vec<StoredEvent>, StoreError> {
        let doing = "list the events of a run";
        let Some(last) = limit.checked_sub(1).map(|more| from.saturating_add(more)) else {
            return Ok(Vec::new());
        };
        let events = self.range((&Key::event(run, from), &Key::event(run, last)), u32::MAX, doing).await?;
        decode_chain(events.iter().chain(&self.step_items(run, doing).await?), from, last, doing)
    }

    async fn history(
        &self,
        run: &RunKey,
        limit: u32,
    ) -> Result<(Vec<StoredEvent>, Vec<StepRecord>), StoreError> {
        let doing = "read the history of a run";
        let last = limit.saturating_sub(1);
        let events = self.range((&Key::event(run, 0), &Key::event(run, last)), u32::MAX, doing).await?;
        let steps = self.step_items(run, doing).await?;
        let chain = decode_chain(events.iter().chain(&steps), 0, last, doing)?;
        Ok((chain, self.decode_steps(&steps, doing).await?))
    }

    async fn receipt(&self, tenant: &TenantId, key: &IdempotencyKey) -> Result<Option<Receipt>, StoreError> {
        self.get_body(&Key::receipt(tenant, key), "read a receipt").await
    }

    async fn displaced(&self, run: &RunKey, key: &IdempotencyKey) -> Result<Option<Receipt>, StoreError> {
        self.get_body(&Key::displaced(run, key), "read a displaced receipt").await
    }

    async fn signal(&self, run: &RunKey, id: &SignalId) -> Result<Option<Signal>, StoreError> {
        let doing = "read a signal";
        let Some(item) = self.get(&Key::signal(run, id), doing).await? else { return Ok(None) };
        let buffered = item.get(BUFFERED).and_then(|buffered| buffered.as_bool().ok().copied());
        let buffered = buffered.ok_or_else(|| missing_attribute(BUFFERED, doing))?;
        let signal: Signal = self.decode_body(&item, doing).await?;
        Ok(Some(Signal { buffered, ..signal }))
    }

    async fn runs(&self, tenant: &TenantId, query: RunQuery) -> Result<RunPage, StoreError> {
        self.list_runs(tenant, query).await
    }

    async fn due_excluding(
        &self,
        excluded: &BTreeSet<TenantId>,
        now: Timestamp,
        limit: u32,
    ) -> Result<Vec<Due>, StoreError> {
        self.due_runs(excluded, now, limit).await
    }

    async fn tenants(&self, after: Option<&TenantId>, limit: u32) -> Result<Vec<TenantId>, StoreError> {
        self.active_tenants(after, limit).await
    }

    async fn flush(&self, now: Timestamp, limit: u32) -> Result<u32, StoreError> {
        self.flush_outbox(now, limit).await
    }
}

impl<Q, B> AwsStore<Q, B>
where
    Q: Queue + Send + Sync + 'static,
    B: Blobs + Send + Sync + 'static,
{
    /// The items of all finished steps and undos of a run.
    async fn step_items(&self, run: &RunKey, doing: &'static str) -> Result<Vec<Item>, StoreError> {
        let last = StepSeq(u16::try_from(STEPS_MAX).unwrap_or(u16::MAX));
        self.range((&Key::step(run, StepSeq(0), false), &Key::step(run, last, true)), u32::MAX, doing).await
    }

    /// Decodes step records, in the order in which they finished.
    async fn decode_steps(&self, items: &[Item], doing: &'static str) -> Result<Vec<StepRecord>, StoreError> {
        let mut steps: Vec<StepRecord> = Vec::with_capacity(items.len());
        for item in items {
            steps.push(self.decode_body(item, doing).await?);
        }
        steps.sort_by_key(|step| step.event);
        Ok(steps)
    }
}

/// The waiter in an item.
fn decode_waiter(item: &Item) -> Option<Waiter> {
    let (run, since) = Key::of(item)?.parse_waiter()?;
    Some(Waiter { run, since, woken: read_number(item, WOKEN_AT).map(Timestamp) })
}

/// The events `from..=last` in `items`.
fn decode_chain<'i>(
    items: impl Iterator<Item = &'i Item>,
    from: u32,
    last: u32,
    doing: &'static str,
) -> Result<Vec<StoredEvent>, StoreError> {
    let events = items.map(decode_event).collect::<Option<Vec<_>>>();
    let mut events = events.ok_or_else(|| missing_attribute(EVENT, doing))?;
    events.sort_by_key(|(n, _)| *n);
    let selected = events.into_iter().filter(|(n, _)| (from..=last).contains(n));
    // The two ranges are read one after the other. A commit between the two reads may be visible in part, so the
    // chain ends before the first gap.
    let contiguous = selected.zip(from..).take_while(|((n, _), expected)| n == expected);
    Ok(contiguous.map(|((_, event), _)| event).collect())
}

/// The event in an item, and its number.
fn decode_event(item: &Item) -> Option<(u32, StoredEvent)> {
    let bytes = |name| item.get(name)?.as_b().ok();
    let hash: [u8; 32] = bytes(DIGEST)?.as_ref().try_into().ok()?;
    let canonical = bytes(EVENT)?.as_ref().to_vec();
    Some((read_number(item, NUMBER)?, StoredEvent { canonical, hash: Digest::from(hash) }))
}
