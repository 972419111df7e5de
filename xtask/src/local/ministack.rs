//! MiniStack: emulates most of AWS in one Python process.

use std::path::Path;
use std::process::Command;

use super::error::LocalError;
use super::paths::Paths;
use super::runner::{download, run};
use super::{lock, tools};

const LOCK_FILE: &str = "ministack.lock";

/// The command that starts MiniStack, which is installed if needed. `files` is its directory for temporary files.
pub(crate) fn command(paths: &Paths, port: u16, files: &Path) -> Result<Command, LocalError> {
    let (lock_file, text) = paths.read_source(LOCK_FILE)?;
    let version = lock::version(&text, "ministack").map_err(LocalError::new)?;
    let installed = paths.install_once(&format!("ministack-{version}"), &text, |directory| {
        let python = tools::python(&paths.home)?;
        create_venv(&python, directory, &paths.home)?;
        install_packages(&format!("install MiniStack {version}"), directory, &lock_file, &paths.home)
    })?;
    let mut command = Command::new(installed.join("bin/python"));
    command
        .args(["-m", "ministack"])
        .env("GATEWAY_PORT", port.to_string())
        .env("MINISTACK_HOST", "localhost")
        // It runs uploaded code, and by default listens on every interface.
        .env("BIND_HOST", "127.0.0.1")
        // Disables two more listeners, which ignore BIND_HOST.
        .env("IOT_MTLS_ENABLED", "0")
        .env("SFTP_ENABLED", "0")
        .env("TMPDIR", files);
    Ok(command)
}

/// Creates a Python virtual environment in `directory`.
pub(crate) fn create_venv(python: &Path, directory: &Path, home: &Path) -> Result<(), LocalError> {
    let mut command = Command::new(python);
    command.args(["-m", "venv"]).arg(directory);
    run("create a Python environment", command, &home.join("venv.log"))
}

/// Installs a lock file into the virtual environment in `directory`.
pub(crate) fn install_packages(
    action: &str,
    directory: &Path,
    lock_file: &Path,
    home: &Path,
) -> Result<(), LocalError> {
    let mut command = Command::new(directory.join("bin/python"));
    // The lock files are complete, so --no-deps keeps out unpinned packages.
    command.args(["-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--no-deps", "-r"]);
    command.arg(lock_file);
    download(action, command, &home.join("pip.log"))
}
