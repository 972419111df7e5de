//! Approvals: recording votes.

use domain::command::{Command as _, RecordVote, VoteResult};
use domain::{
    Approval, ApprovalId, Cause, Channel, Digest, Initiator, PersonId, Refusal, RunKey, Tenant, TenantId,
};
use store::{ApprovalPage, Cursor, PageQuery, Store};

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
}
