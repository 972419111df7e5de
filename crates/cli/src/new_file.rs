//! Files that commands write. Existing files are not overwritten.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::error::CliError;
use crate::random;

/// Writes a file that must not exist yet.
pub(crate) fn write_new(path: &Path, bytes: &[u8]) -> Result<(), CliError> {
    let mut file = match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(already_exists(path)),
        Err(source) => return Err(CliError::Write { path: path.into(), source }),
    };
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(|source| {
        // Remove a partial file, so that it is not taken for a complete one.
        let _ = fs::remove_file(path);
        CliError::Write { path: path.into(), source }
    })
}

/// Creates an empty file that only its owner can read.
pub(crate) fn create_new(path: &Path) -> Result<File, CliError> {
    let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    created.map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => already_exists(path),
        _ => CliError::Write { path: path.into(), source },
    })
}

/// Copies a file to a path that must not exist yet. Only the owner can read the copy.
pub(crate) fn copy_new(from: &Path, to: &Path) -> Result<(), CliError> {
    let failed = |source| CliError::Write { path: to.into(), source };
    let mut source = File::open(from).map_err(|source| CliError::Read { path: from.into(), source })?;
    let mut file = create_new(to)?;
    let copied = io::copy(&mut source, &mut file).and_then(|_| file.sync_all());
    copied.map_err(|source| {
        // Remove a partial file, so that it is not taken for a complete one.
        let _ = fs::remove_file(to);
        failed(source)
    })
}

/// Replaces the file at `path` atomically by one with these permissions.
pub(crate) fn replace(path: &Path, bytes: &[u8], mode: u32) -> Result<(), CliError> {
    let draft = with_ending(path, &format!(".{}", random::hex::<4>()?));
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&draft)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&draft, path));
    written.map_err(|source| {
        let _ = fs::remove_file(&draft);
        CliError::Write { path: path.into(), source }
    })
}

pub(crate) fn require_new(path: &Path) -> Result<(), CliError> {
    match path.symlink_metadata() {
        Ok(_) => Err(already_exists(path)),
        Err(_) => Ok(()),
    }
}

/// Appends `ending` to the path.
pub(crate) fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn already_exists(path: &Path) -> CliError {
    CliError::Refused(format!("{} already exists; move it or choose another name", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn existing_file_is_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        write_new(&path, b"one").unwrap();
        assert!(write_new(&path, b"two").unwrap_err().to_string().contains("already exists"));
        assert!(require_new(&path).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"one");
    }

    #[test]
    fn ending_is_appended_to_the_whole_name() {
        assert_eq!(with_ending(Path::new("a/b.bundle"), ".pub"), Path::new("a/b.bundle.pub"));
    }
}
