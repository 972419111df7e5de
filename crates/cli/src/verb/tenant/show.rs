//! `countersign tenant show`.

use domain::{Cause, Digest, DispatchStop, Initiator, PersonId, Tenant};
use serde_json::{Value, json};

use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;
use views::table::{indented, table};
use views::time;

use super::changes::{cost_limit, member_list, roles, workspace_limits};

const EXAMPLES: &str = "\
Examples:
  countersign tenant show --tenant acme
  countersign tenant show --json | jq '{people, groups, caps, redact}' > acme.json
  countersign tenant set acme.json";

/// Show the users, approver groups, limits and policy of the tenant
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {}

pub(super) async fn run(_: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    let tenant = to_domain(context.connect()?.client.tenant().await?);
    context.print(&text(&tenant), &tenant_json(&tenant))?;
    Ok(ExitStatus::Success)
}

pub(super) fn to_domain(document: api_types::Tenant) -> Tenant {
    let mut tenant = Tenant::new(document.tenant);
    tenant.policy = document.policy;
    tenant.caps = document.caps.into();
    tenant.redact = document.redact;
    tenant.people = document.people.into_iter().map(|(id, person)| (id, person.into())).collect();
    tenant.groups = document.groups;
    tenant.stopped = document.stopped.as_ref().map(dispatch_stop);
    tenant.revision = document.revision.unwrap_or_default();
    tenant
}

/// Parses the stop. Its initiator is always a user.
fn dispatch_stop(document: &api_types::Stopped) -> DispatchStop {
    let at = |text: &str| time::parse(text).unwrap_or_default();
    let by = Initiator::new(Cause::User, &document.by);
    let stop = DispatchStop::new(by, &document.reason, at(&document.at));
    DispatchStop { backout: document.backout_started_at.as_deref().map(at), ..stop }
}

fn text(tenant: &Tenant) -> String {
    let default = || "the default policy".to_owned();
    format!(
        "tenant    {}\npolicy    {}\nlimits    at most {} effects per run; model cost per run: {}\n          of workspaces: {}\nredact    {}\n\nusers\n{}\ngroups\n{}",
        tenant.tenant,
        tenant.policy.as_ref().map_or_else(default, Digest::to_string),
        tenant.caps.max_writes_per_run,
        cost_limit(&tenant.caps),
        workspace_limits(&tenant.caps),
        if tenant.redact.is_empty() {
            "secrets of connections only".to_owned()
        } else {
            tenant.redact.join("  ")
        },
        people(tenant),
        groups(tenant),
    )
}

fn people(tenant: &Tenant) -> String {
    let groups_of = |id: &PersonId| {
        let groups = tenant.groups.iter().filter(|(_, members)| members.contains(id));
        groups.map(|(group, _)| group.to_string()).collect::<Vec<_>>().join(", ")
    };
    let rows: Vec<_> = tenant
        .people
        .iter()
        .map(|(id, person)| {
            let slack = person.slack.clone().unwrap_or_default();
            [id.to_string(), slack, roles(&person.slack_roles).unwrap_or_default(), groups_of(id)]
        })
        .collect();
    if rows.is_empty() {
        return "  none; any user with the role approver can decide approvals that name no group\n"
            .to_owned();
    }
    indented(&table(["USER", "SLACK", "SLACK ROLES", "GROUPS"], &rows), 2)
}

fn groups(tenant: &Tenant) -> String {
    let rows: Vec<_> =
        tenant.groups.iter().map(|(group, members)| [group.to_string(), member_list(members)]).collect();
    if rows.is_empty() { "  none\n".to_owned() } else { indented(&table(["GROUP", "MEMBERS"], &rows), 2) }
}

/// The tenant with every field present.
pub(super) fn tenant_json(tenant: &Tenant) -> Value {
    json!({
        "tenant": tenant.tenant,
        "revision": tenant.revision,
        "policy": tenant.policy,
        "people": tenant.people,
        "groups": tenant.groups,
        "caps": tenant.caps,
        "redact": tenant.redact,
        "stopped": tenant.stopped,
    })
}
