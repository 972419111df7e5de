//! Cron: at which minutes of a calendar something comes round.
//!
//! Five fields — minute, hour, day of month, month, day of week — as cron has always read them: a number, `*`, a range,
//! a step, a list of these, and English names for months and days. Where both a day of the month and a day of the week
//! are named, either will do. This is about the calendar alone; which moment a minute of it is depends on the place, and
//! is found elsewhere.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::failure::bounded;

/// A line that people read.
const TEXT_CHARS_MAX: usize = 120;

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// The most days that each month ever has.
const DAYS: [u8; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

const MINUTE: Field = Field { name: "minute", least: 0, most: 59, names: &[] };
const HOUR: Field = Field { name: "hour", least: 0, most: 23, names: &[] };
const DAY: Field = Field { name: "day of month", least: 1, most: 31, names: &[] };
const MONTH: Field = Field { name: "month", least: 1, most: 12, names: &MONTHS };
const WEEKDAY: Field = Field { name: "day of week", least: 0, most: 7, names: &WEEKDAYS };

/// When something comes round.
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

/// A date, as a cron looks at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Date {
    /// From 1.
    pub month: u8,
    /// From 1.
    pub day: u8,
    /// From 0, which is Sunday.
    pub weekday: u8,
}

/// Why a text is not a cron.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCron {
    /// Not five fields.
    #[error(
        "a cron has five fields, minute, hour, day of month, month and day of week, such as `30 2 * * mon-fri`; found {found}"
    )]
    Fields {
        /// How many there are.
        found: usize,
    },
    /// A field that cannot be read.
    #[error(
        "{found:?} is no {field} of a cron; allowed are {least} to {most}, `*`, ranges (`a-b`), steps (`*/n`) and lists (`a,b`)"
    )]
    Field {
        /// Which field.
        field: &'static str,
        /// What is there, in short.
        found: String,
        /// The least it may be.
        least: u8,
        /// The most it may be.
        most: u8,
    },
    /// The thirtieth of February.
    #[error("this cron never comes: no month that it names has such a day")]
    Never,
}

/// A field, and what may stand in it.
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
    /// Whether it begins with `*`, and so leaves it to its neighbour which days are meant.
    any: bool,
}

impl Values {
    fn has(self, value: u8) -> bool {
        self.bits & (1 << value) != 0
    }
}

impl Field {
    fn read(&self, text: &str) -> Result<Values, InvalidCron> {
        let mut bits = 0;
        for part in text.split(',') {
            let (first, last, step) = self.part(part).ok_or_else(|| self.wrong(text))?;
            bits |= (first..=last).step_by(step).fold(0, |bits, value| bits | 1_u64 << value);
        }
        Ok(Values { bits, any: text.starts_with('*') })
    }

    /// The first and the last value of a part, and how far apart they are.
    fn part(&self, part: &str) -> Option<(u8, u8, usize)> {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(digits(step).filter(|step| *step > 0)?)),
            None => (part, None),
        };
        let (first, last) = match range.split_once('-') {
            _ if range == "*" => (self.least, self.most),
            Some((first, last)) => (self.value(first)?, self.value(last)?),
            // A step from one value on would be read by some as that value alone.
            None if step.is_some() => return None,
            None => (self.value(range)?, self.value(range)?),
        };
        (first <= last).then_some((first, last, usize::from(step.unwrap_or(1))))
    }

    fn value(&self, text: &str) -> Option<u8> {
        let named = self.names.iter().position(|name| text.eq_ignore_ascii_case(name));
        let value = match named {
            Some(place) => u8::try_from(place).ok()? + self.least,
            None => digits(text)?,
        };
        (self.least..=self.most).contains(&value).then_some(value)
    }

    fn wrong(&self, found: &str) -> InvalidCron {
        let Self { name, least, most, .. } = *self;
        InvalidCron::Field { field: name, found: bounded(found, TEXT_CHARS_MAX), least, most }
    }
}

/// A number of one or two digits.
fn digits(text: &str) -> Option<u8> {
    let plain = (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| plain)
}

impl Cron {
    /// Whether it comes round on this date.
    pub fn falls_on(&self, date: Date) -> bool {
        let (day, weekday) = (self.days.has(date.day), self.weekdays.has(date.weekday));
        let named = match (self.days.any, self.weekdays.any) {
            (false, false) => day || weekday,
            (true, _) | (_, true) => day && weekday,
        };
        named && self.months.has(date.month)
    }

