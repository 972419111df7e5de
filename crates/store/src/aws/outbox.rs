//! The messages of commits.
//!
//! An `advance` or `build_evidence` message needs no record of its own: the due index holds every run that can
//! advance or has no evidence yet. Any other job must survive the process that commits it, so its message is sent
//! before the commit, with a delay that lets the commit finish first. A worker that receives it too early finds the
//! commit missing and lets the message return. Only if that message cannot be sent does the transaction store it as an outbox
//! item, which is sent after the commit and then deleted. The sweep sends items that a dead process left in the
//! outbox.

use std::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering};

use aws_sdk_dynamodb::types::AttributeValue;
use domain::{Decision, Job, Millis, Outgoing, QueueName, RunRecord, Timestamp, TraceContext};
use futures_util::stream::{self, StreamExt as _};
use parking_lot::Mutex;

use crate::blobs::Blobs;
use crate::error::{StoreError, error_chain};
use crate::queue::Queue;
use crate::trace;

use super::commit::{CommitTime, Guard, Transaction};
use super::error::AwsError;
use super::index::DueQuery;
use super::item::{Item, JOB, QUEUE, TRACE, number, read_text, text};
use super::key::{
    EVIDENCE_PARTITION, EVIDENCE_PARTITIONS, Key, OUTBOX_PARTITION, index_partition, partition_count,
};
use super::table::DUE;
use super::{AwsStore, Condition, build_item};

/// How long the committing process has to send an outbox message before the sweep sends it. A duplicate is harmless
/// but costs money.
pub(super) const GRACE: Millis = Millis::secs(30);

/// The delay of a message that is sent before its commit. A commit takes milliseconds; SQS rounds this up to a second.
const EARLY_DELAY: Millis = Millis(250);

/// The interval between two requests for evidence of a run: about as long as the run has been finished, within
/// these bounds. The cause may last for days, and each dead-letter message needs an operator.
const EVIDENCE_RETRY_MIN: Millis = Millis::mins(15);
const EVIDENCE_RETRY_MAX: Millis = Millis::hours(24);

/// How many flushes read all runs without evidence after one was moved to them: the flush that moves it, and the next, in
/// case the index is late.
pub(super) const READS_AFTER_MOVE: u8 = 2;

/// How many messages a flush sends at a time.
const CONCURRENT_SENDS: usize = 16;

const FLUSHING: &str = "flush the outbox";

