//! `countersign approval list`: what people can still answer.

use domain::{Approval, Subject, Timestamp};
use serde_json::{Value, json};
use store::{ApprovalQuery, Governance as _};

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use telling::table::table;
use telling::time::{distance, moment};

/// As many as fit on a screen or two.
const LIMIT_DEFAULT: u32 = 50;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  countersign approval list --tenant acme")]
pub(crate) struct Args {
    /// At most how many are shown
    #[arg(long, value_name = "N", default_value_t = LIMIT_DEFAULT, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<Ending, CliError> {
    let engine = context.existing_engine()?;
    let query = ApprovalQuery { tenant: context.tenant.clone(), after: None, limit: args.limit };
    let page = engine.store().open_approvals(query).await?;
    let rows: Value = page.approvals.iter().map(row).collect();
    let json = json!({ "approvals": rows, "more": page.next.is_some() });
    context.answer(&text(&page.approvals, engine.now(), page.next.is_some()), &json)?;
    Ok(Ending::Done)
}

fn text(approvals: &[Approval], now: Timestamp, more: bool) -> String {
    if approvals.is_empty() {
        return "nobody is asked anything".to_owned();
    }
    let rows: Vec<_> = approvals.iter().map(|approval| cells(approval, now)).collect();
    let table = table(["RUN", "STEP", "ASKS", "PEOPLE", "TIER", "LAPSES"], &rows);
    let more = if more { "there are more; see --limit\n" } else { "" };
    format!("{table}{more}")
}

fn cells(approval: &Approval, now: Timestamp) -> [String; 6] {
    [
        approval.run.run.to_string(),
        approval.step.to_string(),
        asks(approval),
        format!("{} of {}", approval.approvers().count(), approval.demand.people.count()),
        format!("{:?}", approval.demand.tier).to_lowercase(),
        distance(approval.expires_at, now),
    ]
}

fn asks(approval: &Approval) -> String {
    match &approval.subject {
        Subject::Question { message } => message.chars().take(60).collect(),
        Subject::Action { action, .. } => format!("{} {}", action.tool, action.target),
    }
}

fn row(approval: &Approval) -> Value {
    json!({
        "approval": approval.id,
        "run": approval.run.run,
        "step": approval.step,
        "asks": asks(approval),
        "subject": approval.subject.hash(),
        "tier": approval.demand.tier,
        "people": approval.demand.people.count(),
        "missing": approval.missing(),
        "sla_at": moment(approval.sla_at),
        "expires_at": moment(approval.expires_at),
    })
}
