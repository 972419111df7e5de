//! `countersign policy show`: which policy counts, and what is in it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ::policy::Bundle;
use api_types::Policy;
use connectors::{Allow, Settings};
use serde_json::json;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use crate::new_file::{must_be_new, write_new};
use views::counted;
use views::table::{indented, table};

use super::origin::origin;

const EXAMPLES: &str = "\
Examples:
  countersign policy show
  countersign policy show --tenant acme --json
  countersign policy show --dir policies/acme     write its files out, to change and apply them";

/// Show which policy counts for the tenant, and its files
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Write the files into this directory, which must not be there yet
    #[arg(long, value_name = "OUT")]
    dir: Option<PathBuf>,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<Ending, CliError> {
    let tools = connectors::standard(Allow::default(), Settings::default());
    let policy = context.link_to_look(tools)?.client.policy().await?;
    if let Some(why) = &policy.fault {
        return Err(CliError::Refused(format!(
            "tenant {} has settled on policy {}, which cannot be used: {why}; every action is denied until \
             `policy apply DIR` settles on another",
            policy.tenant, policy.hash
        )));
    }
    if let Some(dir) = &args.dir {
        write_out(&policy.files, dir)?;
    }
    let json = json!({ "tenant": policy.tenant, "policy": policy, "dir": args.dir });
    context.answer(&text(&policy, args.dir.as_deref()), &json)?;
    Ok(Ending::Done)
}

fn text(policy: &Policy, dir: Option<&Path>) -> String {
    let row = |(path, text): (&String, &String)| [path.clone(), counted(text.lines().count(), "line")];
    let rows: Vec<_> = policy.files.iter().map(row).collect();
    let written = dir.map(|dir| format!("\nwritten to {}\n", dir.display())).unwrap_or_default();
    let settled = policy.settled_by.as_ref().zip(policy.settled_at.as_ref());
    let settled = settled.map(|(by, at)| format!(", by {by} at {at}")).unwrap_or_default();
    format!(
        "policy    {}\n          {}{settled}\nholds     {}, {}\n\n{}{written}",
        policy.hash,
        origin(&policy.from, &policy.tenant),
        counted(policy.rules, "rule"),
        counted(policy.tests, "test"),
        indented(&table(["FILE", "LENGTH"], &rows), 2),
    )
}

/// Writes `files` under `dir`. A server is believed what stands in them, but not where they belong.
fn write_out(files: &BTreeMap<String, String>, dir: &Path) -> Result<(), CliError> {
    let bundle = Bundle::parse(files.clone());
    let bundle = bundle.map_err(|error| CliError::Refused(format!("this is no policy: {error}")))?;
    must_be_new(dir)?;
    // A bundle's paths are relative and lead nowhere else.
    for (path, text) in bundle.files() {
        let path = dir.join(path);
        let parent = path.parent().unwrap_or(dir);
        fs::create_dir_all(parent).map_err(|source| CliError::Write { path: parent.into(), source })?;
        write_new(&path, text.as_bytes())?;
    }
    Ok(())
}
