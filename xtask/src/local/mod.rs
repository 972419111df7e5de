//! `cargo xtask local`: a local AWS without Docker.
//!
//! The stand-ins are installed by pinned name, started in the background and found again. A test gets servers
//! of its own, empty and on free ports, that end with it. Nothing here is for production.

mod dynamodb;
mod furnish;
mod health;
mod localstack;
mod lock;
mod ministack;
mod options;
mod patience;
mod place;
mod process;
mod record;
mod servers;
mod stand_in;
mod tools;
mod trouble;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::cargo::Cargo;

use place::Place;
use record::{Record, State};
use stand_in::{ALL, StandIn, endpoint};
use trouble::{Trouble, on};

pub(crate) use options::{Aws, Wanted, options};
pub(crate) use servers::{Servers, servers, tell};

pub(crate) const HELP: &str = "\
A local AWS without Docker: MiniStack for everything, and DynamoDB Local, AWS's own, as the referee.

Usage: cargo xtask local up [--localstack] [--aws-port N] [--dynamodb-port N]
       cargo xtask local status
       cargo xtask local down

  up            installs what is not installed, starts what is not running, waits until it answers, makes
                the table, the queues and the buckets that are not there (localstack/init.sh), and prints
                where it is as `export` lines on standard output:
                eval \"$(cargo xtask local up)\"
  status        what runs where
  down          ends all of it, with whatever it started

  --localstack      LocalStack in MiniStack's place; it has no Lambda without Docker
  --aws-port N      where the first one listens, instead of 4566 (LocalStack: 4567) or any free port
  --dynamodb-port N where DynamoDB Local listens, instead of 4569 or any free port

It needs python3, java and npm; as root on Debian and its kin, what is missing is installed. Everything is
kept in `local/` in cargo's target directory, logs included. localstack/README.md says what each of them gets
wrong.
";

/// What a person or a test may say besides the endpoints. The keys open nothing; they keep a program from
/// finding real ones.
const DUMMIES: [(&str, &str); 4] = [
    ("AWS_ACCESS_KEY_ID", "test"),
    ("AWS_SECRET_ACCESS_KEY", "test"),
    ("AWS_REGION", "us-east-1"),
    // What the first version of the command line reads instead.
    ("AWS_DEFAULT_REGION", "us-east-1"),
];

/// Does it.
pub(crate) fn local(cargo: &Cargo, wanted: &Wanted) -> ExitCode {
    let place = match Place::find(cargo) {
        Ok(place) => place,
        Err(trouble) => return give_up(&[trouble]),
    };
    match wanted {
        Wanted::Up { aws, aws_port, dynamodb_port } => {
            up(&place, [(aws.stand_in(), *aws_port), (StandIn::DynamoDb, *dynamodb_port)])
        }
        Wanted::Down => down(&place),
        Wanted::Status => status(&place),
    }
}

/// Starts each; one that cannot be had does not keep the other from being used.
fn up(place: &Place, wanted: [(StandIn, Option<u16>); 2]) -> ExitCode {
    let (mut environment, mut troubles) = (Vec::new(), Vec::new());
    for (stand_in, port) in wanted {
        match keep_running(place, stand_in, port) {
            Ok(record) => environment.push((stand_in.variable().to_owned(), endpoint(record.port))),
            Err(trouble) => troubles.push(trouble),
        }
    }
    if !environment.is_empty() {
        environment.extend(dummies());
        // Where one is missing there is nothing to furnish; whoever uses the other makes what they need.
        if troubles.is_empty() {
            troubles.extend(furnish::furnish(place, &environment).err());
        }
        for (name, value) in &environment {
            println!("{}", export(name, value));
        }
    }
    if troubles.is_empty() { ExitCode::SUCCESS } else { give_up(&troubles) }
}

