//! Starts a run on a store file, for `run start` and the demo.

use domain::{IdempotencyKey, Plan, RecordName, WorkspaceId};
use engine::{Engine, StartResult, StartRun};
use serde_json::Value;
use store::SqliteStore;

use crate::context::Context;
use crate::error::CliError;

pub(crate) struct StartRequest {
    pub(crate) plan: Plan,
    pub(crate) input: Value,
    pub(crate) key: IdempotencyKey,
    pub(crate) record: Option<RecordName>,
}

/// Starts a run, or returns the run that an earlier request with the same key started.
pub(crate) async fn start_run(
    engine: &Engine<SqliteStore>,
    request: StartRequest,
    context: &Context,
) -> Result<StartResult, CliError> {
    let started = engine.admission().start(StartRun {
        tenant: context.tenant.clone(),
        workspace: WorkspaceId::default(),
        plan: request.plan,
        trigger_kind: "cli".to_owned(),
        record: request.record,
        key: request.key,
        input: request.input,
        by: context.by_user(),
        applied_by: None,
        inherited: domain::Inherited::default(),
    });
    Ok(started.await?)
}
