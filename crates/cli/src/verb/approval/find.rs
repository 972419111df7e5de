//! The request that a step makes, by the name that people give it.

use api_types::Approval;
use domain::{ApprovalId, EventBody, Refusal, RunKey, StepId};
use engine::EngineError;

use crate::error::CliError;
use crate::link::Link;

/// The newest request of a step.
pub(super) async fn find(link: &Link, run: &RunKey, step: &StepId) -> Result<Approval, CliError> {
    let seen = link.client.run(&run.run).await.map_err(Link::about(run))?;
    let chain = link.chain(&run.run).await?;
    let at = seen.steps.iter().find(|known| known.id == *step).map(|known| known.seq);
    let asked = chain.iter().rev().filter(|entry| Some(entry.event.seq) == at);
    let id: Option<ApprovalId> = asked.into_iter().find_map(|entry| match &entry.event.body {
        EventBody::ApprovalRequested { approval, .. } => Some(approval.clone()),
        _ => None,
    });
    let id = id.ok_or_else(|| EngineError::from(Refusal::NotAsked { step: step.clone() }))?;
    Ok(link.client.approval(&id).await?)
}
