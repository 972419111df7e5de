//! The keys of the people on this machine, for the console and the API.
//!
//! They are made at the first start and kept beside the store, in a file that only its owner reads, so that
//! whoever comes back tomorrow is still let in. A key that was taken back is made anew at the next start.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use domain::access::ShownKey;
use domain::{PersonId, Role, TenantId};
use engine::{Engine, NewKey};
use store::Store;

use crate::error::CliError;
use crate::new_file::replace;

/// Who is there, and what each may do: one who settles things, one who works and answers, one who only answers.
const ROLES: [(&str, &[Role]); 3] =
    [("ada", &[Role::Admin]), ("grace", &[Role::Operator, Role::Approver]), ("ben", &[Role::Approver])];

/// The texts of the keys, by person.
pub(super) struct Keys {
    /// Where they are kept.
    pub(super) file: PathBuf,
    texts: BTreeMap<String, String>,
}

impl Keys {
    /// The keys that the directory holds, and new ones for whoever has none that opens anything.
    pub(super) async fn found<S: Store>(
        directory: &Path,
        engine: &Engine<S>,
        tenant: &TenantId,
    ) -> Result<Self, CliError> {
        let file = directory.join("keys.json");
        let mut texts = read(&file)?;
        let mut changed = false;
        for (person, roles) in ROLES {
            let known = match texts.get(person) {
                Some(text) => opens(engine, tenant, text).await?,
                None => false,
            };
            if !known {
                texts.insert(person.to_owned(), make(engine, tenant, person, roles).await?);
                changed = true;
            }
        }
        if changed {
            replace(&file, &serde_json::to_vec_pretty(&texts).unwrap_or_default())?;
        }
        Ok(Self { file, texts })
    }

    /// The key of `person`.
    pub(super) fn of(&self, person: &str) -> &str {
        self.texts.get(person).map_or("", String::as_str)
    }
}

async fn opens<S: Store>(engine: &Engine<S>, tenant: &TenantId, text: &str) -> Result<bool, CliError> {
    let Some(shown) = ShownKey::read(text).filter(|shown| shown.tenant == *tenant) else { return Ok(false) };
    let key = engine.api_key(tenant, &shown.id).await?;
    Ok(key.is_some_and(|key| key.is_shown(&shown) && key.is_live(engine.now())))
}

async fn make<S: Store>(
    engine: &Engine<S>,
    tenant: &TenantId,
    person: &str,
    roles: &[Role],
) -> Result<String, CliError> {
    let forged = api::forged(tenant, PersonId::new(person)?, roles.iter().copied().collect());
    let (new, text) = forged.map_err(|problem| CliError::Refused(problem.detail))?;
    engine.make_key(tenant, NewKey { note: "made by countersign dev".to_owned(), ..new }).await?;
    Ok(text)
}

/// A file that cannot be read as keys is taken for none: its keys are made anew.
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
    use crate::dev::tests::engine;

    #[tokio::test]
    async fn a_key_is_found_again_and_one_that_was_taken_back_is_made_anew() {
        let (dir, tenant) = (tempfile::tempdir().unwrap(), "acme".parse().unwrap());
        let engine = engine();
        let first = Keys::found(dir.path(), &engine, &tenant).await.unwrap();
        let again = Keys::found(dir.path(), &engine, &tenant).await.unwrap();
        assert_eq!(first.texts, again.texts);
        assert_eq!(fs::metadata(&first.file).unwrap().permissions().mode() & 0o777, 0o600);

        let shown = ShownKey::read(first.of("grace")).unwrap();
        engine.revoke_key(&tenant, &shown.id).await.unwrap();
        let third = Keys::found(dir.path(), &engine, &tenant).await.unwrap();
        assert_ne!(third.of("grace"), first.of("grace"));
        assert_eq!(third.of("ada"), first.of("ada"));
    }
}
