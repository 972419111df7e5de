//! Commit: one conditional write, and what its answer means.

use std::iter;
use std::time::Duration;

use domain::{Approval, Command, Decision, Draft, Initiator, Job, Live, OpId, Outgoing, RunKey, RunRecord};
use store::{Store, StoreError, Write, spread};

use crate::error::EngineError;
use crate::journal::Move;
use crate::{Engine, Loaded};

/// How often a decision that was overtaken is made again before the caller is told. Each round means that
/// somebody else got something done.
pub(crate) const ROUNDS_MAX: u32 = 32;

/// How often a write is repeated while the store is busy or does not reply. The delays below are about two seconds together,
/// and never more than four: a store that says at once that it is busy is given up well inside a lease.
const TRIES_MAX: u32 = 8;

/// The first delay, about; each further one is twice as long, up to half a second.
const TRY_AFTER: Duration = Duration::from_millis(20);
const TRY_AFTER_MAX: Duration = Duration::from_millis(500);

/// What became of a decision.
pub(crate) enum Committed {
    /// It stands; this is the run now.
    Yes(Loaded),
    /// It was overtaken; this is the run now.
    Overtaken(Loaded),
}

impl<S: Store> Engine<S> {
    /// The run as it stands.
    pub(crate) async fn load(&self, run: &RunKey) -> Result<Loaded, EngineError> {
        let record = self.record(run).await?;
        self.with_plan(record).await
    }

    async fn record(&self, run: &RunKey) -> Result<RunRecord, EngineError> {
        let record = self.retry_busy(|| self.store.load(run)).await?;
        record.ok_or_else(|| EngineError::NoRun { run: run.clone() })
    }

    /// A draft on what was loaded.
    pub(crate) fn draft<'p>(&self, loaded: &'p Loaded, by: &Initiator) -> Draft<'p> {
        Draft::new(loaded.record.clone(), loaded.plan.plan(), self.stamp(by.clone()))
            .knowing(loaded.approval.clone())
    }

    /// Commits `decision`, which was made from `loaded`.
    pub(crate) async fn commit(&self, loaded: &Loaded, decision: Decision) -> Result<Committed, EngineError> {
        let mut delays = delays(decision.record.op.clone());
        loop {
            match self.store.commit(decision.clone()).await {
                Ok(Write::Committed) => {
                    Move::of(&loaded.record, &decision).tell();
                    return Ok(Committed::Yes(loaded.after(decision)));
                }
                Ok(Write::Superseded) => return self.reload_after_conflict(loaded, &decision).await,
                Err(StoreError::Unknown { doing }) => {
                    // The reply was lost. If the write is not there it may be sent again: it carries the
                    // version it was decided from, so it cannot land twice.
                    match self.reload_after_conflict(loaded, &decision).await? {
                        Committed::Overtaken(now) if Some(now.record.version) == decision.replaces => {
                            wait(&mut delays, StoreError::Unknown { doing }).await?;
                        }
                        settled => return Ok(settled),
                    }
                }
                Err(busy @ StoreError::Busy { .. }) => wait(&mut delays, busy).await?,
                Err(broken @ StoreError::Broken { .. }) => return Err(broken.into()),
            }
        }
    }

    /// Somebody may have written since: was it us?
    async fn reload_after_conflict(
        &self,
        loaded: &Loaded,
        decision: &Decision,
    ) -> Result<Committed, EngineError> {
        let record = self.record(&decision.record.key).await?;
        let now = self.with_approval(record, loaded.plan.clone()).await?;
        if !is_ours(&now.record, &decision.record.op) {
            return Ok(Committed::Overtaken(now));
        }
        Move::of(&loaded.record, decision).tell();
        Box::pin(self.send_again(decision)).await;
        Ok(Committed::Yes(now))
    }

    /// Sends what has the run walked, or its evidence put together, after a commit that stands though its reply was lost:
    /// whoever wrote it stopped there. It may have been sent before, which is harmless; unsent, the sweep would find it in
    /// minutes. Other jobs are written down with the commit.
    pub(crate) async fn send_again(&self, decision: &Decision) {
        let left = |message: &&Outgoing| matches!(message.job, Job::Advance | Job::BuildEvidence);
        for message in decision.outgoing.iter().filter(left) {
            if let Err(error) = self.store.send(message).await {
                tracing::warn!(run = %message.run, %error, "a message was not sent, and will be later");
            }
        }
    }

    /// Repeats a read while the store is busy.
    pub(crate) async fn retry_busy<T, F>(&self, mut ask: impl FnMut() -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        // Whoever has to wait gets a name for it, so that nobody else waits as long.
        let mut delays = iter::once_with(|| self.ops.next()).flat_map(delays);
        loop {
            match ask().await {
                Err(error @ (StoreError::Busy { .. } | StoreError::Unknown { .. })) => {
                    wait(&mut delays, error).await?;
                }
                answer => return answer,
            }
        }
    }

    /// Loads, decides and commits a command that needs nothing but the run.
    pub(crate) async fn decide<C: Command + Clone>(
        &self,
        run: &RunKey,
        by: &Initiator,
        command: &C,
    ) -> Result<C::Answer, EngineError> {
        let mut loaded = self.load(run).await?;
        for _ in 0..ROUNDS_MAX {
            let mut draft = self.draft(&loaded, by);
            let answer = command.clone().decide(&mut draft)?;
            let decision = draft.close();
            if !decision.changes(&loaded.record) {
                return Ok(answer);
            }
            match self.commit(&loaded, decision).await? {
                Committed::Yes(_) => return Ok(answer),
                Committed::Overtaken(now) => loaded = now,
            }
        }
        Err(EngineError::Contended { run: run.clone(), rounds: ROUNDS_MAX })
    }
}

impl Loaded {
    /// The run after `decision`, which was made from this, was committed.
    fn after(&self, decision: Decision) -> Self {
        let named = |approval: &Approval| Some(&approval.id) == decision.record.live.approval();
        let approval = decision.approvals.iter().chain(&self.approval).find(|a| named(a)).cloned();
        Self { record: decision.record, plan: self.plan.clone(), approval }
    }
}

/// A write that landed is found on the record, or on the lease it granted if others have written since.
fn is_ours(record: &RunRecord, op: &OpId) -> bool {
    record.op == *op || matches!(&record.live, Live::Running(lease) if lease.op == *op)
}

/// How long whoever does `op` waits between tries; those who were turned away together come back apart.
fn delays(op: OpId) -> impl Iterator<Item = Duration> + Send {
    (0..TRIES_MAX).map(move |n| {
        let delay = (TRY_AFTER * 2_u32.saturating_pow(n)).min(TRY_AFTER_MAX);
        spread::around(delay, op.as_str(), n)
    })
}

async fn wait(
    delays: &mut (impl Iterator<Item = Duration> + Send),
    error: StoreError,
) -> Result<(), StoreError> {
    match delays.next() {
        Some(delay) => {
            tokio::time::sleep(delay).await;
            Ok(())
        }
        None => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_writers_that_are_turned_away_at_once_do_not_come_back_at_once() {
        let waits = |op: &str| delays(op.parse().unwrap()).collect::<Vec<_>>();
        assert_ne!(waits("worker.1"), waits("worker.2"));
        assert_eq!(waits("worker.1"), waits("worker.1"), "a test can be repeated");
    }

    #[test]
    fn a_writer_gives_up_well_inside_a_lease() {
        for n in 0..100 {
            let op = format!("worker.{n}").parse().unwrap();
            assert!(delays(op).sum::<Duration>() < Duration::from_secs(4));
        }
    }
}
