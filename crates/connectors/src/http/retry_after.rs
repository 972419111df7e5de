//! The delay that an external system asks for.

use domain::Millis;
use jiff::fmt::rfc2822::DateTimeParser;

use super::reply::Reply;

/// A longer rate limit should fail the step, so that an operator sees it.
const RETRY_AFTER_MAX: Millis = Millis::hours(24);

/// Reads `Retry-After`, in seconds or as a date. A date is compared with the reply's own `Date`, so a skewed local
/// clock does no harm.
pub(crate) fn retry_after(reply: &Reply) -> Option<Millis> {
    let header_value = reply.header("retry-after")?;
    let length = match header_value.trim().parse::<u64>() {
        Ok(secs) => Millis(secs.saturating_mul(1_000)),
        Err(_) => duration_between(&reply.header("date")?, &header_value)?,
    };
    Some(length.min(RETRY_AFTER_MAX))
}

fn duration_between(now: &str, then: &str) -> Option<Millis> {
    let at = |text: &str| DateTimeParser::new().parse_timestamp(text.trim()).ok();
    let ms = at(then)?.as_millisecond() - at(now)?.as_millisecond();
    Some(Millis(u64::try_from(ms).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::reply::Body;
    use reqwest::StatusCode;

    fn parse(headers: &[(&'static str, &'static str)]) -> Option<Millis> {
        let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        let status = StatusCode::TOO_MANY_REQUESTS;
        retry_after(&Reply { status, headers: headers.collect(), body: Body::Excerpt(String::new()) })
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        assert_eq!(parse(&[]), None);
        assert_eq!(parse(&[("retry-after", "7")]), Some(Millis::secs(7)));
        assert_eq!(parse(&[("retry-after", "99999999999")]), Some(Millis::hours(24)));
        let dated =
            [("date", "Sat, 29 Feb 2020 23:59:00 GMT"), ("retry-after", "Sun, 01 Mar 2020 00:01:30 GMT")];
        assert_eq!(parse(&dated), Some(Millis::secs(150)));
    }

    #[test]
    fn past_or_undated_retry_after_is_ignored() {
        let past =
            [("date", "Sat, 29 Feb 2020 23:59:00 GMT"), ("retry-after", "Sat, 29 Feb 2020 23:00:00 GMT")];
        assert_eq!(parse(&past), Some(Millis(0)));
        assert_eq!(parse(&[("retry-after", "Sun, 01 Mar 2020 00:01:30 GMT")]), None);
        assert_eq!(parse(&[("date", "nonsense"), ("retry-after", "soon")]), None);
    }
}
