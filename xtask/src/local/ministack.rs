//! MiniStack: most of AWS in one Python process.

use std::path::Path;
use std::process::Command;

use super::patience::{fetch, run};
use super::place::Place;
use super::trouble::Trouble;
use super::{lock, tools};

const PINS: &str = "ministack.lock";

/// How it is started. `work` is where it may write.
pub(crate) fn command(place: &Place, port: u16, work: &Path) -> Result<Command, Trouble> {
    let (pins, text) = place.pinned(PINS)?;
    let version = lock::version(&text, "ministack").map_err(Trouble::new)?;
    let installed = place.once(&format!("ministack-{version}"), &text, |directory| {
        let python = tools::python(&place.home)?;
        environment(&python, directory, &place.home)?;
        packages(&format!("install MiniStack {version}"), directory, &pins, &place.home)
    })?;
    let mut command = Command::new(installed.join("bin/python"));
    command
        .args(["-m", "ministack"])
        .env("GATEWAY_PORT", port.to_string())
        .env("MINISTACK_HOST", "localhost")
        // It runs whatever code is uploaded to it, and would listen on every interface.
        .env("BIND_HOST", "127.0.0.1")
        // Two more listeners that we have no use for and that know no such setting.
        .env("IOT_MTLS_ENABLED", "0")
        .env("SFTP_ENABLED", "0")
        .env("TMPDIR", work);
    Ok(command)
}

/// A Python environment in `directory`.
pub(crate) fn environment(python: &Path, directory: &Path, home: &Path) -> Result<(), Trouble> {
    let mut command = Command::new(python);
    command.args(["-m", "venv"]).arg(directory);
    run("make a Python environment", command, &home.join("venv.log"))
}

/// Installs a list of pins into the environment in `directory`.
pub(crate) fn packages(what: &str, directory: &Path, pins: &Path, home: &Path) -> Result<(), Trouble> {
    let mut command = Command::new(directory.join("bin/python"));
    // The lists are complete: what they do not name is not needed, and must not come along unpinned.
    command.args(["-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--no-deps", "-r"]);
    command.arg(pins);
    fetch(what, command, &home.join("pip.log"))
}
