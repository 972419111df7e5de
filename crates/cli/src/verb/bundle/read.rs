//! Reads and verifies a bundle.

use std::io;
use std::path::{Path, PathBuf};

use evidence::{BYTES_MAX, PublicKey, Verified, verify};
use serde_json::json;

use crate::context::Context;
use crate::error::CliError;
use crate::input::read_file;
use crate::keys;
use crate::new_file::with_ending;
use crate::process::ExitStatus;

pub(super) struct CheckedBundle {
    /// The bundle, or the reason why it does not verify.
    pub(super) result: Result<Verified, String>,
    pub(super) key: PublicKey,
}

/// Verifies the bundle at `file` with the key at `key`, or with the key next to the bundle.
pub(super) fn check(file: &Path, key: Option<&Path>) -> Result<CheckedBundle, CliError> {
    let bytes = match read_file(file, &file.display().to_string(), BYTES_MAX) {
        Ok(bytes) => Ok(bytes),
        Err(CliError::TooLarge { most, .. }) => {
            Err(format!("the file is larger than {most} bytes, the limit for a bundle"))
        }
        Err(error) => return Err(error),
    };
    let key = public_key(file, key)?;
    let result = bytes.and_then(|bytes| verify(&bytes, &key).map_err(|fault| fault.to_string()));
    Ok(CheckedBundle { result, key })
}

fn public_key(file: &Path, key: Option<&Path>) -> Result<PublicKey, CliError> {
    let path: PathBuf = key.map_or_else(|| with_ending(file, ".pub"), Into::into);
    match keys::read_public_key(&path) {
        Err(CliError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Err(CliError::Usage(format!(
                "the public key {} does not exist; use --key to name the signer's public key, the `.pub` file next \
                 to the signer's store",
                path.display()
            )))
        }
        read => read,
    }
}

/// Prints in one line that the bundle does not verify.
pub(super) fn print_refusal(why: &str, key: &PublicKey, context: &Context) -> Result<ExitStatus, CliError> {
    let json = json!({ "verified": false, "reason": why, "key": key.id() });
    context.print(&format!("refused: {}", why.replace('\n', " ")), &json)?;
    Ok(ExitStatus::Failure)
}
