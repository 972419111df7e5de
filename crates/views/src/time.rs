//! Timestamps and durations, as text.
//!
//! Text for users has timestamps in seconds and durations such as `4m 12s`. Documents for programs have timestamps in
//! milliseconds, because programs compute with them.

use domain::{Millis, Timestamp};

/// RFC 3339 in UTC, in seconds: `2026-11-17T13:02:16Z`. For text that users read.
pub fn timestamp(at: Timestamp) -> String {
    at.to_string()
}

/// RFC 3339 in UTC, in milliseconds: `2026-11-17T13:02:16.120Z`. For JSON documents.
pub fn rfc3339_millis(at: Timestamp) -> String {
    match jiff::Timestamp::from_millisecond(at.0) {
        Ok(at) => format!("{at:.3}"),
        // Beyond the year 9999.
        Err(_) => at.to_string(),
    }
}

/// Parses a timestamp in RFC 3339.
pub fn parse(text: &str) -> Option<Timestamp> {
    let at: jiff::Timestamp = text.parse().ok()?;
    Some(Timestamp(at.as_millisecond()))
}

/// A timestamp of a JSON document, for text that users read. Text that is no timestamp is returned unchanged.
pub(crate) fn in_seconds(text: &str) -> String {
    parse(text).map_or_else(|| text.to_owned(), timestamp)
}

/// The distance of `at` from `now`: `in 4.2s`, `3m ago`.
pub fn relative(at: Timestamp, now: Timestamp) -> String {
    if at > now { format!("in {}", duration(at - now)) } else { format!("{} ago", duration(now - at)) }
}

/// A duration in at most two units: `850ms`, `4.2s`, `4m 12s`, `2h 5m`, `5d 3h`.
pub fn duration(length: Millis) -> String {
    const SECOND: u64 = 1_000;
    const MINUTE: u64 = 60 * SECOND;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    let two = |large: u64, large_name: &str, small: u64, small_name: &str| {
        let (first, second) = (length.0 / large, length.0 % large / small);
        if second == 0 {
            return format!("{first}{large_name}");
        }
        format!("{first}{large_name} {second}{small_name}")
    };
    match length.0 {
        ms if ms < SECOND => format!("{ms}ms"),
        ms if ms < MINUTE && ms % SECOND < 100 => format!("{}s", ms / SECOND),
        ms if ms < MINUTE => format!("{}.{}s", ms / SECOND, ms % SECOND / 100),
        ms if ms < HOUR => two(MINUTE, "m", SECOND, "s"),
        ms if ms < DAY => two(HOUR, "h", MINUTE, "m"),
        _ => two(DAY, "d", HOUR, "h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_rfc_3339_in_utc() {
        assert_eq!(timestamp(Timestamp(0)), "1970-01-01T00:00:00Z");
        assert_eq!(timestamp(Timestamp(1_700_000_000_123)), "2023-11-14T22:13:20Z");
        assert_eq!(rfc3339_millis(Timestamp(1_700_000_000_123)), "2023-11-14T22:13:20.123Z");
        assert_eq!(rfc3339_millis(Timestamp(i64::MAX)), "9223372036854775807ms");
    }

    #[test]
    fn parse_reads_what_was_written() {
        for at in [Timestamp(0), Timestamp(1_700_000_000_123)] {
            assert_eq!(parse(&rfc3339_millis(at)), Some(at));
        }
        assert_eq!(parse("yesterday"), None);
        assert_eq!(in_seconds("2023-11-14T22:13:20.123Z"), "2023-11-14T22:13:20Z");
        assert_eq!(in_seconds("yesterday"), "yesterday");
    }

    #[test]
    fn relative_names_the_direction() {
        let now = Timestamp(1_000_000);
        assert_eq!(relative(now + Millis(4_250), now), "in 4.2s");
        assert_eq!(relative(now, now + Millis::mins(3)), "3m ago");
        assert_eq!(relative(now, now), "0ms ago");
    }

    #[test]
    fn duration_has_at_most_two_units() {
        for (ms, text) in [
            (999, "999ms"),
            (50_000, "50s"),
            (59_999, "59.9s"),
            (252_000, "4m 12s"),
            (3_599_999, "59m 59s"),
            (7_199_999, "1h 59m"),
            (172_800_000, "2d"),
            (183_600_000, "2d 3h"),
        ] {
            assert_eq!(duration(Millis(ms)), text);
        }
    }
}
