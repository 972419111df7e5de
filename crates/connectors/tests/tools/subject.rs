//! The tools under test, each with its own fake external system.

use std::sync::Arc;

use connectors::{Credential, HostAllowList, Tool, ToolConnection, ToolRegistry, standard_tools};
use domain::connection::ConnectionOptions;
use domain::{ConnectionKind, ToolName};
use fakes::github::{self, GitHub};
use fakes::server::FakeFaults;
use fakes::servicenow::{self, INCIDENT, ServiceNow};
use serde_json::{Value, json};

use crate::slack::Slack;

/// Every tool with an effect, except `http.request`: its class depends on the author, and
/// `tests/http/effect_classes.rs` tests it.
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

/// A tool, a call of it, and its external system.
pub(crate) struct Subject {
    pub(crate) registry: ToolRegistry,
    pub(crate) name: &'static str,
    pub(crate) with: Value,
    pub(crate) faults: FakeFaults,
    /// Counts the changes in the external system.
    effects: Box<dyn Fn() -> u32>,
    /// The state of the external system.
    state: Box<dyn Fn() -> Value>,
}

impl Subject {
    pub(crate) async fn of(name: &'static str) -> Self {
        match name.split_once('.').unwrap() {
            ("servicenow", _) => in_servicenow(name).await,
            ("github", _) => in_github(name).await,
            ("slack", _) => in_slack(name).await,
            _ => panic!("{name} has no fake external system; add one here"),
        }
    }

    pub(crate) fn tool(&self) -> &dyn Tool {
        self.named(self.name)
    }

    pub(crate) fn named(&self, name: &str) -> &dyn Tool {
        self.registry.get(&ToolName::new(name).unwrap()).unwrap().as_ref()
    }

    pub(crate) fn effects(&self) -> u32 {
        (self.effects)()
    }

    pub(crate) fn state(&self) -> Value {
        (self.state)()
    }
}

/// The tools on a connection of this kind that an operator has configured.
pub(crate) fn tools_on(kind: ConnectionKind, url: &str, credential: Credential) -> ToolRegistry {
    let connection = ToolConnection {
        name: kind.to_string().parse().unwrap(),
        kind,
        base: url.parse().unwrap(),
        credential,
        allow: HostAllowList::default(),
        ca: None,
        tls: http_client::config(),
        options: ConnectionOptions::default(),
    };
    standard_tools(HostAllowList::default()).connected(&connection.trust_base())
}

pub(crate) fn servicenow_tools(fake: &ServiceNow, credential: Credential) -> ToolRegistry {
    tools_on(ConnectionKind::ServiceNow, &fake.url(), credential)
}

pub(crate) fn basic() -> Credential {
    Credential::Basic { user: servicenow::USER.to_owned(), password: servicenow::PASSWORD.into() }
}

pub(crate) fn github_tools(fake: &GitHub, token: &str) -> ToolRegistry {
    tools_on(ConnectionKind::GitHub, &fake.url(), Credential::Bearer(token.into()))
}

async fn in_servicenow(name: &'static str) -> Subject {
    let fake = Arc::new(ServiceNow::start().await.unwrap());
    let mut with = json!({ "table": "incident", "sys_id": INCIDENT });
    match name {
        "servicenow.update" => with["fields"] = json!({ "state": "2", "urgency": 1 }),
        "servicenow.assign" => with["assignment_group"] = json!("db-oncall"),
        _ => with["text"] = json!("Restarted the primary."),
    }
    let counted = Arc::clone(&fake);
    Subject {
        registry: servicenow_tools(&fake, basic()),
        name,
        with,
        faults: fake.faults().clone(),
        effects: Box::new(move || counted.writes(INCIDENT)),
        state: Box::new(move || {
            let mut record = fake.record("incident", INCIDENT).unwrap();
            record.retain(|field, _| !field.starts_with("sys_"));
            json!([record, fake.work_notes(INCIDENT)])
        }),
    }
}

async fn in_github(name: &'static str) -> Subject {
    let fake = Arc::new(GitHub::start().await.unwrap());
    let body = "a comment of another user".to_owned();
    fake.change(github::ISSUE, |issue| issue.comments.push(github::Comment { id: 900, body }));
    let with = match name {
        "github.label" => json!({ "number": github::ISSUE, "labels": ["incident", "p1"] }),
        "github.unlabel" => json!({ "number": github::ISSUE, "labels": ["bug", "never there"] }),
        "github.comment" => json!({ "number": github::ISSUE, "text": "Fixed by the restart." }),
        _ => json!({ "comment_id": 900 }),
    };
    let (mut with, counted) = (with, Arc::clone(&fake));
    with["repo"] = json!(github::REPO);
    Subject {
        registry: github_tools(&fake, github::TOKEN),
        name,
        with,
        faults: fake.faults().clone(),
        effects: Box::new(move || counted.writes()),
        state: Box::new(move || {
            let issue = fake.issue(github::ISSUE).unwrap();
            let comments = issue.comments.iter().map(|comment| comment.body.clone());
            json!([issue.labels, comments.collect::<Vec<_>>()])
        }),
    }
}

async fn in_slack(name: &'static str) -> Subject {
    let fake = Arc::new(Slack::start().await);
    let counted = Arc::clone(&fake);
    Subject {
        registry: fake.tools(),
        name,
        with: json!({ "channel": "C024BE91L", "text": "The primary <answers> again." }),
        faults: fake.faults().clone(),
        effects: Box::new(move || u32::try_from(counted.messages().len()).unwrap()),
        state: Box::new(move || json!(fake.messages())),
    }
}
