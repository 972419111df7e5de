//! The ids of envelopes.

use std::fmt;
use std::str::FromStr;

/// The id of an envelope of a run: the number of the event, and the index of its envelope. It is stable, and the same on
/// every server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct RunEventId {
    /// The number of the event.
    pub(super) n: u32,
    /// The index of the envelope, from 0.
    pub(super) part: u8,
}

impl RunEventId {
    /// The last possible id of the event `n`.
    pub(super) fn last_of(n: u32) -> Self {
        Self { n, part: u8::MAX }
    }
}

/// The id of an envelope of a tenant, counted by one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct TenantEventId {
    /// The numbering. Other servers have another one, and so has this server after a time without listeners.
    pub(super) epoch: u64,
    /// The number, from 1.
    pub(super) seq: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InvalidId;

impl fmt::Display for RunEventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.part {
            0 => write!(f, "{}", self.n),
            part => write!(f, "{}.{part}", self.n),
        }
    }
}

impl FromStr for RunEventId {
    type Err = InvalidId;
    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let (n, part) = text.split_once('.').unwrap_or((text, "0"));
        Ok(Self { n: number(n)?, part: number(part)? })
    }
}

impl fmt::Display for TenantEventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{}", self.epoch, self.seq)
    }
}

impl FromStr for TenantEventId {
    type Err = InvalidId;
    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let (epoch, seq) = text.split_once('-').ok_or(InvalidId)?;
        Ok(Self { epoch: u64::from_str_radix(epoch, 16).map_err(|_| InvalidId)?, seq: number(seq)? })
    }
}

/// Accepts digits only; the standard library would also accept a sign.
fn number<N: FromStr>(text: &str) -> Result<N, InvalidId> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(InvalidId);
    }
    text.parse().map_err(|_| InvalidId)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_round_trips() {
        for id in [RunEventId { n: 0, part: 0 }, RunEventId { n: 7, part: 2 }, RunEventId::last_of(u32::MAX)]
        {
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        let tenant_id = TenantEventId { epoch: 0xab, seq: 17 };
        assert_eq!(tenant_id.to_string(), "00000000000000ab-17");
        assert_eq!(tenant_id.to_string().parse(), Ok(tenant_id));
    }

    #[test]
    fn invalid_id_is_rejected() {
        for text in ["", "-1", "+1", " 1", "1.", ".1", "1.256", "4294967296", "seven"] {
            assert_eq!(text.parse::<RunEventId>(), Err(InvalidId), "{text}");
        }
        for text in ["", "7", "xyz-1", "ab-", "ab-+1", "-"] {
            assert_eq!(text.parse::<TenantEventId>(), Err(InvalidId), "{text}");
        }
    }

    #[test]
    fn ids_follow_the_order_of_the_chain() {
        assert!(RunEventId { n: 1, part: 0 } < RunEventId { n: 1, part: 1 });
        assert!(RunEventId::last_of(1) < RunEventId { n: 2, part: 0 });
    }
}
