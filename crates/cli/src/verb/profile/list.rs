//! `countersign profile list`.

use serde_json::{Value, json};

use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;
use crate::profile::ProfileName;
use views::table::table;

/// List profiles; `*` marks the default
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(super) fn run(_: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    let profiles = context.profiles()?;
    let used = |name: &ProfileName| profiles.used.as_ref() == Some(name);
    let mut rows = Vec::new();
    let mut documents = Vec::new();
    for (name, profile) in &profiles.profiles {
        let tenant = profile.tenant.as_ref().map(ToString::to_string);
        let star = if used(name) { "*" } else { "" };
        rows.push([
            star.to_owned(),
            name.as_str().to_owned(),
            profile.url.to_string(),
            tenant.clone().unwrap_or_default(),
            profile.key_location(),
        ]);
        documents.push(json!({
            "profile": name.as_str(),
            "url": profile.url.as_str(),
            "tenant": tenant,
            "key_env": profile.key_env,
            "key_file": profile.key_file,
            "default": used(name),
        }));
    }
    let text = match rows.len() {
        0 => "no profiles; add one with `countersign profile add NAME --url URL`\n".to_owned(),
        _ => table(["", "PROFILE", "SERVER", "TENANT", "KEY"], &rows),
    };
    context.print(&text, &json!({ "profiles": Value::from(documents) }))?;
    Ok(ExitStatus::Success)
}
