//! `countersign key revoke`.

use domain::KeyId;
use serde_json::json;

use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;

/// Revoke an API key
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  countersign key list\n  countersign key revoke 5d41402abc4b2a76")]
pub(crate) struct Args {
    /// The id of the key
    id: KeyId,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    let revoked = context.connect()?.client.revoke_key(&args.id).await.map_err(|error| {
        if error.is("NOT_FOUND") {
            let text = format!("key {} does not exist; list keys with `key list`", args.id);
            return CliError::Usage(text);
        }
        error.into()
    })?;
    let text = format!("key {} of {} is revoked", revoked.id, revoked.person);
    context.print(&text, &json!({ "key": revoked }))?;
    Ok(ExitStatus::Success)
}
