//! The key that signs evidence: a file next to the store, created on first use.
//!
//! Several workers may start at once on a new store. The first one creates the key. The file appears atomically, so
//! the others read the same key.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::EvidenceSigner;
use evidence::{PublicKey, SigningKey, TrustedKeys};
use secrecy::ExposeSecret as _;

use crate::error::CliError;
use crate::new_file::replace;
use crate::random;

/// A private key file has a few lines, and a public one has a few more for each replaced key.
const KEY_BYTES_MAX: u64 = 64 * 1024;

/// The permission bits of other users.
const OTHERS: u32 = 0o077;

/// The path of the private key of the store at `store`.
pub(crate) fn private_key_path(store: &Path) -> PathBuf {
    with_suffix(store, ".key")
}

/// The path of the public key of the store at `store`.
pub(crate) fn public_key_path(store: &Path) -> PathBuf {
    with_suffix(store, ".pub")
}

fn with_suffix(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(ending);
    path.with_file_name(name)
}

/// The signing key of the store at `store`, created if it does not exist.
pub(crate) fn evidence_signer(store: &Path) -> Result<EvidenceSigner, CliError> {
    let path = private_key_path(store);
    if !path.try_exists().unwrap_or(false) {
        create_key(&path)?;
    }
    let key = read_private_key(&path)?;
    let public_path = public_key_path(store);
    if !public_path.try_exists().unwrap_or(false) {
        create_file(&public_path, key.public().to_text().as_bytes(), 0o644)?;
    }
    if *read_trusted_keys(&public_path)?.current() != key.public() {
        let public_path = public_path.display();
        let why =
            format!("its public key is not the newest one in {public_path}, so evidence would not verify");
        return Err(CliError::Key { path, why });
    }
    Ok(EvidenceSigner { key: Arc::new(key), origin: "countersign/embedded".to_owned() })
}

/// Refuses a private key that other users can read.
pub(crate) fn require_private(path: &Path) -> Result<(), CliError> {
    let failed = |source| CliError::Read { path: path.into(), source };
    if fs::metadata(path).map_err(failed)?.mode() & OTHERS == 0 {
        return Ok(());
    }
    let quoted = views::hint::quoted(&path.to_string_lossy());
    let why = format!("other users can read it; run: chmod 600 {quoted}");
    Err(CliError::Key { path: path.into(), why })
}

/// The public keys of the store at `store`; the key pair is created if it does not exist.
pub(crate) fn trusted_keys(store: &Path) -> Result<TrustedKeys, CliError> {
    let path = public_key_path(store);
    if path.try_exists().unwrap_or(false) {
        return read_trusted_keys(&path);
    }
    Ok(evidence_signer(store)?.key.public().into())
}

/// Reads the public keys in the file at `path`.
pub(crate) fn read_trusted_keys(path: &Path) -> Result<TrustedKeys, CliError> {
    TrustedKeys::from_text(&read_key_file(path)?).map_err(|error| unusable(path, &error))
}

/// Reads the private key in the file at `path`.
pub(crate) fn read_private_key(path: &Path) -> Result<SigningKey, CliError> {
    require_private(path)?;
    SigningKey::from_text(&read_key_file(path)?).map_err(|error| unusable(path, &error))
}

fn unusable(path: &Path, error: &impl ToString) -> CliError {
    CliError::Key { path: path.into(), why: error.to_string() }
}

/// What a replacement of the key changed.
pub(crate) struct ReplacedKey {
    pub(crate) old: PublicKey,
    pub(crate) new: PublicKey,
    pub(crate) public_path: PathBuf,
    /// The file with the old private key.
    pub(crate) old_path: PathBuf,
}

/// Replaces the key of the store at `store` by a new one. An interrupted replacement is completed by the next call.
pub(crate) fn replace_key(store: &Path) -> Result<ReplacedKey, CliError> {
    let (path, public_path) = (private_key_path(store), public_key_path(store));
    let old = read_private_key(&path)?;
    let keys = trusted_keys(store)?;
    let new_path = with_suffix(store, ".key.new");
    create_key(&new_path)?;
    let new = read_private_key(&new_path)?.public();
    // An interrupted call may have added it.
    if *keys.current() != new {
        add_key(&keys, &old, new, &public_path)?;
    }
    let failed = |source| CliError::Write { path: path.clone(), source };
    let old_path = with_suffix(store, &format!(".key.{}", old.public().id().short()));
    match fs::hard_link(&path, &old_path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
        _ => fs::rename(&new_path, &path).map_err(failed)?,
    }
    Ok(ReplacedKey { old: old.public(), new, public_path, old_path })
}

/// Adds the key in the file at `new_path` to the public keys at `public_path`, signed by the private key at `old_path`.
pub(crate) fn add_replacement(
    old_path: &Path,
    new_path: &Path,
    public_path: &Path,
) -> Result<ReplacedKey, CliError> {
    let (old, new) = (read_private_key(old_path)?, read_private_key(new_path)?.public());
    add_key(&read_trusted_keys(public_path)?, &old, new, public_path)?;
    Ok(ReplacedKey { old: old.public(), new, public_path: public_path.into(), old_path: old_path.into() })
}

fn add_key(keys: &TrustedKeys, old: &SigningKey, new: PublicKey, path: &Path) -> Result<(), CliError> {
    let replaced = keys.replace(old, new).map_err(|error| unusable(path, &error))?;
    replace(path, replaced.to_text().as_bytes(), 0o644)
}

fn read_key_file(path: &Path) -> Result<String, CliError> {
    let failed = |source| CliError::Read { path: path.into(), source };
    if fs::metadata(path).map_err(failed)?.len() > KEY_BYTES_MAX {
        return Err(CliError::Key { path: path.into(), why: "the file is too large".to_owned() });
    }
    fs::read_to_string(path).map_err(failed)
}

fn create_key(path: &Path) -> Result<(), CliError> {
    let key = SigningKey::from_seed(random::bytes()?);
    create_file(path, key.to_text().expose_secret().as_bytes(), 0o600)
}

/// Creates the file atomically and keeps an existing one.
fn create_file(path: &Path, bytes: &[u8], mode: u32) -> Result<(), CliError> {
    let failed = |source| CliError::Write { path: path.into(), source };
    let draft = with_suffix(path, &format!(".{}", random::hex::<4>()?));
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&draft)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| fs::hard_link(&draft, path));
    // The draft is no longer needed, or was never created.
    let _ = fs::remove_file(&draft);
    match written {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        written => written.map_err(failed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_created_once_and_is_private() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("runs.db");
        let first = evidence_signer(&store).unwrap().key.public().id();
        assert_eq!(evidence_signer(&store).unwrap().key.public().id(), first);
        assert_eq!(trusted_keys(&store).unwrap().current().id(), first);
        let mode = fs::metadata(private_key_path(&store)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn concurrent_workers_share_one_key() {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("runs.db");
        let ids: Vec<_> = std::thread::scope(|scope| {
            let starting: Vec<_> =
                (0..8).map(|_| scope.spawn(|| evidence_signer(&store).unwrap().key.public().id())).collect();
            starting.into_iter().map(|started| started.join().unwrap()).collect()
        });
        assert!(ids.iter().all(|id| *id == ids[0]));
    }

    #[test]
    fn invalid_key_file_is_named_in_the_error() {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("runs.db");
        fs::write(private_key_path(&store), "not a key").unwrap();
        assert!(evidence_signer(&store).err().unwrap().to_string().contains("runs.db.key"));
    }
}
