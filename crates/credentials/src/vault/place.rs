//! Where in Vault a reference points.

use std::collections::BTreeMap;

use domain::SecretRef;
use domain::connection::SecretStore;

use super::VaultEngine;
use crate::exchange::Problem;

/// The mounts of dynamic engines, by the name that Vault gives them. A mount of another name is in the configuration.
const DYNAMIC_MOUNTS: [&str; 2] = ["database", "aws"];

/// What creates or reads credentials in a dynamic engine. Everything else there is configuration.
const CREDENTIAL_PATHS: [&str; 3] = ["creds", "static-creds", "sts"];

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The path of the request, below `/v1/`.
    pub(super) path: String,
    pub(super) engine: VaultEngine,
}

pub(super) fn locate(mounts: &BTreeMap<String, VaultEngine>, secret: &SecretRef) -> Result<Place, Problem> {
    if secret.store() != SecretStore::Vault {
        return Err(Problem::refused("it is not a secret of Vault"));
    }
    let path = secret.path();
    let below = |mount: &str| path.strip_prefix(mount.trim_matches('/'))?.strip_prefix('/');
    // The longest name wins: `team/kv` is another mount than `team`.
    let listed = mounts.iter().filter_map(|(mount, engine)| Some((below(mount)?, *engine)));
    let listed = listed.min_by_key(|(rest, _)| rest.len());
    let (rest, engine) = listed.or_else(|| by_name(path)).ok_or_else(|| {
        Problem::refused("the reference needs a mount and a path, such as vault://kv/servicenow#password")
    })?;
    let mount = path[..path.len() - rest.len()].trim_end_matches('/');
    match engine {
        VaultEngine::KvV2 => Ok(Place { path: format!("{mount}/data/{rest}"), engine }),
        VaultEngine::Dynamic => {
            let first = rest.split_once('/').map_or("", |(first, _)| first);
            if CREDENTIAL_PATHS.contains(&first) {
                return Ok(Place { path: path.to_owned(), engine });
            }
            Err(Problem::refused(
                "the path in a dynamic engine starts with `creds/`, such as database/creds/ROLE",
            ))
        }
    }
}

fn by_name(path: &str) -> Option<(&str, VaultEngine)> {
    let (mount, rest) = path.split_once('/')?;
    let engine = if DYNAMIC_MOUNTS.contains(&mount) { VaultEngine::Dynamic } else { VaultEngine::KvV2 };
    Some((rest, engine))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(reference: &str) -> Result<String, String> {
        let mounts = [
            ("team/kv".to_owned(), VaultEngine::KvV2),
            ("team".to_owned(), VaultEngine::Dynamic),
            ("aws".to_owned(), VaultEngine::KvV2),
        ];
        match locate(&mounts.into(), &reference.parse().unwrap()) {
            Ok(place) => Ok(place.path),
            Err(problem) => Err(format!("{problem:?}")),
        }
    }

    #[test]
    fn path_follows_the_engine_of_the_mount() {
        for (reference, expected) in [
            ("vault://kv/servicenow/acme#password", "kv/data/servicenow/acme"),
            ("vault://team/kv/a#b", "team/kv/data/a"),
            ("vault://team/creds/writer#b", "team/creds/writer"),
            ("vault://teams/a#b", "teams/data/a"),
            ("vault://database/creds/writer#password", "database/creds/writer"),
            ("vault://aws/creds/a", "aws/data/creds/a"),
        ] {
            assert_eq!(path(reference).as_deref(), Ok(expected), "{reference}");
        }
    }

    #[test]
    fn configuration_of_a_dynamic_engine_is_not_read() {
        for reference in ["vault://database/config/pg", "vault://database/creds", "vault://kv", "env://A"] {
            assert!(path(reference).is_err(), "{reference}");
        }
    }
}
