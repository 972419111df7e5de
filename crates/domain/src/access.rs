//! Roles and API keys.
//!
//! An API key belongs to one tenant and to one user or program of it. Its text is shown once, when it is created. The
//! store keeps only a digest of its secret.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};

use crate::digest::Digest;
use crate::failure::bounded;
use crate::id::{KeyId, PersonId, TenantId};
use crate::initiator::Initiator;
use crate::time::Timestamp;

/// The prefix of every key, so that secret scanners find keys in sources and logs.
const PREFIX: &str = "csk";

/// A secret is 256 random bits in hexadecimal. It cannot be guessed, so a fast digest is enough.
const SECRET_CHARS: usize = 64;

/// The prefix of the credential names of an identity provider.
const OIDC_PREFIX: &str = "oidc:";

/// The maximum length of a note.
pub const NOTE_CHARS_MAX: usize = 200;

/// What a user may do.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    Display,
    EnumString,
    IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", parse_err_ty = UnknownRole, parse_err_fn = UnknownRole::new)]
pub enum Role {
    /// Reads all data of the tenant.
    Viewer,
    /// Starts runs, and resumes, pauses, cancels or rolls them back.
    Operator,
    /// Votes on approvals.
    Approver,
    /// Everything above, and changes workflows, policies, users and keys.
    Admin,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 4] = [Self::Viewer, Self::Operator, Self::Approver, Self::Admin];

    /// The name used in the API and in files.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The text is not a role.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a role; use viewer, operator, approver or admin")]
pub struct UnknownRole(String);

impl UnknownRole {
    fn new(text: &str) -> Self {
        Self(bounded(text, 64))
    }
}

/// The roles of a user.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Roles(BTreeSet<Role>);

impl Roles {
    /// Whether the roles include the permissions of `role`. Every role may read, and an admin may do everything.
    pub fn allow(&self, role: Role) -> bool {
        self.0.contains(&role)
            || self.0.contains(&Role::Admin)
            || (role == Role::Viewer && !self.0.is_empty())
    }

    /// Whether there is no role.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The roles, from the least powerful.
    pub fn iter(&self) -> impl Iterator<Item = Role> {
        self.0.iter().copied()
    }
}

impl FromIterator<Role> for Roles {
    fn from_iter<I: IntoIterator<Item = Role>>(roles: I) -> Self {
        Self(roles.into_iter().collect())
    }
}

/// A stored API key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiKey {
    /// The tenant whose data the key opens.
    pub tenant: TenantId,
    /// The public id of the key.
    pub id: KeyId,
    /// The user in whose name the key acts.
    pub person: PersonId,
    /// The roles of the key.
    pub roles: Roles,
    /// The digest of the secret.
    pub secret: Digest,
    /// What the key is for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// When the key was created.
    pub created_at: Timestamp,
    /// Who created the key.
    pub created_by: Initiator,
    /// When the key expires; never, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// When the key was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
    /// Who revoked the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_by: Option<Initiator>,
    /// Incremented by every change.
    #[serde(default)]
    pub revision: u32,
}

impl ApiKey {
    /// Whether the key is valid at `now`.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| now < end)
    }

    /// Whether `presented` is this key. The comparison is on digests, so its duration reveals nothing about the secret.
    pub fn matches(&self, presented: &PresentedKey<'_>) -> bool {
        self.tenant == presented.tenant && self.id == presented.id && self.secret == presented.digest()
    }
}

/// The text of a key, as a caller presents it: `csk_TENANT_ID_SECRET`.
pub struct PresentedKey<'t> {
    /// The tenant.
    pub tenant: TenantId,
    /// The public id of the key.
    pub id: KeyId,
    secret: &'t str,
}

impl<'t> PresentedKey<'t> {
    /// Parses the text of a key. An invalid text gives no reason.
    pub fn parse(text: &'t str) -> Option<Self> {
        // From the right: a tenant id may contain the separator, the other parts may not.
        let (rest, secret) = text.rsplit_once('_')?;
        let (rest, id) = rest.rsplit_once('_')?;
        let tenant = rest.strip_prefix(PREFIX)?.strip_prefix('_')?.parse().ok()?;
        let hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if secret.len() != SECRET_CHARS || !hex(secret) || !hex(id) {
            return None;
        }
        Some(Self { tenant, id: id.parse().ok()?, secret })
    }

