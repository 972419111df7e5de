//! Changing what a tenant has settled, while others may do the same.

use domain::{Tenant, TenantId};
use store::{Governance, Write};

use crate::error::CliError;

/// People settle things by hand; whoever is overtaken this often meets a machine gone wrong.
const ROUNDS_MAX: u32 = 16;

/// What stood there, and what stands there now.
pub(in crate::verb) struct Settled {
    pub(in crate::verb) before: Tenant,
    pub(in crate::verb) after: Tenant,
}

/// Makes `change` to what the tenant has settled, whatever that is by then. What it leaves as it is, is not
/// written again.
pub(in crate::verb) async fn settle(
    store: &impl Governance,
    id: &TenantId,
    change: impl Fn(&mut Tenant),
) -> Result<Settled, CliError> {
    for _ in 0..ROUNDS_MAX {
        let stands = store.tenant(id).await?;
        let revision = stands.as_ref().map_or(0, |stands| stands.revision.saturating_add(1));
        let before = stands.unwrap_or_else(|| Tenant::new(id.clone()));
        let mut after = before.clone();
        change(&mut after);
        if after == before {
            return Ok(Settled { before, after });
        }
        after.revision = revision;
        match store.put_tenant(after.clone()).await? {
            Write::Committed => return Ok(Settled { before, after }),
            // Somebody else has settled something meanwhile; look again.
            Write::Superseded => {}
        }
    }
    Err(CliError::Refused(format!(
        "what tenant {id} has settled was changed by others {ROUNDS_MAX} times meanwhile; try again"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::{SqliteOptions, SqliteStore};

    #[tokio::test(flavor = "multi_thread")]
    async fn those_who_settle_at_once_lose_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(dir.path().join("a.db"), SqliteOptions::default()).unwrap();
        let id: TenantId = "acme".parse().unwrap();
        let adding = (0..8).map(|n| {
            let (store, id) = (store.clone(), id.clone());
            tokio::spawn(async move {
                let person: domain::PersonId = format!("person-{n}").parse().unwrap();
                settle(&store, &id, |tenant| {
                    tenant.people.insert(person.clone(), domain::tenant::Person::default());
                })
                .await
                .unwrap();
            })
        });
        for added in adding.collect::<Vec<_>>() {
            added.await.unwrap();
        }
        let settled = store.tenant(&id).await.unwrap().unwrap();
        assert_eq!((settled.people.len(), settled.revision), (8, 7));
    }
}
