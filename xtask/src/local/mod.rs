//! `cargo xtask local`: a local AWS without Docker.
//!
//! The module installs pinned versions of the emulators, starts them in the background and finds them again. Each test
//! run gets its own empty servers on free ports, which stop with it. Nothing here is for production.

mod dynamodb;
mod emulator;
mod error;
mod health;
mod localstack;
mod lock;
mod ministack;
mod options;
mod paths;
mod process;
mod record;
mod resources;
mod runner;
mod test_servers;
mod tools;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::cargo::Cargo;
use crate::stages::format_duration;

use emulator::{ALL, Emulator, endpoint};
use error::{LocalError, io_error};
use paths::Paths;
use record::{Record, State};

pub(crate) use options::{Aws, LocalCommand, options};
pub(crate) use test_servers::{TestServers, set_environment, start_test_servers};

pub(crate) const HELP: &str = "\
Start, stop or inspect a local AWS that needs no Docker.

MiniStack emulates AWS. DynamoDB Local, which AWS publishes, runs beside it as the reference for DynamoDB.

Usage: cargo xtask local up [OPTIONS]
       cargo xtask local status
       cargo xtask local down

Commands:
  up      Install and start the emulators, wait until they are ready, create the table, the queues and
          the buckets (localstack/init.sh), and print the endpoints as `export` lines
  status  Print the state and the endpoint of each emulator
  down    Stop the emulators and every process that they started

Options for `up`:
  --localstack       Start LocalStack instead of MiniStack. It has no Lambda without Docker
  --aws-port N       Port of MiniStack or LocalStack [default: 4566 or 4567, or a free port]
  --dynamodb-port N  Port of DynamoDB Local [default: 4569, or a free port]

Options:
  -h, --help         Print help

Examples:
  $ eval \"$(cargo xtask local up)\"
  $ cargo xtask local down

The emulators need python3, java and npm. On Debian-based systems, `up` installs missing ones if it runs as
root. Installations, logs and data are in `local/` in cargo's target directory.

localstack/README.md lists the differences between each emulator and AWS.
";

/// Credentials and region for clients of the emulators. They are not valid on AWS, and keep the SDK from using real
/// credentials.
const TEST_CREDENTIALS: [(&str, &str); 4] = [
    ("AWS_ACCESS_KEY_ID", "test"),
    ("AWS_SECRET_ACCESS_KEY", "test"),
    ("AWS_REGION", "us-east-1"),
    // Version 1 of the AWS CLI reads this variable.
    ("AWS_DEFAULT_REGION", "us-east-1"),
];

pub(crate) fn local(cargo: &Cargo, command: &LocalCommand) -> ExitCode {
    let paths = match Paths::find(cargo) {
        Ok(paths) => paths,
        Err(error) => return print_errors(&[error]),
    };
    match command {
        LocalCommand::Up { aws, aws_port, dynamodb_port } => {
            up(&paths, [(aws.emulator(), *aws_port), (Emulator::DynamoDb, *dynamodb_port)])
        }
        LocalCommand::Down => down(&paths),
        LocalCommand::Status => status(&paths),
    }
}

/// Starts each emulator. If one fails, the other is still usable.
fn up(paths: &Paths, emulators: [(Emulator, Option<u16>); 2]) -> ExitCode {
    let (mut environment, mut errors) = (Vec::new(), Vec::new());
    for (emulator, port) in emulators {
        match ensure_running(paths, emulator, port) {
            Ok(record) => environment.push((emulator.variable().to_owned(), endpoint(record.port))),
            Err(error) => errors.push(error),
        }
    }
    if !environment.is_empty() {
        environment.extend(test_credentials());
        // init.sh needs both emulators.
        if errors.is_empty() {
            errors.extend(resources::create(paths, &environment).err());
        }
        for (name, value) in &environment {
            println!("{}", export(name, value));
        }
    }
    if errors.is_empty() { ExitCode::SUCCESS } else { print_errors(&errors) }
}

/// Returns the running emulator, or starts it.
fn ensure_running(paths: &Paths, emulator: Emulator, port: Option<u16>) -> Result<Record, LocalError> {
    let name = emulator.name();
    match record::state(&paths.home, emulator) {
        State::Running(record) => {
            eprintln!("{name}: already running at {}, process {}", endpoint(record.port), record.pid);
            return Ok(record);
        }
        // It may still be starting, or hang. It is not usable in either case.
        State::Unresponsive(record) | State::Exited(record) => stop(paths, emulator, record),
        State::Stopped => {}
    }
    let port = health::port_for(emulator, port)?;
    let command = command(paths, emulator, port, &files(paths, emulator))?;
    let log = paths.home.join(format!("{}.log", emulator.slug()));
    let mut server = process::start(command, &log)?;
    let record = Record { pid: server.id(), port };
    // Written before the wait, so that `down` finds the process if the user interrupts this command.
    record::write(&paths.home, emulator, record)?;
    let elapsed = health::wait(emulator, port, &mut server).map_err(|error| {
        stop(paths, emulator, record);
        error.with_log(&log)
    })?;
    let elapsed = format_duration(elapsed);
    eprintln!("{name}: ready at {} after {elapsed}, process {}", endpoint(port), record.pid);
    Ok(record)
}

