//! `countersign profile use`.

use serde_json::json;

use super::file;
use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;
use crate::profile::{self, ProfileName};

const EXAMPLES: &str = "\
Examples:
  countersign profile use work
  countersign profile use --none     use the store on this machine again

The options --profile, --server and --store and the environment take precedence.";

/// Set the default profile
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The profile
    #[arg(required_unless_present = "none")]
    name: Option<ProfileName>,
    /// Use no profile: commands use the store on this machine
    #[arg(long, conflicts_with = "name")]
    none: bool,
}

pub(super) fn run(args: Args, context: &Context) -> Result<ExitStatus, CliError> {
    let path = file(context)?;
    let mut profiles = context.profiles()?;
    let text = match &args.name {
        Some(name) => format!("commands use {}", profiles.get(name)?.url),
        None => "commands use the store on this machine".to_owned(),
    };
    let json = json!({ "default": args.name.as_ref().map(ProfileName::as_str) });
    profiles.used = args.name;
    profile::write(path, &profiles)?;
    context.print(&text, &json)?;
    Ok(ExitStatus::Success)
}
