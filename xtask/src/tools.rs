//! Tools written in Python: each in a virtual environment of its own below the target directory, with its version
//! pinned, so that what a check says does not change by itself.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cargo::Cargo;

/// A tool, and exactly what is installed for it.
pub(crate) struct Tool {
    /// Its directory.
    pub(crate) name: &'static str,
    /// What pip is given.
    pub(crate) packages: &'static [&'static str],
}

/// What an environment was made from stands in this file within it, once it is complete.
const MADE_FROM: &str = "made-from";

impl Tool {
    /// The directory with the tool's programs, which are installed unless they are there.
    pub(crate) fn programs(&self, cargo: &Cargo) -> Result<PathBuf, String> {
        let home = cargo.target_directory()?.join("tools").join(self.name);
        let wanted = self.packages.join("\n");
        if std::fs::read_to_string(home.join(MADE_FROM)).ok().as_ref() != Some(&wanted) {
            self.install(&home)?;
            std::fs::write(home.join(MADE_FROM), &wanted).map_err(|error| error.to_string())?;
        }
        Ok(home.join("bin"))
    }

    fn install(&self, home: &Path) -> Result<(), String> {
        eprintln!("--- {}: pip install {}", self.name, self.packages.join(" "));
        let mut make = Command::new("python3");
        quietly(make.args(["-m", "venv", "--clear"]).arg(home))?;
        let mut pip = Command::new(home.join("bin/pip"));
        let installed =
            quietly(pip.args(["install", "--quiet", "--disable-pip-version-check"]).args(self.packages));
        // The last line is the reason; those before it are how pip came to it.
        installed.map_err(|said| said.lines().last().unwrap_or_default().to_owned())
    }
}

/// Whether a program can be started at all.
pub(crate) fn is_installed(program: &str) -> bool {
    let asked = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    asked.is_ok_and(|status| status.success())
}

/// Runs the command to its end; what it wrote is shown only in the reason for its failure.
pub(crate) fn quietly(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("did not start: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    Err(format!("{}\n{}", output.status, String::from_utf8_lossy(&said).trim()))
}
