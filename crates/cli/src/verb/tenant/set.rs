//! `countersign tenant set`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use api_types::PutTenant;
use domain::tenant::{Caps, Person, check_people, unique_people};
use domain::{GroupName, PersonId, Tenant};
use serde::Deserialize;
use serde_json::json;

use crate::api_session::ApiSession;
use crate::context::Context;
use crate::error::CliError;
use crate::input::read_file;
use crate::process::ExitStatus;
use views::table::indented;

use super::changes::changes;
use super::show::{tenant_json, to_domain};

/// The maximum size of a tenant file: enough for several thousand users.
const FILE_BYTES_MAX: usize = 256 * 1024;

/// How often the command retries after a concurrent change.
const ATTEMPTS_MAX: u32 = 5;

const EXAMPLES: &str = "\
Examples:
  countersign tenant set acme.yaml --tenant acme
  countersign tenant show --json | jq '{people, groups, caps, redact}' > acme.json

The file replaces all settings; a missing section is set to empty or to its default:

  people:
    ada:
      slack: T0ACME:U0ADA             the Slack workspace and user of ada
      slack_roles: [approver]         what ada may do in Slack: viewer, operator, approver, admin
    bob: {}                           has no Slack user; approves with the command line or the API
    cyn: { oidc: 'https://id.example.com#4711' }   acts only with tokens of this issuer and `sub`
  groups:
    db-oncall: [ada, bob]             may approve actions that policy assigns to this group
  caps:
    max_writes_per_run: 20            [default: 64]
    max_cost_per_run_microusd: 500000 of models, in millionths of a US dollar [default: no limit]
    workspaces: {payments: {max_writes_per_run: 5}}   stricter limits for the runs of one workspace
  redact:
    - 'PIN-[0-9]{6}'                  a regular expression; what matches is replaced by [redacted]

The policy does not change; use `policy apply`.";

/// Replace the users, approver groups and limits of the tenant
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A YAML or JSON file with `people` (users), `groups`, `caps` (limits) and `redact`
    file: PathBuf,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct TenantFile {
    #[serde(deserialize_with = "unique_people")]
    people: BTreeMap<PersonId, Option<Person>>,
    groups: BTreeMap<GroupName, BTreeSet<PersonId>>,
    caps: Caps,
    redact: Vec<String>,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    let file = read(&args.file)?;
    let (before, after) = replace(&context.connect_or_create()?, &file).await?;
    let changes = changes(&before, &after);
    let text = if changes.is_empty() {
        format!("tenant {}: nothing changed", after.tenant)
    } else {
        let lines = indented(&changes.join("\n"), 2);
        format!("tenant {}, revision {}\n{lines}", after.tenant, after.revision)
    };
    let mut json = tenant_json(&after);
    json["changes"] = json!(changes);
    context.print(&text, &json)?;
    Ok(ExitStatus::Success)
}

/// Replaces the settings and returns the old and the new state. Retries after a concurrent change.
async fn replace(session: &ApiSession, file: &TenantFile) -> Result<(Tenant, Tenant), CliError> {
    let mut attempts = ATTEMPTS_MAX;
    loop {
        let current = session.client.tenant().await?;
        let revision = current.revision;
        let before = to_domain(current);
        let mut after = before.clone();
        file.clone().apply_to(&mut after);
        if after == before && revision.is_some() {
            return Ok((before, after));
        }
        attempts -= 1;
        match session.client.put_tenant(&put_request(after, revision)).await {
            Err(error) if attempts > 0 && error.is("TENANT_CHANGED") => {}
            stored => return Ok((before, to_domain(stored?))),
        }
    }
}

fn put_request(tenant: Tenant, revision: Option<u32>) -> PutTenant {
    PutTenant {
        caps: tenant.caps.into(),
        redact: tenant.redact,
        people: tenant.people.into_iter().map(|(id, person)| (id, person.into())).collect(),
        groups: tenant.groups,
        revision,
    }
}

fn read(path: &Path) -> Result<TenantFile, CliError> {
    let invalid = |why: String| CliError::Usage(format!("{} is invalid: {why}", path.display()));
    let bytes = read_file(path, &path.display().to_string(), FILE_BYTES_MAX)?;
    let text = String::from_utf8(bytes).map_err(|_| CliError::NotText { path: path.into() })?;
    let file: TenantFile = serde_saphyr::from_str(&text).map_err(|error| invalid(error.to_string()))?;
    check_people(&file.people(), &file.groups).map_err(|fault| invalid(fault.to_string()))?;
    Ok(file)
}

impl TenantFile {
    fn apply_to(self, tenant: &mut Tenant) {
        tenant.people = self.people();
        tenant.groups = self.groups;
        tenant.caps = self.caps;
        tenant.redact = self.redact;
    }

    /// The users; one without a value has no Slack user.
    fn people(&self) -> BTreeMap<PersonId, Person> {
        self.people.iter().map(|(id, person)| (id.clone(), person.clone().unwrap_or_default())).collect()
    }
}
