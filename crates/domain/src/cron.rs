//! Cron expressions.
//!
//! Five fields: minute, hour, day of month, month, day of week. A field is a number, `*`, a range, a step or a list of
//! these; months and days have English names. If both a day of month and a day of week are given, either matches. This
//! module covers the calendar only; the engine maps calendar minutes to timestamps in a time zone.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::failure::bounded;

/// The maximum length of input quoted in an error.
const TEXT_CHARS_MAX: usize = 120;

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// The maximum number of days of each month.
const DAYS: [u8; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

const MINUTE: Field = Field { name: "minute", least: 0, most: 59, names: &[] };
const HOUR: Field = Field { name: "hour", least: 0, most: 23, names: &[] };
const DAY: Field = Field { name: "day of month", least: 1, most: 31, names: &[] };
const MONTH: Field = Field { name: "month", least: 1, most: 12, names: &MONTHS };
const WEEKDAY: Field = Field { name: "day of week", least: 0, most: 7, names: &WEEKDAYS };

/// A cron expression.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Cron {
    text: String,
    minutes: Values,
    hours: Values,
    days: Values,
    months: Values,
    weekdays: Values,
}

/// A calendar date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Date {
    /// From 1.
    pub month: u8,
    /// From 1.
    pub day: u8,
    /// From 0, which is Sunday.
    pub weekday: u8,
}

/// Why a text is not a cron expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCron {
    /// Not five fields.
    #[error(
        "a cron expression has five fields (minute, hour, day of month, month, day of week), such as `30 2 * * mon-fri`; found {found}"
    )]
    Fields {
        /// The number of fields.
        found: usize,
    },
    /// A field cannot be parsed.
    #[error(
        "{found:?} is not a valid cron {field}; allowed are {least} to {most}, `*`, ranges (`a-b`), steps (`*/n`) and lists (`a,b`)"
    )]
    Field {
        /// The name of the field.
        field: &'static str,
        /// The text of the field, shortened.
        found: String,
        /// The minimum.
        least: u8,
        /// The maximum.
        most: u8,
    },
    /// No matching date exists, such as February 30.
    #[error("this cron expression never matches: no month that it names has such a day")]
    Never,
}

/// A field and its allowed values.
struct Field {
    name: &'static str,
    least: u8,
    most: u8,
    names: &'static [&'static str],
}

/// The values of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Values {
    bits: u64,
    /// Whether the field starts with `*`, so that the other day field alone decides.
    any: bool,
}

impl Values {
    fn contains(self, value: u8) -> bool {
        self.bits & (1 << value) != 0
    }
}

impl Field {
    fn parse(&self, text: &str) -> Result<Values, InvalidCron> {
        let mut bits = 0;
        for part in text.split(',') {
            let (first, last, step) = self.parse_part(part).ok_or_else(|| self.invalid(text))?;
            bits |= (first..=last).step_by(step).fold(0, |bits, value| bits | 1_u64 << value);
        }
        Ok(Values { bits, any: text.starts_with('*') })
    }

    /// The first value, the last value and the step of a part.
    fn parse_part(&self, part: &str) -> Option<(u8, u8, usize)> {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(parse_number(step).filter(|step| *step > 0)?)),
            None => (part, None),
        };
        let (first, last) = match range.split_once('-') {
            _ if range == "*" => (self.least, self.most),
            Some((first, last)) => (self.parse_value(first)?, self.parse_value(last)?),
            // Cron implementations disagree about a step on a single value.
            None if step.is_some() => return None,
            None => (self.parse_value(range)?, self.parse_value(range)?),
        };
        (first <= last).then_some((first, last, usize::from(step.unwrap_or(1))))
    }

    fn parse_value(&self, text: &str) -> Option<u8> {
        let named = self.names.iter().position(|name| text.eq_ignore_ascii_case(name));
        let value = match named {
            Some(index) => u8::try_from(index).ok()? + self.least,
            None => parse_number(text)?,
        };
        (self.least..=self.most).contains(&value).then_some(value)
    }

    fn invalid(&self, found: &str) -> InvalidCron {
        let Self { name, least, most, .. } = *self;
        InvalidCron::Field { field: name, found: bounded(found, TEXT_CHARS_MAX), least, most }
    }
}

/// A number of one or two digits.
fn parse_number(text: &str) -> Option<u8> {
    let plain = (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| plain)
}

impl Cron {
    /// Whether the expression matches this date.
    pub fn falls_on(&self, date: Date) -> bool {
        let (day, weekday) = (self.days.contains(date.day), self.weekdays.contains(date.weekday));
        let matches_day = match (self.days.any, self.weekdays.any) {
            (false, false) => day || weekday,
            (true, _) | (_, true) => day && weekday,
        };
        matches_day && self.months.contains(date.month)
    }

