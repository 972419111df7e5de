//! `countersign policy show`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ::policy::PolicyBundle;
use api_types::Policy;
use serde_json::json;

use crate::context::{Context, default_tools};
use crate::error::CliError;
use crate::new_file::{require_new, write_new};
use crate::process::ExitStatus;
use views::counted;
use views::table::{indented, table};

use super::origin;

const EXAMPLES: &str = "\
Examples:
  countersign policy show
  countersign policy show --tenant acme --json
  countersign policy show --dir policies/acme     write its files, to edit and apply them";

/// Show the policy of the tenant and its files
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Write the files to this directory, which must not exist
    #[arg(long, value_name = "OUT")]
    dir: Option<PathBuf>,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    let tools = default_tools();
    let policy = context.connect_read_only(tools.into())?.client.policy().await?;
    if let Some(why) = &policy.error {
        return Err(CliError::Refused(format!(
            "policy {} of tenant {} is invalid: {why}; every action is denied until another policy is applied with \
             `policy apply DIR`",
            policy.hash, policy.tenant
        )));
    }
    if let Some(dir) = &args.dir {
        write_files(&policy.files, dir)?;
    }
    let json = json!({ "tenant": policy.tenant, "policy": policy, "dir": args.dir });
    context.print(&text(&policy, args.dir.as_deref()), &json)?;
    Ok(ExitStatus::Success)
}

fn text(policy: &Policy, dir: Option<&Path>) -> String {
    let row = |(path, text): (&String, &String)| [path.clone(), counted(text.lines().count(), "line")];
    let rows: Vec<_> = policy.files.iter().map(row).collect();
    let written = dir.map(|dir| format!("\nwritten to {}\n", dir.display())).unwrap_or_default();
    let applied = policy.applied_by.as_ref().zip(policy.applied_at.as_ref());
    let applied = applied.map(|(by, at)| format!(", by {by} at {at}")).unwrap_or_default();
    format!(
        "policy    {}\n          {}{applied}\ncontains  {}, {}\n\n{}{written}",
        policy.hash,
        origin(&policy.origin, &policy.tenant),
        counted(policy.rules, "rule"),
        counted(policy.tests, "test"),
        indented(&table(["FILE", "LENGTH"], &rows), 2),
    )
}

/// Writes `files` to `dir`. The paths come from a server and are validated first.
fn write_files(files: &BTreeMap<String, String>, dir: &Path) -> Result<(), CliError> {
    let bundle = PolicyBundle::parse(files.clone());
    let bundle = bundle.map_err(|error| CliError::Refused(format!("the policy is invalid: {error}")))?;
    require_new(dir)?;
    // The paths of a parsed bundle are relative and stay below `dir`.
    for (path, text) in bundle.files() {
        let path = dir.join(path);
        let parent = path.parent().unwrap_or(dir);
        fs::create_dir_all(parent).map_err(|source| CliError::Write { path: parent.into(), source })?;
        write_new(&path, text.as_bytes())?;
    }
    Ok(())
}
