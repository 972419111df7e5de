//! Settle: what a tenant settles for all its runs, and the keys it hands out.

use std::collections::{BTreeMap, BTreeSet};

use domain::access::NOTE_CHARS_MAX;
use domain::failure::bounded;
use domain::tenant::{Caps, Person, check_people};
use domain::{ApiKey, Digest, GroupName, KeyId, PersonId, Roles, Tenant, TenantId, Timestamp, json};
use store::{KeyPage, PageQuery, Store, Write};

use crate::Engine;
use crate::commit::ROUNDS_MAX;
use crate::error::EngineError;

/// A record holds at most 400 KB on DynamoDB; some thousand people take less than this.
const TENANT_BYTES_MAX: usize = 256 * 1024;

/// What a tenant settles anew. What is not named here stays as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settle {
    /// How much a run may do.
    pub caps: Caps,
    /// The people.
    pub people: BTreeMap<PersonId, Person>,
    /// Who may approve what policy hands to a group.
    pub groups: BTreeMap<GroupName, BTreeSet<PersonId>>,
    /// The revision that was looked at; none, if nothing was settled.
    pub seen: Option<u32>,
}

/// A key that is to be made. Whoever makes it has thrown the dice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewKey {
    /// Which key.
    pub id: KeyId,
    /// The digest of its secret.
    pub secret: Digest,
    /// Who acts with it.
    pub person: PersonId,
    /// What they may do with it.
    pub roles: Roles,
    /// What it is for.
    pub note: String,
    /// Until when it opens anything.
    pub expires_at: Option<Timestamp>,
}

impl<S: Store> Engine<S> {
    /// What a tenant has settled, if it has settled anything.
    pub async fn settled(&self, tenant: &TenantId) -> Result<Option<Tenant>, EngineError> {
        Ok(self.retry_busy(|| self.store.tenant(tenant)).await?)
    }

    /// Settles something anew, unless somebody else has since it was looked at, or one person would count as two.
    pub async fn settle(&self, tenant: &TenantId, settle: Settle) -> Result<Tenant, EngineError> {
        let stands = self.settled(tenant).await?;
        let changed = || EngineError::TenantChanged { tenant: tenant.clone() };
        if stands.as_ref().map(|stands| stands.revision) != settle.seen {
            return Err(changed());
        }
        let revision = settle.seen.map_or(0, |seen| seen.saturating_add(1));
        let stands = stands.unwrap_or_else(|| Tenant::new(tenant.clone()));
        let Settle { caps, people, groups, .. } = settle;
        let wanted = Tenant { caps, people, groups, revision, ..stands };
        let (bytes, most) = (json::canonical(&wanted).len(), TENANT_BYTES_MAX);
        if bytes > most {
            return Err(EngineError::TenantTooLarge { bytes, most });
        }
        check_people(&wanted.people, &wanted.groups)?;
        match self.retry_busy(|| self.store.put_tenant(wanted.clone())).await? {
            Write::Committed => Ok(wanted),
            // Our own write whose reply was lost is not somebody else's.
            Write::Superseded if self.settled(tenant).await?.as_ref() == Some(&wanted) => Ok(wanted),
            Write::Superseded => Err(changed()),
        }
    }

    /// Makes a key.
    pub async fn make_key(&self, tenant: &TenantId, new: NewKey) -> Result<ApiKey, EngineError> {
        let NewKey { id, secret, person, roles, note, expires_at } = new;
        let key = ApiKey {
            tenant: tenant.clone(),
            id,
            person,
            roles,
            secret,
            note: bounded(&note, NOTE_CHARS_MAX),
            created_at: self.now(),
            expires_at,
            revoked_at: None,
            revision: 0,
        };
        match self.retry_busy(|| self.store.put_key(key.clone())).await? {
            Write::Committed => Ok(key),
            Write::Superseded if self.api_key(tenant, &key.id).await?.as_ref() == Some(&key) => Ok(key),
            Write::Superseded => Err(EngineError::KeyTaken { key: key.id }),
        }
    }

    /// A page of a tenant's keys, by id.
    pub async fn api_keys(&self, tenant: &TenantId, query: PageQuery) -> Result<KeyPage, EngineError> {
        Ok(self.retry_busy(|| self.store.keys(tenant, query.clone())).await?)
    }

    /// Takes a key back. Done twice, the first time counts.
    pub async fn revoke_key(&self, tenant: &TenantId, id: &KeyId) -> Result<ApiKey, EngineError> {
        let unknown = || EngineError::NoApiKey { key: id.clone() };
        for _ in 0..ROUNDS_MAX {
            let key = self.api_key(tenant, id).await?.ok_or_else(unknown)?;
            if key.revoked_at.is_some() {
                return Ok(key);
            }
            let revision = key.revision.saturating_add(1);
            let revoked = ApiKey { revoked_at: Some(self.now()), revision, ..key };
            if self.retry_busy(|| self.store.put_key(revoked.clone())).await? == Write::Committed {
                return Ok(revoked);
            }
        }
        Err(EngineError::KeyTaken { key: id.clone() })
    }
}
