//! Approvals: what people answer, and what they are shown.

use std::sync::Arc;

use async_trait::async_trait;
use domain::command::{Answer, Answered, Command as _};
use domain::{
    Approval, ApprovalId, Card, Cause, Channel, Digest, Initiator, Millis, PersonId, Refusal, RunKey, StepId,
    Tenant, TenantId,
};
use store::{Store, Write};

use crate::Engine;
use crate::commit::{Committed, ROUNDS_MAX};
use crate::error::EngineError;

/// Shows people how a request for approval stands.
#[async_trait]
pub trait Shows: Send + Sync {
    /// Brings what people see up to date, and says what they see now. Called again with that, it does
    /// nothing.
    async fn show(&self, approval: &Approval, card: Option<&Card>) -> Result<Card, NotShown>;
}

/// People could not be shown something; it is tried again.
#[derive(Debug, thiserror::Error)]
#[error("approval {approval} was not shown: {why}")]
pub struct NotShown {
    /// Which request.
    pub approval: ApprovalId,
    /// Why, without any secret.
    pub why: String,
    /// What people see all the same, if that has changed.
    pub so_far: Option<Card>,
    /// Whether trying again is worth anything.
    pub again: Again,
}

/// Whether something that failed is worth trying again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// It is, and not before this much time has passed, if the other side said so.
    After(Option<Millis>),
    /// It fails until a person mends something.
    No,
}

/// Whoever shows people things, if anybody does.
pub type Showing = Option<Arc<dyn Shows>>;

/// What a person answers.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// To which request.
    pub approval: ApprovalId,
    /// The hash of what they saw, if they were shown one: an answer to something else does not count.
    pub subject: Option<Digest>,
    /// Who answers.
    pub person: PersonId,
    /// Yes or no.
    pub approve: bool,
    /// In their words.
    pub reason: String,
    /// Through what, and how surely they are known.
    pub through: Channel,
}

impl<S: Store> Engine<S> {
    /// A request for approval.
    pub async fn approval(&self, tenant: &TenantId, id: &ApprovalId) -> Result<Approval, EngineError> {
        let approval = self.retry_busy(|| self.store.approval(tenant, id)).await?;
        approval.ok_or_else(|| Refusal::UnknownApproval { approval: id.clone() }.into())
    }

    /// The newest request of a step.
    pub async fn approval_of(&self, run: &RunKey, step: &StepId) -> Result<Approval, EngineError> {
        self.load(run).await?;
        let approvals = self.retry_busy(|| self.store.approvals(run)).await?;
        let newest = approvals.into_iter().rfind(|approval| approval.step == *step);
        newest.ok_or_else(|| Refusal::NotAsked { step: step.clone() }.into())
    }

    /// A person answers a request for approval.
    pub async fn answer(&self, tenant: &TenantId, reply: Reply) -> Result<Answered, EngineError> {
        let directory = self.tenant(tenant).await?;
        let run = self.approval(tenant, &reply.approval).await?.run;
        self.answer_on(&run, &directory, reply).await
    }

    /// A person answers a request for approval of `run`, by whoever has just read whom the tenant knows.
    pub async fn answer_on(
        &self,
        run: &RunKey,
        directory: &Tenant,
        reply: Reply,
    ) -> Result<Answered, EngineError> {
        let by = Initiator::new(Cause::Approval, reply.person.as_str());
        for _ in 0..ROUNDS_MAX {
            // What is decided on is read after the run: a request changes only together with it, so one that is newer
            // than the record makes the commit fail.
            let loaded = self.load(run).await?;
            let approval = match loaded.approval.clone().filter(|approval| approval.id == reply.approval) {
                Some(current) => current,
                None => self.approval(&run.tenant, &reply.approval).await?,
            };
            if reply.subject.is_some_and(|seen| seen != approval.subject.hash()) {
                return Err(Refusal::OtherSubject { approval: approval.id }.into());
            }
            let mut draft = self.draft(&loaded, &by);
            let command = Answer {
                approval,
                person: reply.person.clone(),
                approve: reply.approve,
                reason: reply.reason.clone(),
                through: reply.through.clone(),
                tenant: directory.clone(),
            };
            let answered = command.decide(&mut draft)?;
            if answered == Answered::Duplicate {
                return Ok(answered);
            }
            let decision = draft.close();
            match self.commit(&loaded, decision).await? {
                Committed::Yes(_) => return Ok(answered),
                Committed::Overtaken(_) => {}
            }
        }
        Err(EngineError::Contended { run: run.clone(), rounds: ROUNDS_MAX })
    }

    /// Brings what people see of a request up to date.
    pub async fn show(&self, run: &RunKey, id: &ApprovalId) -> Result<(), EngineError> {
        let Some(notifier) = &self.shows else { return self.show_nobody(&run.tenant).await };
        let mut overtaken = false;
        for _ in 0..ROUNDS_MAX {
            // The card first: a request that is read after it is never older than what it shows. Read the other
            // way round, whoever was held up in between would show people the past, and nobody would notice.
            let card = self.retry_busy(|| self.store.card(&run.tenant, id)).await?;
            let approval = self.approval(&run.tenant, id).await?;
            // Somebody else was showing it at the same time, and what people see now may be the older of
            // the two: it is shown once more, whatever is recorded.
            let seen = card.clone().map(|card| if overtaken { Card { shown: 0, ..card } } else { card });
            let (shown, failed) = match notifier.show(&approval, seen.as_ref()).await {
                Ok(shown) => (Some(shown), None),
                Err(failed) => (failed.so_far.clone(), Some(failed)),
            };
            let kept = match &shown {
                Some(shown) if card.as_ref() != Some(shown) => {
                    let write = || self.store.put_card(&run.tenant, id, shown.clone(), card.clone());
                    self.retry_busy(write).await? == Write::Committed
                }
                Some(_) | None => true,
            };
            match failed {
                Some(failed) => return Err(failed.into()),
                None if kept => return Ok(()),
                None => overtaken = true,
            }
        }
        Err(EngineError::Contended { run: run.clone(), rounds: ROUNDS_MAX })
    }

    /// This process shows nobody anything. Where no one is known to Slack, nobody waits to be shown anything;
    /// where somebody is, another process has to.
    async fn show_nobody(&self, tenant: &TenantId) -> Result<(), EngineError> {
        let reached = self.tenant(tenant).await?.people.values().any(|person| person.slack.is_some());
        if reached { Err(EngineError::NoSlack) } else { Ok(()) }
    }
}
