//! The transparency log of a tenant: a head item, and one item for each entry.
//!
//! The head is the log before the newest batch, and the entries of that batch. An append first copies the entries of
//! the newest batch to items of their own, then replaces the head with one that has a new batch. Every entry is
//! therefore in the head or in its own item, and a repeated append adds a run once. The single conditional write of
//! the head decides the order of a whole batch.
//!
//! All callers of a process that append to the same log share one [`LogWriter`]: one of them writes the entries of
//! all that wait, so the rate of a log is not limited by the round trip of one write.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::types::{PutRequest, WriteRequest};
use domain::merkle::{Frontier, Position};
use domain::{Digest, RunId, RunKey, TenantId};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot::{self, Receiver, Sender};
use tokio::time::Instant;

use crate::blobs::Blobs;
use crate::error::StoreError;
use crate::jitter;
use crate::ledger::Write;
use crate::queue::Queue;

use super::error::AwsError;
use super::index::missing_attribute;
use super::item::{self, BODY, Item};
use super::key::{Key, PK};
use super::{AwsStore, BATCH_ATTEMPTS_MAX, Condition, batch_retry_delay, build_item, versioned_item};

const APPENDING: &str = "append to the transparency log";

/// The maximum number of entries that one write of the head appends. The head then has about 30 KB.
const ENTRIES_MAX: usize = 256;

/// How often a batch is retried after another process replaced the head. After that, the append fails with `Busy`,
/// and the message is delivered again.
const ROUNDS_MAX: u32 = 64;

/// The delay after a lost round is at most this many times the duration of the round. A longer delay would leave the
/// log unused between two writes; a shorter one would waste more requests.
const BACKOFF_ROUNDS_MAX: u32 = 2;

/// The maximum number of items of one `BatchWriteItem`.
const PUTS_MAX: usize = 25;

/// The number of writers above which idle ones are dropped.
const WRITERS_MAX: usize = 1_024;

/// The log writers of a process, by tenant.
#[derive(Debug, Default)]
pub(super) struct LogWriters(Mutex<HashMap<TenantId, Arc<LogWriter>>>);

impl LogWriters {
    fn get(&self, tenant: &TenantId) -> Arc<LogWriter> {
        let mut writers = self.0.lock();
        if writers.len() >= WRITERS_MAX {
            writers.retain(|_, writer| Arc::strong_count(writer) > 1);
        }
        Arc::clone(writers.entry(tenant.clone()).or_default())
    }
}

/// The entries that wait to be appended to one log.
#[derive(Debug, Default)]
struct LogWriter {
    pending: Mutex<Vec<PendingEntry>>,
    /// Held by the caller that appends the pending entries.
    append_lock: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct PendingEntry {
    entry: LogLeaf,
    reply: Sender<Result<Position, StoreError>>,
}

impl LogWriter {
    fn enqueue(&self, entry: LogLeaf) -> Receiver<Result<Position, StoreError>> {
        let (reply, position) = oneshot::channel();
        self.pending.lock().push(PendingEntry { entry, reply });
        position
    }

    /// The entries that have waited longest, without those whose callers have stopped waiting.
    fn take_batch(&self) -> Vec<PendingEntry> {
        let mut pending = self.pending.lock();
        pending.retain(|entry| !entry.reply.is_closed());
        let taken = pending.len().min(ENTRIES_MAX);
        let rest = pending.split_off(taken);
        mem::replace(&mut *pending, rest)
    }
}

/// The entry of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct LogLeaf {
    run: RunId,
    leaf: Digest,
}

/// The head of a log.
#[derive(Debug, Default, Serialize, Deserialize)]
struct LogHead {
    /// The log without the newest batch.
    before: Frontier,
    /// The newest entries. Their own items may not exist yet.
    batch: Vec<LogLeaf>,
}

impl LogHead {
    /// The log with the newest batch, and the positions of its entries.
    fn positions(&self) -> (Frontier, HashMap<RunId, Position>) {
        let mut frontier = self.before.clone();
        let place = |entry: &LogLeaf| (entry.run.clone(), frontier.push(entry.leaf));
        let positions = self.batch.iter().map(place).collect();
        (frontier, positions)
    }
}

