//! `connection.test`: whether a connection works. It changes nothing.
//!
//! It sends one request that every valid credential may make. Where an API has none, only the address is tested, and the
//! output says so. The engine resolves the connection and fetches its credential before, as for each step, so a mistake there
//! fails the step with its own code.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use domain::connection::ModelApi;
use domain::{Action, ConnectionKind, EffectClass, Failure, IdempotencyKey, Reversibility, ToolName};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::api::{Api, ApiError, ApiRequest, ApiResponse, Credential};
use crate::connection::{NOT_CONNECTED, ToolConnection};
use crate::fields::Fields;
use crate::http::outcome::{BLOCKED, NOT_AUTHORIZED};
use crate::tool::{self, ConnectionUse, ProposalRequest, Tool, ToolCall, ToolOutcome, ToolResult};

/// The name of the tool.
pub const CONNECTION_TEST: &str = "connection.test";

/// Increase it when the meaning of the fields changes.
const CONTRACT: u32 = 1;

const TIMEOUT: Duration = Duration::from_secs(20);

/// The tool, not connected yet.
pub(crate) struct ConnectionTest;

/// The tool on a connection.
struct ConnectedTest {
    api: Api,
    probe: Probe,
    has_credential: bool,
}

/// The request that tests a connection.
struct Probe {
    request: ApiRequest,
    /// Whether a success shows that the credential is valid.
    authenticates: bool,
}

impl Probe {
    fn of(connection: &ToolConnection) -> Self {
        let authenticating = |request| Self { request, authenticates: true };
        let address = |request| Self { request, authenticates: false };
        match connection.kind {
            ConnectionKind::ServiceNow => authenticating(
                ApiRequest::get(&["api", "now", "table", "sys_user"])
                    .with_query("sysparm_limit", "1")
                    .with_query("sysparm_fields", "sys_id"),
            ),
            ConnectionKind::GitHub => authenticating(ApiRequest::get(&["rate_limit"])),
            ConnectionKind::Slack => authenticating(ApiRequest::post(&["auth.test"], json!({})).read_only()),
            ConnectionKind::Model if connection.options.model_api == Some(ModelApi::Completions) => {
                authenticating(ApiRequest::get(&["models"]))
            }
            ConnectionKind::Http => authenticating(ApiRequest::head(&[])),
            // Each request of these APIs costs something or pages a person.
            ConnectionKind::Model | ConnectionKind::PagerDuty => address(ApiRequest::head(&[])),
        }
    }
}

impl ConnectedTest {
    fn report(&self, status: Option<u16>, authentication: &str) -> ToolOutcome {
        let authentication = if self.has_credential { authentication } else { "none" };
        let output = json!({ "host": self.api.host(), "status": status, "authentication": authentication });
        ToolOutcome::Done(ToolResult { output: output.clone(), response: output, ..ToolResult::default() })
    }

    fn judge(&self, response: Result<ApiResponse, ApiError>) -> ToolOutcome {
        match response {
            // Slack answers 200 in every case.
            Ok(response) if response.value["ok"] == json!(false) => {
                let code = response.value["error"].as_str().unwrap_or("unknown").chars().take(64);
                let message = format!("Slack refused the credential: {}", code.collect::<String>());
                ToolOutcome::Terminal(Failure::new(NOT_AUTHORIZED, message))
            }
            Ok(response) if self.probe.authenticates => self.report(Some(response.status), "accepted"),
            Ok(response) => self.report(Some(response.status), "not tested"),
            // The base URL of an API may have no page: what matters is that the server answered, and how it took the
            // credential.
            Err(ApiError::Terminal(failure)) if self.probe.request.is_head() && failure.code != BLOCKED => {
                match (failure.code == NOT_AUTHORIZED, self.probe.authenticates) {
                    (true, true) => ToolOutcome::Terminal(failure),
                    (false, true) => self.report(None, "not refused"),
                    (_, false) => self.report(None, "not tested"),
                }
            }
            Err(error) => error.into(),
        }
    }
}

fn propose(tool: &dyn Tool, request: ProposalRequest<'_>, target: String) -> Result<Action, Failure> {
    Fields::parse(request.fields, &[])?;
    let key = IdempotencyKey::for_step(&tool.name(), &request.run.run, request.step);
    Ok(Action {
        tool: tool.name(),
        contract: CONTRACT,
        class: EffectClass::ReadOnly,
        reversibility: Reversibility::NoEffect,
        target,
        key: if request.reverts { key.reverse() } else { key },
        key_retention: None,
        changes: Vec::new(),
        destructive: false,
        estimate_microusd: None,
        connection: None,
        fields: json!({}),
    })
}

fn not_connected() -> Failure {
    Failure::new(NOT_CONNECTED, format!("`{CONNECTION_TEST}` needs `connection: NAME`"))
}

#[async_trait]
impl Tool for ConnectionTest {
    fn name(&self) -> ToolName {
        tool::name(CONNECTION_TEST)
    }

    fn effect_class(&self, _: &Value) -> Option<EffectClass> {
        Some(EffectClass::ReadOnly)
    }

    fn connection_use(&self) -> ConnectionUse {
        ConnectionUse::AnyKind
    }

    fn connect(&self, connection: &ToolConnection) -> Option<Arc<dyn Tool>> {
        Some(Arc::new(ConnectedTest {
            api: Api::new(connection, TIMEOUT),
            probe: Probe::of(connection),
            has_credential: !matches!(connection.credential, Credential::Anonymous),
        }))
    }

    fn propose(&self, _: ProposalRequest<'_>) -> Result<Action, Failure> {
        Err(not_connected())
    }

    async fn perform(&self, _: ToolCall<'_>) -> ToolOutcome {
        ToolOutcome::Terminal(not_connected())
    }
}

#[async_trait]
impl Tool for ConnectedTest {
    fn name(&self) -> ToolName {
        tool::name(CONNECTION_TEST)
    }

    fn effect_class(&self, _: &Value) -> Option<EffectClass> {
        Some(EffectClass::ReadOnly)
    }

    fn connection_use(&self) -> ConnectionUse {
        ConnectionUse::AnyKind
    }

    fn propose(&self, request: ProposalRequest<'_>) -> Result<Action, Failure> {
        propose(self, request, self.api.host().to_owned())
    }

    async fn perform(&self, call: ToolCall<'_>) -> ToolOutcome {
        let until = Instant::now() + call.time_left;
        self.judge(self.api.send(self.probe.request.clone(), until).await)
    }
}
