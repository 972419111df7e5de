//! Calls to servers on the loopback.

use std::sync::LazyLock;
use std::time::Duration;

use connectors::{HostAllowList, HttpRequest, ProposalRequest, Tool, ToolCall, ToolOutcome};
use domain::{Action, Failure, Fence, RunId, RunKey, StepId, TenantId};
use serde_json::Value;

/// A tool that may call servers on the loopback. Shared, because it loads the system's certificates.
pub(crate) fn tool() -> &'static HttpRequest {
    static TOOL: LazyLock<HttpRequest> =
        LazyLock::new(|| HttpRequest::new(HostAllowList { hosts: vec!["127.0.0.1".parse().unwrap()] }));
    &TOOL
}

pub(crate) fn propose(tool: &dyn Tool, with: Value) -> Result<Action, Failure> {
    tool.propose(ProposalRequest {
        run: &run(),
        step: &step(),
        reverts: false,
        has_rollback: false,
        fields: with,
        observed: None,
    })
}

/// A first attempt at `action`, with a minute left.
pub(crate) async fn perform(tool: &dyn Tool, action: &Action) -> ToolOutcome {
    attempt(tool, action, Duration::from_mins(1), false).await
}

/// An attempt at `action`.
pub(crate) async fn attempt(
    tool: &dyn Tool,
    action: &Action,
    time_left: Duration,
    again: bool,
) -> ToolOutcome {
    tool.perform(ToolCall { run: &run(), step: &step(), action, fence: Fence(1), time_left, again }).await
}

fn run() -> RunKey {
    RunKey { tenant: TenantId::new("acme").unwrap(), run: RunId::new("run-1").unwrap() }
}

fn step() -> StepId {
    StepId::new("call").unwrap()
}
