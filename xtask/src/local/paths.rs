//! The directories of the emulators: `local/` in cargo's target directory, which `cargo clean` removes, and
//! `localstack/`.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::cargo::Cargo;

use super::error::{LocalError, io_error};

/// The file that marks a complete installation. It holds the installation's stamp.
const STAMP: &str = "installed";

pub(crate) struct Paths {
    /// The directory for installations, logs, records and data.
    pub(crate) home: PathBuf,
    /// The directory `localstack/` of the repository.
    sources: PathBuf,
}

impl Paths {
    pub(crate) fn find(cargo: &Cargo) -> Result<Self, LocalError> {
        let home = cargo.target_directory().map_err(LocalError::new)?.join("local");
        fs::create_dir_all(&home).map_err(io_error("create", &home))?;
        Ok(Self { home, sources: cargo.root().join("localstack") })
    }

    /// The path and the text of a file in `localstack/`.
    pub(crate) fn read_source(&self, name: &str) -> Result<(PathBuf, String), LocalError> {
        let path = self.sources.join(name);
        let text = fs::read_to_string(&path).map_err(io_error("read", &path))?;
        Ok((path, text))
    }

    /// Installs into the directory `name`, unless an installation with the same `stamp` is complete. Removes an
    /// incomplete or outdated installation first.
    pub(crate) fn install_once(
        &self,
        name: &str,
        stamp: &str,
        install: impl FnOnce(&Path) -> Result<(), LocalError>,
    ) -> Result<PathBuf, LocalError> {
        let directory = self.home.join(name);
        let marker = directory.join(STAMP);
        // One process installs at a time. The operating system releases the lock when the process ends.
        let lock = self.home.join("installing");
        let held = File::create(&lock).map_err(io_error("create", &lock))?;
        held.lock().map_err(io_error("lock", &lock))?;
        if fs::read_to_string(&marker).is_ok_and(|found| found == stamp) {
            return Ok(directory);
        }
        if directory.exists() {
            fs::remove_dir_all(&directory).map_err(io_error("remove", &directory))?;
        }
        fs::create_dir_all(&directory).map_err(io_error("create", &directory))?;
        install(&directory)?;
        fs::write(&marker, stamp).map_err(io_error("write", &marker))?;
        Ok(directory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_installation_is_repeated_and_complete_one_is_not() {
        let home = std::env::temp_dir().join(format!("xtask-paths-{}", std::process::id()));
        fs::create_dir_all(&home).unwrap();
        let paths = Paths { home: home.clone(), sources: home.clone() };

        let incomplete = paths.install_once("it", "1", |directory| {
            fs::write(directory.join("half"), "").unwrap();
            Err(LocalError::new("no network"))
        });
        assert!(incomplete.is_err());
        let directory = paths.install_once("it", "1", |_| Ok(())).ok().unwrap();
        assert!(!directory.join("half").exists());

        let again = |stamp| paths.install_once("it", stamp, |_| Err(LocalError::new("installed again")));
        assert!(again("1").is_ok());
        assert!(again("2").is_err());
        fs::remove_dir_all(home).unwrap();
    }
}
