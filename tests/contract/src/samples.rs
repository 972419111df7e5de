//! For each route, a request that could be meant: which of a tenant's things it names, and what it sends.
//!
//! A route that is not here fails the tests that try every route: whoever adds one says what it is about.

use domain::Role;
use serde_json::{Value, json};

use crate::house::Told;

/// The part of an address that names an API key.
pub const OWN_KEY: Role = Role::Viewer;

/// Where something of a tenant is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A thing of this tenant.
    Own,
    /// A thing that nobody has.
    Unknown,
    /// A text that is no name at all.
    Malformed(&'static str),
}

impl Place {
    /// The address of a route, with what it names put in: things of `told`, or none.
    pub fn in_path(self, path: &str, name: &str, told: &Told) -> String {
        let own = |part: &str| match part {
            "{run}" => own_run(name, told),
            "{approval}" => told.runs.approval.clone(),
            "{workflow}" => format!("only-{}", told.tenant),
            "{key}" => told.key_id(OWN_KEY).to_string(),
            part => panic!("{name} names {part}: say here which one a tenant has"),
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

/// The run of a tenant that a route is likeliest to be asked about.
fn own_run(name: &str, told: &Told) -> String {
    let runs = &told.runs;
    let run = match name {
        "planUndo" | "undoRun" | "getEvidence" | "verifyEvidence" => &runs.finished,
        "resumeRun" | "retryRun" => &runs.paused,
        "signalRun" => &runs.waiting,
        _ => &runs.asking,
    };
    run.to_string()
}

/// What a route is sent; nothing, if it takes nothing.
pub fn body_for(name: &str) -> Option<Value> {
    match name {
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
        "makeKey" => Some(json!({ "person": "ada", "roles": ["viewer"] })),
        _ => None,
    }
}
