//! Starts a run that tests a connection.

use connectors::CONNECTION_TEST;
use domain::{ConnectionName, IdempotencyKey, Inherited};
use serde_json::json;
use store::Store;

use crate::admission::{AdmissionService, StartResult, StartRun};
use crate::error::EngineError;
use crate::tenant_handle::TenantHandle;

impl<S: Store> TenantHandle<S> {
    /// Starts a run that tests a connection and changes nothing.
    pub async fn test_connection(
        &self,
        name: &ConnectionName,
        key: IdempotencyKey,
    ) -> Result<StartResult, EngineError> {
        let resolved = self.connection(name).await?;
        let source = format!(
            "workflow: connection-test\nversion: 1\nenvironment: dev\n\
             steps: [{{ id: test, tool: {CONNECTION_TEST}, connection: '{name}', retry: {{ attempts: 1 }} }}]\n"
        );
        let plan = workflow::parse_for(&source, &self.tools()).map_err(|error| {
            EngineError::BadConnection { connection: name.clone(), why: error.to_string() }
        })?;
        let request = StartRun {
            tenant: self.tenant.clone(),
            workspace: resolved.connection.workspace.unwrap_or_default(),
            plan,
            trigger_kind: "connection-test".to_owned(),
            record: None,
            key,
            input: json!({}),
            by: self.by.clone(),
            applied_by: None,
            inherited: Inherited::default(),
        };
        AdmissionService::new(&self.core).start(request).await
    }
}
