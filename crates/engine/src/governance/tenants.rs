//! The settings of a tenant, and its API keys.

use std::collections::{BTreeMap, BTreeSet};

use credentials::RedactionPatterns;
use domain::access::NOTE_CHARS_MAX;
use domain::audit::AdminChange;
use domain::failure::bounded;
use domain::tenant::{Caps, Person, check_people};
use domain::{ApiKey, Digest, GroupName, KeyId, Millis, PersonId, Roles, Tenant, TenantId, json};
use store::{AuditedWrite, Cursor, KeyPage, PageQuery, Store, Write};

use crate::core::commit::ROUNDS_MAX;
use crate::error::EngineError;
use crate::governance::GovernanceService;
use crate::tenant_handle::TenantHandle;

/// A DynamoDB item holds at most 400 KB; a thousand users take less than this.
const TENANT_BYTES_MAX: usize = 256 * 1024;

/// How many keys are read at once when users leave the directory.
const KEYS_READ_AT_ONCE: u32 = 100;

/// A change of a tenant's settings. What is not named here stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantUpdate {
    pub caps: Caps,
    pub people: BTreeMap<PersonId, Person>,
    /// Approver groups.
    pub groups: BTreeMap<GroupName, BTreeSet<PersonId>>,
    /// Regular expressions for what is replaced in what external systems return.
    pub redact: Vec<String>,
    /// The revision that the caller read; `None` if there were no settings.
    pub seen: Option<u32>,
}

/// A new API key. The caller generates the secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewApiKey {
    pub id: KeyId,
    pub secret: Digest,
    /// The user who acts with it.
    pub person: PersonId,
    pub roles: Roles,
    pub note: String,
    /// The time until it expires; `None` for a key that does not expire.
    pub expires_in: Option<Millis>,
}

impl<S: Store> GovernanceService<'_, S> {
    /// The settings of a tenant; defaults if it has none.
    pub async fn tenant(self, tenant: &TenantId) -> Result<Tenant, EngineError> {
        let stored = self.core.retry_busy(|store| store.tenant(tenant)).await?;
        Ok(stored.unwrap_or_else(|| Tenant::new(tenant.clone())))
    }

    pub async fn api_key(self, tenant: &TenantId, id: &KeyId) -> Result<Option<ApiKey>, EngineError> {
        Ok(self.core.retry_busy(|store| store.key(tenant, id)).await?)
    }
}

impl<S: Store> TenantHandle<S> {
    /// The settings of the tenant; defaults if it has none.
    pub async fn tenant(&self) -> Result<Tenant, EngineError> {
        GovernanceService::new(&self.core).tenant(&self.tenant).await
    }

    pub async fn tenant_settings(&self) -> Result<Option<Tenant>, EngineError> {
        Ok(self.core.retry_busy(|store| store.tenant(&self.tenant)).await?)
    }

    /// Changes the settings, unless they were changed since the caller read them, or two users would share an
    /// identity.
    pub async fn update_tenant(&self, update: TenantUpdate) -> Result<Tenant, EngineError> {
        let current = self.tenant_settings().await?;
        let changed = || EngineError::TenantChanged { tenant: self.tenant.clone() };
        if current.as_ref().map(|current| current.revision) != update.seen {
            return Err(changed());
        }
        let revision = update.seen.map_or(0, |seen| seen.saturating_add(1));
        let current = current.unwrap_or_else(|| Tenant::new(self.tenant.clone()));
        let TenantUpdate { caps, people, groups, redact, .. } = update;
        RedactionPatterns::new(&redact).map_err(EngineError::BadRedaction)?;
        if people.is_empty() && !current.people.is_empty() {
            return Err(EngineError::DirectoryRemoved { tenant: self.tenant.clone() });
        }
        let updated = Tenant { caps, people, groups, redact, revision, ..current.clone() };
        let (bytes, most) = (json::canonical(&updated).len(), TENANT_BYTES_MAX);
        if bytes > most {
            return Err(EngineError::TenantTooLarge { bytes, most });
        }
        check_people(&updated.people, &updated.groups)?;
        // Keys are revoked before the directory is written. If the request fails in between, its retry still finds the
        // departed users.
        self.revoke_keys_of(&departed(&current, &updated)).await?;
        let change = AdminChange::of_settings(&current, &updated);
        match self.write_audited(AuditedWrite::Tenant(updated.clone()), change).await? {
            Write::Committed => {}
            // An own write whose reply was lost is no conflict.
            Write::Superseded if self.tenant_settings().await?.as_ref() == Some(&updated) => {}
            Write::Superseded => return Err(changed()),
        }
        // A key may have been created meanwhile.
        self.revoke_keys_of(&departed(&current, &updated)).await?;
        Ok(updated)
    }

