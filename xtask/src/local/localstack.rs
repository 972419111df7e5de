//! LocalStack without Docker: its "host mode", which is hardly documented.
//!
//! LocalStack would download its own DynamoDB Local and Java. This module links ours into the directories where
//! LocalStack looks for them first.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::{LocalError, io_error};
use super::paths::Paths;
use super::runner::{download, run, stdout_of};
use super::{dynamodb, lock, ministack, tools};

const LOCK_FILE: &str = "localstack-4.14.0.lock";

/// The services that Countersign uses, and their dependencies.
const SERVICES: &str = "sqs,s3,dynamodb,dynamodbstreams,sts,iam,secretsmanager,kms,events,scheduler,lambda,logs,\
                        ssm,cloudwatch";

/// Installs Python if the system's version is too old.
const UV: &str = "uv==0.9.5";
const PYTHON: &str = "3.13";

/// The command that starts LocalStack, which is installed if needed. `files` is its data directory.
pub(crate) fn command(paths: &Paths, port: u16, files: &Path) -> Result<Command, LocalError> {
    let java = tools::java_home(&paths.home)?;
    let dynamodb = dynamodb::install(paths)?;
    let installed = install(paths)?;
    let python = installed.join("bin/python");
    link_dependencies(files, &java, &dynamodb, &python, paths)?;
    let mut command = Command::new(python);
    command
        .args(["-m", "localstack.runtime.main"])
        .env("OVERRIDE_IN_DOCKER", "false")
        .env("FILESYSTEM_ROOT", files)
        .env("GATEWAY_LISTEN", format!("127.0.0.1:{port}"))
        .env("SERVICES", SERVICES)
        .env("EAGER_SERVICE_LOADING", "1")
        .env("DYNAMODB_IN_MEMORY", "1")
        .env("PROVIDER_OVERRIDE_DYNAMODB", "v2")
        .env("PROVIDER_OVERRIDE_DYNAMODBSTREAMS", "v2")
        .env("S3_SKIP_SIGNATURE_VALIDATION", "0")
        // Disables DNS, telemetry and the download of a certificate.
        .env("DNS_ADDRESS", "0")
        .env("DISABLE_EVENTS", "1")
        .env("SKIP_SSL_CERT_DOWNLOAD", "1");
    Ok(command)
}

fn install(paths: &Paths) -> Result<PathBuf, LocalError> {
    let (lock_file, text) = paths.read_source(LOCK_FILE)?;
    let version = lock::version(&text, "localstack-core").map_err(LocalError::new)?;
    paths.install_once(&format!("localstack-{version}"), &text, |directory| {
        match tools::python_for_localstack() {
            Some(python) => ministack::create_venv(&python, directory, &paths.home)?,
            None => create_venv_with_uv(directory, &paths.home)?,
        }
        let action = format!("install LocalStack {version}");
        ministack::install_packages(&action, directory, &lock_file, &paths.home)
    })
}

/// Creates a virtual environment with a Python that uv downloads.
fn create_venv_with_uv(directory: &Path, home: &Path) -> Result<(), LocalError> {
    let uv = uv(home)?;
    let mut command = Command::new(uv);
    command.args(["venv", "--seed", "--allow-existing", "--python", PYTHON]).arg(directory);
    command.env("UV_PYTHON_INSTALL_DIR", home.join("python"));
    let log = home.join("uv.log");
    download(&format!("download Python {PYTHON} for LocalStack"), command, &log).map_err(|error| {
        LocalError::new(format!("LocalStack needs Python 3.13 or later; install it\n{}", error.message()))
    })
}

fn uv(home: &Path) -> Result<PathBuf, LocalError> {
    if stdout_of(Command::new("uv").arg("--version")).is_some() {
        return Ok(PathBuf::from("uv"));
    }
    let directory = home.join("uv");
    ministack::create_venv(&tools::python(home)?, &directory, home)?;
    let mut command = Command::new(directory.join("bin/python"));
    command.args(["-m", "pip", "install", "--disable-pip-version-check", "--no-input", UV]);
    download("install uv", command, &home.join("pip.log"))?;
    Ok(directory.join("bin/uv"))
}

/// Links DynamoDB Local and Java into the directories where LocalStack would install them.
fn link_dependencies(
    files: &Path,
    java: &Path,
    dynamodb: &Path,
    python: &Path,
    paths: &Paths,
) -> Result<(), LocalError> {
    let library = files.join("var/lib/localstack/lib");
    let database = library.join("dynamodb-local/2");
    for directory in [&database, &library.join("java")] {
        fs::create_dir_all(directory).map_err(io_error("create", directory))?;
    }
    link(java, &library.join("java/21"))?;
    link(&dynamodb.join("DynamoDBLocal.jar"), &database.join("DynamoDBLocal.jar"))?;
    link(&dynamodb.join("DynamoDBLocal_lib"), &database.join("DynamoDBLocal_lib"))?;
    let (script, _) = paths.read_source("quiet_agent.py")?;
    let mut agent = Command::new(python);
    agent.arg(script).arg(database.join("ddb-local-loader-0.1.jar"));
    run("create a Java agent for DynamoDB Local", agent, &paths.home.join("agent.log"))
}

#[cfg(unix)]
fn link(from: &Path, to: &Path) -> Result<(), LocalError> {
    // A link from an earlier start may point to a Java that no longer exists.
    if to.is_symlink() {
        fs::remove_file(to).map_err(io_error("remove", to))?;
    }
    std::os::unix::fs::symlink(from, to).map_err(io_error("link", to))
}

/// Not reached: `up` fails earlier on other systems.
#[cfg(not(unix))]
fn link(_: &Path, to: &Path) -> Result<(), LocalError> {
    Err(LocalError::new(format!("{} cannot be linked on this system", to.display())))
}
