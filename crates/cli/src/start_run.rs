//! Starts a run on a store file, for `run start` and the demo.

use domain::{IdempotencyKey, Plan, RecordName, WorkspaceId};
use engine::{Engine, StartResult, StartRun};
use serde_json::Value;
use store::SqliteStore;

use crate::context::Context;
use crate::error::CliError;

pub(crate) struct StartRequest {
    pub(crate) plan: Plan,
    /// Absent: that of the workflow.
    pub(crate) workspace: Option<WorkspaceId>,
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
    let workspace = request.plan.workspace_of_run(request.workspace.as_ref());
    let workspace = workspace.ok_or_else(|| {
        let (workflow, requested) = (&request.plan.workflow, request.workspace.unwrap_or_default());
        CliError::Usage(format!(
            "workflow {workflow} belongs to another workspace than {requested}; omit --workspace"
        ))
    })?;
    let started = engine.admission().start(StartRun {
        tenant: context.tenant.clone(),
        workspace,
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
