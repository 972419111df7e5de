//! Tools without a connection.

use connectors::{ConnectionUse, HostAllowList, standard_tools};
use domain::ConnectionKind;
use serde_json::json;

use crate::driver::{run, step};
use crate::subject::{basic, github_tools, servicenow_tools, tools_on};

#[test]
fn every_tool_is_registered_without_a_connection() {
    let names: Vec<_> = standard_tools(HostAllowList::default()).names().map(ToString::to_string).collect();
    assert_eq!(
        names,
        [
            "connection.test",
            "github.comment",
            "github.delete_comment",
            "github.get",
            "github.label",
            "github.unlabel",
            "http.request",
            "model.converse",
            "servicenow.assign",
            "servicenow.get",
            "servicenow.update",
            "servicenow.work_note",
            "slack.post",
            "transform",
        ]
    );
}

#[test]
fn error_names_the_kind_of_connection() {
    let registry = standard_tools(HostAllowList::default());
    let has_kind = |name: &&domain::ToolName| {
        matches!(registry.get(name).unwrap().connection_use(), ConnectionUse::Required(_))
    };
    for name in registry.names().filter(has_kind) {
        let (run, step) = (run("run-1"), step());
        let ask = connectors::ProposalRequest {
            run: &run,
            step: &step,
            reverts: false,
            has_rollback: false,
            fields: json!({}),
            observed: None,
        };
        let failure = registry.get(name).unwrap().propose(ask).unwrap_err();
        let kind = name.as_str().split('.').next().unwrap();
        assert_eq!(failure.code, "NOT_CONNECTED", "{name}");
        assert!(failure.message.contains(&format!("a connection of kind `{kind}`")), "{}", failure.message);
    }
}

#[tokio::test]
async fn class_does_not_depend_on_the_connection() {
    let unconnected = standard_tools(HostAllowList::default());
    let servicenow = fakes::servicenow::ServiceNow::start().await.unwrap();
    let github = fakes::github::GitHub::start().await.unwrap();
    let slack = crate::slack::Slack::start().await;
    for registry in [
        servicenow_tools(&servicenow, basic()),
        github_tools(&github, "x"),
        slack.tools(),
        crate::model::tools("http://127.0.0.1:1", domain::connection::ModelApi::Bedrock),
    ] {
        for name in registry.names() {
            let declared =
                |registry: &connectors::ToolRegistry| registry.get(name).unwrap().effect_class(&json!({}));
            assert_eq!(declared(&registry), declared(&unconnected), "{name}");
        }
    }
}

#[test]
fn debug_does_not_show_credentials() {
    let credential = || connectors::Credential::Bearer("hunter2".into());
    let tools = tools_on(ConnectionKind::ServiceNow, "https://acme.service-now.com", credential());
    assert!(!format!("{tools:?} {:?}", credential()).contains("hunter2"));
}

#[test]
fn tool_refuses_a_connection_of_another_kind() {
    let tools = tools_on(ConnectionKind::GitHub, "https://api.github.com", connectors::Credential::Anonymous);
    let uses = |name: &str| tools.get(&name.parse().unwrap()).unwrap().connection_use();
    assert_eq!(
        uses("servicenow.get"),
        ConnectionUse::Required(ConnectionKind::ServiceNow),
        "still without a connection"
    );
    assert_eq!(uses("github.get"), ConnectionUse::Unused);
}
