//! `countersign profile remove`: forgets a server.

use serde_json::json;

use super::file;
use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use crate::profile::{self, ProfileName};

/// Forget a server; the key and its file are left alone
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The profile
    name: ProfileName,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Ending, CliError> {
    let path = file(context)?;
    let mut profiles = context.profiles()?;
    profiles.get(&args.name)?;
    profiles.profiles.remove(&args.name);
    if profiles.used.as_ref() == Some(&args.name) {
        profiles.used = None;
    }
    profile::write(path, &profiles)?;
    let name = args.name.as_str();
    context.answer(&format!("profile {name} is forgotten"), &json!({ "removed": name }))?;
    Ok(Ending::Done)
}
