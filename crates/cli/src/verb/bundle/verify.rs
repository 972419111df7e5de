//! `countersign bundle verify`.

use std::path::PathBuf;

use serde_json::json;

use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;

use super::read::{CheckedBundle, check, print_refusal};

const EXAMPLES: &str = "\
Examples:
  countersign bundle verify run-5d41.bundle
  countersign bundle verify run-5d41.bundle --key acme.pub

The command needs neither store nor network. It refuses a bundle if a signed byte was changed, if
an effect has no verdict or lacks an approval that policy required, if an event is missing, or if
the events are inconsistent. If the key came with the bundle, the signer is not verified. To know
who signed it, use --key or COUNTERSIGN_EVIDENCE_KEY with a key that you got from the signer.
Without either, the exit code is 1 with --strict, with --json, and if the variable CI is set.

Exit codes: 0 verified, 1 refused or signer not verified, 2 the file or the key cannot be read.";

/// Verify the evidence of a run offline
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The bundle
    file: PathBuf,
    /// The signer's public keys [default: the file that the environment names, or else FILE.pub]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
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
    let run = &verified.bundle().run;
    let json = json!({
        "verified": true,
        "signer_verified": signer.is_verified,
        "summary": verified.summary(),
        "key": signer.key.id(),
        "run": run.run,
        "tenant": run.tenant,
        "status": run.status,
        "head": run.head,
    });
    context.print(&signer.heading(&verified.summary()), &json)?;
    Ok(signer.exit_status(args.strict, context))
}
