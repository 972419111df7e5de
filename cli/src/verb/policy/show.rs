//! `countersign policy show`: which policy counts, and what is in it.

use std::fs;
use std::path::{Path, PathBuf};

use ::policy::Bundle;
use serde_json::json;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use crate::new_file::{must_be_new, write_new};
use telling::counted;
use telling::table::{indented, table};

use super::counting::Counting;

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
    let counting = Counting::find(None, context).await?;
    let bundle = counting.bundle.as_ref().map_err(|(hash, why)| {
        CliError::Refused(format!(
            "tenant {} has settled on policy {hash}, which cannot be used: {why}; every action is denied \
             until `policy apply DIR` settles on another",
            context.tenant
        ))
    })?;
    if let Some(dir) = &args.dir {
        write_out(bundle, dir)?;
    }
    let mut policy = counting.to_json();
    policy["files"] = json!(bundle.files());
    policy["rules"] = bundle.rule_count().into();
    policy["tests"] = bundle.test_count().into();
    let json = json!({ "tenant": context.tenant, "policy": policy, "dir": args.dir });
    context.answer(&text(&counting, bundle, args.dir.as_deref()), &json)?;
    Ok(Ending::Done)
}

fn text(counting: &Counting, bundle: &Bundle, dir: Option<&Path>) -> String {
    let row = |(path, text): (&String, &String)| [path.clone(), counted(text.lines().count(), "line")];
    let rows: Vec<_> = bundle.files().iter().map(row).collect();
    let written = dir.map(|dir| format!("\nwritten to {}\n", dir.display())).unwrap_or_default();
    format!(
        "policy    {}\n          {}\nholds     {}, {}\n\n{}{written}",
        bundle.hash(),
        counting.origin(),
        counted(bundle.rule_count(), "rule"),
        counted(bundle.test_count(), "test"),
        indented(&table(["FILE", "LENGTH"], &rows), 2),
    )
}

/// Writes the files of `bundle` under `dir`. A bundle's paths are relative and lead nowhere else.
fn write_out(bundle: &Bundle, dir: &Path) -> Result<(), CliError> {
    must_be_new(dir)?;
    for (path, text) in bundle.files() {
        let path = dir.join(path);
        let parent = path.parent().unwrap_or(dir);
        fs::create_dir_all(parent).map_err(|source| CliError::Write { path: parent.into(), source })?;
        write_new(&path, text.as_bytes())?;
    }
    Ok(())
}
