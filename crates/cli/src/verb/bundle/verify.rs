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
the events are inconsistent. A key that came with the bundle proves only that the two match. To
know who signed it, use --key with a key that you got from the signer.

Exit codes: 0 verified, 1 refused, 2 the file or the key cannot be read.";

/// Verify the evidence of a run offline
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The bundle
    file: PathBuf,
    /// The signer's public key [default: FILE.pub]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    let CheckedBundle { result, key } = check(&args.file, args.key.as_deref())?;
    let verified = match result {
        Ok(verified) => verified,
        Err(why) => return print_refusal(&why, &key, context),
    };
    let run = &verified.bundle().run;
    let text = format!("verified: {}, signed by {}", verified.summary(), key.id().short());
    let json = json!({
        "verified": true,
        "summary": verified.summary(),
        "key": key.id(),
        "run": run.run,
        "tenant": run.tenant,
        "status": run.status,
        "head": run.head,
    });
    context.print(&text, &json)?;
    Ok(ExitStatus::Success)
}
