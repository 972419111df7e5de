//! API keys.

use std::fmt;

use domain::{ApiKey, KeyId, PersonId, Roles};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use views::time::moment;

use crate::RoleName;

/// A key, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Key {
    /// Which key.
    #[schema(value_type = String)]
    pub id: KeyId,
    /// Who acts with it.
    #[schema(value_type = String)]
    pub person: PersonId,
    /// What they may do with it.
    #[schema(value_type = Vec<String>)]
    pub roles: Roles,
    /// What it is for.
    pub note: String,
    /// When it was made.
    pub created_at: String,
    /// Until when it opens anything; for ever, if absent.
    pub expires_at: Option<String>,
    /// When it was taken back.
    pub revoked_at: Option<String>,
}

impl From<ApiKey> for Key {
    fn from(key: ApiKey) -> Self {
        Self {
            id: key.id,
            person: key.person,
            roles: key.roles,
            note: key.note,
            created_at: moment(key.created_at),
            expires_at: key.expires_at.map(moment),
            revoked_at: key.revoked_at.map(moment),
        }
    }
}

/// A page of a tenant's keys, by id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Keys {
    /// The keys.
    pub keys: Vec<Key>,
    /// The cursor of the next page, if there is one.
    pub next: Option<String>,
}

/// A wish for a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MakeKey {
    /// Who will act with it.
    #[schema(value_type = String, pattern = "^[A-Za-z0-9._-]*[A-Za-z0-9_-][A-Za-z0-9._-]*$", max_length = 128)]
    pub person: PersonId,
    /// What they may do with it.
    #[schema(min_items = 1)]
    pub roles: Vec<RoleName>,
    /// What it is for, in at most 200 characters.
    #[serde(default)]
    #[schema(max_length = 200, pattern = "^[^\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\ufffe\\uffff]*$")]
    pub note: String,
    /// For how long it opens anything: `12h`, `90d`. For ever, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[1-9][0-9]{0,5}(s|m|h|d)$")]
    pub expires_in: Option<String>,
}

/// A key that was made. Its text is shown this once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MadeKey {
    /// The key.
    pub key: Key,
    /// What is shown as `Authorization: Bearer …`. Nobody can get it back.
    pub text: String,
}

// By hand: a key's text stands in no log.
impl fmt::Debug for MadeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MadeKey").field("key", &self.key).finish_non_exhaustive()
    }
}
