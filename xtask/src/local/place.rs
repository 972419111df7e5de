//! Where the stand-ins live: `local/` in cargo's target directory, so that `cargo clean` forgets them too.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::cargo::Cargo;

use super::trouble::{Trouble, on};

/// What an installation that is complete holds: what it was made of.
const STAMP: &str = "installed";

/// The directory, and the pins beside the sources.
pub(crate) struct Place {
    /// Everything that is installed, running, or told.
    pub(crate) home: PathBuf,
    pins: PathBuf,
}

impl Place {
    /// Where cargo puts what it builds.
    pub(crate) fn find(cargo: &Cargo) -> Result<Self, Trouble> {
        let home = cargo.target_directory().map_err(Trouble::new)?.join("local");
        fs::create_dir_all(&home).map_err(on("create", &home))?;
        Ok(Self { home, pins: cargo.root().join("localstack") })
    }

    /// A file of `localstack/`.
    pub(crate) fn pinned(&self, name: &str) -> Result<(PathBuf, String), Trouble> {
        let path = self.pins.join(name);
        let text = fs::read_to_string(&path).map_err(on("read", &path))?;
        Ok((path, text))
    }

    /// Installs into the directory `name`, unless that was done with the same `stamp`. Half an installation, or
    /// another one, is removed first.
    pub(crate) fn once(
        &self,
        name: &str,
        stamp: &str,
        install: impl FnOnce(&Path) -> Result<(), Trouble>,
    ) -> Result<PathBuf, Trouble> {
        let directory = self.home.join(name);
        let marker = directory.join(STAMP);
        // One at a time; whoever comes second finds it done. The lock goes with the process that held it.
        let lock = self.home.join("installing");
        let held = File::create(&lock).map_err(on("create", &lock))?;
        held.lock().map_err(on("lock", &lock))?;
        if fs::read_to_string(&marker).is_ok_and(|found| found == stamp) {
            return Ok(directory);
        }
        if directory.exists() {
            fs::remove_dir_all(&directory).map_err(on("remove", &directory))?;
        }
        fs::create_dir_all(&directory).map_err(on("create", &directory))?;
        install(&directory)?;
        fs::write(&marker, stamp).map_err(on("write", &marker))?;
        Ok(directory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_installed_is_not_installed_again_and_a_half_installation_is_begun_anew() {
        let home = std::env::temp_dir().join(format!("xtask-place-{}", std::process::id()));
        fs::create_dir_all(&home).unwrap();
        let place = Place { home: home.clone(), pins: home.clone() };

        let broken = place.once("it", "1", |directory| {
            fs::write(directory.join("half"), "").unwrap();
            Err(Trouble::new("no network"))
        });
        assert!(broken.is_err());
        let directory = place.once("it", "1", |_| Ok(())).ok().unwrap();
        assert!(!directory.join("half").exists());

        let again = |stamp| place.once("it", stamp, |_| Err(Trouble::new("asked again")));
        assert!(again("1").is_ok());
        assert!(again("2").is_err());
        fs::remove_dir_all(home).unwrap();
    }
}
