//! Reads and verifies a bundle.

use std::io;
use std::path::{Path, PathBuf};

use domain::RunKey;
use evidence::{BYTES_MAX, PublicKey, TrustedKeys, Verified, verify};
use serde_json::json;

use crate::context::Context;
use crate::error::CliError;
use crate::input::read_file;
use crate::keys;
use crate::new_file::with_ending;
use crate::process::ExitStatus;

/// The variable with the file of public keys that `bundle verify` and `bundle show` trust.
const EVIDENCE_KEY: &str = "COUNTERSIGN_EVIDENCE_KEY";

pub(super) struct CheckedBundle {
    /// The bundle, or the reason why it does not verify.
    pub(super) result: Result<Verified, String>,
    pub(super) signer: Signer,
}

/// The key that a signed file was verified with.
pub(crate) struct Signer {
    pub(crate) key: PublicKey,
    /// Whether the user named the key. The key next to a bundle came with it, so it proves nothing about the signer.
    pub(crate) is_verified: bool,
}

impl Signer {
    /// What was verified, as the first line of the output.
    pub(crate) fn heading(&self, summary: &str) -> String {
        match self.notice() {
            None => format!("verified: {summary}, signed by {}", self.key.id().short()),
            Some(notice) => format!("integrity only: {summary}\n  {notice}"),
        }
    }

    /// Why a reader must not trust the content, if the signer is not verified.
    pub(crate) fn notice(&self) -> Option<String> {
        let notice = || {
            let key = self.key.id();
            format!("signer not verified: key {key} came with the file; use --key with the signer's key")
        };
        (!self.is_verified).then(notice)
    }

    /// A program that reads the output needs a failure if the signer is not verified.
    pub(crate) fn exit_status(&self, strict: bool, context: &Context) -> ExitStatus {
        let strict = strict || context.json || (context.env.variable)("CI").is_some();
        ExitStatus::success_if(self.is_verified || !strict)
    }
}

/// Verifies the bundle at `file` with the keys at `key`, with those that the environment names, or with those next to
/// the bundle.
pub(super) fn check(file: &Path, key: Option<&Path>, context: &Context) -> Result<CheckedBundle, CliError> {
    let (bytes, signer) = read_signed(file, key, BYTES_MAX, context)?;
    let result = bytes.and_then(|bytes| verify(&bytes, &signer.key).map_err(|fault| fault.to_string()));
    Ok(CheckedBundle { result, signer })
}

/// A file, or why it is refused.
pub(crate) type FileBytes = Result<Vec<u8>, String>;

/// Reads a signed file, and chooses the key in the same way.
pub(crate) fn read_signed(
    file: &Path,
    key: Option<&Path>,
    bytes_max: usize,
    context: &Context,
) -> Result<(FileBytes, Signer), CliError> {
    let bytes = match read_file(file, &file.display().to_string(), bytes_max) {
        Ok(bytes) => Ok(bytes),
        Err(CliError::TooLarge { bytes_max, .. }) => {
            Err(format!("the file is larger than the limit of {bytes_max} bytes"))
        }
        Err(error) => return Err(error),
    };
    let trusted = key.map(Path::to_path_buf).or_else(|| configured_key(context));
    let keys = match &trusted {
        Some(path) => with_later_keys(keys_in(path)?, file),
        None => keys_in(&with_ending(file, ".pub"))?,
    };
    let key = *keys.signer_of(bytes.as_deref().unwrap_or_default());
    Ok((bytes, Signer { key, is_verified: trusted.is_some() }))
}

/// The keys that the user of this environment trusts.
fn configured_key(context: &Context) -> Option<PathBuf> {
    (context.env.variable)(EVIDENCE_KEY).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// The trusted keys, and those next to the bundle that replaced the newest of them.
fn with_later_keys(trusted: TrustedKeys, file: &Path) -> TrustedKeys {
    match keys::read_trusted_keys(&with_ending(file, ".pub")) {
        Ok(others) => trusted.extended_by(&others),
        // The file is not needed.
        Err(_) => trusted,
    }
}

fn keys_in(path: &Path) -> Result<TrustedKeys, CliError> {
    match keys::read_trusted_keys(path) {
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

/// Refuses the evidence of another run: it verifies as well.
pub(super) fn require_run(run: &RunKey, bytes: &[u8]) -> Result<(), CliError> {
    let refused = |why: String| CliError::Refused(format!("the evidence of run {run} is not written: {why}"));
    let found =
        evidence::claimed_run(bytes).map_err(|fault| refused(format!("it cannot be read: {fault}")))?;
    if found == *run { Ok(()) } else { Err(refused(format!("the bundle belongs to run {found}"))) }
}

/// Prints in one line that the file does not verify.
pub(crate) fn print_refusal(why: &str, key: &PublicKey, context: &Context) -> Result<ExitStatus, CliError> {
    let json = json!({ "verified": false, "reason": why, "key": key.id() });
    context.print(&format!("refused: {}", why.replace('\n', " ")), &json)?;
    Ok(ExitStatus::Failure)
}
