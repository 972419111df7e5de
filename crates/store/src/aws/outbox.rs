//! Messages of commits.
//!
//! A message that asks for a walk, or for evidence, needs no record of its own: the due index stands behind every
//! run that can move or has no evidence yet. Any other job must outlive whoever commits it, so it is sent before
//! the commit, to arrive after it. Whoever gets an job of a commit that never stood finds nothing to do. Only an
//! job that could not be sent is written down in the transaction, sent after it, and then forgotten; what a
//! process that died in between left behind is sent by the sweep.

use aws_sdk_dynamodb::types::AttributeValue;
use domain::{Decision, Job, Millis, Outgoing, QueueName, RunRecord, Timestamp, TraceContext};

use crate::blobs::Blobs;
use crate::error::{StoreError, told};
use crate::queue::Queue;
use crate::trace;

use super::commit::{Guard, Moment, Transaction, shard};
use super::error::Fault;
use super::index::Due;
use super::item::{Item, JOB, QUEUE, TRACE, UNSEALED, number, read_text, text};
use super::key::Key;
use super::table::DUE;
use super::{AwsStore, Condition, with};

/// How long whoever committed has to send an job before the sweep does. Twice is harmless, and costs.
pub(super) const GRACE: Millis = Millis::secs(30);

/// How long an job that goes before its commit is under way, where whoever gets it too early can tell. A commit
/// takes some milliseconds; SQS makes a second of this.
const BEHIND: Millis = Millis(250);

/// How long it is under way where nobody could tell: longer than all tries of a commit take together.
const FAR_BEHIND: Millis = Millis::secs(10);

/// The revision of a request that its commit makes.
const FIRST_REVISION: u32 = 1;

/// How long evidence that was asked for is waited for before it is asked for again: about as long as the run has been
/// over by then. What keeps a run from its evidence may last for days, and each message that is given up is a dead letter
/// for a person to look at.
const SEAL_AGAIN_MIN: Millis = Millis::mins(15);
const SEAL_AGAIN_MAX: Millis = Millis::hours(24);

const FLUSHING: &str = "send what is left in the outbox";

impl<Q, B> AwsStore<Q, B>
where
    Q: Queue + Send + Sync + 'static,
    B: Blobs + Send + Sync + 'static,
{
    /// Sends the jobs of a decision that is about to be committed; says which are under way, by number.
    pub(super) async fn send_early(&self, decision: &Decision) -> Vec<usize> {
        let jobs = decision.outgoing.iter().enumerate().filter(|(_, message)| is_errand(message));
        let (numbers, messages): (Vec<_>, Vec<_>) =
            jobs.map(|(number, message)| (number, behind(decision, message))).unzip();
        let sent = self.send_of(decision, &messages).await;
        numbers.into_iter().zip(sent).filter(|(_, sent)| sent.is_ok()).map(|(number, _)| number).collect()
    }

    /// Writes down the jobs that are not under way.
    pub(super) fn write_outbox(
        &self,
        transaction: &mut Transaction,
        decision: &Decision,
        under_way: &[usize],
        moment: &Moment,
    ) -> Result<(), StoreError> {
        let jobs = decision.outgoing.iter().enumerate().filter(|(_, message)| is_errand(message));
        for (number_of, message) in jobs.filter(|(number, _)| !under_way.contains(number)) {
            let key = Key::outbox(&message.run, decision.record.version, number_of);
            let item = with(
                &key,
                [
                    (QUEUE, text(message.queue.as_str())),
                    (JOB, text(message.job.to_string())),
                    (TRACE, text(trace::context_of(&decision.record).to_string())),
                    (DUE.hash, text(shard("outbox", &message.run))),
                    (DUE.range, number((moment.now + message.delay + GRACE).0)),
                ],
            );
            self.put_in(transaction, Guard::History, item, Condition::is_new())?;
        }
        Ok(())
    }

    /// Sends the messages of a decision that stands, but for jobs that are about to arrive.
    pub(super) async fn deliver(&self, decision: &Decision, under_way: &[usize]) {
        let arrives = |number: &usize, message| under_way.contains(number) && can_tell(decision, message);
        let left = decision.outgoing.iter().enumerate().filter(|(number, message)| !arrives(number, message));
        let (numbers, messages): (Vec<_>, Vec<_>) =
            left.map(|(number, message)| (number, message.clone())).unzip();
        let sent = self.send_of(decision, &messages).await;
        for ((number_of, message), sent) in numbers.into_iter().zip(&messages).zip(sent) {
            if sent.is_ok() && is_errand(message) && !under_way.contains(&number_of) {
                let key = Key::outbox(&message.run, decision.record.version, number_of);
                // What is not sent, or sent and not forgotten, the sweep finds.
                let _ = self.forget(&key).await;
            }
        }
    }

    /// Sends messages of a decision, in the story of its run. What is not sent is logged: whoever commits is not told,
    /// and somebody else makes up for it later.
    async fn send_of(&self, decision: &Decision, messages: &[Outgoing]) -> Vec<Result<(), StoreError>> {
        let sent = trace::within(trace::context_of(&decision.record), self.queue.send_all(messages)).await;
        for (Outgoing { run, queue, job, .. }, sent) in messages.iter().zip(&sent) {
            if let Err(error) = sent {
                let error = told(error);
                tracing::warn!(%run, %queue, %job, error, "a message was not sent, and will be later");
            }
        }
        sent
    }

    /// Sends jobs that were committed and not sent, at most `limit` of them; says how many. The sweep
    /// calls this beside looking for due runs.
    pub async fn flush_outbox(&self, now: Timestamp, limit: u32) -> Result<u32, StoreError> {
        // Both are looked for before anything is sent, so whoever is told that this failed there has done nothing.
        let due = Due::of_all(now, limit, FLUSHING);
        let left = self.due_items("outbox", due).await?;
        let over = self.due_run_items(due, |item| item.contains_key(UNSEALED)).await?;
        let (mut sent, mut away) = (0, Away::default());
        for key in left {
            sent += u32::from(self.flush_left(&key, &mut away).await?);
        }
        for item in over {
            sent += u32::from(self.flush_unsealed(&item, now, &mut away).await?);
        }
        away.first_error.map_or(Ok(sent), Err)
    }

    /// Sends an job that was left behind; says whether it did.
    async fn flush_left(&self, key: &Key, away: &mut Away) -> Result<bool, StoreError> {
        // The index may be late: what was forgotten since is not there.
        let Some(item) = self.get(key, FLUSHING).await? else { return Ok(false) };
        let Some(message) = left_behind(key, &item) else {
            tracing::warn!(?key, "an job that was left behind cannot be read, and is passed over");
            return Ok(false);
        };
        let led_here = read_text(&item, TRACE).and_then(|trace| trace.parse().ok());
        if !self.send_late(&message, led_here, away).await {
            return Ok(false);
        }
        self.forget(key).await?;
        Ok(true)
    }

    /// Asks again for evidence of a run that has been over for a while, and lets it come up once more later: whoever is
    /// asked may give up, too. Only evidence that is recorded takes it out of the due index.
    async fn flush_unsealed(&self, item: &Item, now: Timestamp, away: &mut Away) -> Result<bool, StoreError> {
        let Some((key, run)) = Key::of(item).and_then(|key| Some((key.clone(), key.run_key()?))) else {
            return Ok(false);
        };
        let record: Option<RunRecord> = self.read_or_pass_over(item, FLUSHING).await?;
        let Some(record) = record else { return Ok(false) };
        let message = Outgoing { run, queue: QueueName::Steps, job: Job::BuildEvidence, delay: Millis(0) };
        if !self.send_late(&message, Some(record.story()), away).await {
            return Ok(false);
        }
        let again = number(ask_again_at(&record, now).0);
        let values = [(":yes", AttributeValue::Bool(true)), (":again", again)];
        let values = values.map(|(name, value)| (name.to_owned(), value)).into();
        // Where evidence came meanwhile nothing is left to ask for.
        self.update(&key, "SET due_at = :again", "unsealed = :yes", values, FLUSHING).await?;
        Ok(true)
    }

    /// Sends what was not sent in time, unless its queue takes nothing; says whether it did.
    async fn send_late(&self, message: &Outgoing, led_here: Option<TraceContext>, away: &mut Away) -> bool {
        let Outgoing { run, queue, job, .. } = message;
        if away.queues.contains(queue) {
            return false;
        }
        let sent = trace::within_told(led_here, self.queue.send(message)).await;
        let Err(error) = sent else { return true };
        let why = told(&error);
        tracing::warn!(%run, %queue, %job, error = why, "a message that was left behind was not sent, and will be later");
        away.says(*queue, error);
        false
    }

    async fn forget(&self, key: &Key) -> Result<(), StoreError> {
        let delete = self.client.delete_item().table_name(&*self.table).set_key(Some(key.item()));
        delete.send().await.map_err(|error| Fault::of(error).write("forget an job"))?;
        Ok(())
    }
}

