//! The API keys of the sample users.
//!
//! They are created at the first start and stored next to the store, in a file that only its owner can read. A
//! revoked key is replaced at the next start.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use domain::access::PresentedKey;
use domain::{Cause, Initiator, PersonId, Role, TenantId};
use engine::{Engine, NewApiKey};
use store::Store;

use crate::error::CliError;
use crate::new_file::replace;

const ROLES: [(&str, &[Role]); 3] =
    [("ada", &[Role::Admin]), ("grace", &[Role::Operator, Role::Approver]), ("ben", &[Role::Approver])];

pub(super) struct Keys {
    pub(super) file: PathBuf,
    /// By user name.
    texts: BTreeMap<String, String>,
}

impl Keys {
    /// Reads the keys in the directory and creates a key for each user who has no valid one.
    pub(super) async fn load_or_create<S: Store>(
        directory: &Path,
        engine: &Engine<S>,
        tenant: &TenantId,
    ) -> Result<Self, CliError> {
        let file = directory.join("keys.json");
        let mut texts = read(&file)?;
        let mut changed = false;
        for (person, roles) in ROLES {
            let valid = match texts.get(person) {
                Some(text) => is_valid(engine, tenant, text).await?,
                None => false,
            };
            if !valid {
                texts.insert(person.to_owned(), create(engine, tenant, person, roles).await?);
                changed = true;
            }
        }
        if changed {
            replace(&file, &serde_json::to_vec_pretty(&texts).unwrap_or_default(), 0o600)?;
        }
        Ok(Self { file, texts })
    }

    pub(super) fn key_of(&self, person: &str) -> &str {
        self.texts.get(person).map_or("", String::as_str)
    }
}

async fn is_valid<S: Store>(engine: &Engine<S>, tenant: &TenantId, text: &str) -> Result<bool, CliError> {
    let Some(presented) = PresentedKey::parse(text).filter(|presented| presented.tenant == *tenant) else {
        return Ok(false);
    };
    let key = engine.governance().api_key(tenant, &presented.id).await?;
    Ok(key.is_some_and(|key| key.matches(&presented) && key.is_live(engine.now())))
}

async fn create<S: Store>(
    engine: &Engine<S>,
    tenant: &TenantId,
    person: &str,
    roles: &[Role],
) -> Result<String, CliError> {
    let generated = api::generate_key(tenant, PersonId::new(person)?, roles.iter().copied().collect());
    let (new, text) = generated.map_err(|problem| CliError::Refused(problem.detail))?;
    let handle = engine.tenant_handle(tenant, &Initiator::new(Cause::User, person));
    handle.make_key(NewApiKey { note: "created by countersign dev".to_owned(), ..new }).await?;
    Ok(text)
}

/// A file with invalid content counts as empty: its keys are replaced.
fn read(file: &Path) -> Result<BTreeMap<String, String>, CliError> {
    match fs::read(file) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).unwrap_or_default()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(source) => Err(CliError::Read { path: file.into(), source }),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[tokio::test]
    async fn keys_persist_and_revoked_ones_are_replaced() {
        let (dir, tenant) = (tempfile::tempdir().unwrap(), "acme".parse().unwrap());
        let engine = testkit::engine().build();
        let first = Keys::load_or_create(dir.path(), &engine, &tenant).await.unwrap();
        let again = Keys::load_or_create(dir.path(), &engine, &tenant).await.unwrap();
        assert_eq!(first.texts, again.texts);
        assert_eq!(fs::metadata(&first.file).unwrap().permissions().mode() & 0o777, 0o600);

        let presented = PresentedKey::parse(first.key_of("grace")).unwrap();
        let handle = engine.tenant_handle(&tenant, &Initiator::new(Cause::User, "ada"));
        handle.revoke_key(&presented.id).await.unwrap();
        let third = Keys::load_or_create(dir.path(), &engine, &tenant).await.unwrap();
        assert_ne!(third.key_of("grace"), first.key_of("grace"));
        assert_eq!(third.key_of("ada"), first.key_of("ada"));
    }
}
