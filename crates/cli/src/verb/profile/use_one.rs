//! `countersign profile use`: which server is meant if none is named.

use serde_json::json;

use super::file;
use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use crate::profile::{self, ProfileName};

const EXAMPLES: &str = "\
Examples:
  countersign profile use work
  countersign profile use --none     commands go to the store on this machine again

--profile, --server, --store and the environment come before it.";

/// Say which server is meant if none is named
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The profile
    #[arg(required_unless_present = "none")]
    name: Option<ProfileName>,
    /// None: commands go to the store
    #[arg(long, conflicts_with = "name")]
    none: bool,
}

pub(super) fn run(args: Args, context: &Context) -> Result<Ending, CliError> {
    let path = file(context)?;
    let mut profiles = context.profiles()?;
    let text = match &args.name {
        Some(name) => format!("commands go to {}", profiles.get(name)?.url),
        None => "commands go to the store on this machine".to_owned(),
    };
    let json = json!({ "used": args.name.as_ref().map(ProfileName::as_str) });
    profiles.used = args.name;
    profile::write(path, &profiles)?;
    context.answer(&text, &json)?;
    Ok(Ending::Done)
}
