//! `countersign tenant set`: a file becomes what the tenant has settled.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use api_types::PutTenant;
use domain::tenant::{Caps, Person, check_people};
use domain::{GroupName, PersonId, Tenant};
use serde::Deserialize;
use serde_json::json;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use crate::input::read_file;
use crate::link::Link;
use views::table::indented;

use super::changes::changes;
use super::show::{settled, tenant_json};

/// Some thousand people; beyond that a directory service is meant.
const FILE_BYTES_MAX: usize = 256 * 1024;

/// Whoever meets others this often has somebody to talk to.
const ROUNDS_MAX: u32 = 5;

const EXAMPLES: &str = "\
Examples:
  countersign tenant set acme.yaml --tenant acme
  countersign tenant show --json | jq '{people, groups, caps}' > acme.json

The file says all of it; what it leaves out is settled as empty, or as its default:

  people:
    ada: { slack: T0ACME:U0ADA }      known to Slack as this user of this workspace
    bob: {}                           answers by the command line alone
  groups:
    db-oncall: [ada, bob]             who may approve what policy hands to this group
  caps:
    max_writes_per_run: 20            [default: 64]

The policy is left as it is; `policy apply` settles that.";

/// Settle who the people are, who may approve, and how much a run may change
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// People, groups and caps, in YAML or JSON
    file: PathBuf,
}

/// The file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Wanted {
    people: BTreeMap<PersonId, Option<Person>>,
    groups: BTreeMap<GroupName, BTreeSet<PersonId>>,
    caps: Caps,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<Ending, CliError> {
    let wanted = read(&args.file)?;
    let (before, after) = settle(&context.link_or_new()?, &wanted).await?;
    let changes = changes(&before, &after);
    let text = if changes.is_empty() {
        format!("tenant {}: nothing changed", after.tenant)
    } else {
        let lines = indented(&changes.join("\n"), 2);
        format!("tenant {}, revision {}\n{lines}", after.tenant, after.revision)
    };
    let mut json = tenant_json(&after);
    json["changes"] = json!(changes);
    context.answer(&text, &json)?;
    Ok(Ending::Done)
}

/// What was settled before, and what is now. If somebody else settles something meanwhile, it is looked at again.
async fn settle(link: &Link, wanted: &Wanted) -> Result<(Tenant, Tenant), CliError> {
    let mut rounds = ROUNDS_MAX;
    loop {
        let told = link.client.tenant().await?;
        let revision = told.revision;
        let before = settled(told);
        let mut after = before.clone();
        wanted.clone().put_into(&mut after);
        if after == before && revision.is_some() {
            return Ok((before, after));
        }
        rounds -= 1;
        match link.client.put_tenant(&put(after, revision)).await {
            Err(error) if rounds > 0 && error.is("TENANT_CHANGED") => {}
            told => return Ok((before, settled(told?))),
        }
    }
}

fn put(tenant: Tenant, revision: Option<u32>) -> PutTenant {
    let person = |(id, person): (PersonId, Person)| (id, api_types::Person { slack: person.slack });
    PutTenant {
        caps: api_types::Caps { max_writes_per_run: tenant.caps.max_writes_per_run },
        people: tenant.people.into_iter().map(person).collect(),
        groups: tenant.groups,
        revision,
    }
}

fn read(path: &Path) -> Result<Wanted, CliError> {
    let wrong = |why: String| CliError::Usage(format!("{} cannot be used: {why}", path.display()));
    let bytes = read_file(path, &path.display().to_string(), FILE_BYTES_MAX)?;
    let text = String::from_utf8(bytes).map_err(|_| CliError::NotText { path: path.into() })?;
    let wanted: Wanted = serde_saphyr::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    check_people(&wanted.people(), &wanted.groups).map_err(|fault| wrong(fault.to_string()))?;
    Ok(wanted)
}

impl Wanted {
    fn put_into(self, tenant: &mut Tenant) {
        tenant.people = self.people();
        tenant.groups = self.groups;
        tenant.caps = self.caps;
    }

    /// The people; of whom nothing is said, nothing is known.
    fn people(&self) -> BTreeMap<PersonId, Person> {
        self.people.iter().map(|(id, person)| (id.clone(), person.clone().unwrap_or_default())).collect()
    }
}
