//! The value of a button: the approval, its run, and the hash of the subject.
//!
//! Ids contain no `:`, so the parts are unambiguous, and each is limited, so the value stays far below Slack's 2,000
//! characters. It is neither secret nor trusted: a click whose ids or hash differ from the ledger is rejected.

use std::fmt;
use std::str::FromStr;

use domain::{Approval, ApprovalId, Digest, RunId, RunKey, TenantId};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ButtonToken {
    pub approval: ApprovalId,
    pub run: RunKey,
    /// The hash of the subject that the card showed.
    pub subject: Digest,
}

impl ButtonToken {
    pub fn for_approval(approval: &Approval) -> Self {
        Self { approval: approval.id.clone(), run: approval.run.clone(), subject: approval.subject.hash() }
    }
}

impl fmt::Display for ButtonToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { approval, run, subject } = self;
        write!(f, "v1:{approval}:{}:{}:{subject}", run.tenant, run.run)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the button value is not a Countersign token")]
pub struct InvalidButtonToken;

impl FromStr for ButtonToken {
    type Err = InvalidButtonToken;

    fn from_str(text: &str) -> Result<Self, InvalidButtonToken> {
        let mut parts = text.split(':');
        let mut part = || parts.next().ok_or(InvalidButtonToken);
        let (version, approval, tenant, run, subject) = (part()?, part()?, part()?, part()?, part()?);
        if version != "v1" || parts.next().is_some() {
            return Err(InvalidButtonToken);
        }
        Ok(Self {
            approval: ApprovalId::new(approval).map_err(|_| InvalidButtonToken)?,
            run: RunKey {
                tenant: TenantId::new(tenant).map_err(|_| InvalidButtonToken)?,
                run: RunId::new(run).map_err(|_| InvalidButtonToken)?,
            },
            subject: subject.parse().map_err(|_| InvalidButtonToken)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::card::block::VALUE_UNITS_MAX;
    use domain::id::ID_BYTES_MAX;

    fn token(id: &str) -> ButtonToken {
        let run = RunKey { tenant: TenantId::new(id).unwrap(), run: RunId::new(id).unwrap() };
        ButtonToken { approval: ApprovalId::new(id).unwrap(), run, subject: Digest::ZERO }
    }

    #[test]
    fn token_round_trips() {
        assert_eq!(token("a-1").to_string().parse(), Ok(token("a-1")));
    }

    #[test]
    fn longest_token_fits_a_button() {
        let longest = token(&"x".repeat(ID_BYTES_MAX)).to_string();
        assert!(longest.len() <= VALUE_UNITS_MAX, "{}", longest.len());
    }

    #[test]
    fn invalid_tokens_are_rejected() {
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
            assert_eq!(text.parse::<ButtonToken>(), Err(InvalidButtonToken), "{text}");
        }
    }
}
