//! Keeps the card and the page of each approval up to date. Each is delivered, recorded and retried on its own.

use domain::{
    Approval, ApprovalId, Card, ConnectionKind, Page, PageStatus, Refusal, RunKey, Tenant, TenantId,
    WorkspaceId,
};
use store::{Store, Write};

use crate::core::commit::ROUNDS_MAX;
use crate::core::notifier::NotifyContext;
use crate::error::EngineError;
use crate::governance::GovernanceService;
use crate::tenant_handle::TenantHandle;

impl<S: Store> TenantHandle<S> {
    /// Why the approval requests of runs of `workspace` cannot be posted until a person changes the connections.
    pub fn unposted_reason(&self, tenant: &Tenant, workspace: &WorkspaceId) -> Option<String> {
        GovernanceService::new(&self.core).unposted_reason(tenant, workspace)
    }
}

/// The tenant and the workspace whose connections deliver the approval requests of a run.
struct NotifyScope {
    tenant: Tenant,
    workspace: WorkspaceId,
}

impl<S: Store> GovernanceService<'_, S> {
    /// Posts an approval request, or updates the posted message. Refused if the request is older than `revision`: the
    /// commit that asked for this is not there yet.
    pub async fn notify_approval(
        self,
        run: &RunKey,
        id: &ApprovalId,
        revision: u32,
    ) -> Result<(), EngineError> {
        let Some(notifier) = &self.core.notifier else {
            return self.check_nothing_to_post(run, id).await;
        };
        let scope = self.notify_scope(run).await?;
        let mut superseded = false;
        for _ in 0..ROUNDS_MAX {
            // The posted message is read first, so that the request read after it is never older. In the other order,
            // a delayed process could post an outdated request unnoticed.
            let card = self.core.retry_busy(|store| store.card(&run.tenant, id)).await?;
            let approval = self.approval_at(run, id, revision).await?;
            // Another process posted at the same time, and the older of the two updates may be visible now. It is
            // posted once more, even though the record looks current.
            let last_posted =
                card.clone().map(|card| if superseded { Card { revision: 0, ..card } } else { card });
            let (posted, failed) =
                match notifier.notify(&approval, last_posted.as_ref(), &self.context(&scope)).await {
                    Ok(None) => return self.check_nothing_to_post(run, id).await,
                    Ok(Some(posted)) => (Some(posted), None),
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

    /// Pages the on-call about an overdue approval request, or resolves the page of one that has ended. Refused if the
    /// request is older than `revision`.
    pub async fn page_on_call(self, run: &RunKey, id: &ApprovalId, revision: u32) -> Result<(), EngineError> {
        let Some(notifier) = &self.core.notifier else { return Ok(()) };
        let scope = self.notify_scope(run).await?;
        let mut superseded = false;
        for _ in 0..ROUNDS_MAX {
            // The page is read before the request, as a card is.
            let page = self.core.retry_busy(|store| store.page(&run.tenant, id)).await?;
            let approval = self.approval_at(run, id, revision).await?;
            // Another process paged or resolved at the same time, and its event may have arrived first. The page of a
            // request that has ended is resolved once more.
            let last_sent = page
                .clone()
                .map(|page| if superseded { Page { status: PageStatus::Paged, ..page } } else { page });
            let sent = notifier.page(&approval, last_sent.as_ref(), &self.context(&scope)).await?;
            match sent {
                Some(sent) if page.as_ref() != Some(&sent) => {
                    let put = self
                        .core
                        .retry_busy(|store| store.put_page(&run.tenant, id, sent.clone(), page.clone()));
                    if put.await? == Write::Committed {
                        return Ok(());
                    }
                    superseded = true;
                }
                Some(_) | None => return Ok(()),
            }
        }
        Err(EngineError::Contended { run: run.clone(), rounds: ROUNDS_MAX })
    }

    /// Why the approval requests of runs of `workspace` cannot be posted until a person changes the connections.
    pub fn unposted_reason(self, tenant: &Tenant, workspace: &WorkspaceId) -> Option<String> {
        let found = self.core.connections.for_approvals(tenant, workspace, ConnectionKind::Slack);
        found.err().map(|failure| failure.message)
    }

    /// The approval, if the commit that wrote `revision` is there.
    async fn approval_at(
        self,
        run: &RunKey,
        id: &ApprovalId,
        revision: u32,
    ) -> Result<Approval, EngineError> {
        let approval = self.approval(&run.tenant, id).await?;
        if approval.revision < revision {
            return Err(Refusal::UnknownApproval { approval: approval.id }.into());
        }
        Ok(approval)
    }

    async fn notify_scope(self, run: &RunKey) -> Result<NotifyScope, EngineError> {
        let tenant = self.core.recent_settings(&run.tenant).await?;
        // Only the record of the run has its workspace. It is read only if that makes a difference.
        let scoped = self.core.connections.all(&tenant).into_values();
        let mut scoped = scoped.filter(|resolved| resolved.connection.workspace.is_some());
        let workspace = if scoped.next().is_some() {
            let record = self.core.retry_busy(|store| store.load(run)).await?;
            record.ok_or_else(|| EngineError::NoRun { run: run.clone() })?.workspace
        } else {
            WorkspaceId::default()
        };
        Ok(NotifyScope { tenant, workspace })
    }

    fn context<'a>(&'a self, scope: &'a NotifyScope) -> NotifyContext<'a> {
        NotifyContext {
            tenant: &scope.tenant,
            workspace: &scope.workspace,
            connections: &self.core.connections,
            now: self.core.now(),
        }
    }

    /// This process cannot post. If no user of the tenant has a Slack account, or the request has ended unposted, there is
    /// nothing to post; otherwise another process has to.
    async fn check_nothing_to_post(self, run: &RunKey, id: &ApprovalId) -> Result<(), EngineError> {
        if !self.has_slack_user(&run.tenant).await? {
            return Ok(());
        }
        let posted = self.core.retry_busy(|store| store.card(&run.tenant, id)).await?.is_some();
        if posted || self.approval(&run.tenant, id).await?.is_open() {
            return Err(EngineError::NoSlack);
        }
        Ok(())
    }

    async fn has_slack_user(self, tenant: &TenantId) -> Result<bool, EngineError> {
        Ok(self.tenant(tenant).await?.people.values().any(|person| person.slack.is_some()))
    }
}
