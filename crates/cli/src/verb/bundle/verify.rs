//! `countersign bundle verify`: is this evidence genuine?

use std::path::PathBuf;

use serde_json::json;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;

use super::read::{Read, read, refuse};

const EXAMPLES: &str = "\
Examples:
  countersign bundle verify run-5d41.bundle
  countersign bundle verify run-5d41.bundle --key acme.pub

Needs no store and no network. It is refused if one byte is not as it was signed, if an effect
has no verdict or no approval that policy asked for, if an event is missing, or if the story
cannot have happened. A key that came with the bundle proves only that the two belong together:
whoever must know who signed it gives the --key they got from the signer before.

Exit codes: 0 verified, 1 refused, 2 the file or the key cannot be read.";

/// Verify the evidence of a run, with nothing but the file and a key
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The bundle
    file: PathBuf,
    /// The signer's public key [default: the bundle's name with `.pub` after it]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Ending, CliError> {
    let Read { verdict, key } = read(&args.file, args.key.as_deref())?;
    let verified = match verdict {
        Ok(verified) => verified,
        Err(why) => return refuse(&why, &key, context),
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
    context.answer(&text, &json)?;
    Ok(Ending::Done)
}
