//! `countersign key revoke`: a key opens nothing any more.

use domain::KeyId;
use serde_json::json;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;

/// Take a key back; it opens nothing any more
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  countersign key list\n  countersign key revoke 5d41402abc4b2a76")]
pub(crate) struct Args {
    /// The key, by its id
    id: KeyId,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<Ending, CliError> {
    let revoked = context.link()?.client.revoke_key(&args.id).await.map_err(|error| {
        if error.is("NOT_FOUND") {
            let text = format!("there is no key {}; `key list` shows those there are", args.id);
            return CliError::Usage(text);
        }
        error.into()
    })?;
    let text = format!("key {} of {} opens nothing any more", revoked.id, revoked.person);
    context.answer(&text, &json!({ "key": revoked }))?;
    Ok(Ending::Done)
}
