//! The tools for ServiceNow, beyond the story that every tool is told.

use std::time::{Duration, Instant};

use connectors::{Ask, Credential, LookUp, Outcome, Survey, Tool, Toolbox};
use domain::{Action, Failure, Millis, Reversibility, ToolName};
use fakes::server::Fault;
use fakes::servicenow::{INCIDENT, PASSWORD, ServiceNow, TOKEN};
use serde_json::{Value, json};

use crate::engine::{attempt, attempt_within, failure, gist, look_up, propose, propose_in, run, step};
use crate::subject::{basic, servicenow_tools};

async fn world() -> (ServiceNow, Toolbox) {
    let world = ServiceNow::start().await.unwrap();
    let tools = servicenow_tools(&world, basic());
    (world, tools)
}

fn tool<'a>(tools: &'a Toolbox, name: &str) -> &'a dyn Tool {
    tools.get(&ToolName::new(name).unwrap()).unwrap().as_ref()
}

fn update(fields: &Value) -> Value {
    json!({ "table": "incident", "sys_id": INCIDENT, "fields": fields })
}

#[tokio::test]
async fn an_update_shows_what_stands_there_and_what_would() {
    let (world, tools) = world().await;
    let action = propose(tool(&tools, "servicenow.update"), &update(&json!({"state": "2", "priority": "1"})))
        .await
        .unwrap();
    let changes: Vec<_> = action.changes.iter().map(|change| json!(change)).collect();
    assert_eq!(
        changes,
        [json!({"field": "state", "before": "1", "after": "2"})],
        "the priority is 1 already"
    );
    assert_eq!(action.fields["expected_mod_count"], 0);
    let host = world.url().replace("http://", "");
    assert!(
        action.key.as_str().starts_with(&format!("sn:incident:update:{host}:{INCIDENT}:")),
        "{}",
        action.key
    );
    assert_eq!(action.target, format!("{host}/incident/{INCIDENT}"));
}

#[tokio::test]
async fn the_same_change_of_a_record_that_has_moved_on_is_another_action() {
    let (world, tools) = world().await;
    let tool = tool(&tools, "servicenow.update");
    let first = propose(tool, &update(&json!({"state": "2"}))).await.unwrap();
    world.change("incident", INCIDENT, "urgency", "1");
    let second = propose(tool, &update(&json!({"state": "2"}))).await.unwrap();
    assert_ne!((first.key.clone(), first.hash()), (second.key.clone(), second.hash()));
}

#[tokio::test]
async fn an_update_and_an_assignment_of_the_same_are_the_same_effect() {
    let (_world, tools) = world().await;
    let with = json!({ "table": "incident", "sys_id": INCIDENT, "assigned_to": "ada" });
    let assigned = propose(tool(&tools, "servicenow.assign"), &with).await.unwrap();
    let updated =
        propose(tool(&tools, "servicenow.update"), &update(&json!({"assigned_to": "ada"}))).await.unwrap();
    assert_eq!(assigned.key, updated.key);
}

#[tokio::test]
async fn a_record_that_somebody_changed_in_between_is_left_alone() {
    let (world, tools) = world().await;
    let tool = tool(&tools, "servicenow.update");
    let action = propose(tool, &update(&json!({"state": "2"}))).await.unwrap();
    world.change("incident", INCIDENT, "urgency", "1");
    let outcome = attempt(tool, &action, false).await;
    assert_eq!(gist(&outcome), "terminal");
    let (failure, _) = failure(&outcome);
    assert_eq!(failure.code, "CONFLICT");
    assert!(failure.message.starts_with("the record changed since it was proposed"), "{}", failure.message);
    assert_eq!(world.value("incident", INCIDENT, "state"), "1");
    assert_eq!(world.writes(INCIDENT), 1, "the stranger's");
    // After an open attempt nobody can tell whether ours had landed before.
    assert_eq!(gist(&attempt(tool, &action, true).await), "may have happened");
}

