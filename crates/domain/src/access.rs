//! Who may do what: roles, and the keys that programs and people prove themselves with.
//!
//! A key belongs to one tenant and to one person or program in it. Its text is shown once, when it is made; what is
//! kept is a digest of its secret, from which nobody gets the secret back.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::failure::bounded;
use crate::id::{KeyId, PersonId, TenantId};
use crate::time::Timestamp;

/// What a key's text begins with, so that a scanner of sources and logs finds one that was left there.
const PREFIX: &str = "csk";

/// A secret has 256 bits, as hex digits: nobody guesses it, so its digest need not be slow.
const SECRET_CHARS: usize = 64;

/// How much of a note is kept.
pub const NOTE_CHARS_MAX: usize = 200;

/// What somebody may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Looks at everything of the tenant.
    Viewer,
    /// Starts runs and says how they go on.
    Operator,
    /// Answers requests for approval.
    Approver,
    /// Does all of that, and settles what counts: workflows, policies, people, keys.
    Admin,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 4] = [Self::Viewer, Self::Operator, Self::Approver, Self::Admin];

    /// As it is written everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Approver => "approver",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text names no role.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a role; there are viewer, operator, approver and admin")]
pub struct UnknownRole(String);

impl FromStr for Role {
    type Err = UnknownRole;
    fn from_str(text: &str) -> Result<Self, UnknownRole> {
        let named = Self::ALL.into_iter().find(|role| role.as_str() == text);
        named.ok_or_else(|| UnknownRole(bounded(text, 64)))
    }
}

/// What somebody may do, all told.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Roles(BTreeSet<Role>);

impl Roles {
    /// Whether what `role` may do is among it. Whoever has any role may look, and an admin may do everything.
    pub fn allow(&self, role: Role) -> bool {
        self.0.contains(&role)
            || self.0.contains(&Role::Admin)
            || (role == Role::Viewer && !self.0.is_empty())
    }

    /// The roles, least first.
    pub fn iter(&self) -> impl Iterator<Item = Role> {
        self.0.iter().copied()
    }
}

impl FromIterator<Role> for Roles {
    fn from_iter<I: IntoIterator<Item = Role>>(roles: I) -> Self {
        Self(roles.into_iter().collect())
    }
}

/// A key, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiKey {
    /// Whose runs it is for.
    pub tenant: TenantId,
    /// Which key.
    pub id: KeyId,
    /// Who acts with it: what is done is done in their name.
    pub person: PersonId,
    /// What they may do with it.
    pub roles: Roles,
    /// The digest of its secret.
    pub secret: Digest,
    /// What it is for, in somebody's words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// Until when it opens anything; for ever, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// When it was taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
    /// Grows with every change.
    #[serde(default)]
    pub revision: u32,
}

impl ApiKey {
    /// Whether the key opens anything at `now`.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| now < end)
    }

    /// Whether `shown` is this key. Digests are compared, so how long it takes tells nothing about the secret.
    pub fn is_shown(&self, shown: &ShownKey<'_>) -> bool {
        self.tenant == shown.tenant && self.id == shown.id && self.secret == shown.digest()
    }
}

/// A key as somebody shows it: `csk_TENANT_ID_SECRET`.
pub struct ShownKey<'t> {
    /// Whose runs it is for.
    pub tenant: TenantId,
    /// Which key.
    pub id: KeyId,
    secret: &'t str,
}

impl<'t> ShownKey<'t> {
    /// Reads a key's text. A text that is none says nothing about why.
    pub fn read(text: &'t str) -> Option<Self> {
        // From the right: a tenant's name may hold the character that joins the parts, the others do not.
        let (rest, secret) = text.rsplit_once('_')?;
        let (rest, id) = rest.rsplit_once('_')?;
        let tenant = rest.strip_prefix(PREFIX)?.strip_prefix('_')?.parse().ok()?;
        let hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if secret.len() != SECRET_CHARS || !hex(secret) || !hex(id) {
            return None;
        }
        Some(Self { tenant, id: id.parse().ok()?, secret })
    }