/// The working directory of a background emulator.
fn files(paths: &Paths, emulator: Emulator) -> PathBuf {
    paths.home.join(format!("{}-files", emulator.slug()))
}

fn stop(paths: &Paths, emulator: Emulator, record: Record) {
    process::stop(record.pid, &paths.home, &files(paths, emulator));
}

/// The command that starts an emulator, which is installed if needed. `files` becomes its empty working directory.
fn command(paths: &Paths, emulator: Emulator, port: u16, files: &Path) -> Result<Command, LocalError> {
    if !cfg!(unix) {
        let reason = "the emulators run on Linux and macOS only; elsewhere use localstack/compose.yaml";
        return Err(LocalError::new(reason));
    }
    if files.exists() {
        std::fs::remove_dir_all(files).map_err(io_error("remove", files))?;
    }
    std::fs::create_dir_all(files).map_err(io_error("create", files))?;
    let mut command = match emulator {
        Emulator::MiniStack => ministack::command(paths, port, files)?,
        Emulator::LocalStack => localstack::command(paths, port, files)?,
        Emulator::DynamoDb => dynamodb::command(paths, port)?,
    };
    // DynamoDB Local writes a file to its working directory.
    command.current_dir(files);
    Ok(command)
}

fn down(paths: &Paths) -> ExitCode {
    let mut errors = Vec::new();
    for emulator in ALL {
        match record::state(&paths.home, emulator) {
            State::Stopped => eprintln!("{}: not running", emulator.name()),
            State::Exited(record) | State::Unresponsive(record) | State::Running(record) => {
                stop(paths, emulator, record);
                eprintln!("{}: stopped, process {}", emulator.name(), record.pid);
                errors.extend(record::remove(&paths.home, emulator).err());
            }
        }
    }
    if errors.is_empty() { ExitCode::SUCCESS } else { print_errors(&errors) }
}

fn status(paths: &Paths) -> ExitCode {
    for emulator in ALL {
        println!("{}", status_line(emulator, record::state(&paths.home, emulator)));
    }
    println!("logs: {}", paths.home.display());
    ExitCode::SUCCESS
}

fn status_line(emulator: Emulator, state: State) -> String {
    let details = match state {
        State::Stopped => String::new(),
        State::Exited(record) | State::Unresponsive(record) | State::Running(record) => {
            format!("{}  process {}", endpoint(record.port), record.pid)
        }
    };
    format!("{:<15} {:<16} {details}", emulator.name(), state.label()).trim_end().to_owned()
}

fn test_credentials() -> impl Iterator<Item = (String, String)> {
    TEST_CREDENTIALS.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()))
}

fn export(name: &str, value: &str) -> String {
    format!("export {name}={value}")
}

fn print_errors(errors: &[LocalError]) -> ExitCode {
    for error in errors {
        eprintln!("error: {}", error.message());
    }
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_line_shows_state_endpoint_and_process() {
        let record = Record { pid: 4711, port: 4566 };
        assert_eq!(status_line(Emulator::LocalStack, State::Stopped), "LocalStack      stopped");
        assert_eq!(
            status_line(Emulator::MiniStack, State::Running(record)),
            "MiniStack       running          http://127.0.0.1:4566  process 4711"
        );
    }

    #[test]
    fn export_line_is_shell_syntax() {
        assert_eq!(
            export("COUNTERSIGN_AWS", &endpoint(4566)),
            "export COUNTERSIGN_AWS=http://127.0.0.1:4566"
        );
    }

    #[test]
    fn init_script_and_store_have_the_same_receive_limit() {
        let script = include_str!("../../../localstack/init.sh");
        let store = include_str!("../../../crates/store/src/queue.rs");
        let number = |text: &'static str, before: &str| {
            text.split(before).nth(1).and_then(|rest| rest.split([';', '\n']).next())
        };
        let limit = number(store, "pub const RECEIVES_MAX: u32 = ");
        assert!(limit.is_some());
        assert_eq!(number(script, "\nreceives_max="), limit);
    }
}
