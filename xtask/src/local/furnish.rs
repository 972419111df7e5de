//! Furnishing: the table, the queues and the buckets, made by the script that LocalStack's container runs, too.

use std::ffi::OsString;
use std::process::{Command, Stdio};

use super::place::Place;
use super::trouble::{Trouble, on};
use super::{lock, ministack, tools};

const PINS: &str = "awscli.lock";
const SCRIPT: &str = "init.sh";

/// Makes what is not there. `environment` says where the stand-ins are.
pub(crate) fn furnish(place: &Place, environment: &[(String, String)]) -> Result<(), Trouble> {
    let (script, _) = place.pinned(SCRIPT)?;
    let mut command = Command::new("bash");
    command.arg(&script).envs(environment.iter().map(|(name, value)| (name, value)));
    command.env("PATH", with_command_line(place)?);
    // Standard output is for the shell that asked where the stand-ins are.
    command.stdin(Stdio::null()).stdout(std::io::stderr());
    let ended = command.status().map_err(on("run", &script))?;
    if ended.success() {
        return Ok(());
    }
    Err(Trouble::new(format!("{} ended with {ended}", script.display())))
}

/// The path of programs with the command line of AWS before everything else.
fn with_command_line(place: &Place) -> Result<OsString, Trouble> {
    let (pins, text) = place.pinned(PINS)?;
    let version = lock::version(&text, "awscli").map_err(Trouble::new)?;
    let installed = place.once(&format!("awscli-{version}"), &text, |directory| {
        let python = tools::python(&place.home)?;
        ministack::environment(&python, directory, &place.home)?;
        ministack::packages(&format!("install awscli {version}"), directory, &pins, &place.home)
    })?;
    let before = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(installed.join("bin")).chain(std::env::split_paths(&before));
    std::env::join_paths(paths).map_err(|error| Trouble::new(format!("put awscli on the path: {error}")))
}
