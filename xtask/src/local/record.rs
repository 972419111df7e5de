//! The record of a background emulator: one small file with its process id and port.

use std::path::{Path, PathBuf};

use super::emulator::Emulator;
use super::error::{LocalError, io_error};
use super::process;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) pid: u32,
    pub(crate) port: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Never started, or stopped with `down`.
    Stopped,
    /// Started, but its process has exited.
    Exited(Record),
    /// Its process exists, but its health check fails.
    Unresponsive(Record),
    Running(Record),
}

impl State {
    /// `is_healthy` is called only if the process is alive.
    pub(crate) fn of(record: Option<Record>, is_alive: bool, is_healthy: impl FnOnce() -> bool) -> Self {
        match record {
            None => Self::Stopped,
            Some(record) if !is_alive => Self::Exited(record),
            Some(record) if is_healthy() => Self::Running(record),
            Some(record) => Self::Unresponsive(record),
        }
    }

    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Exited(_) => "exited",
            Self::Unresponsive(_) => "not responding",
            Self::Running(_) => "running",
        }
    }
}

pub(crate) fn state(home: &Path, emulator: Emulator) -> State {
    let record = read(home, emulator);
    let is_alive = record.is_some_and(|record| process::is_ours(record.pid, home));
    State::of(record, is_alive, || {
        record.is_some_and(|record| super::health::is_healthy(emulator, record.port))
    })
}

pub(crate) fn write(home: &Path, emulator: Emulator, record: Record) -> Result<(), LocalError> {
    let path = path(home, emulator);
    std::fs::write(&path, serialize(record)).map_err(io_error("write", &path))
}

pub(crate) fn remove(home: &Path, emulator: Emulator) -> Result<(), LocalError> {
    let path = path(home, emulator);
    std::fs::remove_file(&path).map_err(io_error("remove", &path))
}

fn read(home: &Path, emulator: Emulator) -> Option<Record> {
    parse(&std::fs::read_to_string(path(home, emulator)).ok()?)
}

fn path(home: &Path, emulator: Emulator) -> PathBuf {
    home.join(format!("{}.pid", emulator.slug()))
}

fn serialize(Record { pid, port }: Record) -> String {
    format!("pid {pid}\nport {port}\n")
}

/// Rejects process ids below 2, which `kill` would read as a group of processes or as all processes.
fn parse(text: &str) -> Option<Record> {
    let field = |name| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let pid = field("pid")?.parse().ok().filter(|pid| *pid > 1)?;
    let port = field("port")?.parse().ok().filter(|port| *port > 0)?;
    Some(Record { pid, port })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: Record = Record { pid: 4711, port: 4566 };

    #[test]
    fn record_survives_a_round_trip() {
        assert_eq!(parse(&serialize(RECORD)), Some(RECORD));
    }

    #[test]
    fn damaged_record_is_rejected() {
        for text in [
            "",
            "pid 4711",
            "port 4566",
            "pid 1\nport 4566",
            "pid 0\nport 4566",
            "pid -5\nport 4566",
            "pid 4711\nport 0",
            "pid 4711\nport 70000",
            "pid4711\nport 4566",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn state_depends_on_process_and_health() {
        assert_eq!(State::of(None, false, || true).label(), "stopped");
        assert_eq!(State::of(Some(RECORD), false, || true).label(), "exited");
        assert_eq!(State::of(Some(RECORD), true, || false).label(), "not responding");
        assert_eq!(State::of(Some(RECORD), true, || true), State::Running(RECORD));
    }
}