    /// The hours and minutes of a day at which it comes round, in their order.
    pub fn times(&self) -> impl Iterator<Item = (u8, u8)> + '_ {
        let minutes =
            |hour| (0..60).filter(|minute| self.minutes.has(*minute)).map(move |minute| (hour, minute));
        (0..24).filter(|hour| self.hours.has(*hour)).flat_map(minutes)
    }

    /// Whether it comes round in every hour there is, and so goes by how time passes and not by what clocks show.
    pub fn is_hourly(&self) -> bool {
        (0..24).all(|hour| self.hours.has(hour))
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    fn ever_comes(&self) -> bool {
        let has_day = |month: u8| {
            let longest = DAYS[usize::from(month) - 1];
            self.months.has(month) && (1..=longest).any(|day| self.days.has(day))
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
        let mut weekdays = WEEKDAY.read(weekday)?;
        // Sunday is the first day and the last.
        weekdays.bits |= weekdays.bits >> 7;
        let cron = Self {
            text: fields.join(" "),
            minutes: MINUTE.read(minute)?,
            hours: HOUR.read(hour)?,
            days: DAY.read(day)?,
            months: MONTH.read(month)?,
            weekdays,
        };
        if cron.ever_comes() { Ok(cron) } else { Err(InvalidCron::Never) }
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

    /// The third of March, a Tuesday.
    const TUESDAY: Date = Date { month: 3, day: 3, weekday: 2 };

    #[test]
    fn numbers_ranges_steps_and_lists_name_the_times_of_a_day() {
        assert_eq!(times("30 2 * * *"), [(2, 30)]);
        assert_eq!(times("0,30 9-10 * * *"), [(9, 0), (9, 30), (10, 0), (10, 30)]);
        assert_eq!(times("5-20/15 */12 * * *"), [(0, 5), (0, 20), (12, 5), (12, 20)]);
        assert_eq!(times("* * * * *").len(), 24 * 60);
        assert!(cron("15 * * * *").is_hourly() && cron("15 */1 * * *").is_hourly());
        assert!(!cron("15 */2 * * *").is_hourly());
    }

    #[test]
    fn months_and_days_have_names_and_sunday_has_two_numbers() {
        assert!(cron("0 0 * Mar tue").falls_on(TUESDAY));
        assert!(cron("0 0 * 1-3 MON-FRI").falls_on(TUESDAY));
        assert!(!cron("0 0 * apr *").falls_on(TUESDAY));
        for sunday in ["0", "7", "sun", "5-7"] {
            assert!(cron(&format!("0 0 * * {sunday}")).falls_on(Date { weekday: 0, ..TUESDAY }), "{sunday}");
        }
    }

    #[test]
    fn where_both_kinds_of_day_are_named_either_will_do() {
        assert!(cron("0 0 3 * fri").falls_on(TUESDAY));
        assert!(cron("0 0 9 * tue").falls_on(TUESDAY));
        assert!(!cron("0 0 9 * fri").falls_on(TUESDAY));
        assert!(!cron("0 0 3 * *").falls_on(Date { day: 4, ..TUESDAY }));
        assert!(!cron("0 0 */2 * fri").falls_on(TUESDAY), "a step from `*` names no day");
    }

    #[test]
    fn whatever_could_be_read_in_two_ways_is_refused_with_what_is_allowed() {
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
    fn what_never_comes_is_refused() {
        for never in ["0 0 30 2 *", "0 0 31 4,6,9,11 *"] {
            assert_eq!(never.parse::<Cron>(), Err(InvalidCron::Never), "{never}");
        }
        for comes in ["0 0 29 2 *", "0 0 30 2 mon", "0 0 31 2-3 *"] {
            assert!(comes.parse::<Cron>().is_ok(), "{comes}");
        }
    }

    #[test]
    fn a_cron_is_kept_as_it_was_written() {
        let kept = serde_json::to_value(cron("0  9 * *   mon")).unwrap();
        assert_eq!(kept, "0 9 * * mon");
        assert_eq!(serde_json::from_value::<Cron>(kept).unwrap(), cron("0 9 * * mon"));
    }
}
