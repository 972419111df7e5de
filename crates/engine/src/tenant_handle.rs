//! The operations of one tenant, on behalf of one user.
//!
//! A caller names runs and approval requests by id alone; the tenant is fixed when the handle is opened. So another
//! tenant's run is not forbidden but not found, and no operation can ask for it. Every request from the network goes
//! through a handle.
//!
//! The operations themselves are in the files of their subject.

use std::sync::Arc;

use domain::audit::AdminChange;
use domain::audit_chain::{AuditHead, AuditRecord};
use domain::{Initiator, RunId, RunKey, TenantId, Timestamp};
use store::{AuditPage, AuditedWrite, Store, Write};
use workflow::ToolFields;

use crate::core::Core;
use crate::core::audit::{Admin, AuditQuery, CREDENTIAL};
use crate::error::EngineError;

/// The operations of one tenant, on behalf of one user.
pub struct TenantHandle<S> {
    pub(crate) core: Arc<Core<S>>,
    pub(crate) tenant: TenantId,
    pub(crate) by: Initiator,
    /// The name of the user's credential, for the audit log.
    credential: Option<String>,
}

// By hand, because a derive would require the store to be `Clone`.
impl<S> Clone for TenantHandle<S> {
    fn clone(&self) -> Self {
        Self {
            core: Arc::clone(&self.core),
            tenant: self.tenant.clone(),
            by: self.by.clone(),
            credential: self.credential.clone(),
        }
    }
}

impl<S: Store> TenantHandle<S> {
    pub(crate) fn new(core: Arc<Core<S>>, tenant: TenantId, by: Initiator) -> Self {
        Self { core, tenant, by, credential: None }
    }

    /// Names the credential of the user, never its secret. The audit log records it.
    #[must_use]
    pub fn with_credential(mut self, credential: &str) -> Self {
        self.credential = Some(credential.to_owned());
        self
    }

    /// The user with their credential.
    pub(crate) fn admin(&self) -> Initiator {
        match &self.credential {
            Some(credential) => self.by.clone().with(CREDENTIAL, credential),
            None => self.by.clone(),
        }
    }

    /// Makes an administrative change and records it in the audit log.
    pub(crate) async fn write_audited(
        &self,
        write: AuditedWrite,
        change: AdminChange,
    ) -> Result<Write, EngineError> {
        let admin = Admin { tenant: Some(&self.tenant), by: &self.admin() };
        self.core.write_audited(admin, write, change).await
    }

    /// A page of the audit log of the tenant, newest first.
    pub async fn audit(&self, query: AuditQuery) -> Result<AuditPage, EngineError> {
        self.core.audit(Some(&self.tenant), query).await
    }

    /// An entry of the audit log of the tenant.
    pub async fn audit_record(&self, sequence: u64) -> Result<Option<AuditRecord>, EngineError> {
        self.core.audit_record(Some(&self.tenant), sequence).await
    }

    /// The head of the audit log of the tenant.
    pub async fn audit_head(&self) -> Result<AuditHead, EngineError> {
        self.core.audit_head(Some(&self.tenant)).await
    }

    pub fn tenant_id(&self) -> &TenantId {
        &self.tenant
    }

    pub fn now(&self) -> Timestamp {
        self.core.now()
    }

    /// The tools that a workflow may call, with the fields of each.
    pub fn tools(&self) -> ToolFields {
        self.core.tools.fields()
    }

    pub(crate) fn key(&self, run: &RunId) -> RunKey {
        RunKey { tenant: self.tenant.clone(), run: run.clone() }
    }