    /// Revokes the keys of users who have left the directory.
    async fn revoke_keys_of(&self, departed: &BTreeSet<PersonId>) -> Result<(), EngineError> {
        let mut after = None;
        while !departed.is_empty() {
            let page = self.keys(after, KEYS_READ_AT_ONCE).await?;
            let theirs = page.keys.iter().filter(|key| departed.contains(&key.person));
            for key in theirs.filter(|key| key.revoked_at.is_none()) {
                self.revoke_key(&key.id).await?;
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        Ok(())
    }

    pub async fn make_key(&self, new: NewApiKey) -> Result<ApiKey, EngineError> {
        let NewApiKey { id, secret, person, roles, note, expires_in } = new;
        let created_at = self.now();
        let expires_at = expires_in.map(|life| created_at + life);
        let key = ApiKey {
            tenant: self.tenant.clone(),
            id,
            person,
            roles,
            secret,
            note: bounded(&note, NOTE_CHARS_MAX),
            created_at,
            created_by: self.by.clone(),
            expires_at,
            revoked_at: None,
            revoked_by: None,
            revision: 0,
        };
        let change = AdminChange::KeyCreated {
            key: key.id.clone(),
            person: key.person.clone(),
            roles: key.roles.clone(),
            expires_at,
        };
        match self.write_audited(AuditedWrite::Key(key.clone()), change).await? {
            Write::Committed => Ok(key),
            Write::Superseded if self.api_key(&key.id).await?.as_ref() == Some(&key) => Ok(key),
            Write::Superseded => Err(EngineError::KeyChanged { key: key.id }),
        }
    }

    pub async fn keys(&self, after: Option<Cursor>, limit: u32) -> Result<KeyPage, EngineError> {
        let query = PageQuery { after, limit };
        Ok(self.core.retry_busy(|store| store.keys(&self.tenant, query.clone())).await?)
    }

    async fn api_key(&self, id: &KeyId) -> Result<Option<ApiKey>, EngineError> {
        GovernanceService::new(&self.core).api_key(&self.tenant, id).await
    }

    /// Revokes a key. Revoking it again has no effect.
    pub async fn revoke_key(&self, id: &KeyId) -> Result<ApiKey, EngineError> {
        let unknown = || EngineError::NoApiKey { key: id.clone() };
        for _ in 0..ROUNDS_MAX {
            let key = self.api_key(id).await?.ok_or_else(unknown)?;
            if key.revoked_at.is_some() {
                return Ok(key);
            }
            let revision = key.revision.saturating_add(1);
            let (revoked_at, revoked_by) = (Some(self.now()), Some(self.by.clone()));
            let revoked = ApiKey { revoked_at, revoked_by, revision, ..key };
            let change = AdminChange::KeyRevoked { key: id.clone(), person: revoked.person.clone() };
            if self.write_audited(AuditedWrite::Key(revoked.clone()), change).await? == Write::Committed {
                return Ok(revoked);
            }
        }
        Err(EngineError::KeyChanged { key: id.clone() })
    }
}

/// The users whom the change removes from the directory.
fn departed(before: &Tenant, after: &Tenant) -> BTreeSet<PersonId> {
    before.people.keys().filter(|person| !after.people.contains_key(*person)).cloned().collect()
}
