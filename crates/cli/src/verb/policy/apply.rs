//! `countersign policy apply`.

use std::path::{Path, PathBuf};

use ::policy::PolicyBundle;
use api_types::PolicyApplied;
use domain::Digest;
use serde_json::json;

use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;

use super::files::read_policy;
use super::test::results_text;

const EXAMPLES: &str = "\
Examples:
  countersign policy apply policies/acme --tenant acme

The policy is checked and its tests are run first. If a test fails or there are no tests, nothing
changes; no option overrides this. The new policy applies to every further action, including those
of unfinished runs. Approvals that were given under the old policy become invalid.";

/// Apply a policy to the tenant, if its tests pass
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The policy directory; includes every `.rego` file below it
    dir: PathBuf,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    let bundle = read_policy(&args.dir)?;
    require_passing_tests(&bundle, &args.dir)?;
    let applied = context.connect_or_create()?.client.apply_policy(bundle.files().clone()).await?;
    let PolicyApplied { tenant, old, new, .. } = &applied;
    let text = if applied.changed {
        format!("tenant {tenant}\n  before  {}\n  now     {new}", policy_text(*old))
    } else {
        format!("policy {new} is already applied; nothing changed")
    };
    context.print(&text, &json!(applied))?;
    Ok(ExitStatus::Success)
}

fn require_passing_tests(bundle: &PolicyBundle, dir: &Path) -> Result<(), CliError> {
    let report = bundle.test();
    if report.is_green() {
        return Ok(());
    }
    Err(CliError::Refused(format!(
        "the policy in {} is not applied, because its tests do not pass\n{}",
        dir.display(),
        results_text(&report)
    )))
}

fn policy_text(policy: Option<Digest>) -> String {
    match (policy, PolicyBundle::built_in()) {
        (Some(hash), _) => hash.to_string(),
        (None, Ok(shipped)) => format!("{}, the default policy", shipped.hash()),
        (None, Err(_)) => "the default policy".to_owned(),
    }
}
