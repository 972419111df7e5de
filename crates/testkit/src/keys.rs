//! API keys.

use domain::access::{PresentedKey, secret_digest};
use domain::{ApiKey, Cause, Digest, Initiator, KeyId, PersonId, Role, TenantId, Timestamp};

const SECRET: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// A key of `person`. Its id derives from the person.
pub fn api_key(tenant: &str, person: &str, roles: &[Role]) -> ApiKey {
    let tenant: TenantId = tenant.parse().unwrap();
    let person: PersonId = person.parse().unwrap();
    let id = KeyId::new(&Digest::of_bytes(person.as_str().as_bytes()).short()).unwrap();
    ApiKey {
        secret: secret_digest(&tenant, &id, SECRET),
        tenant,
        id,
        person,
        roles: roles.iter().copied().collect(),
        note: String::new(),
        created_at: Timestamp(0),
        created_by: Initiator::new(Cause::User, "root"),
        expires_at: None,
        revoked_at: None,
        revoked_by: None,
        revision: 0,
    }
}

/// The text that a client sends for `key`.
pub fn key_text(key: &ApiKey) -> String {
    PresentedKey::format(&key.tenant, &key.id, SECRET)
}
