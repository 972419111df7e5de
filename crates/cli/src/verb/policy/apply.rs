//! `countersign policy apply`: a directory becomes the tenant's policy.

use std::path::{Path, PathBuf};

use ::policy::Bundle;
use api_types::PolicyApplied;
use domain::Digest;
use serde_json::json;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;

use super::files::read_policy;
use super::test::outcome;

const EXAMPLES: &str = "\
Examples:
  countersign policy apply policies/acme --tenant acme

The policy is checked and its tests are run first; if one fails, or there are none, nothing
changes, and no option changes that. From then on every action is judged by the new policy,
those of runs that are under way included. An approval that was given under the old one does not
count any more.";

/// Settle on a policy for the tenant, if its tests pass
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The directory; every `.rego` file under it counts
    dir: PathBuf,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<Ending, CliError> {
    let bundle = read_policy(&args.dir)?;
    must_be_green(&bundle, &args.dir)?;
    let applied = context.link_or_new()?.client.apply_policy(bundle.files().clone()).await?;
    let PolicyApplied { tenant, old, new, .. } = &applied;
    let text = if applied.changed {
        format!("tenant {tenant}\n  before  {}\n  now     {new}", named(*old))
    } else {
        format!("policy {new} counts already; nothing changed")
    };
    context.answer(&text, &json!(applied))?;
    Ok(Ending::Done)
}

fn must_be_green(bundle: &Bundle, dir: &Path) -> Result<(), CliError> {
    let report = bundle.test();
    if report.is_green() {
        return Ok(());
    }
    Err(CliError::Refused(format!(
        "the policy in {} is not applied, because its tests are not green\n{}",
        dir.display(),
        outcome(&report)
    )))
}

fn named(policy: Option<Digest>) -> String {
    match (policy, Bundle::shipped()) {
        (Some(hash), _) => hash.to_string(),
        (None, Ok(shipped)) => format!("{}, which ships with the program", shipped.hash()),
        (None, Err(_)) => "the one that ships with the program".to_owned(),
    }
}
