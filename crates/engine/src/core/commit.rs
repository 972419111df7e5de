//! Commit: one conditional write, and the meaning of its result.

use std::iter;
use std::time::Duration;

use domain::{
    Approval, Command, Decision, Draft, InboxEntry, Initiator, Job, OpId, Outgoing, RunKey, RunRecord,
    StepState,
};
use store::{Store, StoreError, Write, jitter};

use crate::core::journal::Transition;
use crate::core::{Core, LoadedRun};
use crate::error::EngineError;

/// How often a decision is made again after a conflict. Each conflict means that another process made progress.
pub(crate) const ROUNDS_MAX: u32 = 32;

/// How often a request is repeated while the store is busy or does not reply. The delays add up to about two seconds,
/// and at most four: well within a lease.
const TRIES_MAX: u32 = 8;

/// The first delay; each further one is twice as long, up to half a second.
const RETRY_DELAY: Duration = Duration::from_millis(20);
const RETRY_DELAY_MAX: Duration = Duration::from_millis(500);

/// How long a commit that starts work is repeated while the store is busy. Half as long as the answer of the dispatch
/// switch is cached, because the requests take time too.
const START_WAIT_MAX: Duration = Duration::from_millis(500);

/// The result of a commit.
pub(crate) enum CommitResult {
    /// It was written. This is the run now.
    Committed(LoadedRun),
    /// Another process wrote first. This is the run now.
    Superseded(LoadedRun),
}

impl<S: Store> Core<S> {
    pub(crate) async fn load(&self, run: &RunKey) -> Result<LoadedRun, EngineError> {
        let record = self.record(run).await?;
        self.with_plan(record).await
    }

    pub(crate) async fn record(&self, run: &RunKey) -> Result<RunRecord, EngineError> {
        let record = self.retry_busy(|store| store.load(run)).await?;
        record.ok_or_else(|| EngineError::NoRun { run: run.clone() })
    }

    /// Why `run` does not exist: nothing was to start it, or its inbox entry has not.
    pub(crate) async fn missing_run_error(&self, run: RunKey) -> EngineError {
        match self.retry_busy(|store| store.entry(&run)).await {
            Ok(Some(InboxEntry { status, .. })) => EngineError::NotStarted { run, status },
            Ok(None) => EngineError::NoRun { run },
            Err(error) => error.into(),
        }
    }