impl<Q, B> AwsStore<Q, B>
where
    Q: Queue + Send + Sync + 'static,
    B: Blobs + Send + Sync + 'static,
{
    /// Sends the messages that must survive this process, before the commit. Returns the numbers of those that were
    /// sent.
    pub(super) async fn send_before_commit(&self, decision: &Decision) -> Vec<usize> {
        let jobs = decision.outgoing.iter().enumerate().filter(|(_, message)| needs_outbox(message));
        let (numbers, messages): (Vec<_>, Vec<_>) =
            jobs.map(|(number, message)| (number, with_early_delay(message))).unzip();
        let sent = self.send_messages(decision, &messages).await;
        numbers.into_iter().zip(sent).filter(|(_, sent)| sent.is_ok()).map(|(number, _)| number).collect()
    }

    /// Adds the messages that were not sent to the transaction.
    pub(super) fn write_outbox(
        &self,
        transaction: &mut Transaction,
        decision: &Decision,
        sent: &[usize],
        time: &CommitTime,
    ) -> Result<(), StoreError> {
        let jobs = decision.outgoing.iter().enumerate().filter(|(_, message)| needs_outbox(message));
        for (index, message) in jobs.filter(|(number, _)| !sent.contains(number)) {
            let key = Key::outbox(&message.run, decision.record.version, index);
            let item = build_item(
                &key,
                [
                    (QUEUE, text(message.queue.as_str())),
                    (JOB, text(message.job.to_string())),
                    (TRACE, text(trace::commit_context(&decision.record).to_string())),
                    (DUE.hash, text(index_partition(OUTBOX_PARTITION, &message.run))),
                    (DUE.range, number((time.now + message.delay + GRACE).0)),
                ],
            );
            self.add_put(transaction, Guard::History, item, Condition::is_new())?;
        }
        Ok(())
    }

    /// Sends the messages of a committed decision that were not sent before it.
    pub(super) async fn deliver(&self, decision: &Decision, sent: &[usize]) {
        let unsent = decision.outgoing.iter().enumerate().filter(|(number, _)| !sent.contains(number));
        let (numbers, messages): (Vec<_>, Vec<_>) =
            unsent.map(|(number, message)| (number, message.clone())).unzip();
        let results = self.send_messages(decision, &messages).await;
        for ((index, message), result) in numbers.into_iter().zip(&messages).zip(results) {
            if result.is_ok() && needs_outbox(message) {
                let key = Key::outbox(&message.run, decision.record.version, index);
                // The sweep handles messages that are not sent or not deleted here.
                let _ = self.delete_entry(&key).await;
            }
        }
    }

    /// Sends messages of a decision, in the trace of its run. Failures are logged and not returned: the sweep
    /// sends these messages later.
    async fn send_messages(&self, decision: &Decision, messages: &[Outgoing]) -> Vec<Result<(), StoreError>> {
        let sent =
            trace::with_context(trace::commit_context(&decision.record), self.queue.send_all(messages)).await;
        for (Outgoing { run, queue, job, .. }, sent) in messages.iter().zip(&sent) {
            if let Err(error) = sent {
                let error = error_chain(error);
                tracing::warn!(
                    event = "message_not_sent", %run, %queue, %job, error,
                    "message not sent; the sweep sends it later"
                );
            }
        }
        sent
    }

    /// Sends outbox messages that were committed but not sent, and requests missing evidence again: at most `limit`
    /// of each. Returns the number of messages sent. The sweep calls this.
    pub async fn flush_outbox(&self, now: Timestamp, limit: u32) -> Result<u32, StoreError> {
        // All lists are read before anything is sent, so a failed read has no effect.
        let not_moved = self.move_finished(now, FLUSHING).await?;
        let due = DueQuery::all_tenants(now, limit, FLUSHING);
        let entries = self.due_keys(OUTBOX_PARTITION, 0..partition_count(OUTBOX_PARTITION), due).await?.keys;
        let without_evidence = self.runs_without_evidence(due).await?;
        let failures: &Mutex<FlushFailures> = &Mutex::default();
        // Finished runs that cannot be moved must not keep messages from being sent.
        if let Some(error) = not_moved {
            failures.lock().keep(error);
        }
        let entries = entries.into_iter().map(|key| async move { self.flush_entry(&key, failures).await });
        let requests = without_evidence.into_iter();
        let requests = requests.map(|item| async move { self.request_evidence(&item, now, failures).await });
        let sent = count_sent(entries, failures).await + count_sent(requests, failures).await;
        failures.lock().first_error.take().map_or(Ok(sent), Err)
    }

    /// The finished runs whose evidence is to be requested now.
    async fn runs_without_evidence(&self, due: DueQuery<'_>) -> Result<Vec<Item>, StoreError> {
        let partitions = self.late_evidence.next_partitions();
        let found = self.due_keys(EVIDENCE_PARTITION, partitions, due).await;
        if found.as_ref().map_or(true, |found| !found.keys.is_empty()) {
            self.late_evidence.read_all(1);
        }
        self.still_due(EVIDENCE_PARTITION, &found?.keys, due).await
    }

    /// Sends an outbox message. Returns whether it did.
    async fn flush_entry(&self, key: &Key, failures: &Mutex<FlushFailures>) -> Result<bool, StoreError> {
        // The index may be late: the item may be deleted.
        let Some(item) = self.get(key, FLUSHING).await? else { return Ok(false) };
        let Some(message) = decode(key, &item) else {
            tracing::warn!(event = "outbox_entry_undecodable", ?key, "skipped an undecodable outbox entry");
            return Ok(false);
        };
        let parent = read_text(&item, TRACE).and_then(|trace| trace.parse().ok());
        if !self.resend(&message, parent, failures).await {
            return Ok(false);
        }
        self.delete_entry(key).await?;
        Ok(true)
    }

    /// Requests the evidence of a finished run again, and sets the time of the next request: this one may fail too.
    /// Only recorded evidence removes the run from the due index.
    async fn request_evidence(
        &self,
        item: &Item,
        now: Timestamp,
        failures: &Mutex<FlushFailures>,
    ) -> Result<bool, StoreError> {
        let Some((key, run)) = Key::of(item).and_then(|key| Some((key.clone(), key.run_key()?))) else {
            return Ok(false);
        };
        let record: Option<RunRecord> = self.decode_or_skip(item, FLUSHING).await?;
        let Some(record) = record else { return Ok(false) };
        let message = Outgoing { run, queue: QueueName::Steps, job: Job::BuildEvidence, delay: Millis(0) };
        if !self.resend(&message, Some(record.trace_context()), failures).await {
            return Ok(false);
        }
        let next_at = number(next_evidence_request(&record, now).0);
        let values = [(":yes", AttributeValue::Bool(true)), (":again", next_at)];
        let values = values.map(|(name, value)| (name.to_owned(), value)).into();
        // The condition fails if evidence was recorded meanwhile; then nothing is left to request.
        self.update(&key, "SET due_at = :again", "evidence_pending = :yes", values, FLUSHING).await?;
        Ok(true)
    }

    /// Sends a message, unless its queue failed before in this flush. Returns whether it did.
    async fn resend(
        &self,
        message: &Outgoing,
        parent: Option<TraceContext>,
        failures: &Mutex<FlushFailures>,
    ) -> bool {
        let Outgoing { run, queue, job, .. } = message;
        if failures.lock().queues.contains(queue) {
            return false;
        }
        let sent = trace::with_parent(parent, self.queue.send(message)).await;
        let Err(error) = sent else { return true };
        let reason = error_chain(&error);
        tracing::warn!(
            event = "outbox_message_not_sent", %run, %queue, %job, error = reason,
            "outbox message not sent; the next sweep retries"
        );
        failures.lock().record(*queue, error);
        false
    }

    async fn delete_entry(&self, key: &Key) -> Result<(), StoreError> {
        self.delete_item(key, "delete an outbox entry").await
    }

    /// Deletes the item under `key`, if there is one.
    pub(super) async fn delete_item(&self, key: &Key, doing: &'static str) -> Result<(), StoreError> {
        let delete = self.client.delete_item().table_name(&*self.table).set_key(Some(key.item()));
        delete.send().await.map(drop).map_err(|error| AwsError::from_sdk(error).into_write_error(doing))
    }
}

