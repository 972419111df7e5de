//! Tools written in Python. Each is installed with a pinned version into its own virtual environment below the target
//! directory, so that its findings change only with the pin.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cargo::Cargo;

pub(crate) struct Tool {
    /// The name of its directory.
    pub(crate) name: &'static str,
    /// The requirements that pip installs.
    pub(crate) packages: &'static [&'static str],
}

/// The file in a complete environment that lists the installed requirements.
const INSTALLED: &str = "made-from";

impl Tool {
    /// The directory with the tool's programs. Installs the tool if it is missing.
    pub(crate) fn programs(&self, cargo: &Cargo) -> Result<PathBuf, String> {
        let home = cargo.target_directory()?.join("tools").join(self.name);
        let requirements = self.packages.join("\n");
        if std::fs::read_to_string(home.join(INSTALLED)).ok().as_ref() != Some(&requirements) {
            self.install(&home)?;
            std::fs::write(home.join(INSTALLED), &requirements).map_err(|error| error.to_string())?;
        }
        Ok(home.join("bin"))
    }

    fn install(&self, home: &Path) -> Result<(), String> {
        eprintln!("--- {}: pip install {}", self.name, self.packages.join(" "));
        let mut venv = Command::new("python3");
        run_quietly(venv.args(["-m", "venv", "--clear"]).arg(home))?;
        let mut pip = Command::new(home.join("bin/pip"));
        let installed =
            run_quietly(pip.args(["install", "--quiet", "--disable-pip-version-check"]).args(self.packages));
        // The last line holds the reason.
        installed.map_err(|output| output.lines().last().unwrap_or_default().to_owned())
    }
}

/// Whether `program --version` succeeds.
pub(crate) fn is_installed(program: &str) -> bool {
    let status = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Runs the command to its end. The error holds its exit status and its output.
pub(crate) fn run_quietly(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("did not start: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = [output.stdout, output.stderr].concat();
    Err(format!("{}\n{}", output.status, String::from_utf8_lossy(&text).trim()))
}
