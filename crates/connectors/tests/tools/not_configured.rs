//! Tools without their settings.

use connectors::{ConnectorSettings, HostAllowList, standard_tools};
use serde_json::json;

use crate::driver::{run, step};
use crate::subject::{basic, github_tools, servicenow_tools};

#[test]
fn every_tool_is_registered_without_settings() {
    let names: Vec<_> = standard_tools(HostAllowList::default(), ConnectorSettings::default())
        .names()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        names,
        [
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
fn error_names_the_missing_setting() {
    let registry = standard_tools(HostAllowList::default(), ConnectorSettings::default());
    for name in registry.names().filter(|name| !matches!(name.as_str(), "http.request" | "transform")) {
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
        let setting = name.as_str().split('.').next().unwrap();
        assert_eq!(failure.code, "NOT_CONFIGURED", "{name}");
        assert!(failure.message.contains(&format!("the setting `{setting}`")), "{}", failure.message);
    }
}

#[tokio::test]
async fn class_does_not_depend_on_settings() {
    let not_configured = standard_tools(HostAllowList::default(), ConnectorSettings::default());
    let servicenow = fakes::servicenow::ServiceNow::start().await.unwrap();
    let github = fakes::github::GitHub::start().await.unwrap();
    let slack = crate::slack::Slack::start().await;
    for registry in [
        servicenow_tools(&servicenow, basic()),
        github_tools(&github, "x"),
        slack.tools(),
        crate::model::tools(""),
    ] {
        for name in registry.names() {
            let declared =
                |registry: &connectors::ToolRegistry| registry.get(name).unwrap().effect_class(&json!({}));
            assert_eq!(declared(&registry), declared(&not_configured), "{name}");
        }
    }
}

#[test]
fn debug_does_not_show_credentials() {
    let base = "https://acme.service-now.com".parse().unwrap();
    let credential = connectors::Credential::Bearer("hunter2".into());
    let servicenow = Some(connectors::servicenow::ServiceNowSettings { base, credential });
    let settings = ConnectorSettings { servicenow, ..ConnectorSettings::default() };
    assert!(!format!("{settings:?}").contains("hunter2"));
    assert!(!format!("{:?}", standard_tools(HostAllowList::default(), settings)).contains("hunter2"));
}
