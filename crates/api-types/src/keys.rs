//! API keys.

use std::fmt;

use domain::{ApiKey, KeyId, PersonId, Roles};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use views::time::rfc3339_millis;

use crate::RoleName;

/// An API key, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Key {
    #[schema(value_type = String)]
    pub id: KeyId,
    /// The user or program that the key authenticates.
    #[schema(value_type = String)]
    pub person: PersonId,
    #[schema(value_type = Vec<String>)]
    pub roles: Roles,
    pub note: String,
    pub created_at: String,
    /// The user who created the key.
    pub created_by: String,
    /// The expiry; null if the key does not expire.
    pub expires_at: Option<String>,
    pub revoked_at: Option<String>,
    /// The user who revoked the key.
    pub revoked_by: Option<String>,
}

impl From<ApiKey> for Key {
    fn from(key: ApiKey) -> Self {
        Self {
            id: key.id,
            person: key.person,
            roles: key.roles,
            note: key.note,
            created_at: rfc3339_millis(key.created_at),
            created_by: key.created_by.id,
            expires_at: key.expires_at.map(rfc3339_millis),
            revoked_at: key.revoked_at.map(rfc3339_millis),
            revoked_by: key.revoked_by.map(|by| by.id),
        }
    }
}

/// A page of the API keys of a tenant, by id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Keys {
    pub keys: Vec<Key>,
    /// The cursor of the next page; null on the last page.
    pub next: Option<String>,
}

/// A request to create an API key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateKey {
    /// The user or program that the key authenticates.
    #[schema(value_type = String, pattern = "^[A-Za-z0-9._-]*[A-Za-z0-9_-][A-Za-z0-9._-]*$", max_length = 128)]
    pub person: PersonId,
    #[schema(min_items = 1)]
    pub roles: Vec<RoleName>,
    /// The purpose of the key, at most 200 characters.
    #[serde(default)]
    #[schema(max_length = 200)]
    pub note: String,
    /// The lifetime: `12h`, `90d`, at most ten years, or `never`. The default is 90 days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(
        pattern = "^([1-9][0-9]{0,5}(s|m)|([1-9][0-9]{0,3}|[1-7][0-9]{4}|8[0-6][0-9]{3}|87[0-5][0-9]{2}|87600)h|([1-9][0-9]{0,2}|[12][0-9]{3}|3[0-5][0-9]{2}|36[0-4][0-9]|3650)d|never)$"
    )]
    pub expires_in: Option<String>,
}

/// A created API key. Its secret is returned only once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CreatedKey {
    pub key: Key,
    /// The key to send as `Authorization: Bearer …`. The server cannot return it again.
    pub secret: String,
}

// Written by hand to keep the secret out of logs.
impl fmt::Debug for CreatedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreatedKey").field("key", &self.key).finish_non_exhaustive()
    }
}
