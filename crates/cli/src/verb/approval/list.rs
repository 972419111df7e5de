//! `countersign approval list`.

use api_types::LIMIT_MAX;
use api_types::{Approval, Approvals};
use client::ApprovalFilter;
use domain::{Subject, Timestamp};
use serde_json::{Value, json};

use crate::api_session::ApiSession;
use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;
use views::table::table;
use views::time::{self, relative};

/// The default length of the list: one or two screens.
const LIMIT_DEFAULT: u32 = 50;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  countersign approval list --tenant acme\n  countersign approval list --mine --profile work"
)]
pub(crate) struct Args {
    /// The maximum number of approvals
    #[arg(long, value_name = "N", default_value_t = LIMIT_DEFAULT, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Only approvals that you can decide
    #[arg(long)]
    mine: bool,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    let session = context.connect()?;
    let page = read(args, &session).await?;
    let rows: Value = page.approvals.iter().map(row).collect();
    let json = json!({ "approvals": rows, "more": page.next.is_some() });
    context.print(&text(&page.approvals, ApiSession::now(), page.next.is_some()), &json)?;
    Ok(ExitStatus::Success)
}

/// Reads pages until the limit is reached.
async fn read(args: &Args, session: &ApiSession) -> Result<Approvals, CliError> {
    let mut all = Approvals { approvals: Vec::new(), next: None };
    loop {
        let missing = args.limit.saturating_sub(u32::try_from(all.approvals.len()).unwrap_or(u32::MAX));
        let limit = Some(missing.min(LIMIT_MAX));
        let filter = ApprovalFilter { mine: args.mine, cursor: all.next.take(), limit };
        let page = session.client.approvals(filter).await?;
        all.approvals.extend(page.approvals);
        all.next = page.next;
        if all.next.is_none() || all.approvals.len() >= args.limit as usize {
            return Ok(all);
        }
    }
}

fn text(approvals: &[Approval], now: Timestamp, more: bool) -> String {
    if approvals.is_empty() {
        return "no pending approvals".to_owned();
    }
    let rows: Vec<_> = approvals.iter().map(|approval| cells(approval, now)).collect();
    let table = table(["RUN", "STEP", "ACTION", "APPROVALS", "TIER", "EXPIRES"], &rows);
    let more = if more { "more approvals exist; raise --limit\n" } else { "" };
    format!("{table}{more}")
}

fn cells(approval: &Approval, now: Timestamp) -> [String; 6] {
    let agreed = approval.votes.iter().filter(|vote| vote.approve).count();
    [
        approval.run.to_string(),
        approval.step.to_string(),
        // A line break would let untrusted text imitate a row.
        subject(approval).replace('\n', " "),
        format!("{agreed} of {}", approval.requirement.people.count()),
        format!("{:?}", approval.requirement.tier).to_lowercase(),
        time::parse(&approval.expires_at).map_or_else(|| approval.expires_at.clone(), |at| relative(at, now)),
    ]
}

fn subject(approval: &Approval) -> String {
    match &approval.subject {
        Subject::Question { message } => message.chars().take(60).collect(),
        Subject::Action { action, .. } => format!("{} {}", action.tool, action.target),
    }
}

fn row(approval: &Approval) -> Value {
    json!({
        "approval": approval.approval,
        "run": approval.run,
        "step": approval.step,
        "summary": subject(approval),
        "subject_hash": approval.subject_hash,
        "tier": approval.requirement.tier,
        "people": approval.requirement.people.count(),
        "missing": approval.missing,
        "sla_at": approval.sla_at,
        "expires_at": approval.expires_at,
    })
}
