//! LocalStack without Docker: its "host mode", which its makers use and hardly document.
//!
//! It would download a DynamoDB Local and a Java of its own. It finds ours where it looks for them first.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::patience::{fetch, run, said};
use super::place::Place;
use super::trouble::{Trouble, on};
use super::{dynamodb, lock, ministack, tools};

const PINS: &str = "localstack-4.14.0.lock";

/// What we use, and what that uses.
const SERVICES: &str = "sqs,s3,dynamodb,dynamodbstreams,sts,iam,secretsmanager,kms,events,scheduler,lambda,logs,\
                        ssm,cloudwatch";

/// Has Pythons to give where the machine's own is too old.
const UV: &str = "uv==0.9.5";
const PYTHON: &str = "3.13";

/// How it is started. `work` is where it keeps what it keeps.
pub(crate) fn command(place: &Place, port: u16, work: &Path) -> Result<Command, Trouble> {
    let java = tools::java_home(&place.home)?;
    let emulator = dynamodb::emulator(place)?;
    let installed = installed(place)?;
    let python = installed.join("bin/python");
    furnish(work, &java, &emulator, &python, place)?;
    let mut command = Command::new(python);
    command
        .args(["-m", "localstack.runtime.main"])
        .env("OVERRIDE_IN_DOCKER", "false")
        .env("FILESYSTEM_ROOT", work)
        .env("GATEWAY_LISTEN", format!("127.0.0.1:{port}"))
        .env("SERVICES", SERVICES)
        .env("EAGER_SERVICE_LOADING", "1")
        .env("DYNAMODB_IN_MEMORY", "1")
        .env("PROVIDER_OVERRIDE_DYNAMODB", "v2")
        .env("PROVIDER_OVERRIDE_DYNAMODBSTREAMS", "v2")
        .env("S3_SKIP_SIGNATURE_VALIDATION", "0")
        // Nothing that asks or tells anybody outside.
        .env("DNS_ADDRESS", "0")
        .env("DISABLE_EVENTS", "1")
        .env("SKIP_SSL_CERT_DOWNLOAD", "1");
    Ok(command)
}

fn installed(place: &Place) -> Result<PathBuf, Trouble> {
    let (pins, text) = place.pinned(PINS)?;
    let version = lock::version(&text, "localstack-core").map_err(Trouble::new)?;
    place.once(&format!("localstack-{version}"), &text, |directory| {
        match tools::newer_python() {
            Some(python) => ministack::environment(&python, directory, &place.home)?,
            None => environment_by_uv(directory, &place.home)?,
        }
        ministack::packages(&format!("install LocalStack {version}"), directory, &pins, &place.home)
    })
}

/// An environment with a Python that uv fetches.
fn environment_by_uv(directory: &Path, home: &Path) -> Result<(), Trouble> {
    let uv = uv(home)?;
    let mut command = Command::new(uv);
    command.args(["venv", "--seed", "--allow-existing", "--python", PYTHON]).arg(directory);
    command.env("UV_PYTHON_INSTALL_DIR", home.join("python"));
    let log = home.join("uv.log");
    fetch(&format!("fetch Python {PYTHON} for LocalStack"), command, &log).map_err(|trouble| {
        Trouble::new(format!("LocalStack needs Python 3.13 or later: install one\n{}", trouble.why()))
    })
}

fn uv(home: &Path) -> Result<PathBuf, Trouble> {
    if said(Command::new("uv").arg("--version")).is_some() {
        return Ok(PathBuf::from("uv"));
    }
    let directory = home.join("uv");
    ministack::environment(&tools::python(home)?, &directory, home)?;
    let mut command = Command::new(directory.join("bin/python"));
    command.args(["-m", "pip", "install", "--disable-pip-version-check", "--no-input", UV]);
    fetch("install uv", command, &home.join("pip.log"))?;
    Ok(directory.join("bin/uv"))
}

/// Puts DynamoDB Local and Java where LocalStack would install them.
fn furnish(work: &Path, java: &Path, emulator: &Path, python: &Path, place: &Place) -> Result<(), Trouble> {
    let library = work.join("var/lib/localstack/lib");
    let database = library.join("dynamodb-local/2");
    for directory in [&database, &library.join("java")] {
        fs::create_dir_all(directory).map_err(on("create", directory))?;
    }
    link(java, &library.join("java/21"))?;
    link(&emulator.join("DynamoDBLocal.jar"), &database.join("DynamoDBLocal.jar"))?;
    link(&emulator.join("DynamoDBLocal_lib"), &database.join("DynamoDBLocal_lib"))?;
    let (script, _) = place.pinned("quiet_agent.py")?;
    let mut agent = Command::new(python);
    agent.arg(script).arg(database.join("ddb-local-loader-0.1.jar"));
    run("make an agent for DynamoDB Local", agent, &place.home.join("agent.log"))
}

#[cfg(unix)]
fn link(from: &Path, to: &Path) -> Result<(), Trouble> {
    // The one that an earlier start left may lead to a Java that is gone.
    if to.is_symlink() {
        fs::remove_file(to).map_err(on("remove", to))?;
    }
    std::os::unix::fs::symlink(from, to).map_err(on("link", to))
}

/// `up` says before this that it cannot work here.
#[cfg(not(unix))]
fn link(_: &Path, to: &Path) -> Result<(), Trouble> {
    Err(Trouble::new(format!("{} cannot be linked on this system", to.display())))
}
