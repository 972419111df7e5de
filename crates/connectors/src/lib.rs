//! The tools that workflow steps call: what each does to an external system, and what is guaranteed when a worker
//! dies halfway.
//!
//! To add a tool, read [`Tool`]. Every module here is one tool, the tools of one external system, or a part of
//! them; the module's documentation states its guarantees and their limits.

pub mod api;
mod authenticate;
mod client;
pub mod connection;
mod connection_test;
mod fields;
pub mod github;
pub mod http;
pub mod marked_post;
pub mod model;
pub mod reference;
pub mod servicenow;
pub mod slack;
#[warn(missing_docs)]
pub mod tool;
mod trace;
pub mod transform;

pub use api::{BaseUrl, Credential};
pub use authenticate::{Authenticated, CREDENTIAL_UNAVAILABLE, NotAuthenticated, authenticate};
pub use client::{ConnectionClient, PostOutcome, PostReply};
pub use connection::{
    NOT_CONNECTED, OperatorConnections, TenantConnections, ToolConnection, UnusableConnection,
};
pub use connection_test::CONNECTION_TEST;
pub use http::HttpRequest;
pub use http::guard::{HostAllowList, HostRule};
pub use http::outcome::NOT_AUTHORIZED;
pub use tool::{
    ConnectionUse, LookUpResult, Observed, ProposalRequest, Tool, ToolCall, ToolOutcome, ToolRegistry,
    ToolResult,
};
pub use trace::in_trace;
pub use transform::Transform;

use connection_test::ConnectionTest;

/// The registry of built-in tools. The tools of an external system are not connected yet ([`Tool::connect`]).
///
/// `http.request` without a connection reaches internal addresses only on the hosts in `allow`.
pub fn standard_tools(allow: HostAllowList) -> ToolRegistry {
    let registry = ToolRegistry::default().with(Transform).with(ConnectionTest).with(HttpRequest::new(allow));
    let registry = servicenow::register(registry);
    let registry = github::register(registry);
    let registry = slack::register(registry);
    model::register(registry)
}
