use std::fmt;
use std::str::FromStr;

use super::is_slack_id;

/// A message in a channel, written `C0123/1700000000.000100`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageRef {
    pub channel: String,
    /// The timestamp, which identifies the message in its channel.
    pub ts: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected a channel and a message timestamp, such as C0123/1700000000.000100")]
pub struct InvalidMessageRef;

impl MessageRef {
    pub(crate) fn check(&self) -> Result<(), InvalidMessageRef> {
        let digits = |part: &str| (1..=20).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
        let ts = self.ts.split_once('.').is_some_and(|(secs, order)| digits(secs) && digits(order));
        if is_channel(&self.channel) && ts { Ok(()) } else { Err(InvalidMessageRef) }
    }
}

pub(crate) fn is_channel(text: &str) -> bool {
    is_slack_id(text, &['C', 'G', 'D'])
}

impl fmt::Display for MessageRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.channel, self.ts)
    }
}

impl FromStr for MessageRef {
    type Err = InvalidMessageRef;

    fn from_str(text: &str) -> Result<Self, InvalidMessageRef> {
        let (channel, ts) = text.split_once('/').ok_or(InvalidMessageRef)?;
        let place = Self { channel: channel.to_owned(), ts: ts.to_owned() };
        place.check().map(|()| place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_ref_round_trips() {
        let text = "C0123/1700000000.000100";
        assert_eq!(text.parse::<MessageRef>().unwrap().to_string(), text);
        for bad in
            ["", "C0123", "C0123/1", "c0123/1.2", "U0123/1.2", "C01/1.2.3", "C01/-1.2", "C0 1/1.2", "C/1.2"]
        {
            assert_eq!(bad.parse::<MessageRef>(), Err(InvalidMessageRef), "{bad}");
        }
    }
}
