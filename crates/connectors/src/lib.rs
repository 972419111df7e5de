//! The tools that touch the world.
//!
//! [`tool`] says what a tool is; every other module is one tool, the tools of one system, or a part of them.
//! What a tool promises about being asked again stands in its module's documentation, and in the class it
//! declares.

mod absent;
pub mod api;
mod fields;
pub mod github;
pub mod http;
pub mod model;
pub mod reference;
pub mod saying;
pub mod servicenow;
pub mod slack;
pub mod tool;
pub mod transform;

pub use api::{Base, Credential};
pub use http::HttpRequest;
pub use http::guard::{Allow, HostRule};
pub use tool::{Ask, Call, Done, LookUp, Outcome, Survey, Tool, Toolbox};
pub use transform::Transform;

/// What the operator says about the systems outside. Where nothing is said, the tools for a system are still
/// there, so that workflows which name them can be checked, and refuse to propose anything.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// For `servicenow.*`.
    pub servicenow: Option<servicenow::Settings>,
    /// For `github.*`.
    pub github: Option<github::Settings>,
    /// For `slack.*`.
    pub slack: Option<slack::Settings>,
    /// For `model.*`.
    pub model: Option<model::Settings>,
}

/// The tools that every worker has. For `http.request`, inner addresses are out of reach but for the hosts in
/// `allow`; each other tool reaches the one host that `settings` give it.
pub fn standard(allow: Allow, settings: Settings) -> Toolbox {
    let toolbox = Toolbox::default().with(Transform).with(HttpRequest::new(allow));
    let toolbox = servicenow::add(toolbox, settings.servicenow);
    let toolbox = github::add(toolbox, settings.github);
    let toolbox = slack::add(toolbox, settings.slack);
    model::add(toolbox, settings.model)
}
