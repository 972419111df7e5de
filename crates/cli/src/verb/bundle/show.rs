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
  countersign bundle show run-5d41.bundle --key acme.pub
  countersign bundle show run-5d41.bundle --key acme.pub --html report.html     write a self-contained page
  countersign bundle show run-5d41.bundle --key acme.pub --json | jq .bundle.approvals

The bundle is verified first. A bundle that does not verify is not shown. Without --key, the text
and the report state that the signer is not verified, and the exit code is 1 with --strict, with
--json, and if the variable CI is set; see `countersign help bundle verify`.

Exit codes: 0 verified, 1 refused or signer not verified, 2 the file or the key cannot be read.";

/// Show the run, steps, approvals, effects and costs in a bundle
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The bundle
    file: PathBuf,
    /// The signer's public keys [default: the file that the environment names, or else FILE.pub]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Write the report to this file as HTML
    #[arg(long, value_name = "OUT")]
    html: Option<PathBuf>,
    /// Fail if no trusted key is given, because the signer is not verified then
    #[arg(long)]
    strict: bool,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    let CheckedBundle { result, signer } = check(&args.file, args.key.as_deref(), context)?;
    let verified = match result {
        Ok(verified) => verified,
        Err(why) => return print_refusal(&why, &signer.key, context),
    };
    let mut shown = format!("{}\n\n{}", signer.heading(&verified.summary()), text(&verified, &signer.key));
    if let Some(out) = &args.html {
        let page = match signer.notice() {
            None => evidence::html(&verified),
            Some(notice) => evidence::html_with_notice(&verified, &notice),
        };
        write_new(out, page.as_bytes())?;
        shown = format!("{shown}\nreport    {}\n", out.display());
    }
    let json = json!({
        "verified": true,
        "signer_verified": signer.is_verified,
        "summary": verified.summary(),
        "key": signer.key.id(),
        "html": args.html,
        "bundle": verified.bundle(),
    });
    context.print(&shown, &json)?;
    Ok(signer.exit_status(args.strict, context))
}