/// The one that runs, or a new one in its place.
fn keep_running(place: &Place, stand_in: StandIn, chosen: Option<u16>) -> Result<Record, Trouble> {
    let name = stand_in.name();
    match record::state(&place.home, stand_in) {
        State::Running(record) => {
            eprintln!("{name}: already running at {}, process {}", endpoint(record.port), record.pid);
            return Ok(record);
        }
        // It may be starting still, or have lost its way; nobody can use it as it is.
        State::Silent(record) | State::Ended(record) => stop(place, stand_in, record),
        State::Stopped => {}
    }
    let port = health::port_for(stand_in, chosen)?;
    let command = command(place, stand_in, port, &files(place, stand_in))?;
    let log = place.home.join(format!("{}.log", stand_in.slug()));
    let mut server = process::start(command, &log)?;
    let record = Record { pid: server.id(), port };
    // Before it is waited for: whoever loses patience finds it with `down`.
    record::write(&place.home, stand_in, record)?;
    let took = health::wait(stand_in, port, &mut server).map_err(|trouble| {
        stop(place, stand_in, record);
        trouble.with_log(&log)
    })?;
    eprintln!(
        "{name}: ready at {} after {:.1} s, process {}",
        endpoint(port),
        took.as_secs_f64(),
        record.pid
    );
    Ok(record)
}

/// Where one that is left running may write.
fn files(place: &Place, stand_in: StandIn) -> PathBuf {
    place.home.join(format!("{}-files", stand_in.slug()))
}

fn stop(place: &Place, stand_in: StandIn, record: Record) {
    process::stop(record.pid, &place.home, &files(place, stand_in));
}

/// How a stand-in is started, installed if need be. `files` is where it may write; it begins empty.
fn command(place: &Place, stand_in: StandIn, port: u16, files: &Path) -> Result<Command, Trouble> {
    if !cfg!(unix) {
        let why = "the stand-ins are run on Linux and macOS; elsewhere use localstack/compose.yaml";
        return Err(Trouble::new(why));
    }
    if files.exists() {
        std::fs::remove_dir_all(files).map_err(on("remove", files))?;
    }
    std::fs::create_dir_all(files).map_err(on("create", files))?;
    let mut command = match stand_in {
        StandIn::MiniStack => ministack::command(place, port, files)?,
        StandIn::LocalStack => localstack::command(place, port, files)?,
        StandIn::DynamoDb => dynamodb::command(place, port)?,
    };
    // DynamoDB Local leaves a file where it stands.
    command.current_dir(files);
    Ok(command)
}

fn down(place: &Place) -> ExitCode {
    let mut troubles = Vec::new();
    for stand_in in ALL {
        match record::state(&place.home, stand_in) {
            State::Stopped => eprintln!("{}: not running", stand_in.name()),
            State::Ended(record) | State::Silent(record) | State::Running(record) => {
                stop(place, stand_in, record);
                eprintln!("{}: stopped, process {}", stand_in.name(), record.pid);
                troubles.extend(record::forget(&place.home, stand_in).err());
            }
        }
    }
    if troubles.is_empty() { ExitCode::SUCCESS } else { give_up(&troubles) }
}

fn status(place: &Place) -> ExitCode {
    for stand_in in ALL {
        println!("{}", status_line(stand_in, record::state(&place.home, stand_in)));
    }
    println!("logs: {}", place.home.display());
    ExitCode::SUCCESS
}

fn status_line(stand_in: StandIn, state: State) -> String {
    let known = match state {
        State::Stopped => String::new(),
        State::Ended(record) | State::Silent(record) | State::Running(record) => {
            format!("{}  process {}", endpoint(record.port), record.pid)
        }
    };
    format!("{:<15} {:<16} {known}", stand_in.name(), state.word()).trim_end().to_owned()
}

fn dummies() -> impl Iterator<Item = (String, String)> {
    DUMMIES.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()))
}

/// A line for a shell.
fn export(name: &str, value: &str) -> String {
    format!("export {name}={value}")
}

fn give_up(troubles: &[Trouble]) -> ExitCode {
    for trouble in troubles {
        eprintln!("xtask: {}", trouble.why());
    }
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_line_says_what_runs_where() {
        let record = Record { pid: 4711, port: 4566 };
        assert_eq!(status_line(StandIn::LocalStack, State::Stopped), "LocalStack      stopped");
        assert_eq!(
            status_line(StandIn::MiniStack, State::Running(record)),
            "MiniStack       running          http://127.0.0.1:4566  process 4711"
        );
    }

    #[test]
    fn an_export_can_be_evaluated_by_a_shell() {
        assert_eq!(
            export("COUNTERSIGN_AWS", &endpoint(4566)),
            "export COUNTERSIGN_AWS=http://127.0.0.1:4566"
        );
    }

    #[test]
    fn the_script_puts_messages_aside_when_the_store_does() {
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
