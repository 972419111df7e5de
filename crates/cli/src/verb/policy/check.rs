//! `countersign policy check`: is a directory a policy?

use std::path::PathBuf;

use serde_json::json;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use views::counted;

use super::files::read_policy;

const EXAMPLES: &str = "\
Examples:
  countersign policy check policies/acme
  countersign policy show --dir policies/acme   the one that counts now, as a model

A policy is a directory of Rego files. Whatever in them could never hold, or could not be
answered, is refused here with file, line and column: a name that does not exist would make its
rule silent.";

/// Check a policy: is every name in it right, and what is its hash?
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The directory; every `.rego` file under it counts
    dir: PathBuf,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Ending, CliError> {
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
    context.answer(&text, &json)?;
    Ok(Ending::Done)
}
