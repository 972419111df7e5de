//! A time as people type it: a moment, or how long ago.

use std::str::FromStr;

use domain::{Millis, Timestamp};

/// A time as somebody typed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// A moment.
    At(Timestamp),
    /// So long before now.
    Ago(Millis),
}

/// The text is no time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a time; write one such as `2026-11-15T08:00:00Z`, or how long ago: `30m`, `2h`, `3d`"
)]
pub struct InvalidWhen {
    text: String,
}

impl When {
    /// The moment that is meant, where it is `now`.
    pub fn moment(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::Ago(length) => now.earlier(length),
        }
    }
}

impl FromStr for When {
    type Err = InvalidWhen;
    fn from_str(text: &str) -> Result<Self, InvalidWhen> {
        if let Ok(length) = text.parse() {
            return Ok(Self::Ago(length));
        }
        let moment: Result<jiff::Timestamp, _> = text.parse();
        let at = moment.map(|moment| Self::At(Timestamp(moment.as_millisecond())));
        at.map_err(|_| InvalidWhen { text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_moment_or_how_long_ago() {
        let now = Timestamp(1_700_000_000_123);
        let moment = |text: &str| text.parse::<When>().unwrap().moment(now);
        assert_eq!(moment("2023-11-14T22:13:20.123Z"), now);
        assert_eq!(moment("2023-11-14T23:13:20.123+01:00"), now);
        assert_eq!(moment("2h"), now.earlier(Millis::hours(2)));
        for bad in ["", "yesterday", "2023-11-14", "5", "2023-11-14T22:13:20"] {
            assert!(bad.parse::<When>().is_err(), "{bad:?}");
        }
    }
}
