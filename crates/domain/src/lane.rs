//! Lanes: messages that must not wait for each other travel apart.

use std::fmt;
use std::str::FromStr;

/// Which way a message goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// What comes in from outside and is not a run yet.
    Ingest,
    /// What people decided, and what they are to be shown: it never waits behind a backlog of steps.
    Decisions,
    /// The work of runs.
    Steps,
}

impl Lane {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Ingest, Self::Decisions, Self::Steps];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ingest => "ingest",
            Self::Decisions => "decisions",
            Self::Steps => "steps",
        }
    }
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text names no lane.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a lane")]
pub struct UnknownLane(String);

impl FromStr for Lane {
    type Err = UnknownLane;

    fn from_str(text: &str) -> Result<Self, UnknownLane> {
        let named = Self::ALL.into_iter().find(|lane| lane.as_str() == text);
        named.ok_or_else(|| UnknownLane(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_is_found_by_its_name() {
        for lane in Lane::ALL {
            assert_eq!(lane.as_str().parse(), Ok(lane));
        }
        assert!("fast".parse::<Lane>().is_err());
    }
}
