//! A sample request for each route: its path parameters and its body.
//!
//! A route without a sample fails the tests that try every route.

use domain::Role;
use serde_json::{Value, json};

use crate::env::TestTenant;

/// The role whose API key the sample of `{key}` names.
pub const OWN_KEY: Role = Role::Viewer;

/// The value of a path parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathValue {
    /// The id of a resource of the tenant.
    Own,
    /// The id of no resource.
    Unknown,
    /// A text that is no valid id.
    Malformed(&'static str),
}

impl PathValue {
    /// The path of a route with this value for its parameters.
    pub fn in_path(self, path: &str, name: &str, tenant: &TestTenant) -> String {
        let own = |part: &str| match part {
            "{run}" => own_run(name, tenant),
            "{approval}" => tenant.runs.approval.clone(),
            "{workflow}" => format!("only-{}", tenant.tenant),
            "{connection}" => format!("sn-{}", tenant.tenant),
            "{key}" => tenant.key_id(OWN_KEY).to_string(),
            "{sequence}" => tenant.audit_entry.to_string(),
            part => panic!("{name} has the path parameter {part}: add a sample value"),
        };
        let put = |part: &str| match self {
            _ if !part.starts_with('{') => part.to_owned(),
            Self::Own => own(part),
            Self::Unknown if part == "{run}" => "run-00000000000000000000000000000000".to_owned(),
            Self::Unknown => "ap-00000000000000000000000000000000".to_owned(),
            Self::Malformed(text) => text.to_owned(),
        };
        path.split('/').map(put).collect::<Vec<_>>().join("/")
    }
}

/// The run of a tenant that fits the route.
fn own_run(name: &str, tenant: &TestTenant) -> String {
    let runs = &tenant.runs;
    let run = match name {
        "planUndo" | "undoRun" | "getEvidence" | "verifyEvidence" => &runs.finished,
        "resumeRun" | "retryRun" => &runs.paused,
        "signalRun" => &runs.waiting,
        _ => &runs.asking,
    };
    run.to_string()
}

/// The body of a request; none if the route has none.
pub fn body_for(name: &str) -> Option<Value> {
    match name {
        "setConnection" => {
            Some(json!({ "name": "sn", "kind": "servicenow", "base_url": "https://acme.service-now.com" }))
        }
        "startRun" => Some(json!({ "workflow": "plain", "input": {} })),
        "cancelRun" | "pauseRun" | "resumeRun" | "retryRun" | "rollBackRun" => {
            Some(json!({ "reason": "to try it" }))
        }
        "signalRun" => Some(json!({ "id": "s1", "event": "news.came", "payload": 1 })),
        "approve" | "reject" | "stopDispatch" | "backOut" => Some(json!({ "reason": "to try it" })),
        "applyWorkflow" => Some(json!({ "source": "workflow: w\nversion: 1\nsteps: []\n" })),
        "applyPolicy" => Some(json!({ "files": {} })),
        "explainPolicy" => Some(json!({ "workflow": "plain" })),
        "putTenant" => {
            Some(json!({ "people": {}, "groups": {}, "caps": { "max_writes_per_run": 3 }, "revision": null }))
        }
        "createKey" => Some(json!({ "person": "ada", "roles": ["viewer"] })),
        _ => None,
    }
}