    /// Whether `text` is meant to be a key, whatever it is.
    pub fn is_meant(text: &str) -> bool {
        text.strip_prefix(PREFIX).is_some_and(|rest| rest.starts_with('_'))
    }

    /// The text of a key, to be shown once. `id` and `secret` are hex digits.
    pub fn write(tenant: &TenantId, id: &KeyId, secret: &str) -> String {
        format!("{PREFIX}_{tenant}_{id}_{secret}")
    }

    /// The digest of its secret, as it is kept.
    pub fn digest(&self) -> Digest {
        secret_digest(&self.tenant, &self.id, self.secret)
    }
}

impl fmt::Debug for ShownKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShownKey").field("tenant", &self.tenant).field("id", &self.id).finish_non_exhaustive()
    }
}

/// The digest of a secret, as it is kept: bound to the key it belongs to.
pub fn secret_digest(tenant: &TenantId, id: &KeyId, secret: &str) -> Digest {
    Digest::of_parts("countersign/api-key/v1", &[tenant.as_str(), id.as_str(), secret])
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn key(tenant: &str) -> ApiKey {
        let (tenant, id): (TenantId, KeyId) = (tenant.parse().unwrap(), "00ff".parse().unwrap());
        ApiKey {
            secret: secret_digest(&tenant, &id, SECRET),
            tenant,
            id,
            person: "ada".parse().unwrap(),
            roles: Roles::from_iter([Role::Viewer]),
            note: String::new(),
            created_at: Timestamp(0),
            expires_at: Some(Timestamp(10)),
            revoked_at: None,
            revision: 0,
        }
    }

    #[test]
    fn a_key_is_read_as_it_was_written_even_if_the_tenant_holds_what_joins_its_parts() {
        for tenant in ["acme", "acme_east_1", "csk_acme"] {
            let key = key(tenant);
            let text = ShownKey::write(&key.tenant, &key.id, SECRET);
            assert!(key.is_shown(&ShownKey::read(&text).unwrap()), "{text}");
        }
    }

    #[test]
    fn a_text_that_is_no_key_or_another_key_opens_nothing() {
        let key = key("acme");
        for text in
            ["", "csk", "csk_acme", "csk_acme_00ff", "csk_acme_00ff_", "csk_acme_00ff_0123", "csk__00ff_0"]
        {
            assert!(ShownKey::read(text).is_none(), "{text}");
        }
        for (tenant, id, secret) in [
            ("umbrella", "00ff", SECRET.to_owned()),
            ("acme", "00fe", SECRET.to_owned()),
            ("acme", "00ff", SECRET.replace('0', "1")),
        ] {
            let text = format!("csk_{tenant}_{id}_{secret}");
            assert!(!key.is_shown(&ShownKey::read(&text).unwrap()), "{text}");
        }
    }

    #[test]
    fn a_key_opens_nothing_after_its_end_or_once_it_is_taken_back() {
        let key = key("acme");
        assert!(key.is_live(Timestamp(9)));
        assert!(!key.is_live(Timestamp(10)));
        assert!(!ApiKey { revoked_at: Some(Timestamp(1)), ..key }.is_live(Timestamp(2)));
    }

    #[test]
    fn the_secret_stands_in_no_text_about_a_key() {
        let text = format!("csk_acme_00ff_{SECRET}");
        let shown = format!("{:?} {:?}", ShownKey::read(&text).unwrap(), key("acme"));
        assert!(!shown.contains(SECRET), "{shown}");
    }

    #[test]
    fn each_role_allows_what_it_says_and_no_more() {
        let allowed = |role| Role::ALL.map(|wanted| Roles::from_iter([role]).allow(wanted));
        assert_eq!(allowed(Role::Viewer), [true, false, false, false]);
        assert_eq!(allowed(Role::Operator), [true, true, false, false]);
        assert_eq!(allowed(Role::Approver), [true, false, true, false]);
        assert_eq!(allowed(Role::Admin), [true; 4]);
        assert!(!Roles::default().allow(Role::Viewer));
    }
}