    /// A draft of the loaded run.
    pub(crate) fn draft<'p>(&self, loaded: &'p LoadedRun, by: &Initiator) -> Draft<'p> {
        Draft::new(loaded.record.clone(), loaded.plan.plan(), self.context(by.clone()))
            .with_approval(loaded.approval.clone())
    }

    /// Commits `decision`, which was made from `loaded`.
    pub(crate) async fn commit(
        &self,
        loaded: &LoadedRun,
        decision: Decision,
    ) -> Result<CommitResult, EngineError> {
        let delays = delays(decision.record.op.clone());
        Box::pin(self.commit_with(loaded, decision, delays)).await
    }

    /// Commits a decision that starts work. If the store stays busy, the decision must be made again: dispatch may have
    /// been stopped since it was made.
    pub(crate) async fn commit_start(
        &self,
        loaded: &LoadedRun,
        decision: Decision,
    ) -> Result<CommitResult, EngineError> {
        let mut waited = Duration::ZERO;
        let delays = delays(decision.record.op.clone()).take_while(move |delay| {
            waited += *delay;
            waited <= START_WAIT_MAX
        });
        Box::pin(self.commit_with(loaded, decision, delays)).await
    }

    async fn commit_with(
        &self,
        loaded: &LoadedRun,
        decision: Decision,
        mut delays: impl Iterator<Item = Duration> + Send,
    ) -> Result<CommitResult, EngineError> {
        loop {
            match self.store.commit(decision.clone()).await {
                Ok(Write::Committed) => {
                    Transition::of(&loaded.record, &decision).log();
                    return Ok(CommitResult::Committed(loaded.after_commit(decision)));
                }
                Ok(Write::Superseded) => return self.reload_after_conflict(loaded, &decision).await,
                Err(StoreError::Unknown { doing }) => {
                    // The reply was lost. If the write did not land it is sent again: it is conditional on the
                    // version it was decided from, so it cannot land twice.
                    match self.reload_after_conflict(loaded, &decision).await? {
                        CommitResult::Superseded(now) if Some(now.record.version) == decision.replaces => {
                            wait(&mut delays, StoreError::Unknown { doing }).await?;
                        }
                        result => return Ok(result),
                    }
                }
                Err(busy @ StoreError::Busy { .. }) => wait(&mut delays, busy).await?,
                Err(broken @ StoreError::Broken { .. }) => return Err(broken.into()),
            }
        }
    }

    /// Reads the run again after a conflict or a lost reply, and checks whether the current state is this process's
    /// own write.
    async fn reload_after_conflict(
        &self,
        loaded: &LoadedRun,
        decision: &Decision,
    ) -> Result<CommitResult, EngineError> {
        let record = self.record(&decision.record.key).await?;
        let now = self.with_approval(record, loaded.plan.clone()).await?;
        if !is_own_write(&now.record, &decision.record.op) {
            return Ok(CommitResult::Superseded(now));
        }
        Transition::of(&loaded.record, decision).log();
        Box::pin(self.send_again(decision)).await;
        Ok(CommitResult::Committed(now))
    }

    /// Sends the run's messages again after a commit whose reply was lost: the store stopped before it sent them. A
    /// message too many is harmless; a missing one would be found by the sweep, minutes later. Jobs of other kinds
    /// are stored with the commit.
    pub(crate) async fn send_again(&self, decision: &Decision) {
        let is_sent_after_commit =
            |message: &&Outgoing| matches!(message.job, Job::Advance | Job::BuildEvidence);
        for message in decision.outgoing.iter().filter(is_sent_after_commit) {
            if let Err(error) = self.store.send(message).await {
                tracing::warn!(event = "message_not_sent", run = %message.run, %error, "message not sent; the sweep sends it");
            }
        }
    }

    /// Repeats a request while the store is busy.
    pub(crate) async fn retry_busy<'s, T, F>(
        &'s self,
        mut request: impl FnMut(&'s S) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        // Seeds the jitter with a new operation id, so that callers do not retry in lockstep.
        let mut delays = iter::once_with(|| self.operation_ids.next()).flat_map(delays);
        loop {
            match request(&self.store).await {
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
    ) -> Result<C::Output, EngineError> {
        let mut loaded = self.load(run).await?;
        for _ in 0..ROUNDS_MAX {
            let mut draft = self.draft(&loaded, by);
            let answer = command.clone().decide(&mut draft)?;
            let decision = draft.close();
            if !decision.changes(&loaded.record) {
                return Ok(answer);
            }
            match self.commit(&loaded, decision).await? {
                CommitResult::Committed(_) => return Ok(answer),
                CommitResult::Superseded(now) => loaded = now,
            }
        }
        Err(EngineError::Contended { run: run.clone(), rounds: ROUNDS_MAX })
    }
}

impl LoadedRun {
    fn after_commit(&self, decision: Decision) -> Self {
        let is_current = |approval: &Approval| Some(&approval.id) == decision.record.step_state.approval();
        let approval =
            decision.approvals.iter().chain(&self.approval).find(|approval| is_current(approval)).cloned();
        Self { record: decision.record, plan: self.plan.clone(), approval }
    }
}

/// An own write is recognized by the operation id on the record, or on the lease it granted if others have written
/// since.
fn is_own_write(record: &RunRecord, op: &OpId) -> bool {
    record.op == *op || matches!(&record.step_state, StepState::Running(lease) if lease.op == *op)
}

/// The delays between retries of `op`, with jitter by its id.
fn delays(op: OpId) -> impl Iterator<Item = Duration> + Send {
    (0..TRIES_MAX).map(move |n| {
        let delay = (RETRY_DELAY * 2_u32.saturating_pow(n)).min(RETRY_DELAY_MAX);
        jitter::around(delay, op.as_str(), n)
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
    fn retries_of_two_writers_do_not_coincide() {
        let waits = |op: &str| delays(op.parse().unwrap()).collect::<Vec<_>>();
        assert_ne!(waits("worker.1"), waits("worker.2"));
        assert_eq!(waits("worker.1"), waits("worker.1"), "the jitter is deterministic");
    }

    #[test]
    fn retries_end_well_within_a_lease() {
        for n in 0..100 {
            let op = format!("worker.{n}").parse().unwrap();
            assert!(delays(op).sum::<Duration>() < Duration::from_secs(4));
        }
    }
}
