//! What a button carries: which approval, of which run, and the hash of what was shown.
//!
//! Ids hold no `:`, so the parts cannot be shifted into each other, and each has a bound, so that the whole
//! stays far below the 2,000 characters that Slack allows. Nothing in it is secret or trusted: a click that
//! names another approval, run or hash than the ledger's is refused.

use std::fmt;
use std::str::FromStr;

use domain::{Approval, ApprovalId, Digest, RunId, RunKey, TenantId};

/// What a button carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Which approval.
    pub approval: ApprovalId,
    /// Of which run.
    pub run: RunKey,
    /// The hash of what was shown.
    pub subject: Digest,
}

impl Token {
    /// The token of `approval` as it stands.
    pub fn of(approval: &Approval) -> Self {
        Self { approval: approval.id.clone(), run: approval.run.clone(), subject: approval.subject.hash() }
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { approval, run, subject } = self;
        write!(f, "v1:{approval}:{}:{}:{subject}", run.tenant, run.run)
    }
}

/// The text is no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the button's value is none of ours")]
pub struct InvalidToken;

impl FromStr for Token {
    type Err = InvalidToken;

    fn from_str(text: &str) -> Result<Self, InvalidToken> {
        let mut parts = text.split(':');
        let mut part = || parts.next().ok_or(InvalidToken);
        let (version, approval, tenant, run, subject) = (part()?, part()?, part()?, part()?, part()?);
        if version != "v1" || parts.next().is_some() {
            return Err(InvalidToken);
        }
        Ok(Self {
            approval: ApprovalId::new(approval).map_err(|_| InvalidToken)?,
            run: RunKey {
                tenant: TenantId::new(tenant).map_err(|_| InvalidToken)?,
                run: RunId::new(run).map_err(|_| InvalidToken)?,
            },
            subject: subject.parse().map_err(|_| InvalidToken)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::card::block::VALUE_UNITS_MAX;
    use domain::id::ID_BYTES_MAX;

    fn token(id: &str) -> Token {
        let run = RunKey { tenant: TenantId::new(id).unwrap(), run: RunId::new(id).unwrap() };
        Token { approval: ApprovalId::new(id).unwrap(), run, subject: Digest::ZERO }
    }

    #[test]
    fn a_token_reads_back() {
        assert_eq!(token("a-1").to_string().parse(), Ok(token("a-1")));
    }

    #[test]
    fn the_longest_token_fits_a_button() {
        let longest = token(&"x".repeat(ID_BYTES_MAX)).to_string();
        assert!(longest.len() <= VALUE_UNITS_MAX, "{}", longest.len());
    }

    #[test]
    fn nothing_else_is_a_token() {
        let good = token("a").to_string();
        let bad = [
            String::new(),
            good.replace("v1", "v2"),
            format!("{good}:x"),
            good.replace(":a:", ":a/b:"),
            good.replace(":a:", "::"),
            good[..good.len() - 1].to_owned(),
            format!(" {good}"),
        ];
        for text in bad {
            assert_eq!(text.parse::<Token>(), Err(InvalidToken), "{text}");
        }
    }
}
