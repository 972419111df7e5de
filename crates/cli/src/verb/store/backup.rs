//! `countersign store backup`.

use std::path::PathBuf;

use serde_json::json;

use crate::context::{Context, IfMissing};
use crate::error::CliError;
use crate::keys;
use crate::new_file::{create_new, require_new};
use crate::process::ExitStatus;

use super::{copy_key, require_no_database};

const EXAMPLE: &str = "\
Example:
  countersign --store countersign.db store backup /backup/2026-11-18.db";

/// Copy the store to a new file while workers run
///
/// The copy has every commit that was made before the command started. The evidence key is copied next to it. Copying
/// the file by other means can lose the latest commits, which SQLite keeps in countersign.db-wal.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// The file to create
    copy: PathBuf,
}

pub(super) async fn run(Args { copy }: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    let store = context.file_store(IfMissing::Fail)?;
    for path in [keys::private_key_path(copy), keys::public_key_path(copy)] {
        require_new(&path)?;
    }
    require_no_database(copy)?;
    drop(create_new(copy)?);
    let copied = store.back_up(copy).await;
    if let Err(error) = copied {
        // Remove a partial file, so that it is not taken for a complete one.
        let _ = std::fs::remove_file(copy);
        return Err(error.into());
    }
    copy_key(&keys::private_key_path(&context.store), &keys::private_key_path(copy))?;
    copy_key(&keys::public_key_path(&context.store), &keys::public_key_path(copy))?;
    let text = format!(
        "copied {} to {}, with its evidence key if it has one\n  to restore it: countersign --store NEW_FILE store restore {}\n",
        context.store.display(),
        copy.display(),
        copy.display(),
    );
    context.print(&text, &json!({ "store": context.store, "copy": copy }))?;
    Ok(ExitStatus::Success)
}
