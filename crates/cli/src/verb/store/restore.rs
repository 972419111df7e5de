//! `countersign store restore`.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::context::{Context, IfMissing, command_engine, default_tools};
use crate::error::CliError;
use crate::keys;
use crate::new_file::{copy_new, with_ending};
use crate::process::ExitStatus;

use super::{copy_key, require_no_database};

const EXAMPLE: &str = "\
Example:
  countersign --store countersign.db store restore backup/countersign.db";

/// Restore the store from a copy that `store backup` made
///
/// Copies the database and the evidence key next to it to the path of the store. Neither the store nor its -wal and
/// -shm files may exist there: move all of them away together. The transparency log gets a new name, because the
/// original log may have newer entries: evidence under the old name could contradict evidence that was signed since.
/// Check the unfinished runs before you start workers.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// The copy of the database file
    copy: PathBuf,
}

pub(super) async fn run(Args { copy }: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    context.require_file_store()?;
    let store = &context.store;
    require_no_database(store)?;
    copy_key(&keys::private_key_path(copy), &keys::private_key_path(store))?;
    copy_key(&keys::public_key_path(copy), &keys::public_key_path(store))?;
    let unmerged = |path: &Path| with_ending(path, "-wal");
    if unmerged(copy).exists() {
        copy_new(&unmerged(copy), &unmerged(store))?;
    }
    copy_new(copy, store)?;
    let restored = context.file_store(IfMissing::Fail)?;
    restored.rename_log().await?;
    let engine = command_engine(restored, default_tools())?;
    engine.operations().record_restore(&copy.to_string_lossy(), &context.by_user()).await?;
    let text = format!(
        "restored {} from {}; its transparency log has a new name\n  before you start workers, check the unfinished \
         runs: countersign run list\n",
        store.display(),
        copy.display(),
    );
    context.print(&text, &json!({ "store": store, "copy": copy }))?;
    Ok(ExitStatus::Success)
}
