//! The queues. Messages that must not delay each other use different queues.

use strum::{Display, EnumString, IntoStaticStr};

/// A queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Display, EnumString, IntoStaticStr)]
#[strum(serialize_all = "snake_case", parse_err_ty = UnknownQueue, parse_err_fn = UnknownQueue::new)]
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
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The text is not a queue.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a queue; use ingest, decisions or steps")]
pub struct UnknownQueue(String);

impl UnknownQueue {
    fn new(text: &str) -> Self {
        Self(text.to_owned())
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
