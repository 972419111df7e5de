//! `countersign approval list`: what people can still answer.

use api_types::LIMIT_MAX;
use api_types::{Approval, Approvals};
use client::ApprovalFilter;
use domain::{Subject, Timestamp};
use serde_json::{Value, json};

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use crate::link::Link;
use views::table::table;
use views::time::{self, distance};

/// As many as fit on a screen or two.
const LIMIT_DEFAULT: u32 = 50;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  countersign approval list --tenant acme\n  countersign approval list --mine --profile work"
)]
pub(crate) struct Args {
    /// At most how many are shown
    #[arg(long, value_name = "N", default_value_t = LIMIT_DEFAULT, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Only those that you can answer
    #[arg(long)]
    mine: bool,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<Ending, CliError> {
    let link = context.link()?;
    let page = read(args, &link).await?;
    let rows: Value = page.approvals.iter().map(row).collect();
    let json = json!({ "approvals": rows, "more": page.next.is_some() });
    context.answer(&text(&page.approvals, Link::now(), page.next.is_some()), &json)?;
    Ok(Ending::Done)
}

/// As many requests as were asked for, in as many pages as that takes.
async fn read(args: &Args, link: &Link) -> Result<Approvals, CliError> {
    let mut all = Approvals { approvals: Vec::new(), next: None };
    loop {
        let missing = args.limit.saturating_sub(u32::try_from(all.approvals.len()).unwrap_or(u32::MAX));
        let limit = Some(missing.min(LIMIT_MAX));
        let filter = ApprovalFilter { mine: args.mine, cursor: all.next.take(), limit };
        let page = link.client.approvals(filter).await?;
        all.approvals.extend(page.approvals);
        all.next = page.next;
        if all.next.is_none() || all.approvals.len() >= args.limit as usize {
            return Ok(all);
        }
    }
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

fn cells(asked: &Approval, now: Timestamp) -> [String; 6] {
    let agreed = asked.votes.iter().filter(|vote| vote.approve).count();
    [
        asked.run.to_string(),
        asked.step.to_string(),
        asks(asked),
        format!("{agreed} of {}", asked.demand.people.count()),
        format!("{:?}", asked.demand.tier).to_lowercase(),
        time::read(&asked.expires_at).map_or_else(|| asked.expires_at.clone(), |at| distance(at, now)),
    ]
}

fn asks(asked: &Approval) -> String {
    match &asked.about {
        Subject::Question { message } => message.chars().take(60).collect(),
        Subject::Action { action, .. } => format!("{} {}", action.tool, action.target),
    }
}

fn row(asked: &Approval) -> Value {
    json!({
        "approval": asked.approval,
        "run": asked.run,
        "step": asked.step,
        "asks": asks(asked),
        "subject": asked.subject,
        "tier": asked.demand.tier,
        "people": asked.demand.people.count(),
        "missing": asked.missing,
        "sla_at": asked.sla_at,
        "expires_at": asked.expires_at,
    })
}
