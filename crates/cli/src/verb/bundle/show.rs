//! `countersign bundle show`.

use std::path::PathBuf;

use serde_json::json;

use crate::context::Context;
use crate::error::CliError;
use crate::new_file::write_new;
use crate::process::ExitStatus;

use super::read::{CheckedBundle, check, print_refusal};
use super::text::text;

const EXAMPLES: &str = "\
Examples:
  countersign bundle show run-5d41.bundle
  countersign bundle show run-5d41.bundle --html report.html     write a self-contained page
  countersign bundle show run-5d41.bundle --json | jq .bundle.approvals

The bundle is verified first. A bundle that does not verify is not shown.";

/// Show the run, steps, approvals, effects and costs in a bundle
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The bundle
    file: PathBuf,
    /// The signer's public key [default: FILE.pub]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Write the report to this file as HTML
    #[arg(long, value_name = "OUT")]
    html: Option<PathBuf>,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    let CheckedBundle { result, key } = check(&args.file, args.key.as_deref())?;
    let verified = match result {
        Ok(verified) => verified,
        Err(why) => return print_refusal(&why, &key, context),
    };
    let mut shown = text(&verified, &key);
    if let Some(out) = &args.html {
        write_new(out, evidence::html(&verified).as_bytes())?;
        shown = format!("{shown}\nreport    {}\n", out.display());
    }
    let json = json!({
        "verified": true,
        "summary": verified.summary(),
        "key": key.id(),
        "html": args.html,
        "bundle": verified.bundle(),
    });
    context.print(&shown, &json)?;
    Ok(ExitStatus::Success)
}
