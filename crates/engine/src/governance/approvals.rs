//! Approvals: recording votes, and keeping the posted approval requests up to date.

use domain::command::{Command as _, RecordVote, VoteResult};
use domain::{
    Approval, ApprovalId, Card, Cause, Channel, Digest, Initiator, PersonId, Refusal, RunKey, Tenant,
    TenantId,
};
use store::{ApprovalPage, Cursor, PageQuery, Store, Write};

use crate::core::commit::{CommitResult, ROUNDS_MAX};
use crate::error::EngineError;
use crate::governance::GovernanceService;
use crate::tenant_handle::TenantHandle;

/// A person's vote on an approval request.
#[derive(Debug, Clone, PartialEq)]
pub struct VoteRequest {
    pub approval: ApprovalId,
    /// The hash of the action that the person saw. A vote on another action is refused.
    pub subject: Option<Digest>,
    pub person: PersonId,
    pub approve: bool,
    pub reason: String,
    /// How the vote arrived and how the person was authenticated.
    pub through: Channel,
}

/// A vote on an approval request, by the handle's user.
#[derive(Debug, Clone, PartialEq)]
pub struct VoteInput {
    pub approval: ApprovalId,
    /// The hash of the action that the user saw.
    pub subject: Option<Digest>,
    pub approve: bool,
    pub reason: String,
    /// How the vote arrived and how the user was authenticated.
    pub through: Channel,
}

impl<S: Store> TenantHandle<S> {
    /// Open approval requests, oldest first.
    pub async fn open_approvals(
        &self,
        after: Option<Cursor>,
        limit: u32,
    ) -> Result<ApprovalPage, EngineError> {
        let query = PageQuery { after, limit };
        Ok(self.core.retry_busy(|store| store.open_approvals(&self.tenant, query.clone())).await?)
    }

    pub async fn approval(&self, id: &ApprovalId) -> Result<Approval, EngineError> {
        GovernanceService::new(&self.core).approval(&self.tenant, id).await
    }

    /// Records the user's vote.
    pub async fn record_vote(&self, reply: VoteInput) -> Result<VoteResult, EngineError> {
        let VoteInput { approval, subject, approve, reason, through } = reply;
        let person = PersonId::new(&self.by.id)
            .map_err(|_| EngineError::InvalidUserName { id: self.by.id.clone() })?;
        let reply = VoteRequest { approval, subject, person, approve, reason, through };
        GovernanceService::new(&self.core).record_vote(&self.tenant, reply).await
    }
}

impl<S: Store> GovernanceService<'_, S> {
    pub async fn approval(self, tenant: &TenantId, id: &ApprovalId) -> Result<Approval, EngineError> {
        let approval = self.core.retry_busy(|store| store.approval(tenant, id)).await?;
        approval.ok_or_else(|| Refusal::UnknownApproval { approval: id.clone() }.into())
    }

    /// Records a person's vote.
    pub async fn record_vote(self, tenant: &TenantId, reply: VoteRequest) -> Result<VoteResult, EngineError> {
        let directory = self.tenant(tenant).await?;
        let run = self.approval(tenant, &reply.approval).await?.run;
        self.record_vote_on(&run, &directory, reply).await
    }

    /// Records a person's vote on a request of `run`, with a tenant directory that the caller has just read.
    pub async fn record_vote_on(
        self,
        run: &RunKey,
        directory: &Tenant,
        reply: VoteRequest,
    ) -> Result<VoteResult, EngineError> {
        let by = Initiator::new(Cause::Approval, reply.person.as_str());
        for _ in 0..ROUNDS_MAX {
            // The request is read after the run. It changes only together with the run, so the commit fails if it is
            // newer than the record.
            let loaded = self.core.load(run).await?;
            let approval = match loaded.approval.clone().filter(|approval| approval.id == reply.approval) {
                Some(current) => current,
                None => self.approval(&run.tenant, &reply.approval).await?,
            };
            if reply.subject.is_some_and(|seen| seen != approval.subject.hash()) {
                return Err(Refusal::SubjectChanged { approval: approval.id }.into());
            }
            let mut draft = self.core.draft(&loaded, &by);
            let command = RecordVote {
                approval,
                person: reply.person.clone(),
                approve: reply.approve,
                reason: reply.reason.clone(),
                through: reply.through.clone(),
                tenant: directory.clone(),
            };
            let result = command.decide(&mut draft)?;
            if result == VoteResult::Duplicate {
                return Ok(result);
            }
            let decision = draft.close();
            match self.core.commit(&loaded, decision).await? {
                CommitResult::Committed(_) => return Ok(result),
                CommitResult::Superseded(_) => {}
            }
        }
        Err(EngineError::Contended { run: run.clone(), rounds: ROUNDS_MAX })
    }

    /// Posts an approval request, or updates the posted message. Refused if the request is older than `revision`: the
    /// commit that asked for this is not there yet.
    pub async fn notify_approval(
        self,
        run: &RunKey,
        id: &ApprovalId,
        revision: u32,
    ) -> Result<(), EngineError> {
        let Some(notifier) = &self.core.notifier else {
            return self.check_nothing_to_post(&run.tenant).await;
        };
        let mut superseded = false;
        for _ in 0..ROUNDS_MAX {
            // The posted message is read first, so that the request read after it is never older. In the other order,
            // a delayed process could post an outdated request unnoticed.
            let card = self.core.retry_busy(|store| store.card(&run.tenant, id)).await?;
            let approval = self.approval(&run.tenant, id).await?;
            if approval.revision < revision {
                return Err(Refusal::UnknownApproval { approval: approval.id }.into());
            }
            // Another process posted at the same time, and the older of the two updates may be visible now. It is
            // posted once more, even though the record looks current.
            let last_posted =
                card.clone().map(|card| if superseded { Card { revision: 0, ..card } } else { card });
            let (posted, failed) = match notifier.notify(&approval, last_posted.as_ref()).await {
                Ok(posted) => (Some(posted), None),
                Err(failed) => (failed.so_far.clone(), Some(failed)),
            };
            let stored = match &posted {
                Some(posted) if card.as_ref() != Some(posted) => {
                    let put = self
                        .core
                        .retry_busy(|store| store.put_card(&run.tenant, id, posted.clone(), card.clone()));
                    put.await? == Write::Committed
                }
                Some(_) | None => true,
            };
            match failed {
                Some(failed) => return Err(failed.into()),
                None if stored => return Ok(()),
                None => superseded = true,
            }
        }
        Err(EngineError::Contended { run: run.clone(), rounds: ROUNDS_MAX })
    }

    /// This process cannot post. If no user of the tenant has a Slack account there is nothing to post; otherwise
    /// another process has to.
    async fn check_nothing_to_post(self, tenant: &TenantId) -> Result<(), EngineError> {
        let has_slack_user = self.tenant(tenant).await?.people.values().any(|person| person.slack.is_some());
        if has_slack_user { Err(EngineError::NoSlack) } else { Ok(()) }
    }
}
