//! Timestamps and durations. Time is an argument.
//!
//! A [`Timestamp`] may come from any clock; safety does not depend on which.

use std::fmt;
use std::ops::{Add, Sub};

use serde::{Deserialize, Serialize};

/// Milliseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

/// A duration in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millis(pub u64);

impl Millis {
    /// A duration in seconds.
    pub const fn secs(secs: u64) -> Self {
        Self(secs * 1_000)
    }

    /// A duration in minutes.
    pub const fn mins(mins: u64) -> Self {
        Self::secs(mins * 60)
    }

    /// A duration in hours.
    pub const fn hours(hours: u64) -> Self {
        Self::mins(hours * 60)
    }

    /// As a standard library duration.
    pub const fn std(self) -> std::time::Duration {
        std::time::Duration::from_millis(self.0)
    }
}

impl Timestamp {
    /// The time `by` before this one.
    #[must_use]
    pub fn earlier(self, by: Millis) -> Self {
        Self(self.0.saturating_sub_unsigned(by.0))
    }
}

impl Add<Millis> for Timestamp {
    type Output = Self;
    fn add(self, length: Millis) -> Self {
        Self(self.0.saturating_add_unsigned(length.0))
    }
}

impl Sub for Timestamp {
    type Output = Millis;
    /// The duration since `earlier`; zero if it is later.
    fn sub(self, earlier: Self) -> Millis {
        Millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl fmt::Display for Timestamp {
    /// RFC 3339 in UTC; outside the years 0 to 9999, the number of milliseconds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, ms) = (self.0.div_euclid(86_400_000), self.0.rem_euclid(86_400_000));
        let (year, month, day) = civil(days);
        if !(0..=9999).contains(&year) {
            return write!(f, "{}ms", self.0);
        }
        let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

/// The date that is `days` after 1970-01-01. Years start in March and eras have 400 years, so that the leap day is the
/// last day of its year and all eras are equal.
fn civil(days: i64) -> (i64, i64, i64) {
    let from_march = days + 719_468;
    let (era, day_of_era) = (from_march.div_euclid(146_097), from_march.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

/// Timestamps as text in JSON and YAML: RFC 3339 in UTC with whole seconds.
pub(crate) mod rfc3339 {
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    use super::{Timestamp, days_of};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(crate) fn serialize<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(time)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        let text = String::deserialize(deserializer)?;
        let refused = || D::Error::custom("a timestamp is written in UTC, such as 2027-02-01T00:00:00Z");
        parse(&text).ok_or_else(refused)
    }

    pub(super) fn parse(text: &str) -> Option<Timestamp> {
        let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
        let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
        let [hour, minute, second] = numbers(time, ':', [2, 2, 2])?;
        let seconds = days_of(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second;
        let parsed = Timestamp(seconds * 1_000);
        // A date that does not exist, such as February 30, has another text.
        (parsed.to_string() == text).then_some(parsed)
    }

    fn numbers(text: &str, separator: char, digits: [usize; 3]) -> Option<[i64; 3]> {
        let parts: Vec<&str> = text.split(separator).collect();
        let parts: [&str; 3] = parts.try_into().ok()?;
        let is_number = |(part, digits): (&&str, usize)| {
            part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit())
        };
        if !parts.iter().zip(digits).all(is_number) {
            return None;
        }
        let [first, second, third] = parts;
        Some([first.parse().ok()?, second.parse().ok()?, third.parse().ok()?])
    }
}

/// The days from 1970-01-01 to a date: the inverse of [`civil`].
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let from_march = (month + 9) % 12;
    let day_of_year = (153 * from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

impl fmt::Display for Millis {
    /// As in a workflow file: `30s`, `2h`, `1500ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("0s"),
            ms if ms % 3_600_000 == 0 => write!(f, "{}h", ms / 3_600_000),
            ms if ms % 60_000 == 0 => write!(f, "{}m", ms / 60_000),
            ms if ms % 1_000 == 0 => write!(f, "{}s", ms / 1_000),
            ms => write!(f, "{ms}ms"),
        }
    }
}

/// Why a text is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a duration; write a whole number and a unit: `500ms`, `30s`, `10m`, `2h` or `3d`")]
pub struct InvalidMillis {
    text: String,
}

impl std::str::FromStr for Millis {
    type Err = InvalidMillis;

    fn from_str(text: &str) -> Result<Self, InvalidMillis> {
        let invalid = || InvalidMillis { text: text.to_owned() };
        let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(invalid)?;
        let (number, unit) = text.split_at(digits);
        let per_unit = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return Err(invalid()),
        };
        let number: u64 = number.parse().map_err(|_| invalid())?;
        number.checked_mul(per_unit).map(Self).ok_or_else(invalid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_is_written_with_its_unit() {
        for (text, ms) in [("500ms", 500), ("30s", 30_000), ("10m", 600_000), ("2h", 7_200_000)] {
            assert_eq!(text.parse(), Ok(Millis(ms)));
            assert_eq!(Millis(ms).to_string(), text);
        }
    }

    #[test]
    fn duration_without_unit_or_out_of_range_is_rejected() {
        for bad in ["", "5", "s", "-5s", "1.5s", "5 s", "99999999999999999999d", "18446744073709551615d"] {
            assert!(bad.parse::<Millis>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn timestamp_is_written_as_rfc3339() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400_000, "2000-02-29T00:00:00Z"),
            (1_750_000_000_123, "2025-06-15T15:06:40Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (i64::MAX, "9223372036854775807ms"),
        ] {
            assert_eq!(Timestamp(ms).to_string(), text);
        }
    }

    #[test]
    fn rfc3339_text_is_parsed() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400_000, "2000-02-29T00:00:00Z"),
            (1_801_440_000_000, "2027-02-01T00:00:00Z"),
            (-1_000, "1969-12-31T23:59:59Z"),
            (-62_167_219_200_000, "0000-01-01T00:00:00Z"),
            (253_402_300_799_000, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(rfc3339::parse(text), Some(Timestamp(ms)), "{text}");
        }
        for text in [
            "",
            "soon",
            "2027-02-29T00:00:00Z",
            "2027-13-01T00:00:00Z",
            "2027-02-01T24:00:00Z",
            "2027-02-01T00:00:00+01:00",
            "2027-02-01 00:00:00Z",
            "27-02-01T00:00:00Z",
            "2027-02-01T00:00:0aZ",
        ] {
            assert_eq!(rfc3339::parse(text), None, "{text}");
        }
    }

    #[test]
    fn time_arithmetic_saturates() {
        assert_eq!(Timestamp(i64::MAX) + Millis(1), Timestamp(i64::MAX));
        assert_eq!(Timestamp(0) - Timestamp(5), Millis(0));
        assert_eq!(Timestamp(i64::MIN).earlier(Millis(1)), Timestamp(i64::MIN));
    }
}
