//! Random workflows: every effect class, reads, waits, timers, gates, failing and denied steps, rollbacks, and concurrency
//! keys.

use serde_json::{Value, json};

use crate::rng::Rng;

/// The number of different workflows.
const FLOWS: usize = 40;

const STEPS_MAX: u64 = 5;

/// A concurrency key is shared by the runs of this many groups.
pub(crate) const GROUPS: u64 = 12;

/// A workflow of the soak.
#[derive(Debug, Clone)]
pub(crate) struct Flow {
    pub(crate) name: String,
    pub(crate) source: String,
}

/// The part of the external world that the steps of a workflow use.
#[derive(Debug, Clone)]
pub(crate) struct Endpoints {
    /// The URL of the HTTP service, if the workers may call it.
    pub(crate) http: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StepKind {
    Value,
    ReadRecord,
    ReadHttp,
    Keyed,
    Opaque,
    Create,
    Update,
    Assign,
    Note,
    Comment,
    Label,
    Message,
    Wait,
    Timer,
    Gate,
    Broken,
    Forbidden,
}

use StepKind::{
    Assign, Broken, Comment, Create, Forbidden, Gate, Keyed, Label, Message, Note, Opaque, ReadHttp,
    ReadRecord, Timer, Update, Value as Transform, Wait,
};

/// Each kind as often as it is drawn.
const KINDS: [StepKind; 26] = [
    Transform, Transform, ReadRecord, ReadHttp, Keyed, Keyed, Keyed, Keyed, Opaque, Opaque, Create, Create,
    Update, Update, Update, Assign, Note, Comment, Comment, Label, Message, Wait, Timer, Gate, Broken,
    Forbidden,
];

const HTTP_KINDS: [StepKind; 6] = [ReadHttp, Keyed, Opaque, Create, Broken, Forbidden];

pub(crate) fn flows(seed: u64, endpoints: &Endpoints) -> Vec<Flow> {
    let mut rng = Rng::new(seed, "flows");
    (0..FLOWS).map(|number| flow(number, endpoints, &mut rng)).collect()
}

fn flow(number: usize, endpoints: &Endpoints, rng: &mut Rng) -> Flow {
    let name = format!("soak-{number}");
    let count = rng.between(1, STEPS_MAX);
    let steps: Vec<Value> = (0..count).map(|at| step(at, endpoints, rng)).collect();
    let mut file = json!({ "workflow": name, "version": 1, "environment": "dev", "steps": steps });
    if rng.percent(20) {
        let on_conflict = *rng.pick(&["join", "queue", "reject"]);
        file["concurrency"] =
            json!({ "key": "${ trigger.group }", "on_conflict": on_conflict, "scope": "workflow" });
    }
    Flow { name, source: file.to_string() }
}

/// One step. Its id starts with its blast radius, which tells the oracle who must approve it.
fn step(at: u64, endpoints: &Endpoints, rng: &mut Rng) -> Value {
    let mut kind = *rng.pick(&KINDS);
    while HTTP_KINDS.contains(&kind) && endpoints.http.is_none() {
        kind = *rng.pick(&KINDS);
    }
    let http = endpoints.http.as_deref().unwrap_or_default();
    let (tool, with) = tool_call(kind, at, http);
    let blast_radius = if matches!(kind, Keyed | Create | Update | Assign | Label) {
        *rng.pick(&["low", "low", "low", "low", "medium", "high"])
    } else {
        "low"
    };
    let mut step = json!({ "id": format!("{blast_radius}-{at}"), "tool": tool, "with": with });
    if matches!(kind, Wait | Timer | Gate) {
        return step;
    }
    step["blast_radius"] = json!(blast_radius);
    step["retry"] = json!({ "attempts": 8, "backoff": "exponential", "base": "100ms", "cap": "1s" });
    if rng.percent(20) {
        step["on_reject"] = json!("pause");
    }
    match kind {
        Keyed | Opaque | Create if rng.percent(60) => {
            let url = format!("{http}/keyed");
            let with = json!({ "method": "PUT", "url": url, "body": { "undo": at }, "effect": "native_key" });
            step["rollback"] = json!({ "tool": "http.request", "with": with });
        }
        Update | Assign | Comment | Label if rng.percent(60) => step["rollback"] = json!("auto"),
        _ => {}
    }
    step
}

fn tool_call(kind: StepKind, at: u64, http: &str) -> (&'static str, Value) {
    let (record, issue) = ("${ trigger.sys_id }", "${ trigger.issue }");
    let text = format!("soak ${{ run.id }} step {at}");
    let put = |path: &str, effect: &str| {
        json!({ "method": "PUT", "url": format!("{http}/{path}"), "body": { "n": "${ trigger.n }", "at": at },
                "effect": effect, "timeout": "5s" })
    };
    match kind {
        Transform => ("transform", json!({ "value": { "n": "${ trigger.n }" } })),
        ReadRecord => ("servicenow.get", json!({ "table": "incident", "sys_id": record })),
        ReadHttp => ("http.request", json!({ "url": format!("{http}/read") })),
        Keyed => ("http.request", put("keyed", "native_key")),
        Opaque => ("http.request", put("opaque", "opaque")),
        Create => {
            let url = format!("{http}/things/${{ run.id }}-{at}");
            let headers = json!({ "if-none-match": "*" });
            let with = json!({ "method": "PUT", "url": url, "headers": headers, "body": { "at": at },
                "effect": "compare_and_set", "timeout": "5s" });
            ("http.request", with)
        }
        Update => {
            let fields = json!({ "short_description": text });
            ("servicenow.update", json!({ "table": "incident", "sys_id": record, "fields": fields }))
        }
        Assign => {
            let group = format!("group-{at}-${{ trigger.n }}");
            ("servicenow.assign", json!({ "table": "incident", "sys_id": record, "assignment_group": group }))
        }
        Note => ("servicenow.work_note", json!({ "table": "incident", "sys_id": record, "text": text })),
        Comment => ("github.comment", json!({ "repo": fakes::github::REPO, "number": issue, "text": text })),
        Label => (
            "github.label",
            json!({ "repo": fakes::github::REPO, "number": issue, "labels": [format!("l{at}")] }),
        ),
        Message => ("slack.post", json!({ "channel": "C0APPROVALS", "text": text })),
        Wait => ("wait.event", json!({ "event": format!("go-{at}"), "timeout": "1h" })),
        Timer => ("wait.event", json!({ "event": "never", "timeout": "1s", "on_timeout": "continue" })),
        Gate => ("approval.gate", json!({ "message": "Continue?", "groups": ["oncall"] })),
        Broken => ("http.request", put("broken", "native_key")),
        Forbidden => ("http.request", put("forbidden", "native_key")),
    }
}
