//! `countersign policy check`.

use std::path::PathBuf;

use serde_json::json;

use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;
use views::counted;

use super::files::read_policy;

const EXAMPLES: &str = "\
Examples:
  countersign policy check policies/acme
  countersign policy show --dir policies/acme   write the current policy to start from

A policy is a directory of Rego files. The check reports unknown names and rules that can never
match, with file, line and column: in Rego, a misspelled name silently disables its rule.";

/// Check a policy and print its hash
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The policy directory; includes every `.rego` file below it
    dir: PathBuf,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    let bundle = read_policy(&args.dir)?;
    let (rules, tests) = (bundle.rule_count(), bundle.test_count());
    let text = format!(
        "{}: policy {}, {}, {}",
        args.dir.display(),
        bundle.hash(),
        counted(rules, "rule"),
        counted(tests, "test"),
    );
    let files: Vec<&String> = bundle.files().keys().collect();
    let json = json!({ "policy": bundle.hash(), "rules": rules, "tests": tests, "files": files });
    context.print(&text, &json)?;
    Ok(ExitStatus::Success)
}
