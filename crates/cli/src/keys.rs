//! The key that evidence is signed with: a file beside the store, made when it is first needed.
//!
//! Several workers may start at once on a new store. Whoever is first makes the key; the file appears whole
//! or not at all, so the others read the same one.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::Sealing;
use evidence::{PublicKey, SigningKey};
use secrecy::ExposeSecret as _;

use crate::error::CliError;
use crate::random;

/// A key file holds a few lines; more is something else.
const KEY_BYTES_MAX: u64 = 4096;

/// Where the key of the store at `store` is.
pub(crate) fn private_path(store: &Path) -> PathBuf {
    beside(store, ".key")
}

/// Where the public half is, for whoever verifies.
pub(crate) fn public_path(store: &Path) -> PathBuf {
    beside(store, ".pub")
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(ending);
    path.with_file_name(name)
}

/// What evidence of the store at `store` is signed with; the key is made if there is none.
pub(crate) fn sealing(store: &Path) -> Result<Sealing, CliError> {
    let path = private_path(store);
    if !path.try_exists().unwrap_or(false) {
        make(&path)?;
    }
    let text = read(&path)?;
    let key = SigningKey::from_text(&text)
        .map_err(|error| CliError::Key { path: path.clone(), why: error.to_string() })?;
    let beside = public_path(store);
    if !beside.try_exists().unwrap_or(false) {
        put(&beside, key.public().to_text().as_bytes(), 0o644)?;
    }
    if public(&beside)?.id() != key.public().id() {
        let why = format!("it does not belong to {}; evidence would not verify", beside.display());
        return Err(CliError::Key { path, why });
    }
    Ok(Sealing { key: Arc::new(key), origin: "countersign/embedded".to_owned() })
}

/// What evidence of the store at `store` is verified with; the key is made if there is none.
pub(crate) fn verifying(store: &Path) -> Result<PublicKey, CliError> {
    let path = public_path(store);
    if path.try_exists().unwrap_or(false) {
        return public(&path);
    }
    Ok(sealing(store)?.key.public())
}

/// The public key in the file at `path`.
pub(crate) fn public(path: &Path) -> Result<PublicKey, CliError> {
    PublicKey::from_text(&read(path)?)
        .map_err(|error| CliError::Key { path: path.into(), why: error.to_string() })
}

fn read(path: &Path) -> Result<String, CliError> {
    let failed = |source| CliError::Read { path: path.into(), source };
    if fs::metadata(path).map_err(failed)?.len() > KEY_BYTES_MAX {
        return Err(CliError::Key { path: path.into(), why: "it is too large to be a key".to_owned() });
    }
    fs::read_to_string(path).map_err(failed)
}

fn make(path: &Path) -> Result<(), CliError> {
    let key = SigningKey::from_seed(random::bytes()?);
    put(path, key.to_text().expose_secret().as_bytes(), 0o600)
}

/// Writes a file that appears whole, and leaves one alone that is there already.
fn put(path: &Path, bytes: &[u8], mode: u32) -> Result<(), CliError> {
    let failed = |source| CliError::Write { path: path.into(), source };
    let draft = beside(path, &format!(".{}", random::hex::<4>()?));
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&draft)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| fs::hard_link(&draft, path));
    // The draft has done its duty, or was never there.
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
    fn a_key_is_made_once_and_only_its_owner_reads_it() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("runs.db");
        let first = sealing(&store).unwrap().key.public().id();
        assert_eq!(sealing(&store).unwrap().key.public().id(), first);
        assert_eq!(verifying(&store).unwrap().id(), first);
        let mode = fs::metadata(private_path(&store)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn workers_that_start_at_once_have_one_key() {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("runs.db");
        let ids: Vec<_> = std::thread::scope(|scope| {
            let starting: Vec<_> =
                (0..8).map(|_| scope.spawn(|| sealing(&store).unwrap().key.public().id())).collect();
            starting.into_iter().map(|started| started.join().unwrap()).collect()
        });
        assert!(ids.iter().all(|id| *id == ids[0]));
    }

    #[test]
    fn a_file_that_is_no_key_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("runs.db");
        fs::write(private_path(&store), "not a key").unwrap();
        assert!(sealing(&store).err().unwrap().to_string().contains("runs.db.key"));
    }
}
