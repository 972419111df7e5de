//! Where a listener stands: the ids of envelopes.

use std::fmt;
use std::str::FromStr;

/// A place in a run's stream: the entry of the chain, and which of its envelopes. It means the same for ever and on
/// every server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Place {
    /// The number of the entry.
    pub(super) n: u32,
    /// Which of its envelopes, from 0.
    pub(super) part: u8,
}

impl Place {
    /// Behind the last envelope of the entry `n`.
    pub(super) fn behind(n: u32) -> Self {
        Self { n, part: u8::MAX }
    }
}

/// A place in a tenant's stream, in the words of the server that numbered it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Turn {
    /// Which numbering; another server has another, and so has this one after a while without listeners.
    pub(super) epoch: u64,
    /// The number, from 1.
    pub(super) seq: u64,
}

/// The text is not the id of an envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoId;

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.part {
            0 => write!(f, "{}", self.n),
            part => write!(f, "{}.{part}", self.n),
        }
    }
}

impl FromStr for Place {
    type Err = NoId;
    fn from_str(text: &str) -> Result<Self, NoId> {
        let (n, part) = text.split_once('.').unwrap_or((text, "0"));
        Ok(Self { n: number(n)?, part: number(part)? })
    }
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{}", self.epoch, self.seq)
    }
}

impl FromStr for Turn {
    type Err = NoId;
    fn from_str(text: &str) -> Result<Self, NoId> {
        let (epoch, seq) = text.split_once('-').ok_or(NoId)?;
        Ok(Self { epoch: u64::from_str_radix(epoch, 16).map_err(|_| NoId)?, seq: number(seq)? })
    }
}

/// Digits alone: the standard library would also take a sign.
fn number<N: FromStr>(text: &str) -> Result<N, NoId> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(NoId);
    }
    text.parse().map_err(|_| NoId)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_was_written() {
        for place in [Place { n: 0, part: 0 }, Place { n: 7, part: 2 }, Place::behind(u32::MAX)] {
            assert_eq!(place.to_string().parse(), Ok(place));
        }
        let turn = Turn { epoch: 0xab, seq: 17 };
        assert_eq!(turn.to_string(), "00000000000000ab-17");
        assert_eq!(turn.to_string().parse(), Ok(turn));
    }

    #[test]
    fn what_is_no_id_is_not_guessed_at() {
        for text in ["", "-1", "+1", " 1", "1.", ".1", "1.256", "4294967296", "seven"] {
            assert_eq!(text.parse::<Place>(), Err(NoId), "{text}");
        }
        for text in ["", "7", "xyz-1", "ab-", "ab-+1", "-"] {
            assert_eq!(text.parse::<Turn>(), Err(NoId), "{text}");
        }
    }

    #[test]
    fn places_come_in_the_order_of_the_chain() {
        assert!(Place { n: 1, part: 0 } < Place { n: 1, part: 1 });
        assert!(Place::behind(1) < Place { n: 2, part: 0 });
    }
}
