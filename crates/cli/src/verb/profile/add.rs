//! `countersign profile add`.

use std::path::PathBuf;

use client::Remote;
use domain::TenantId;
use serde_json::json;
use url::Url;

use super::file;
use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;
use crate::profile::{self, Profile, ProfileName};

const EXAMPLES: &str = "\
Examples:
  countersign profile add work --url https://countersign.example --key-file ~/.countersign.key
  countersign profile add test --url http://localhost:8080 --key-env TEST_KEY --for acme
  countersign run list --profile work

The profile holds no key, only its location: a file that only you can read (chmod 600), or an
environment variable [default: COUNTERSIGN_API_KEY]. An existing profile with the same name is
replaced. Commands use a profile with --profile, or by default after `countersign profile use`.";

/// Add or replace a server profile
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The name of the profile
    name: ProfileName,
    /// The URL of the server: https, or http on this machine
    #[arg(long)]
    url: Url,
    /// The file that contains the API key
    #[arg(long, value_name = "PATH", conflicts_with = "key_env")]
    key_file: Option<PathBuf>,
    /// The environment variable that contains the API key
    #[arg(long, value_name = "VARIABLE")]
    key_env: Option<String>,
    /// The tenant that the key must belong to
    #[arg(long = "for", value_name = "TENANT")]
    for_tenant: Option<TenantId>,
}

pub(super) fn run(args: Args, context: &Context) -> Result<ExitStatus, CliError> {
    let path = file(context)?;
    // Refuse an insecure address now rather than with every command.
    Remote::new(&args.url, "none".into())?;
    let key_file = args.key_file.map(|path| std::path::absolute(&path).unwrap_or(path));
    let profile = Profile { url: args.url, tenant: args.for_tenant, key_env: args.key_env, key_file };
    let mut profiles = context.profiles()?;
    let (url, key) = (profile.url.to_string(), profile.key_location());
    let replaced = profiles.profiles.insert(args.name.clone(), profile).is_some();
    let used = profiles.used.as_ref() == Some(&args.name);
    profile::write(path, &profiles)?;
    let name = args.name.as_str();
    let use_it = if used {
        "it is the default".to_owned()
    } else {
        format!("make it the default with: countersign profile use {name}")
    };
    let text = format!("profile {name}: {url}, key in {key}\n  stored in {}\n  {use_it}\n", path.display());
    let json = json!({ "profile": name, "url": url, "replaced": replaced, "default": used, "file": path });
    context.print(&text, &json)?;
    Ok(ExitStatus::Success)
}
