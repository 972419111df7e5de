//! Tools without their settings.

use connectors::{Allow, Settings, standard};
use serde_json::json;

use crate::engine::{run, step};
use crate::subject::{basic, github_tools, servicenow_tools};

#[test]
fn the_standard_box_holds_every_tool_whatever_is_configured() {
    let names: Vec<_> =
        standard(Allow::default(), Settings::default()).names().map(ToString::to_string).collect();
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
fn a_tool_without_its_setting_says_which_one_is_missing() {
    let toolbox = standard(Allow::default(), Settings::default());
    for name in toolbox.names().filter(|name| !matches!(name.as_str(), "http.request" | "transform")) {
        let (run, step) = (run("run-1"), step());
        let ask = connectors::Ask { run: &run, step: &step, undo: false, fields: json!({}), found: None };
        let failure = toolbox.get(name).unwrap().propose(ask).unwrap_err();
        let setting = name.as_str().split('.').next().unwrap();
        assert_eq!(failure.code, "NOT_CONFIGURED", "{name}");
        assert!(failure.message.contains(&format!("the setting `{setting}`")), "{}", failure.message);
    }
}

#[tokio::test]
async fn a_tool_declares_the_same_with_its_setting_and_without() {
    let absent = standard(Allow::default(), Settings::default());
    let servicenow = fakes::servicenow::ServiceNow::start().await.unwrap();
    let github = fakes::github::GitHub::start().await.unwrap();
    let slack = crate::slack::Slack::start().await;
    for toolbox in [
        servicenow_tools(&servicenow, basic()),
        github_tools(&github, "x"),
        slack.tools(),
        crate::model::tools(""),
    ] {
        for name in toolbox.names() {
            let declared = |toolbox: &connectors::Toolbox| toolbox.get(name).unwrap().declares(&json!({}));
            assert_eq!(declared(&toolbox), declared(&absent), "{name}");
        }
    }
}

#[test]
fn a_credential_is_never_shown() {
    let base = "https://acme.service-now.com".parse().unwrap();
    let credential = connectors::Credential::Bearer("hunter2".into());
    let servicenow = Some(connectors::servicenow::Settings { base, credential });
    let settings = Settings { servicenow, ..Settings::default() };
    assert!(!format!("{settings:?}").contains("hunter2"));
    assert!(!format!("{:?}", standard(Allow::default(), settings)).contains("hunter2"));
}
