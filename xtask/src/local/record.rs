//! What is remembered of a server that was left running: one small file each.

use std::path::{Path, PathBuf};

use super::process;
use super::stand_in::StandIn;
use super::trouble::{Trouble, on};

/// Which process it is, and where it listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) pid: u32,
    pub(crate) port: u16,
}

/// How a stand-in is, as far as can be seen from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Nobody started it, or somebody stopped it.
    Stopped,
    /// It was started, and its process is gone.
    Ended(Record),
    /// Its process is there and gives no good answer.
    Silent(Record),
    /// It can be used.
    Running(Record),
}

impl State {
    /// From what was found out. `well` is asked only of a process that is there.
    pub(crate) fn of(record: Option<Record>, alive: bool, well: impl FnOnce() -> bool) -> Self {
        match record {
            None => Self::Stopped,
            Some(record) if !alive => Self::Ended(record),
            Some(record) if well() => Self::Running(record),
            Some(record) => Self::Silent(record),
        }
    }

    /// In a word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Ended(_) => "ended by itself",
            Self::Silent(_) => "does not answer",
            Self::Running(_) => "running",
        }
    }
}

/// How the stand-in is.
pub(crate) fn state(home: &Path, stand_in: StandIn) -> State {
    let record = read(home, stand_in);
    let alive = record.is_some_and(|record| process::is_ours(record.pid, home));
    State::of(record, alive, || record.is_some_and(|record| super::health::is_well(stand_in, record.port)))
}

/// Remembers it.
pub(crate) fn write(home: &Path, stand_in: StandIn, record: Record) -> Result<(), Trouble> {
    let path = path(home, stand_in);
    std::fs::write(&path, shown(record)).map_err(on("write", &path))
}

/// Forgets it.
pub(crate) fn forget(home: &Path, stand_in: StandIn) -> Result<(), Trouble> {
    let path = path(home, stand_in);
    std::fs::remove_file(&path).map_err(on("remove", &path))
}

fn read(home: &Path, stand_in: StandIn) -> Option<Record> {
    parse(&std::fs::read_to_string(path(home, stand_in)).ok()?)
}

fn path(home: &Path, stand_in: StandIn) -> PathBuf {
    home.join(format!("{}.pid", stand_in.slug()))
}

fn shown(Record { pid, port }: Record) -> String {
    format!("pid {pid}\nport {port}\n")
}

/// A number that could never be one of ours is no record: it would name a group of processes, or all.
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
    fn what_is_written_is_read() {
        assert_eq!(parse(&shown(RECORD)), Some(RECORD));
    }

    #[test]
    fn a_damaged_record_names_nobody() {
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
    fn each_state_has_its_word() {
        assert_eq!(State::of(None, false, || true).word(), "stopped");
        assert_eq!(State::of(Some(RECORD), false, || true).word(), "ended by itself");
        assert_eq!(State::of(Some(RECORD), true, || false).word(), "does not answer");
        assert_eq!(State::of(Some(RECORD), true, || true), State::Running(RECORD));
    }
}
