//! Creates the table, the queues and the buckets with `init.sh`, the script that LocalStack's container also runs.

use std::ffi::OsString;
use std::process::{Command, Stdio};

use super::error::{LocalError, io_error};
use super::paths::Paths;
use super::{lock, ministack, tools};

const LOCK_FILE: &str = "awscli.lock";
const SCRIPT: &str = "init.sh";

/// Creates missing resources. `environment` holds the endpoints of the emulators.
pub(crate) fn create(paths: &Paths, environment: &[(String, String)]) -> Result<(), LocalError> {
    let (script, _) = paths.read_source(SCRIPT)?;
    let mut command = Command::new("bash");
    command.arg(&script).envs(environment.iter().map(|(name, value)| (name, value)));
    command.env("PATH", path_with_aws_cli(paths)?);
    // Standard output is reserved for the `export` lines.
    command.stdin(Stdio::null()).stdout(std::io::stderr());
    let status = command.status().map_err(io_error("run", &script))?;
    if status.success() {
        return Ok(());
    }
    Err(LocalError::new(format!("{} failed: {status}", script.display())))
}

/// PATH with the pinned AWS CLI in front.
fn path_with_aws_cli(paths: &Paths) -> Result<OsString, LocalError> {
    let (lock_file, text) = paths.read_source(LOCK_FILE)?;
    let version = lock::version(&text, "awscli").map_err(LocalError::new)?;
    let installed = paths.install_once(&format!("awscli-{version}"), &text, |directory| {
        let python = tools::python(&paths.home)?;
        ministack::create_venv(&python, directory, &paths.home)?;
        ministack::install_packages(&format!("install awscli {version}"), directory, &lock_file, &paths.home)
    })?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let entries = std::iter::once(installed.join("bin")).chain(std::env::split_paths(&path));
    std::env::join_paths(entries).map_err(|error| LocalError::new(format!("add awscli to PATH: {error}")))
}
