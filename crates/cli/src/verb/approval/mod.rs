//! `countersign approval list|show|approve|reject`.

mod decide;
mod list;
mod show;

use api_types::Approval;
use clap::Subcommand;
use domain::{ApprovalId, EventBody, Refusal, RunKey, StepId};
use engine::EngineError;

use crate::api_session::ApiSession;
use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List pending approvals, oldest first
    List(list::Args),
    /// Show the action, the required approvers and the policy reasons
    Show(show::Args),
    /// Approve the action of a step
    Approve(decide::Args),
    /// Reject the action of a step
    Reject(decide::Args),
}

pub(super) async fn run(verb: Verb, context: &Context) -> Result<ExitStatus, CliError> {
    match verb {
        Verb::List(args) => list::run(&args, context).await,
        Verb::Show(args) => show::run(&args, context).await,
        Verb::Approve(args) => decide::run(args, true, context).await,
        Verb::Reject(args) => decide::run(args, false, context).await,
    }
}

/// The newest approval of a step.
async fn find(session: &ApiSession, run: &RunKey, step: &StepId) -> Result<Approval, CliError> {
    let record = session.client.run(&run.run).await.map_err(ApiSession::run_error(run))?;
    let chain = session.chain(&run.run).await?;
    let at = record.steps.iter().find(|known| known.id == *step).map(|known| known.seq);
    let events = chain.iter().rev().filter(|entry| Some(entry.event.seq) == at);
    let id: Option<ApprovalId> = events.into_iter().find_map(|entry| match &entry.event.body {
        EventBody::ApprovalRequested { approval, .. } => Some(approval.clone()),
        _ => None,
    });
    let id = id.ok_or_else(|| EngineError::from(Refusal::NoOpenApproval { step: step.clone() }))?;
    Ok(session.client.approval(&id).await?)
}
