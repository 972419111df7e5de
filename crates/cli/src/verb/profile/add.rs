//! `countersign profile add`: gives a server a name.

use std::path::PathBuf;

use client::Remote;
use domain::TenantId;
use serde_json::json;
use url::Url;

use super::file;
use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use crate::profile::{self, Profile, ProfileName};

const EXAMPLES: &str = "\
Examples:
  countersign profile add work --url https://countersign.example --key-file ~/.countersign.key
  countersign profile add test --url http://localhost:8080 --key-env TEST_KEY --for acme
  countersign run list --profile work

The key itself is kept where others cannot see it: in a file that only you can read (chmod 600), or
in a variable of the environment [default: COUNTERSIGN_API_KEY]. A profile of that name that is there
already is replaced. The first one is put to use; see `countersign profile use`.";

/// Give a server a name
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The name
    name: ProfileName,
    /// Where the server is; https, or http on this machine
    #[arg(long)]
    url: Url,
    /// The file that holds the key
    #[arg(long, value_name = "PATH", conflicts_with = "key_env")]
    key_file: Option<PathBuf>,
    /// The variable of the environment that holds the key
    #[arg(long, value_name = "VARIABLE")]
    key_env: Option<String>,
    /// The tenant that the key must be for
    #[arg(long = "for", value_name = "TENANT")]
    for_tenant: Option<TenantId>,
}

pub(super) fn run(args: Args, context: &Context) -> Result<Ending, CliError> {
    let path = file(context)?;
    // An address that no key may go to is refused now rather than with every command.
    Remote::new(&args.url, "none".into())?;
    let key_file = args.key_file.map(|path| std::path::absolute(&path).unwrap_or(path));
    let profile = Profile { url: args.url, tenant: args.for_tenant, key_env: args.key_env, key_file };
    let mut profiles = context.profiles()?;
    let (url, key) = (profile.url.to_string(), profile.key_in_words());
    let replaced = profiles.profiles.insert(args.name.clone(), profile).is_some();
    let used = profiles.used.get_or_insert_with(|| args.name.clone()) == &args.name;
    profile::write(path, &profiles)?;
    let name = args.name.as_str();
    let in_use = if used { "; it is in use" } else { "" };
    let text = format!("profile {name}: {url}, key in {key}{in_use}\n  kept in {}\n", path.display());
    let json = json!({ "profile": name, "url": url, "replaced": replaced, "used": used, "file": path });
    context.answer(&text, &json)?;
    Ok(Ending::Done)
}
