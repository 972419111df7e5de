//! Where a message stands.

use std::fmt;
use std::str::FromStr;

use super::is_slack_id;

/// A channel and a message in it; written `C0123/1700000000.000100`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The channel.
    pub channel: String,
    /// The message: Slack names it by the time it was posted.
    pub ts: String,
}

/// The text names no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a place is a channel and a message, such as C0123/1700000000.000100")]
pub struct InvalidPlace;

impl Place {
    pub(crate) fn check(&self) -> Result<(), InvalidPlace> {
        let digits = |part: &str| (1..=20).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
        let ts = self.ts.split_once('.').is_some_and(|(secs, order)| digits(secs) && digits(order));
        if is_channel(&self.channel) && ts { Ok(()) } else { Err(InvalidPlace) }
    }
}

/// Whether `text` is the id of a channel.
pub(crate) fn is_channel(text: &str) -> bool {
    is_slack_id(text, &['C', 'G', 'D'])
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.channel, self.ts)
    }
}

impl FromStr for Place {
    type Err = InvalidPlace;

    fn from_str(text: &str) -> Result<Self, InvalidPlace> {
        let (channel, ts) = text.split_once('/').ok_or(InvalidPlace)?;
        let place = Self { channel: channel.to_owned(), ts: ts.to_owned() };
        place.check().map(|()| place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_reads_back_and_nothing_else_is_one() {
        let text = "C0123/1700000000.000100";
        assert_eq!(text.parse::<Place>().unwrap().to_string(), text);
        for bad in
            ["", "C0123", "C0123/1", "c0123/1.2", "U0123/1.2", "C01/1.2.3", "C01/-1.2", "C0 1/1.2", "C/1.2"]
        {
            assert_eq!(bad.parse::<Place>(), Err(InvalidPlace), "{bad}");
        }
    }
}
