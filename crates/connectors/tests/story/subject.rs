//! The tools that the story is told of, each in a world of its own.

use std::sync::Arc;

use connectors::{Allow, Credential, Settings, Tool, Toolbox, standard};
use domain::ToolName;
use fakes::github::{self, GitHub};
use fakes::server::Faults;
use fakes::servicenow::{self, INCIDENT, ServiceNow};
use serde_json::{Value, json};

use crate::slack::Slack;

/// Every tool with an effect but `http.request`, whose effect is what an author says it is; its story is
/// told in `tests/http/promises.rs`.
pub(crate) const TOOLS: &[&str] = &[
    "github.comment",
    "github.delete_comment",
    "github.label",
    "github.unlabel",
    "servicenow.assign",
    "servicenow.update",
    "servicenow.work_note",
    "slack.post",
];

/// A tool, what it is asked to do, and the world it does it in.
pub(crate) struct Subject {
    pub(crate) toolbox: Toolbox,
    pub(crate) name: &'static str,
    pub(crate) with: Value,
    pub(crate) faults: Faults,
    /// How often the world was changed.
    effects: Box<dyn Fn() -> u32>,
    /// What can be seen of the world.
    state: Box<dyn Fn() -> Value>,
}

impl Subject {
    pub(crate) async fn of(name: &'static str) -> Self {
        match name.split_once('.').unwrap() {
            ("servicenow", _) => in_servicenow(name).await,
            ("github", _) => in_github(name).await,
            ("slack", _) => in_slack(name).await,
            _ => panic!("nobody has built a world for {name}"),
        }
    }

    pub(crate) fn tool(&self) -> &dyn Tool {
        self.named(self.name)
    }

    pub(crate) fn named(&self, name: &str) -> &dyn Tool {
        self.toolbox.get(&ToolName::new(name).unwrap()).unwrap().as_ref()
    }

    pub(crate) fn effects(&self) -> u32 {
        (self.effects)()
    }

    pub(crate) fn state(&self) -> Value {
        (self.state)()
    }
}

pub(crate) fn servicenow_tools(world: &ServiceNow, credential: Credential) -> Toolbox {
    let base = world.url().parse().unwrap();
    let servicenow = Some(connectors::servicenow::Settings { base, credential });
    standard(Allow::default(), Settings { servicenow, ..Settings::default() })
}

pub(crate) fn basic() -> Credential {
    Credential::Basic { user: servicenow::USER.to_owned(), password: servicenow::PASSWORD.into() }
}

pub(crate) fn github_tools(world: &GitHub, token: &str) -> Toolbox {
    let base = world.url().parse().unwrap();
    let github = Some(connectors::github::Settings { base, credential: Credential::Bearer(token.into()) });
    standard(Allow::default(), Settings { github, ..Settings::default() })
}

async fn in_servicenow(name: &'static str) -> Subject {
    let world = Arc::new(ServiceNow::start().await.unwrap());
    let mut with = json!({ "table": "incident", "sys_id": INCIDENT });
    match name {
        "servicenow.update" => with["fields"] = json!({ "state": "2", "urgency": 1 }),
        "servicenow.assign" => with["assignment_group"] = json!("db-oncall"),
        _ => with["text"] = json!("Restarted the primary."),
    }
    let counted = Arc::clone(&world);
    Subject {
        toolbox: servicenow_tools(&world, basic()),
        name,
        with,
        faults: world.faults().clone(),
        effects: Box::new(move || counted.writes(INCIDENT)),
        state: Box::new(move || {
            let mut record = world.record("incident", INCIDENT).unwrap();
            record.retain(|field, _| !field.starts_with("sys_"));
            json!([record, world.work_notes(INCIDENT)])
        }),
    }
}

async fn in_github(name: &'static str) -> Subject {
    let world = Arc::new(GitHub::start().await.unwrap());
    let body = "a comment of somebody's".to_owned();
    world.change(github::ISSUE, |issue| issue.comments.push(github::Comment { id: 900, body }));
    let with = match name {
        "github.label" => json!({ "number": github::ISSUE, "labels": ["incident", "p1"] }),
        "github.unlabel" => json!({ "number": github::ISSUE, "labels": ["bug", "never there"] }),
        "github.comment" => json!({ "number": github::ISSUE, "text": "Fixed by the restart." }),
        _ => json!({ "comment_id": 900 }),
    };
    let (mut with, counted) = (with, Arc::clone(&world));
    with["repo"] = json!(github::REPO);
    Subject {
        toolbox: github_tools(&world, github::TOKEN),
        name,
        with,
        faults: world.faults().clone(),
        effects: Box::new(move || counted.writes()),
        state: Box::new(move || {
            let issue = world.issue(github::ISSUE).unwrap();
            let said = issue.comments.iter().map(|comment| comment.body.clone());
            json!([issue.labels, said.collect::<Vec<_>>()])
        }),
    }
}

async fn in_slack(name: &'static str) -> Subject {
    let world = Arc::new(Slack::start().await);
    let counted = Arc::clone(&world);
    Subject {
        toolbox: world.tools(),
        name,
        with: json!({ "channel": "C024BE91L", "text": "The primary <answers> again." }),
        faults: world.faults().clone(),
        effects: Box::new(move || u32::try_from(counted.messages().len()).unwrap()),
        state: Box::new(move || json!(world.messages())),
    }
}
