//! A time as a user types it: a timestamp, or a duration before now.

use std::str::FromStr;

use domain::{Millis, Timestamp};

/// A time as a user types it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeArg {
    At(Timestamp),
    Ago(Millis),
}

/// The text is not a time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a time; write a timestamp such as `2026-11-15T08:00:00Z`, or a duration before now such as \
     `30m`, `2h` or `3d`"
)]
pub struct InvalidTime {
    text: String,
}

impl TimeArg {
    pub fn resolve(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::Ago(length) => now.earlier(length),
        }
    }
}

impl FromStr for TimeArg {
    type Err = InvalidTime;
    fn from_str(text: &str) -> Result<Self, InvalidTime> {
        if let Ok(length) = text.parse() {
            return Ok(Self::Ago(length));
        }
        let at: Result<jiff::Timestamp, _> = text.parse();
        let at = at.map(|at| Self::At(Timestamp(at.as_millisecond())));
        at.map_err(|_| InvalidTime { text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_a_timestamp_or_a_duration_before_now() {
        let now = Timestamp(1_700_000_000_123);
        let resolve = |text: &str| text.parse::<TimeArg>().unwrap().resolve(now);
        assert_eq!(resolve("2023-11-14T22:13:20.123Z"), now);
        assert_eq!(resolve("2023-11-14T23:13:20.123+01:00"), now);
        assert_eq!(resolve("2h"), now.earlier(Millis::hours(2)));
        for bad in ["", "yesterday", "2023-11-14", "5", "2023-11-14T22:13:20"] {
            assert!(bad.parse::<TimeArg>().is_err(), "{bad:?}");
        }
    }
}
