//! Moments and lengths of time as people and programs read them.

use domain::{Millis, Timestamp};

/// A moment in RFC 3339, in UTC, to the millisecond.
pub fn moment(at: Timestamp) -> String {
    match jiff::Timestamp::from_millisecond(at.0) {
        Ok(moment) => format!("{moment:.3}"),
        // Beyond the year 9999; nobody set such a time on purpose.
        Err(_) => at.to_string(),
    }
}

/// The moment that `text` writes as [`moment`] does.
pub fn read(text: &str) -> Option<Timestamp> {
    let moment: jiff::Timestamp = text.parse().ok()?;
    Some(Timestamp(moment.as_millisecond()))
}

/// How far `at` is from `now`: `in 4.2 s`, `3 min ago`.
pub fn distance(at: Timestamp, now: Timestamp) -> String {
    if at > now { format!("in {}", length(at - now)) } else { format!("{} ago", length(now - at)) }
}

/// A length of time in the unit that fits it: `850 ms`, `4.2 s`, `3 min`, `2 h 5 min`, `5 d`.
pub fn length(length: Millis) -> String {
    match length.0 {
        ms if ms < 1_000 => format!("{ms} ms"),
        ms if ms < 60_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        ms if ms < 3_600_000 => format!("{} min", ms / 60_000),
        ms if ms < 2 * 86_400_000 => format!("{} h {} min", ms / 3_600_000, ms % 3_600_000 / 60_000),
        ms => format!("{} d", ms / 86_400_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_rfc_3339_in_utc() {
        assert_eq!(moment(Timestamp(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(moment(Timestamp(1_700_000_000_123)), "2023-11-14T22:13:20.123Z");
        assert_eq!(moment(Timestamp(i64::MAX)), "9223372036854775807ms");
    }

    #[test]
    fn a_moment_is_read_as_it_was_written() {
        for at in [Timestamp(0), Timestamp(1_700_000_000_123)] {
            assert_eq!(read(&moment(at)), Some(at));
        }
        assert_eq!(read("yesterday"), None);
    }

    #[test]
    fn a_distance_says_which_way() {
        let now = Timestamp(1_000_000);
        assert_eq!(distance(now + Millis(4_250), now), "in 4.2 s");
        assert_eq!(distance(now, now + Millis::mins(3)), "3 min ago");
        assert_eq!(distance(now, now), "0 ms ago");
    }

    #[test]
    fn a_length_takes_the_unit_that_fits() {
        for (ms, text) in [
            (999, "999 ms"),
            (59_999, "59.9 s"),
            (3_599_999, "59 min"),
            (7_199_999, "1 h 59 min"),
            (172_800_000, "2 d"),
        ] {
            assert_eq!(length(Millis(ms)), text);
        }
    }
}
