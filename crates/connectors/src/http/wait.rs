//! How long the other side asks us to stay away.

use domain::Millis;
use jiff::fmt::rfc2822::DateTimeParser;

use super::reply::Reply;

/// Nobody waits a day for a rate limit; beyond that the step is better off failing in front of a person.
const RETRY_AFTER_MAX: Millis = Millis::hours(24);

/// `Retry-After`, in seconds or as a date. A date is held against the reply's own `Date`, so that no clock of
/// ours is needed, and a skewed one does no harm.
pub(crate) fn retry_after(reply: &Reply) -> Option<Millis> {
    let asked = reply.header("retry-after")?;
    let length = match asked.trim().parse::<u64>() {
        Ok(secs) => Millis(secs.saturating_mul(1_000)),
        Err(_) => between(&reply.header("date")?, &asked)?,
    };
    Some(length.min(RETRY_AFTER_MAX))
}

fn between(now: &str, then: &str) -> Option<Millis> {
    let at = |text: &str| DateTimeParser::new().parse_timestamp(text.trim()).ok();
    let ms = at(then)?.as_millisecond() - at(now)?.as_millisecond();
    Some(Millis(u64::try_from(ms).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::reply::Body;
    use reqwest::StatusCode;

    fn asked(headers: &[(&'static str, &'static str)]) -> Option<Millis> {
        let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        let status = StatusCode::TOO_MANY_REQUESTS;
        retry_after(&Reply { status, headers: headers.collect(), body: Body::Unread })
    }

    #[test]
    fn a_wait_is_told_in_seconds_or_by_a_date() {
        assert_eq!(asked(&[]), None);
        assert_eq!(asked(&[("retry-after", "7")]), Some(Millis::secs(7)));
        assert_eq!(asked(&[("retry-after", "99999999999")]), Some(Millis::hours(24)));
        let dated =
            [("date", "Sat, 29 Feb 2020 23:59:00 GMT"), ("retry-after", "Sun, 01 Mar 2020 00:01:30 GMT")];
        assert_eq!(asked(&dated), Some(Millis::secs(150)));
    }

    #[test]
    fn a_date_that_is_past_or_has_nothing_to_be_held_against_asks_for_nothing_more() {
        let past =
            [("date", "Sat, 29 Feb 2020 23:59:00 GMT"), ("retry-after", "Sat, 29 Feb 2020 23:00:00 GMT")];
        assert_eq!(asked(&past), Some(Millis(0)));
        assert_eq!(asked(&[("retry-after", "Sun, 01 Mar 2020 00:01:30 GMT")]), None);
        assert_eq!(asked(&[("date", "nonsense"), ("retry-after", "soon")]), None);
    }
}
