//! A bundle in a file, and the key that it is verified with.

use std::io;
use std::path::{Path, PathBuf};

use evidence::{BYTES_MAX, PublicKey, Verified, verify};
use serde_json::json;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use crate::input::read_file;
use crate::keys;
use crate::new_file::with_ending;

/// A bundle, or why it is refused, and the key it was verified with.
pub(super) struct Read {
    pub(super) verdict: Result<Verified, String>,
    pub(super) key: PublicKey,
}

/// Reads and verifies the bundle at `file` with the key at `key`, or beside it.
pub(super) fn read(file: &Path, key: Option<&Path>) -> Result<Read, CliError> {
    let bytes = match read_file(file, &file.display().to_string(), BYTES_MAX) {
        Ok(bytes) => Ok(bytes),
        Err(CliError::TooLarge { most, .. }) => {
            Err(format!("the file has more than {most} bytes; a bundle does not"))
        }
        Err(error) => return Err(error),
    };
    let key = public_key(file, key)?;
    let verdict = bytes.and_then(|bytes| verify(&bytes, &key).map_err(|fault| fault.to_string()));
    Ok(Read { verdict, key })
}

fn public_key(file: &Path, key: Option<&Path>) -> Result<PublicKey, CliError> {
    let path: PathBuf = key.map_or_else(|| with_ending(file, ".pub"), Into::into);
    match keys::public(&path) {
        Err(CliError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Err(CliError::Usage(format!(
                "there is no key {}; --key names the public key of whoever signed the bundle: the file beside \
                 their store that ends in `.pub`",
                path.display()
            )))
        }
        read => read,
    }
}

/// Says in one line that the bundle is refused.
pub(super) fn refuse(why: &str, key: &PublicKey, context: &Context) -> Result<Ending, CliError> {
    let json = json!({ "verified": false, "reason": why, "key": key.id() });
    context.answer(&format!("refused: {}", why.replace('\n', " ")), &json)?;
    Ok(Ending::NotDone)
}
