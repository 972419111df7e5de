//! `countersign tenant show`: what a tenant has settled.

use domain::tenant::{Caps, Person};
use domain::{Cause, Digest, Initiator, PersonId, Stopped, Tenant};
use serde_json::{Value, json};

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use views::table::{indented, table};
use views::time;

use super::changes::listed;

const EXAMPLES: &str = "\
Examples:
  countersign tenant show --tenant acme
  countersign tenant show --json | jq '{people, groups, caps}' > acme.json
  countersign tenant set acme.json";

/// Show who the people are, who may approve, how much a run may change, and which policy counts
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {}

pub(super) async fn run(_: &Args, context: &Context) -> Result<Ending, CliError> {
    let tenant = settled(context.link()?.client.tenant().await?);
    context.answer(&text(&tenant), &tenant_json(&tenant))?;
    Ok(Ending::Done)
}

/// What the API tells of, in the words of the rules.
pub(super) fn settled(told: api_types::Tenant) -> Tenant {
    let mut tenant = Tenant::new(told.tenant);
    tenant.policy = told.policy;
    tenant.caps = Caps { max_writes_per_run: told.caps.max_writes_per_run };
    tenant.people =
        told.people.into_iter().map(|(id, person)| (id, Person { slack: person.slack })).collect();
    tenant.groups = told.groups;
    tenant.stopped = told.stopped.as_ref().map(stopped);
    tenant.revision = told.revision.unwrap_or_default();
    tenant
}

/// Only people stop dispatch.
fn stopped(told: &api_types::Stopped) -> Stopped {
    let at = |text: &str| time::read(text).unwrap_or_default();
    let by = Initiator::new(Cause::User, &told.by);
    let stopped = Stopped::new(by, &told.reason, at(&told.at));
    Stopped { backout: told.backout.as_deref().map(at), ..stopped }
}

fn text(tenant: &Tenant) -> String {
    let shipped = || "the one that ships with the program".to_owned();
    format!(
        "tenant    {}\npolicy    {}\ncaps      at most {} effects in one run\n\npeople\n{}\ngroups\n{}",
        tenant.tenant,
        tenant.policy.as_ref().map_or_else(shipped, Digest::to_string),
        tenant.caps.max_writes_per_run,
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
        .map(|(id, person)| [id.to_string(), person.slack.clone().unwrap_or_default(), groups_of(id)])
        .collect();
    if rows.is_empty() {
        return "  nobody is named; where no group is asked for, anybody may answer by the command line\n"
            .to_owned();
    }
    indented(&table(["PERSON", "SLACK", "GROUPS"], &rows), 2)
}

fn groups(tenant: &Tenant) -> String {
    let rows: Vec<_> =
        tenant.groups.iter().map(|(group, members)| [group.to_string(), listed(members)]).collect();
    if rows.is_empty() { "  none\n".to_owned() } else { indented(&table(["GROUP", "MEMBERS"], &rows), 2) }
}

/// All of it, with every part present.
pub(super) fn tenant_json(tenant: &Tenant) -> Value {
    json!({
        "tenant": tenant.tenant,
        "revision": tenant.revision,
        "policy": tenant.policy,
        "people": tenant.people,
        "groups": tenant.groups,
        "caps": tenant.caps,
        "stopped": tenant.stopped,
    })
}
