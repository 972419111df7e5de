//! `countersign profile remove`.

use serde_json::json;

use super::file;
use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;
use crate::profile::{self, ProfileName};

/// Remove a profile; the key file stays
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The profile
    name: ProfileName,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    let path = file(context)?;
    let mut profiles = context.profiles()?;
    profiles.get(&args.name)?;
    profiles.profiles.remove(&args.name);
    if profiles.used.as_ref() == Some(&args.name) {
        profiles.used = None;
    }
    profile::write(path, &profiles)?;
    let name = args.name.as_str();
    context.print(&format!("profile {name} is removed"), &json!({ "removed": name }))?;
    Ok(ExitStatus::Success)
}
