//! Files that the program writes for a person. What is there already is left alone.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::error::CliError;
use crate::random;

/// Writes a file that was not there before.
pub(crate) fn write_new(path: &Path, bytes: &[u8]) -> Result<(), CliError> {
    let mut file = match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(is_there(path)),
        Err(source) => return Err(CliError::Write { path: path.into(), source }),
    };
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(|source| {
        // Half a file would be taken for a whole one.
        let _ = fs::remove_file(path);
        CliError::Write { path: path.into(), source }
    })
}

/// Puts a file that only its owner reads in the place of what is at `path`. A crash leaves one or the other.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<(), CliError> {
    let draft = with_ending(path, &format!(".{}", random::hex::<4>()?));
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&draft)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&draft, path));
    written.map_err(|source| {
        // Half a file would be in the way.
        let _ = fs::remove_file(&draft);
        CliError::Write { path: path.into(), source }
    })
}

/// Refuses if there is something at `path`.
pub(crate) fn must_be_new(path: &Path) -> Result<(), CliError> {
    match path.symlink_metadata() {
        Ok(_) => Err(is_there(path)),
        Err(_) => Ok(()),
    }
}

/// The path with `ending` after its name.
pub(crate) fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn is_there(path: &Path) -> CliError {
    let text =
        format!("{} is there already and is left alone; move it away, or name another", path.display());
    CliError::Refused(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        write_new(&path, b"one").unwrap();
        assert!(write_new(&path, b"two").unwrap_err().to_string().contains("left alone"));
        assert!(must_be_new(&path).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"one");
    }

    #[test]
    fn an_ending_comes_after_the_whole_name() {
        assert_eq!(with_ending(Path::new("a/b.bundle"), ".pub"), Path::new("a/b.bundle.pub"));
    }
}