impl<Q, B> AwsStore<Q, B>
where
    Q: Queue + Send + Sync + 'static,
    B: Blobs + Send + Sync + 'static,
{
    pub(super) async fn append_entry(&self, run: &RunKey, leaf: Digest) -> Result<Position, StoreError> {
        let writer = self.log_writers.get(&run.tenant);
        let entry = LogLeaf { run: run.run.clone(), leaf };
        let mut position = writer.enqueue(entry.clone());
        let _lock = writer.append_lock.lock().await;
        loop {
            match position.try_recv() {
                Ok(position) => return position,
                // The caller that took this entry was canceled. Its write may have been applied; the next round
                // finds out.
                Err(oneshot::error::TryRecvError::Closed) => position = writer.enqueue(entry.clone()),
                Err(oneshot::error::TryRecvError::Empty) => {}
            }
            self.append_pending(&run.tenant, writer.take_batch()).await?;
        }
    }

    /// Appends the entries and replies to their callers. If that fails, the other callers get `Busy`: each may try
    /// again.
    async fn append_pending(&self, tenant: &TenantId, pending: Vec<PendingEntry>) -> Result<(), StoreError> {
        let mut entries: Vec<LogLeaf> = Vec::with_capacity(pending.len());
        for PendingEntry { entry, .. } in &pending {
            if entries.iter().all(|known| known.run != entry.run) {
                entries.push(entry.clone());
            }
        }
        let appended = self.append_batch(tenant, &entries).await;
        for PendingEntry { entry, reply } in pending {
            let position = appended.as_ref().ok().and_then(|positions| positions.get(&entry.run)).cloned();
            // An error means that the caller has stopped waiting.
            let _ = reply.send(position.ok_or(StoreError::Busy { doing: APPENDING }));
        }
        appended.map(drop)
    }

    async fn append_batch(
        &self,
        tenant: &TenantId,
        entries: &[LogLeaf],
    ) -> Result<HashMap<RunId, Position>, StoreError> {
        for round in 1..=ROUNDS_MAX {
            let started = Instant::now();
            if let Some(positions) = self.append_round(tenant, entries).await? {
                return Ok(positions);
            }
            // A throttled or unresponsive table is an error here, because the SDK has already retried for seconds.
            // Another process won this round.
            let delay = delay_max(started.elapsed(), round);
            tokio::time::sleep(log_retry_delay(self.salt, tenant, delay, round)).await;
        }
        Err(StoreError::Busy { doing: APPENDING })
    }

    /// Reads the head first. A run that was appended before is in the newest batch, or has its own item. A run that
    /// another process appends later changes the head, so replacing the head fails and the result is `None`.
    async fn append_round(
        &self,
        tenant: &TenantId,
        entries: &[LogLeaf],
    ) -> Result<Option<HashMap<RunId, Position>>, StoreError> {
        let head: Option<LogHead> = self.get_body(&Key::log_head(tenant), APPENDING).await?;
        let (before, mut positions) = head.unwrap_or_default().positions();
        let others = entries.iter().filter(|entry| !positions.contains_key(&entry.run));
        let others: Vec<&LogLeaf> = others.collect();
        if others.is_empty() {
            return Ok(Some(positions));
        }
        let (stored, ()) =
            tokio::try_join!(self.stored_entries(tenant, &others), self.store_entries(tenant, &positions))?;
        positions.extend(stored);
        let new = others.into_iter().filter(|entry| !positions.contains_key(&entry.run));
        let head = LogHead { before, batch: new.cloned().collect() };
        if head.batch.is_empty() {
            return Ok(Some(positions));
        }
        let (_, appended) = head.positions();
        positions.extend(appended);
        let written = self.replace_head(tenant, &head).await?;
        Ok((written == Write::Committed).then_some(positions))
    }

    async fn replace_head(&self, tenant: &TenantId, head: &LogHead) -> Result<Write, StoreError> {
        let size = head.before.size() + u64::try_from(head.batch.len()).unwrap_or(u64::MAX);
        let body = self.encode_body(tenant, head, APPENDING).await?;
        let item = versioned_item(&Key::log_head(tenant), size, body);
        let replaces = match head.before.size() {
            0 => Condition::is_new(),
            before => Condition::revision(before),
        };
        self.put(item, replaces, APPENDING).await
    }

    /// The positions of the entries that have their own items.
    async fn stored_entries(
        &self,
        tenant: &TenantId,
        entries: &[&LogLeaf],
    ) -> Result<HashMap<RunId, Position>, StoreError> {
        let key = |run: &RunId| RunKey { tenant: tenant.clone(), run: run.clone() };
        let keys: Vec<Key> = entries.iter().map(|entry| Key::log_entry(&key(&entry.run))).collect();
        let mut stored = HashMap::new();
        for item in self.get_all(&keys, APPENDING).await? {
            let run = Key::of(&item).and_then(|key| key.run_key());
            let run = run.ok_or_else(|| missing_attribute(PK, APPENDING))?;
            stored.insert(run.run, self.decode_body(&item, APPENDING).await?);
        }
        Ok(stored)
    }

    /// Writes the items of entries. An item that exists is the same: an entry never changes.
    async fn store_entries(
        &self,
        tenant: &TenantId,
        positions: &HashMap<RunId, Position>,
    ) -> Result<(), StoreError> {
        let mut puts = Vec::with_capacity(positions.len());
        for (run, position) in positions {
            let key = Key::log_entry(&RunKey { tenant: tenant.clone(), run: run.clone() });
            let item = build_item(&key, [(BODY, self.encode_body(tenant, position, APPENDING).await?)]);
            puts.push(item::compress(item, BODY, 0));
        }
        let batches = puts.chunks(PUTS_MAX).map(|batch| self.put_batch(batch.to_vec()));
        futures_util::future::try_join_all(batches).await.map(drop)
    }

    /// Writes up to [`PUTS_MAX`] items without conditions.
    async fn put_batch(&self, items: Vec<Item>) -> Result<(), StoreError> {
        let broken = |error| StoreError::broken(APPENDING, error);
        let first = items.first().and_then(Key::of);
        let put = |item| PutRequest::builder().set_item(Some(item)).build().map_err(broken);
        let request = |put| WriteRequest::builder().put_request(put).build();
        let mut pending: Vec<WriteRequest> =
            items.into_iter().map(|item| put(item).map(request)).collect::<Result<_, _>>()?;
        for attempt in 1..=BATCH_ATTEMPTS_MAX {
            let batch = self.client.batch_write_item().request_items(&*self.table, pending).send().await;
            let batch = batch.map_err(|error| AwsError::from_sdk(error).into_write_error(APPENDING))?;
            let rest = batch.unprocessed_items.and_then(|mut rest| rest.remove(&*self.table));
            pending = rest.unwrap_or_default();
            if pending.is_empty() {
                return Ok(());
            }
            // DynamoDB returns unprocessed items when it throttles.
            tokio::time::sleep(batch_retry_delay(self.salt, first.as_ref(), attempt)).await;
        }
        Err(StoreError::Busy { doing: APPENDING })
    }
}

