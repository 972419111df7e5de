//! Messages of commits.
//!
//! A message that asks for a walk needs no record of its own: the due index stands behind every run that can
//! move. Any other errand is written in the same transaction as the commit, sent after it, and then
//! forgotten; what a process that died in between left behind is sent by the sweep.

use domain::{Decision, Errand, Lane, Millis, Outgoing, Timestamp};

use crate::blobs::Blobs;
use crate::error::StoreError;
use crate::queue::Queue;

use super::commit::{Guard, Moment, Transaction, shard};
use super::error::Fault;
use super::item::{ERRAND, Item, LANE, Unfit, number, read_text, text};
use super::key::Key;
use super::table::DUE;
use super::{AwsStore, Condition, with};

/// How long whoever committed has to send an errand before the sweep does. Twice is harmless, and costs.
const GRACE: Millis = Millis::secs(30);

const FLUSHING: &str = "send what is left in the outbox";

impl<Q, B> AwsStore<Q, B>
where
    Q: Queue + Send + Sync + 'static,
    B: Blobs + Send + Sync + 'static,
{
    pub(super) fn write_outbox(
        &self,
        transaction: &mut Transaction,
        decision: &Decision,
        moment: &Moment,
    ) -> Result<(), StoreError> {
        for (number_of, message) in decision.outgoing.iter().enumerate() {
            if message.errand != Errand::Walk {
                let key = Key::outbox(&message.run, decision.record.version, number_of);
                let item = with(
                    &key,
                    [
                        (LANE, text(message.lane.as_str())),
                        (ERRAND, text(message.errand.to_string())),
                        (DUE.hash, text(shard("outbox", &message.run))),
                        (DUE.range, number((moment.now + message.delay + GRACE).0)),
                    ],
                );
                self.put_in(transaction, Guard::History, item, Condition::is_new())?;
            }
        }
        Ok(())
    }

    /// Sends the messages of a decision that stands.
    pub(super) async fn deliver(&self, decision: &Decision) {
        let sent = self.queue.send_all(&decision.outgoing).await;
        for ((number_of, message), sent) in decision.outgoing.iter().enumerate().zip(sent) {
            if sent.is_ok() && message.errand != Errand::Walk {
                let key = Key::outbox(&message.run, decision.record.version, number_of);
                // What is not sent, or sent and not forgotten, the sweep finds.
                let _ = self.forget(&key).await;
            }
        }
    }

    /// Sends errands that were committed and not sent, at most `limit` of them; says how many. The sweep
    /// calls this beside looking for due runs.
    pub async fn flush_outbox(&self, now: Timestamp, limit: u32) -> Result<u32, StoreError> {
        let mut sent = 0;
        for key in self.due_items("outbox", now, limit, FLUSHING).await? {
            // The index may be late: what was forgotten since is not there.
            let Some(item) = self.get(&key, FLUSHING).await? else { continue };
            let message = left_behind(&key, &item);
            let message = message.ok_or_else(|| StoreError::broken(FLUSHING, Unfit::Missing(ERRAND)))?;
            self.queue.send(&message).await?;
            self.forget(&key).await?;
            sent += 1;
        }
        Ok(sent)
    }

    async fn forget(&self, key: &Key) -> Result<(), StoreError> {
        let delete = self.client.delete_item().table_name(&*self.table).set_key(Some(key.item()));
        delete.send().await.map_err(|error| Fault::of(error).write("forget an errand"))?;
        Ok(())
    }
}

/// The message that an item of the outbox stands for.
fn left_behind(key: &Key, item: &Item) -> Option<Outgoing> {
    let errand: Errand = read_text(item, ERRAND)?.parse().ok()?;
    let lane: Lane = read_text(item, LANE)?.parse().ok()?;
    Some(Outgoing { run: key.run_key()?, lane, errand, delay: Millis(0) })
}