/// Which partitions of runs without evidence a flush reads: all of them while there are such runs, and otherwise one, in
/// turns. Each query of a partition is billed, also in an idle installation, and a run waits for minutes between two
/// requests for its evidence. The first flush of a process reads all.
#[derive(Debug, Default)]
pub(super) struct LateEvidence {
    /// How many flushes read all partitions before they take turns again.
    reads_of_all: AtomicU8,
    turn: AtomicU8,
}

impl LateEvidence {
    /// At least the next `flushes` read all partitions.
    pub(super) fn read_all(&self, flushes: u8) {
        self.reads_of_all.fetch_max(flushes, Ordering::Relaxed);
    }

    fn next_partitions(&self) -> Range<u8> {
        let decrement = |left: u8| left.checked_sub(1);
        if self.reads_of_all.fetch_update(Ordering::Relaxed, Ordering::Relaxed, decrement).is_ok() {
            return 0..EVIDENCE_PARTITIONS;
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % EVIDENCE_PARTITIONS;
        turn..turn + 1
    }
}

/// What failed during a flush. Messages of other queues are still sent, and a failed queue is not tried again: a queue
/// that hangs must not block the rest of the sweep.
#[derive(Default)]
struct FlushFailures {
    queues: Vec<QueueName>,
    first_error: Option<StoreError>,
}

impl FlushFailures {
    fn record(&mut self, queue: QueueName, error: StoreError) {
        // A `Broken` error concerns this one message only.
        if !matches!(error, StoreError::Broken { .. }) {
            self.queues.push(queue);
        }
        self.keep(error);
    }

    /// The first error is returned after all messages were tried.
    fn keep(&mut self, error: StoreError) {
        self.first_error.get_or_insert(error);
    }
}

/// Sends several messages at a time; returns how many were sent. One that cannot be read or deleted must not keep the
/// others from being sent.
async fn count_sent<F: Future<Output = Result<bool, StoreError>>>(
    sends: impl Iterator<Item = F>,
    failures: &Mutex<FlushFailures>,
) -> u32 {
    let mut results = stream::iter(sends).buffer_unordered(CONCURRENT_SENDS);
    let mut sent = 0;
    while let Some(result) = results.next().await {
        match result {
            Ok(is_sent) => sent += u32::from(is_sent),
            Err(error) => failures.lock().keep(error),
        }
    }
    sent
}

/// The time of the next request for evidence of a run, if one is sent now.
fn next_evidence_request(record: &RunRecord, now: Timestamp) -> Timestamp {
    let finished_for = record.completed_at.map(|ended| now - ended).unwrap_or_default();
    now + finished_for.clamp(EVIDENCE_RETRY_MIN, EVIDENCE_RETRY_MAX)
}

/// Whether losing the message would lose the job.
fn needs_outbox(message: &Outgoing) -> bool {
    !matches!(message.job, Job::Advance | Job::BuildEvidence)
}

/// The message as it is sent before its commit.
fn with_early_delay(message: &Outgoing) -> Outgoing {
    Outgoing { delay: message.delay.max(EARLY_DELAY), ..message.clone() }
}

/// Decodes an outbox item.
fn decode(key: &Key, item: &Item) -> Option<Outgoing> {
    let job: Job = read_text(item, JOB)?.parse().ok()?;
    let queue: QueueName = read_text(item, QUEUE)?.parse().ok()?;
    Some(Outgoing { run: key.run_key()?, queue, job, delay: Millis(0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_without_late_evidence_are_read_in_turns() {
        let late = LateEvidence::default();
        let next = |reads: usize| (0..reads).map(|_| late.next_partitions()).collect::<Vec<_>>();
        assert_eq!(next(5), [0..1, 1..2, 2..3, 3..4, 0..1]);
        late.read_all(READS_AFTER_MOVE);
        late.read_all(1);
        assert_eq!(next(3), [0..4, 0..4, 1..2]);
    }
}