/// The longest delay after a lost round that took this long. A shorter one than a round would lose the next round too.
fn delay_max(took: Duration, round: u32) -> Duration {
    took * round.min(BACKOFF_ROUNDS_MAX)
}

/// A delay between zero and `max`. Differs between processes.
fn log_retry_delay(salt: u64, tenant: &TenantId, max: Duration, round: u32) -> Duration {
    jitter::up_to(max, &format!("{salt} {tenant}"), round)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: u64) -> LogLeaf {
        LogLeaf {
            run: RunId::new(&format!("run-{number}")).unwrap(),
            leaf: domain::merkle::leaf(&number.to_be_bytes()),
        }
    }

    #[test]
    fn batch_has_the_positions_of_single_appends() {
        let mut frontier = Frontier::default();
        let single: Vec<Position> = (0..40).map(|number| frontier.push(entry(number).leaf)).collect();
        let mut before = Frontier::default();
        let mut numbers = 0..40_u64;
        for size in [1, 7, 1, 16, 15] {
            let head = LogHead { before, batch: numbers.by_ref().take(size).map(entry).collect() };
            let (after, positions) = head.positions();
            for LogLeaf { run, leaf } in &head.batch {
                let position = &positions[run];
                assert!(position.holds(leaf));
                assert_eq!(position, &single[usize::try_from(position.index).unwrap()]);
            }
            before = after;
        }
        assert_eq!(before, frontier);
    }

    #[test]
    fn delay_after_a_lost_round_grows_with_the_duration_of_a_round() {
        for took in [Duration::from_millis(10), Duration::from_secs(1)] {
            assert_eq!([1, 2, 9].map(|round| delay_max(took, round)), [took, took * 2, took * 2]);
        }
    }

    #[test]
    fn canceled_callers_are_not_appended() {
        let writer = LogWriter::default();
        let kept = writer.enqueue(entry(1));
        drop(writer.enqueue(entry(2)));
        let taken: Vec<LogLeaf> = writer.take_batch().into_iter().map(|pending| pending.entry).collect();
        assert_eq!((taken, writer.take_batch().len()), (vec![entry(1)], 0));
        drop(kept);
    }

    #[test]
    fn full_batch_leaves_the_rest_waiting() {
        let writer = LogWriter::default();
        let replies: Vec<_> = (0..300).map(|number| writer.enqueue(entry(number))).collect();
        assert_eq!(
            [writer.take_batch().len(), writer.take_batch().len(), writer.take_batch().len()],
            [ENTRIES_MAX, 44, 0]
        );
        drop(replies);
    }
}