    /// The matching hours and minutes of a day, in order.
    pub fn times(&self) -> impl Iterator<Item = (u8, u8)> + '_ {
        let minutes =
            |hour| (0..60).filter(|minute| self.minutes.contains(*minute)).map(move |minute| (hour, minute));
        (0..24).filter(|hour| self.hours.contains(*hour)).flat_map(minutes)
    }

    /// Whether the expression matches in every hour. It then follows elapsed time, and daylight saving changes do not
    /// affect it.
    pub fn is_hourly(&self) -> bool {
        (0..24).all(|hour| self.hours.contains(hour))
    }

    /// The expression as text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    fn can_match(&self) -> bool {
        let has_day = |month: u8| {
            let longest = DAYS[usize::from(month) - 1];
            self.months.contains(month) && (1..=longest).any(|day| self.days.contains(day))
        };
        (!self.days.any && !self.weekdays.any) || (1..=12).any(has_day)
    }
}

impl FromStr for Cron {
    type Err = InvalidCron;

    fn from_str(text: &str) -> Result<Self, InvalidCron> {
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields[..] else {
            return Err(InvalidCron::Fields { found: fields.len() });
        };
        let mut weekdays = WEEKDAY.parse(weekday)?;
        // Sunday is both 0 and 7.
        weekdays.bits |= weekdays.bits >> 7;
        let cron = Self {
            text: fields.join(" "),
            minutes: MINUTE.parse(minute)?,
            hours: HOUR.parse(hour)?,
            days: DAY.parse(day)?,
            months: MONTH.parse(month)?,
            weekdays,
        };
        if cron.can_match() { Ok(cron) } else { Err(InvalidCron::Never) }
    }
}

impl TryFrom<String> for Cron {
    type Error = InvalidCron;
    fn try_from(text: String) -> Result<Self, InvalidCron> {
        text.parse()
    }
}

impl From<Cron> for String {
    fn from(cron: Cron) -> String {
        cron.text
    }
}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cron(text: &str) -> Cron {
        text.parse().unwrap()
    }

    fn times(text: &str) -> Vec<(u8, u8)> {
        cron(text).times().collect()
    }

    /// March 3, a Tuesday.
    const TUESDAY: Date = Date { month: 3, day: 3, weekday: 2 };

    #[test]
    fn times_match_numbers_ranges_steps_and_lists() {
        assert_eq!(times("30 2 * * *"), [(2, 30)]);
        assert_eq!(times("0,30 9-10 * * *"), [(9, 0), (9, 30), (10, 0), (10, 30)]);
        assert_eq!(times("5-20/15 */12 * * *"), [(0, 5), (0, 20), (12, 5), (12, 20)]);
        assert_eq!(times("* * * * *").len(), 24 * 60);
        assert!(cron("15 * * * *").is_hourly() && cron("15 */1 * * *").is_hourly());
        assert!(!cron("15 */2 * * *").is_hourly());
    }

    #[test]
    fn months_and_days_have_names() {
        assert!(cron("0 0 * Mar tue").falls_on(TUESDAY));
        assert!(cron("0 0 * 1-3 MON-FRI").falls_on(TUESDAY));
        assert!(!cron("0 0 * apr *").falls_on(TUESDAY));
        for sunday in ["0", "7", "sun", "5-7"] {
            assert!(cron(&format!("0 0 * * {sunday}")).falls_on(Date { weekday: 0, ..TUESDAY }), "{sunday}");
        }
    }

    #[test]
    fn either_kind_of_day_matches() {
        assert!(cron("0 0 3 * fri").falls_on(TUESDAY));
        assert!(cron("0 0 9 * tue").falls_on(TUESDAY));
        assert!(!cron("0 0 9 * fri").falls_on(TUESDAY));
        assert!(!cron("0 0 3 * *").falls_on(Date { day: 4, ..TUESDAY }));
        assert!(!cron("0 0 */2 * fri").falls_on(TUESDAY), "a step from `*` names no day");
    }

    #[test]
    fn ambiguous_fields_are_rejected() {
        for bad in [
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * * 13 *",
            "* * * * 8",
            "5/15 * * * *",
            "*/0 * * * *",
        ] {
            assert!(matches!(bad.parse::<Cron>(), Err(InvalidCron::Field { .. })), "{bad}");
        }
        for bad in [
            "9-5 * * * *",
            "-5 * * * *",
            "1- * * * *",
            "1,, * * * *",
            "+5 * * * *",
            "005 * * * *",
            "L * * * *",
        ] {
            assert!(matches!(bad.parse::<Cron>(), Err(InvalidCron::Field { .. })), "{bad}");
        }
        for bad in ["", "* * * *", "* * * * * *", "@daily"] {
            assert!(matches!(bad.parse::<Cron>(), Err(InvalidCron::Fields { .. })), "{bad}");
        }
    }

    #[test]
    fn impossible_date_is_rejected() {
        for never in ["0 0 30 2 *", "0 0 31 4,6,9,11 *"] {
            assert_eq!(never.parse::<Cron>(), Err(InvalidCron::Never), "{never}");
        }
        for valid in ["0 0 29 2 *", "0 0 30 2 mon", "0 0 31 2-3 *"] {
            assert!(valid.parse::<Cron>().is_ok(), "{valid}");
        }
    }

    #[test]
    fn cron_text_round_trips() {
        let json = serde_json::to_value(cron("0  9 * *   mon")).unwrap();
        assert_eq!(json, "0 9 * * mon");
        assert_eq!(serde_json::from_value::<Cron>(json).unwrap(), cron("0 9 * * mon"));
    }
}