#[tokio::test]
async fn a_change_between_our_read_and_our_write_is_refused_by_the_precondition() {
    let (world, tools) = world().await;
    let action = propose(tool(&tools, "servicenow.update"), &update(&json!({"state": "2"}))).await.unwrap();
    world.faults().on_write(Fault::Slow(Duration::from_secs(1)));
    let tools_of_ours = tools.clone();
    let ours = action.clone();
    let writing =
        tokio::spawn(async move { attempt(tool(&tools_of_ours, "servicenow.update"), &ours, false).await });
    while world.requests() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    world.change("incident", INCIDENT, "state", "6");
    let outcome = writing.await.unwrap();
    assert_eq!((gist(&outcome), failure(&outcome).0.code.as_str()), ("terminal", "CONFLICT"));
    assert_eq!(world.value("incident", INCIDENT, "state"), "6");
}

#[tokio::test]
async fn a_stock_instance_still_gets_one_write_for_a_lost_reply() {
    let (world, tools) = world().await;
    world.be_stock();
    let tool = tool(&tools, "servicenow.update");
    let action = propose(tool, &update(&json!({"state": "2"}))).await.unwrap();
    world.faults().on_write(Fault::ReplyLost);
    assert_eq!(gist(&attempt(tool, &action, false).await), "may have happened");
    assert_eq!(gist(&attempt(tool, &action, true).await), "done");
    assert_eq!(world.writes(INCIDENT), 1);
}

#[tokio::test]
async fn what_is_so_already_is_done_without_a_write_and_has_nothing_to_undo() {
    let (world, tools) = world().await;
    let tool = tool(&tools, "servicenow.update");
    let action = propose(tool, &update(&json!({"state": 1}))).await.unwrap();
    assert_eq!((action.changes.len(), &action.reversibility), (0, &Reversibility::NoEffect));
    let Outcome::Done(done) = attempt(tool, &action, false).await else { panic!("not done") };
    assert_eq!((done.response, done.inverse), (json!({"how": "it was so already", "changed": 0}), None));
    assert_eq!(world.writes(INCIDENT), 0);
}

#[tokio::test]
async fn what_the_instance_passes_over_in_silence_is_not_called_done() {
    let (world, tools) = world().await;
    world.protect("state");
    let tool = tool(&tools, "servicenow.update");
    let action = propose(tool, &update(&json!({"state": "2"}))).await.unwrap();
    let outcome = attempt(tool, &action, false).await;
    assert_eq!((gist(&outcome), failure(&outcome).0.code.as_str()), ("terminal", "NOT_TAKEN"));
    let action = propose(tool, &update(&json!({"state": "2", "urgency": "1"}))).await.unwrap();
    let Outcome::Done(done) = attempt(tool, &action, false).await else { panic!("not done") };
    assert_eq!(done.response["not_as_wanted"], json!(["state"]));
    assert_eq!(done.output["fields"], json!({"state": "1", "urgency": "1"}));
}

#[tokio::test]
async fn a_base_url_may_lead_inside_and_never_to_metadata() {
    for base in ["http://169.254.169.254", "http://[fd00:ec2::254]/latest", "http://2852039166/"] {
        let settings = connectors::servicenow::Settings { base: base.parse().unwrap(), credential: basic() };
        let settings = connectors::Settings { servicenow: Some(settings), ..Default::default() };
        let tools = connectors::standard(connectors::Allow::default(), settings);
        let refused = propose(tool(&tools, "servicenow.update"), &update(&json!({"state": "2"}))).await;
        assert_eq!(refused.unwrap_err().code, "HTTP_REFUSED", "{base}");
    }
}

#[tokio::test]
async fn a_redirect_takes_our_credential_nowhere() {
    let (world, tools) = world().await;
    world.faults().on_read(Fault::Status(307));
    let failure =
        propose(tool(&tools, "servicenow.update"), &update(&json!({"state": "2"}))).await.unwrap_err();
    assert!(failure.message.ends_with("redirects are not followed"), "{}", failure.message);
    assert_eq!(world.requests(), 0);
}

#[tokio::test]
async fn an_update_that_nobody_surveyed_can_be_explained_and_never_made() {
    let (world, tools) = world().await;
    let tool = tool(&tools, "servicenow.update");
    let (run, step) = (run("run-1"), step());
    let fields = update(&json!({"state": "2"}));
    let action = tool.propose(Ask { run: &run, step: &step, undo: false, fields, found: None }).unwrap();
    assert_eq!(action.changes[0].before, None);
    assert_eq!(gist(&attempt(tool, &action, false).await), "terminal");
    assert_eq!(world.requests(), 0);
}

