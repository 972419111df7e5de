//! Saying something once: a note, a comment, a message.
//!
//! # What is promised, and why no more
//! Whatever is said carries a mark made from its key, and can be found by it. That makes *found* certain.
//! *Not found* is never certain: neither ServiceNow nor GitHub nor Slack lets us shut out a holder that was
//! replaced. Waiting until its request must be over does not do it either, because a process that was
//! frozen between looking at its clock and writing to its socket writes when it thaws, however long that
//! takes. The look-up class asks for exactly that certainty, so these tools declare the opaque class, and
//! use their mark for what it can prove:
//! * When a reply is lost, the same attempt looks for the mark; what it finds was done, and nobody is asked.
//! * When a person has said to act again ([`Call::again`]), it looks before it says anything, and says
//!   nothing twice.
//! * [`Tool::look_up`](crate::Tool::look_up) answers *found*, or that it cannot be told, never *absent*.

use std::time::Duration;

use async_trait::async_trait;
use domain::{Digest, Failure, IdempotencyKey, RunKey, StepId};
use tokio::time::{Instant, sleep_until};

use crate::api::Fault;
use crate::tool::{Call, Done, LookUp, Outcome};

/// After a lost reply: what takes longer to appear is better seen by a person.
const LOOKS_MAX: u32 = 3;

/// Between two looks; these systems show a write within a second.
const LOOK_PAUSE: Duration = Duration::from_millis(500);

/// Something that is said, and can be found.
#[async_trait]
pub(crate) trait Saying: Sync {
    /// Says it.
    async fn say(&self, call: &Call<'_>, until: Instant) -> Result<Done, Fault>;

    /// Finds it by its mark.
    async fn find(&self, call: &Call<'_>, until: Instant) -> Result<Option<Done>, Fault>;
}

/// Says it, unless that was done.
pub(crate) async fn perform(saying: &impl Saying, call: &Call<'_>) -> Outcome {
    let until = Instant::now() + call.time_left;
    if !call.again {
        return say(saying, call, until).await;
    }
    match saying.find(call, until).await {
        Ok(Some(done)) => Outcome::Done(done),
        Ok(None) => say(saying, call, until).await.after_open_attempt(),
        Err(fault) => Outcome::from(fault).after_open_attempt(),
    }
}

async fn say(saying: &impl Saying, call: &Call<'_>, until: Instant) -> Outcome {
    // The last quarter is for looking, should no reply come.
    let said_until = Instant::now() + until.saturating_duration_since(Instant::now()) / 4 * 3;
    match saying.say(call, said_until).await {
        Ok(done) => Outcome::Done(done),
        Err(fault) if fault.is_open() => {
            find_after_silence(saying, call, until).await.map_or_else(|| fault.into(), Outcome::Done)
        }
        Err(fault) => fault.into(),
    }
}

async fn find_after_silence(saying: &impl Saying, call: &Call<'_>, until: Instant) -> Option<Done> {
    for look in 0..LOOKS_MAX {
        if look > 0 {
            sleep_until(until.min(Instant::now() + LOOK_PAUSE)).await;
        }
        if let Ok(Some(done)) = saying.find(call, until).await {
            return Some(done);
        }
    }
    None
}

/// Looks for it. That it is not there does not mean that it will not come.
pub(crate) async fn look_up(saying: &impl Saying, call: &Call<'_>) -> LookUp {
    match saying.find(call, Instant::now() + call.time_left).await {
        Ok(Some(done)) => LookUp::Found(done),
        Ok(None) => LookUp::Unclear(Failure::new(
            "NOT_FOUND_YET",
            format!("{} shows no mark of it so far, and an old request may still arrive", call.action.target),
        )),
        Err(fault) => LookUp::Unclear(fault.failure().clone()),
    }
}

/// What makes `said` in this step of this run differ from the same in another: two runs may say the same.
pub(crate) fn digest(said: &str, run: &RunKey, step: &StepId) -> Digest {
    let parts = [said, run.tenant.as_str(), run.run.as_str(), step.as_str()];
    Digest::of_parts("countersign/said/v1", &parts)
}

/// The mark that what `key` names is found by: half a digest, long enough to decide by.
pub(crate) fn mark(key: &IdempotencyKey) -> String {
    Digest::of_parts("countersign/mark/v1", &[key.as_str()]).to_string()[..32].to_owned()
}
