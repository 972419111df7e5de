//! The queues. Messages that must not delay each other use different queues.

use std::fmt;
use std::str::FromStr;

/// A queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QueueName {
    /// Triggers that are not runs yet.
    Ingest,
    /// Decisions by users, and notifications to them. They never wait behind a backlog of steps.
    Decisions,
    /// The work of runs.
    Steps,
}

impl QueueName {
    /// Every queue.
    pub const ALL: [Self; 3] = [Self::Ingest, Self::Decisions, Self::Steps];

    /// The name of the queue.
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

/// The text is not a queue.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a queue; use ingest, decisions or steps")]
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
    fn queue_name_round_trips() {
        for queue in QueueName::ALL {
            assert_eq!(queue.as_str().parse(), Ok(queue));
        }
        assert!("fast".parse::<QueueName>().is_err());
    }
}