    /// Whether `text` starts like a key.
    pub fn has_prefix(text: &str) -> bool {
        text.strip_prefix(PREFIX).is_some_and(|rest| rest.starts_with('_'))
    }

    /// The text of a key, shown once. `id` and `secret` are hexadecimal.
    pub fn format(tenant: &TenantId, id: &KeyId, secret: &str) -> String {
        format!("{PREFIX}_{tenant}_{id}_{secret}")
    }

    /// The digest of the secret.
    pub fn digest(&self) -> Digest {
        secret_digest(&self.tenant, &self.id, self.secret)
    }
}

impl fmt::Debug for PresentedKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PresentedKey")
            .field("tenant", &self.tenant)
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// The name of the credential of a user of an identity provider. A subject can be any text, so its digest is used.
pub fn oidc_credential(issuer: &str, subject: &str) -> String {
    let digest = Digest::of_parts("countersign/oidc-subject/v1", &[issuer, subject]);
    format!("{OIDC_PREFIX}{}", &digest.to_string()[..32])
}

/// Whether `credential` is the name of a credential of an identity provider.
pub fn is_oidc_credential(credential: &str) -> bool {
    credential.starts_with(OIDC_PREFIX)
}

/// The digest of a secret, bound to its key.
pub fn secret_digest(tenant: &TenantId, id: &KeyId, secret: &str) -> Digest {
    Digest::of_parts("countersign/api-key/v1", &[tenant.as_str(), id.as_str(), secret])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::initiator::Cause;

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
            created_by: Initiator::new(Cause::User, "root"),
            expires_at: Some(Timestamp(10)),
            revoked_at: None,
            revoked_by: None,
            revision: 0,
        }
    }

    #[test]
    fn key_round_trips_with_separator_in_tenant() {
        for tenant in ["acme", "acme_east_1", "csk_acme"] {
            let key = key(tenant);
            let text = PresentedKey::format(&key.tenant, &key.id, SECRET);
            assert!(key.matches(&PresentedKey::parse(&text).unwrap()), "{text}");
        }
    }

    #[test]
    fn other_texts_and_keys_do_not_match() {
        let key = key("acme");
        for text in
            ["", "csk", "csk_acme", "csk_acme_00ff", "csk_acme_00ff_", "csk_acme_00ff_0123", "csk__00ff_0"]
        {
            assert!(PresentedKey::parse(text).is_none(), "{text}");
        }
        for (tenant, id, secret) in [
            ("umbrella", "00ff", SECRET.to_owned()),
            ("acme", "00fe", SECRET.to_owned()),
            ("acme", "00ff", SECRET.replace('0', "1")),
        ] {
            let text = format!("csk_{tenant}_{id}_{secret}");
            assert!(!key.matches(&PresentedKey::parse(&text).unwrap()), "{text}");
        }
    }

    #[test]
    fn expired_or_revoked_key_is_invalid() {
        let key = key("acme");
        assert!(key.is_live(Timestamp(9)));
        assert!(!key.is_live(Timestamp(10)));
        assert!(!ApiKey { revoked_at: Some(Timestamp(1)), ..key }.is_live(Timestamp(2)));
    }

    #[test]
    fn debug_output_omits_the_secret() {
        let text = format!("csk_acme_00ff_{SECRET}");
        let output = format!("{:?} {:?}", PresentedKey::parse(&text).unwrap(), key("acme"));
        assert!(!output.contains(SECRET), "{output}");
    }

    #[test]
    fn roles_allow_exactly_their_permissions() {
        let allowed = |role| Role::ALL.map(|wanted| Roles::from_iter([role]).allow(wanted));
        assert_eq!(allowed(Role::Viewer), [true, false, false, false]);
        assert_eq!(allowed(Role::Operator), [true, true, false, false]);
        assert_eq!(allowed(Role::Approver), [true, false, true, false]);
        assert_eq!(allowed(Role::Admin), [true; 4]);
        assert!(!Roles::default().allow(Role::Viewer));
    }
}