/// The queues that take nothing during a flush. What goes by another one is sent all the same, and nobody waits for the
/// same one twice: a queue that hangs would hold up whatever else the sweep looks for.
#[derive(Default)]
struct Away {
    queues: Vec<QueueName>,
    first_error: Option<StoreError>,
}

impl Away {
    fn says(&mut self, queue: QueueName, error: StoreError) {
        // What is broken is this one message.
        if !matches!(error, StoreError::Broken { .. }) {
            self.queues.push(queue);
        }
        self.first_error.get_or_insert(error);
    }
}

/// When evidence of a run is asked for again, if it is asked for now.
fn ask_again_at(record: &RunRecord, now: Timestamp) -> Timestamp {
    let over_for = record.completed_at.map(|ended| now - ended).unwrap_or_default();
    now + over_for.clamp(SEAL_AGAIN_MIN, SEAL_AGAIN_MAX)
}

/// Whether a message asks for something that nothing else would bring about.
fn is_errand(message: &Outgoing) -> bool {
    !matches!(message.job, Job::Advance | Job::BuildEvidence)
}

/// The job as it is sent before its commit.
fn behind(decision: &Decision, message: &Outgoing) -> Outgoing {
    let by = if can_tell(decision, message) { BEHIND } else { FAR_BEHIND };
    Outgoing { delay: message.delay.max(by), ..message.clone() }
}

/// Whether whoever gets an job before its commit can tell, and lets it come again: a request that was never made
/// cannot be shown. One that was made before can be, as it stood then; so its job is sent twice, at once after
/// the commit and, to be sure, a while later.
fn can_tell(decision: &Decision, message: &Outgoing) -> bool {
    let Job::NotifyApproval(id) = &message.job else { return false };
    decision.approvals.iter().any(|made| made.id == *id && made.revision == FIRST_REVISION)
}

/// The message that an item of the outbox stands for.
fn left_behind(key: &Key, item: &Item) -> Option<Outgoing> {
    let job: Job = read_text(item, JOB)?.parse().ok()?;
    let queue: QueueName = read_text(item, QUEUE)?.parse().ok()?;
    Some(Outgoing { run: key.run_key()?, queue, job, delay: Millis(0) })
}
