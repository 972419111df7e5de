//! A worker's place on the roll: it signs while it is there, and reads whether somebody has asked it to leave.
//!
//! Nothing hangs on a signature. One that cannot be written is written the next time, and the worker works on.

use std::convert::Infallible;
use std::time::Duration;

use domain::{DrainRequest, Timestamp, WorkerId, WorkerRecord, WorkerReport};
use store::{Store, StoreError, Write};
use tokio::time::{sleep, timeout};

use crate::health::Condition;
use crate::{Leaving, Worker};

/// How often a signature is written over what somebody else has written meanwhile. There is one other who writes, once.
const ROUNDS_MAX: u32 = 3;

/// How long a worker that leaves waits for its last signature.
const LAST_SIGNATURE: Duration = Duration::from_secs(2);

/// A worker's place on the roll, as it knows it.
pub(crate) struct Place {
    me: WorkerId,
    /// When this one came. Whoever came at another time under the same name is another one.
    came: Timestamp,
    /// How often it signs; `None`, if it never does.
    every: Option<Duration>,
    stands: Option<WorkerRecord>,
    /// Whether that is what the store has: not, while an answer is out or after one that was lost.
    sure: bool,
}

impl Place {
    /// The place of `me`, who came at `came` and signs `every` so often, or never.
    pub(crate) fn new(me: WorkerId, came: Timestamp, every: Option<Duration>) -> Self {
        Self { me, came, every, stands: None, sure: true }
    }

    /// The next signature. What was said to an earlier worker of the same name is not for this one.
    fn signed(&self, says: WorkerReport, now: Timestamp) -> WorkerRecord {
        match &self.stands {
            Some(stands) if stands.since == self.came => stands.signs(says, now),
            before => WorkerRecord {
                seen: now,
                revision: before.as_ref().map_or(0, |before| before.revision.saturating_add(1)),
                ..WorkerRecord::new(self.me.clone(), says, self.came)
            },
        }
    }

    /// Who has asked this worker to leave.
    fn asked(&self) -> Option<&DrainRequest> {
        self.stands.as_ref().filter(|stands| stands.since == self.came)?.asked.as_ref()
    }
}

impl<S: Store> Worker<S> {
    /// Signs as long as this is waited for. If somebody has asked the worker to leave, everything in it is.
    pub(crate) async fn sign_for_ever(&self, place: &mut Place) -> Infallible {
        let Some(every) = place.every else { return std::future::pending().await };
        loop {
            if let Err(error) = self.sign(place, self.says()).await {
                tracing::warn!(%error, "the roll was not signed");
            }
            heed(place, &self.leaving);
            sleep(every).await;
        }
    }

    /// The last signature.
    pub(crate) async fn sign_off(&self, place: &mut Place, finished: bool) {
        if place.every.is_none() {
            return;
        }
        // If it is not written, the worker is missed before long.
        match timeout(LAST_SIGNATURE, self.sign(place, WorkerReport::Left { finished })).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "nobody was told on the roll that this worker left"),
            Err(_) => tracing::warn!("nobody was told in time on the roll that this worker left"),
        }
    }

    /// What the worker says of itself.
    fn says(&self) -> WorkerReport {
        let in_hand = self.health.in_hand();
        match self.health.condition() {
            _ if self.leaving.is_asked() => WorkerReport::Leaving { in_hand },
            Condition::Well => WorkerReport::Working { in_hand },
            Condition::Unwell(why) => WorkerReport::Unwell { in_hand, why },
        }
    }

    async fn sign(&self, place: &mut Place, says: WorkerReport) -> Result<(), StoreError> {
        let store = self.engine.store();
        for _ in 0..ROUNDS_MAX {
            if !place.sure {
                place.stands = store.registered_worker(&place.me).await?;
            }
            let signed = place.signed(says.clone(), self.engine.now());
            place.sure = false;
            // Superseded: somebody has asked it to leave.
            if store.put_worker(signed.clone()).await? == Write::Committed {
                (place.stands, place.sure) = (Some(signed), true);
                return Ok(());
            }
        }
        Err(StoreError::Busy { doing: "sign the roll" })
    }
}

/// Passes on what stands beside the name.
fn heed(place: &Place, leaving: &Leaving) {
    if let Some(DrainRequest { by, reason, .. }) = place.asked().filter(|_| !leaving.is_asked()) {
        tracing::warn!(by = by.id, reason, "asked to leave; steps under way may finish");
        leaving.ask();
    }
}
