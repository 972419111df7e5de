//! Lanes: messages that must not wait for each other travel apart.

use std::fmt;
use std::str::FromStr;

/// Which way a message goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QueueName {
    /// What comes in from outside and is not a run yet.
    Ingest,
    /// What people decided, and what they are to be shown: it never waits behind a backlog of steps.
    Decisions,
    /// The work of runs.
    Steps,
}

impl QueueName {
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

impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text names no queue.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a queue")]
pub struct UnknownQueue(String);

impl FromStr for QueueName {
    type Err = UnknownQueue;

    fn from_str(text: &str) -> Result<Self, UnknownQueue> {
        let named = Self::ALL.into_iter().find(|queue| queue.as_str() == text);
        named.ok_or_else(|| UnknownQueue(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_is_found_by_its_name() {
        for queue in QueueName::ALL {
            assert_eq!(queue.as_str().parse(), Ok(queue));
        }
        assert!("fast".parse::<QueueName>().is_err());
    }
}