#[tokio::test]
async fn a_field_that_the_record_does_not_have_is_found_before_anybody_approves() {
    let (_world, tools) = world().await;
    let failure =
        propose(tool(&tools, "servicenow.update"), &update(&json!({"stat": "2"}))).await.unwrap_err();
    assert_eq!(
        (failure.code.as_str(), failure.message.as_str()),
        ("NO_SUCH_FIELD", "the record has no field `stat`")
    );
}

async fn refused(name: &str, with: Value) -> Failure {
    let (world, tools) = world().await;
    let failure = propose(tool(&tools, name), &with).await.unwrap_err();
    assert_eq!(world.requests(), 0, "{with}: nothing is asked about what makes no sense");
    failure
}

#[tokio::test]
async fn what_cannot_be_part_of_a_path_or_a_key_is_refused() {
    for (table, sys_id) in [
        ("incident/../sys_user", INCIDENT),
        ("Incident", INCIDENT),
        ("", INCIDENT),
        ("incident#x", INCIDENT),
        ("incident", "INC0010001"),
        ("incident", "9D385017C611228701D22104CC95C371"),
        ("incident", "../../../oauth_token.do00000000000"),
    ] {
        let with = json!({ "table": table, "sys_id": sys_id, "fields": { "state": "2" } });
        assert_eq!(refused("servicenow.update", with).await.code, "TOOL_FIELDS", "{table}/{sys_id}");
    }
    let long = "x".repeat(16 * 1024 + 1);
    for fields in [
        json!({}),
        json!(["state"]),
        json!({"State": "2"}),
        json!({"sys_mod_count": "0"}),
        json!({"work_notes": "x"}),
        json!({"state": null}),
        json!({"state": {"value": "2"}}),
        json!({"description": long}),
    ] {
        assert_eq!(refused("servicenow.update", update(&fields)).await.code, "TOOL_FIELDS");
    }
    let nobody = json!({ "table": "incident", "sys_id": INCIDENT });
    assert_eq!(refused("servicenow.assign", nobody).await.code, "TOOL_FIELDS");
}

#[tokio::test]
async fn a_record_is_read_with_its_references_as_plain_values() {
    let (world, tools) = world().await;
    world.change("incident", INCIDENT, "assigned_to", "ada");
    let tool = tool(&tools, "servicenow.get");
    let with = json!({ "table": "incident", "sys_id": INCIDENT, "fields": ["number", "assigned_to"] });
    let action = propose(tool, &with).await.unwrap();
    let Outcome::Done(done) = attempt(tool, &action, false).await else { panic!("not done") };
    assert_eq!(done.output, json!({"number": "INC0010001", "assigned_to": "ada"}));
    let all = json!({ "table": "incident", "sys_id": INCIDENT });
    let Outcome::Done(done) = attempt(tool, &propose(tool, &all).await.unwrap(), false).await else {
        panic!("not done")
    };
    assert_eq!(done.output["priority"], "1");
}

#[tokio::test]
async fn a_bearer_token_is_as_good_as_a_password_and_a_wrong_one_is_final() {
    let world = ServiceNow::start().await.unwrap();
    let with = json!({ "table": "incident", "sys_id": INCIDENT });
    let get = |tools: &Toolbox| {
        let (tools, with) = (tools.clone(), with.clone());
        async move {
            let tool = tool(&tools, "servicenow.get");
            attempt(tool, &propose(tool, &with).await.unwrap(), false).await
        }
    };
    let known = servicenow_tools(&world, Credential::Bearer(TOKEN.into()));
    assert_eq!(gist(&get(&known).await), "done");
    let wrong = Credential::Basic { user: "x".to_owned(), password: "hunter2".into() };
    let unknown = get(&servicenow_tools(&world, wrong)).await;
    assert_eq!((gist(&unknown), failure(&unknown).0.code.as_str()), ("terminal", "NOT_AUTHORISED"));
    assert!(!format!("{unknown:?}").contains("hunter2"));
}