    /// The result of an operation on a run. If the run does not exist, the error has the status of its inbox entry.
    pub(crate) async fn explain_missing_run<T>(
        &self,
        result: Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        match result {
            Err(EngineError::NoRun { run }) => Err(self.core.missing_run_error(run).await),
            result => result,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use connectors::ToolRegistry;
    use domain::{Cause, Digest, Source};
    use serde_json::json;
    use store::{SqliteOptions, SqliteStore, SystemClock};

    use super::*;
    use crate::{Engine, EngineParts, InboundEvent, Timing};

    fn engine() -> Engine<SqliteStore> {
        Engine::new(EngineParts {
            store: Arc::new(SqliteStore::memory(SqliteOptions::default()).unwrap()),
            tools: ToolRegistry::default(),
            connections: crate::ConnectionParts::default(),
            clock: Arc::new(SystemClock),
            me: "w".parse().unwrap(),
            timing: Timing::default(),
            notifier: None,
            evidence_signer: None,
        })
    }

    fn handle(engine: &Engine<SqliteStore>, tenant: &str) -> TenantHandle<SqliteStore> {
        engine.tenant_handle(&tenant.parse().unwrap(), &Initiator::new(Cause::User, "ada"))
    }

    /// Applies a workflow for acme that matches every event, with one run at a time for each host.
    async fn apply(engine: &Engine<SqliteStore>, name: &str) {
        let source = format!(
            "workflow: {name}\nversion: 1\ntrigger: {{ webhook: {{ when: '${{ trigger.body.host != \"{name}\" }}' }} }}\nconcurrency: '${{ trigger.body.host }}'\n\
             steps:\n  - {{ id: ask, tool: approval.gate, with: {{ message: 'Go on?' }} }}\n"
        );
        let plan = workflow::parse(&source, &BTreeSet::new()).unwrap();
        handle(engine, "acme").apply(&plan).await.unwrap();
    }

    /// Accepts an event for acme; returns the run it would start.
    async fn accept_event(engine: &Engine<SqliteStore>, key: &str) -> RunKey {
        let event = InboundEvent {
            tenant: "acme".parse().unwrap(),
            key: key.parse().unwrap(),
            source: Source::Webhook,
            topic: None,
            record: None,
            proof: Digest::of_bytes(key.as_bytes()),
            dedupe_key: None,
            body: json!({ "body": { "host": "db1" } }),
            start_request: None,
        };
        engine.admission().accept(event).await.unwrap().run
    }

    /// Accepts and processes an event.
    async fn accept_and_process(engine: &Engine<SqliteStore>, key: &str) -> RunKey {
        let run = accept_event(engine, key).await;
        engine.admission().process_entry(&run).await.unwrap();
        run
    }

    #[tokio::test]
    async fn unstarted_run_reports_the_reason() {
        let engine = engine();
        let handle = handle(&engine, "acme");
        let error_text = async |run: &RunKey| handle.run(&run.run).await.err().unwrap().to_string();
        assert!(error_text(&accept_event(&engine, "waits").await).await.contains("waits for a worker"));
        let unmatched = accept_and_process(&engine, "unmatched").await;
        assert!(
            error_text(&unmatched).await.contains("no workflow matched"),
            "{}",
            error_text(&unmatched).await
        );

        apply(&engine, "first").await;
        let started = accept_and_process(&engine, "started").await;
        assert!(handle.run(&started.run).await.is_ok());
        let joined = accept_and_process(&engine, "joined").await;
        assert!(error_text(&joined).await.contains(started.run.as_str()), "{}", error_text(&joined).await);

        apply(&engine, "second").await;
        let refused = accept_and_process(&engine, "refused").await;
        assert!(
            error_text(&refused).await.contains("first and second both match it"),
            "{}",
            error_text(&refused).await
        );
    }

    #[tokio::test]
    async fn every_operation_gives_the_same_reason() {
        let engine = engine();
        let (handle, run) = (handle(&engine, "acme"), accept_and_process(&engine, "unmatched").await.run);
        let expected = handle.run(&run).await.err().unwrap().to_string();
        for other in [
            handle.record(&run).await.err(),
            handle.cancel(&run, "").await.err(),
            handle.pause(&run, "").await.err(),
            handle.resume(&run, "").await.err(),
            handle.roll_back(&run, "", None).await.err(),
            handle.undo_plan(&run).await.err(),
            handle.undo(&run).await.err(),
            handle.evidence(&run).await.err(),
            handle.receipts(&run).await.err(),
        ] {
            assert_eq!(other.unwrap().to_string(), expected);
        }
    }

    #[tokio::test]
    async fn other_tenants_inbox_entry_is_not_found() {
        let engine = engine();
        let run = accept_and_process(&engine, "unmatched").await.run;
        let error = handle(&engine, "umbrella").run(&run).await.err();
        assert!(matches!(error, Some(EngineError::NoRun { .. })), "{error:?}");
    }
}
