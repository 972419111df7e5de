//! A worker's place on the roll: it signs while it is there, and reads whether somebody wants it gone.
//!
//! Nothing hangs on a signature. One that cannot be written is written the next time, and the worker works on.

use std::convert::Infallible;
use std::time::Duration;

use domain::{Enrolled, Says, WorkerId};
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
    /// How often it signs; `None`, if it never does.
    every: Option<Duration>,
    stands: Option<Enrolled>,
    /// Whether that is what the store has: not, while an answer is out or after one that was lost.
    sure: bool,
}

impl Place {
    /// The place of `me`, who signs `every` so often, or never.
    pub(crate) fn new(me: WorkerId, every: Option<Duration>) -> Self {
        Self { me, every, stands: None, sure: true }
    }
}

impl<S: Store> Worker<S> {
    /// Signs as long as this is waited for. If somebody wants the worker gone, everything in it is asked to leave.
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
        let _ = timeout(LAST_SIGNATURE, self.sign(place, Says::Left { finished })).await;
    }

    /// What the worker says of itself.
    fn says(&self) -> Says {
        let in_hand = self.health.in_hand();
        match self.health.condition() {
            _ if self.leaving.is_asked() => Says::Leaving { in_hand },
            Condition::Well => Says::Working { in_hand },
            Condition::Unwell(why) => Says::Unwell { in_hand, why },
        }
    }

    async fn sign(&self, place: &mut Place, says: Says) -> Result<(), StoreError> {
        let store = self.engine.store();
        for _ in 0..ROUNDS_MAX {
            if !place.sure {
                place.stands = store.enrolled(&place.me).await?;
            }
            let now = self.engine.now();
            let signed = match &place.stands {
                Some(stands) => stands.signs(says.clone(), now),
                None => Enrolled::new(place.me.clone(), says.clone(), now),
            };
            place.sure = false;
            // Superseded: somebody wants it gone.
            if store.enroll(signed.clone()).await? == Write::Committed {
                (place.stands, place.sure) = (Some(signed), true);
                return Ok(());
            }
        }
        Err(StoreError::Busy { doing: "sign the roll" })
    }
}

/// Passes on what stands beside the name.
fn heed(place: &Place, leaving: &Leaving) {
    let Some(asked) = place.stands.as_ref().and_then(|stands| stands.asked.as_ref()) else { return };
    if !leaving.is_asked() {
        tracing::info!(by = asked.by.id, reason = asked.reason, "asked to leave");
        leaving.ask();
    }
}
