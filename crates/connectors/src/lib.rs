//! The tools that workflow steps call: what each does to an external system, and what is guaranteed when a worker
//! dies halfway.
//!
//! To add a tool, read [`Tool`]. Every module here is one tool, the tools of one external system, or a part of
//! them; the module's documentation states its guarantees and their limits.

pub mod api;
mod fields;
pub mod github;
pub mod http;
pub mod marked_post;
pub mod model;
mod not_configured;
pub mod reference;
pub mod servicenow;
pub mod slack;
#[warn(missing_docs)]
pub mod tool;
mod trace;
pub mod transform;

pub use api::{BaseUrl, Credential};
pub use http::HttpRequest;
pub use http::guard::{HostAllowList, HostRule};
pub use tool::{
    LookUpResult, Observed, ProposalRequest, Tool, ToolCall, ToolOutcome, ToolRegistry, ToolResult,
};
pub use trace::in_trace;
pub use transform::Transform;

/// Addresses and credentials of the external systems.
///
/// The tools of a system without settings are registered all the same, so that workflows which name them can be
/// checked. Their `propose` fails and names the missing setting.
#[derive(Debug, Clone, Default)]
pub struct ConnectorSettings {
    pub servicenow: Option<servicenow::ServiceNowSettings>,
    pub github: Option<github::GitHubSettings>,
    pub slack: Option<slack::SlackToolSettings>,
    pub model: Option<model::ModelSettings>,
}

/// The registry of built-in tools.
///
/// `http.request` reaches internal addresses only on the hosts in `allow`. Every other tool reaches the one host in
/// its settings.
pub fn standard_tools(allow: HostAllowList, settings: ConnectorSettings) -> ToolRegistry {
    let registry = ToolRegistry::default().with(Transform).with(HttpRequest::new(allow));
    let registry = servicenow::register(registry, settings.servicenow);
    let registry = github::register(registry, settings.github);
    let registry = slack::register(registry, settings.slack);
    model::register(registry, settings.model)
}