#[tokio::test]
async fn a_record_that_is_not_there_is_final() {
    let (_world, tools) = world().await;
    let with = json!({ "table": "incident", "sys_id": "0".repeat(32), "fields": {"state": "2"}, });
    assert_eq!(propose(tool(&tools, "servicenow.update"), &with).await.unwrap_err().code, "NOT_FOUND");
    let with = json!({ "table": "incident", "sys_id": "0".repeat(32), "text": "x" });
    assert_eq!(propose(tool(&tools, "servicenow.work_note"), &with).await.unwrap_err().code, "NOT_FOUND");
}

#[tokio::test]
async fn a_survey_that_is_turned_away_says_when_to_come_back() {
    let (world, tools) = world().await;
    world.faults().on_read(Fault::TurnedAway { retry_after: "30".to_owned() });
    let (run, step, fields) = (run("run-1"), step(), update(&json!({"state": "2"})));
    let ask = Ask { run: &run, step: &step, undo: false, fields, found: None };
    match tool(&tools, "servicenow.update").survey(&ask).await {
        Survey::Later { retry_after, .. } => assert_eq!(retry_after, Some(Millis::secs(30))),
        other => panic!("{other:?}"),
    }
}

fn note(text: &str) -> Value {
    json!({ "table": "incident", "sys_id": INCIDENT, "text": text })
}

#[tokio::test]
async fn a_note_is_written_as_it_was_shown_with_a_mark_at_its_end() {
    let (world, tools) = world().await;
    let tool = tool(&tools, "servicenow.work_note");
    let action = propose(tool, &note("Restarted.")).await.unwrap();
    assert_eq!(gist(&attempt(tool, &action, false).await), "done");
    let [written] = world.work_notes(INCIDENT).try_into().unwrap();
    assert_eq!(action.changes[0].after, written.as_str());
    assert!(written.starts_with("Restarted.\n\n[countersign:") && written.ends_with(']'), "{written}");
    assert!(action.key.as_str().starts_with("sn:incident:note:"), "{}", action.key);
}

#[tokio::test]
async fn two_runs_may_note_the_same() {
    let (world, tools) = world().await;
    let tool = tool(&tools, "servicenow.work_note");
    let first = propose(tool, &note("Restarted.")).await.unwrap();
    let second = propose_in(&run("run-2"), tool, &note("Restarted."), false).await.unwrap();
    for action in [&first, &second, &first] {
        assert_eq!(gist(&attempt(tool, action, true).await), "done");
    }
    assert_eq!(world.work_notes(INCIDENT).len(), 2);
}

async fn noted() -> (ServiceNow, Toolbox, Action) {
    let (world, tools) = world().await;
    let action = propose(tool(&tools, "servicenow.work_note"), &note("Restarted.")).await.unwrap();
    (world, tools, action)
}

#[tokio::test]
async fn a_note_that_is_not_found_may_still_arrive() {
    let (_world, tools, action) = noted().await;
    let tool = tool(&tools, "servicenow.work_note");
    assert!(matches!(look_up(tool, &action).await, LookUp::Unclear(_)));
    attempt(tool, &action, false).await;
    assert!(matches!(look_up(tool, &action).await, LookUp::Found(_)));
}

#[tokio::test]
async fn before_a_note_is_repeated_somebody_must_be_able_to_look() {
    let (world, tools, action) = noted().await;
    world.faults().on_read(Fault::Status(500));
    let outcome = attempt(tool(&tools, "servicenow.work_note"), &action, true).await;
    assert_eq!(gist(&outcome), "may have happened");
    assert!(world.work_notes(INCIDENT).is_empty());
}

#[tokio::test]
async fn a_slow_instance_is_left_when_the_lease_ends() {
    let (world, tools, action) = noted().await;
    world.faults().on_write(Fault::Slow(Duration::from_secs(30)));
    let began = Instant::now();
    let outcome =
        attempt_within(tool(&tools, "servicenow.work_note"), &action, false, Duration::from_secs(1)).await;
    assert_eq!(gist(&outcome), "may have happened");
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn nothing_that_is_kept_holds_the_password() {
    let (world, tools, action) = noted().await;
    let outcome = attempt(tool(&tools, "servicenow.work_note"), &action, false).await;
    let kept = format!("{action:?}{outcome:?}{:?}", world.record("incident", INCIDENT));
    assert!(!kept.contains(PASSWORD) && !kept.contains("Basic "), "{kept}");
}
