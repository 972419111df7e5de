//! The connections of a tenant: what its runs may use, and what its admins have set.

use std::collections::BTreeMap;

use connectors::ToolConnection;
use domain::audit::AdminChange;
use domain::connection::CONNECTIONS_MAX;
use domain::{Connection, ConnectionName, Tenant};
use store::{AuditedWrite, Store, Write};

use crate::core::commit::ROUNDS_MAX;
use crate::core::connections::ResolvedConnection;
use crate::error::EngineError;
use crate::tenant_handle::TenantHandle;

/// A new connection, or a new version of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionUpdate {
    pub name: ConnectionName,
    /// Its version is ignored.
    pub connection: Connection,
    /// The version that the caller read; `None` replaces any.
    pub seen: Option<u32>,
}

impl<S: Store> TenantHandle<S> {
    /// The connections of all workspaces, by name. One that the operator configured replaces one of the same name.
    pub async fn connections(&self) -> Result<BTreeMap<ConnectionName, ResolvedConnection>, EngineError> {
        let tenant = self.tenant_or_default().await?;
        Ok(self.core.connections.all(&tenant))
    }

    pub async fn connection(&self, name: &ConnectionName) -> Result<ResolvedConnection, EngineError> {
        let unknown = || EngineError::NoConnection { connection: name.clone() };
        self.connections().await?.remove(name).ok_or_else(unknown)
    }

    /// Sets a connection, if it names nothing that the operator has not given to the tenant.
    pub async fn set_connection(&self, update: ConnectionUpdate) -> Result<ResolvedConnection, EngineError> {
        let ConnectionUpdate { name, connection, seen } = update;
        self.check_connection(&name, &connection)?;
        for _ in 0..ROUNDS_MAX {
            let tenant = self.tenant_or_default().await?;
            let before = tenant.connections.get(&name).cloned();
            if seen.is_some() && seen != before.as_ref().map(|before| before.version) {
                return Err(EngineError::ConnectionChanged { connection: name });
            }
            if before.is_none() && tenant.connections.len() >= CONNECTIONS_MAX {
                let why = format!("the tenant has {CONNECTIONS_MAX} connections, which is the maximum");
                return Err(EngineError::BadConnection { connection: name, why });
            }
            let version = before.as_ref().map_or(1, |before| before.version.saturating_add(1));
            let after = Connection { version, ..connection.clone() };
            let change = AdminChange::ConnectionSet {
                connection: name.clone(),
                before: before.map(Box::new),
                after: Box::new(after.clone()),
            };
            let mut connections = tenant.connections.clone();
            connections.insert(name.clone(), after.clone());
            if self.put_connections(tenant, connections, change).await? {
                return Ok(ResolvedConnection { name, connection: after, by_operator: false });
            }
        }
        Err(EngineError::ConnectionChanged { connection: name })
    }

    /// Removes a connection that an admin has set; returns it.
    pub async fn remove_connection(&self, name: &ConnectionName) -> Result<Connection, EngineError> {
        self.refuse_operators(name)?;
        for _ in 0..ROUNDS_MAX {
            let tenant = self.tenant_or_default().await?;
            let mut connections = tenant.connections.clone();
            let Some(removed) = connections.remove(name) else {
                return Err(EngineError::NoConnection { connection: name.clone() });
            };
            let before = Box::new(removed.clone());
            let change = AdminChange::ConnectionRemoved { connection: name.clone(), before };
            if self.put_connections(tenant, connections, change).await? {
                return Ok(removed);
            }
        }
        Err(EngineError::ConnectionChanged { connection: name.clone() })
    }

    async fn tenant_or_default(&self) -> Result<Tenant, EngineError> {
        let stored = self.core.retry_busy(|store| store.tenant(&self.tenant)).await?;
        // The first write has revision 0.
        Ok(stored.unwrap_or_else(|| Tenant::new(self.tenant.clone())))
    }

    /// Writes the connections; returns whether no other request changed the settings meanwhile.
    async fn put_connections(
        &self,
        tenant: Tenant,
        connections: BTreeMap<ConnectionName, Connection>,
        change: AdminChange,
    ) -> Result<bool, EngineError> {
        let is_first = self.core.retry_busy(|store| store.tenant(&self.tenant)).await?.is_none();
        let revision = if is_first { 0 } else { tenant.revision.saturating_add(1) };
        let updated = Tenant { connections, revision, ..tenant };
        match self.write_audited(AuditedWrite::Tenant(updated.clone()), change).await? {
            Write::Committed => Ok(true),
            // An own write whose reply was lost is no conflict.
            Write::Superseded => {
                let stored = self.core.retry_busy(|store| store.tenant(&self.tenant)).await?;
                Ok(stored.as_ref() == Some(&updated))
            }
        }
    }

    fn check_connection(&self, name: &ConnectionName, connection: &Connection) -> Result<(), EngineError> {
        let bad = |why: String| EngineError::BadConnection { connection: name.clone(), why };
        self.refuse_operators(name)?;
        connection.check().map_err(|error| bad(error.to_string()))?;
        let bound = ToolConnection::new(name, connection).map_err(|error| bad(error.to_string()))?;
        if connection.credential.is_some() && !bound.base.may_carry_secrets() {
            return Err(bad(
                "`base_url` must begin with `https://`, because the connection has a credential".to_owned(),
            ));
        }
        let operator = &self.core.connections.operator;
        match connection.secrets().find(|secret| !operator.grants(&self.tenant, secret)) {
            Some(secret) => Err(bad(format!(
                "the operator has not given the secret {secret} to the tenant; ask the operator to add its prefix to \
                 `tenants: {}: secrets`",
                self.tenant
            ))),
            None => Ok(()),
        }
    }

    fn refuse_operators(&self, name: &ConnectionName) -> Result<(), EngineError> {
        if self.core.connections.operator.get(&self.tenant, name).is_none() {
            return Ok(());
        }
        let why = "the operator configured it; choose another name, or ask the operator to change it";
        Err(EngineError::BadConnection { connection: name.clone(), why: why.to_owned() })
    }
}
