//! Tests specific to the ServiceNow tools.

use std::time::{Duration, Instant};

use connectors::{Credential, LookUpResult, Observed, ProposalRequest, Tool, ToolOutcome, ToolRegistry};
use domain::{Action, ConnectionKind, Failure, Millis, Reversibility, ToolName};
use fakes::server::FakeFault;
use fakes::servicenow::{INCIDENT, PASSWORD, ServiceNow, TOKEN};
use serde_json::{Value, json};

use crate::driver::{attempt, attempt_within, classify, failure, look_up, propose, propose_in, run, step};
use crate::subject::{basic, servicenow_tools, tools_on};

async fn instance() -> (ServiceNow, ToolRegistry) {
    let instance = ServiceNow::start().await.unwrap();
    let tools = servicenow_tools(&instance, basic());
    (instance, tools)
}

fn tool<'a>(tools: &'a ToolRegistry, name: &str) -> &'a dyn Tool {
    tools.get(&ToolName::new(name).unwrap()).unwrap().as_ref()
}

fn update(fields: &Value) -> Value {
    json!({ "table": "incident", "sys_id": INCIDENT, "fields": fields })
}

#[tokio::test]
async fn update_shows_old_and_new_values() {
    let (instance, tools) = instance().await;
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
    let host = instance.url().replace("http://", "");
    assert!(
        action.key.as_str().starts_with(&format!("sn:incident:update:{host}:{INCIDENT}:")),
        "{}",
        action.key
    );
    assert_eq!(action.target, format!("{host}/incident/{INCIDENT}"));
}

#[tokio::test]
async fn changed_record_gives_another_key() {
    let (instance, tools) = instance().await;
    let tool = tool(&tools, "servicenow.update");
    let first = propose(tool, &update(&json!({"state": "2"}))).await.unwrap();
    instance.change("incident", INCIDENT, "urgency", "1");
    let second = propose(tool, &update(&json!({"state": "2"}))).await.unwrap();
    assert_ne!((first.key.clone(), first.hash()), (second.key.clone(), second.hash()));
}

#[tokio::test]
async fn assign_and_update_share_the_key() {
    let (_instance, tools) = instance().await;
    let with = json!({ "table": "incident", "sys_id": INCIDENT, "assigned_to": "ada" });
    let assigned = propose(tool(&tools, "servicenow.assign"), &with).await.unwrap();
    let updated =
        propose(tool(&tools, "servicenow.update"), &update(&json!({"assigned_to": "ada"}))).await.unwrap();
    assert_eq!(assigned.key, updated.key);
}

#[tokio::test]
async fn changed_record_is_not_overwritten() {
    let (instance, tools) = instance().await;
    let tool = tool(&tools, "servicenow.update");
    let action = propose(tool, &update(&json!({"state": "2"}))).await.unwrap();
    instance.change("incident", INCIDENT, "urgency", "1");
    let outcome = attempt(tool, &action, false).await;
    assert_eq!(classify(&outcome), "terminal");
    let (failure, _) = failure(&outcome);
    assert_eq!(failure.code, "CONFLICT");
    assert!(failure.message.contains("changed since it was proposed"), "{}", failure.message);
    assert_eq!(instance.value("incident", INCIDENT, "state"), "1");
    assert_eq!(instance.writes(INCIDENT), 1, "only the other user's change");
    // After an open attempt the tool cannot tell whether its earlier write arrived.
    assert_eq!(classify(&attempt(tool, &action, true).await), "may have happened");
}

#[tokio::test]
async fn change_between_read_and_write_is_a_conflict() {
    let (instance, tools) = instance().await;
    let action = propose(tool(&tools, "servicenow.update"), &update(&json!({"state": "2"}))).await.unwrap();
    instance.faults().on_write(FakeFault::Slow(Duration::from_secs(1)));
    let (tools, action) = (tools.clone(), action.clone());
    let writing =
        tokio::spawn(async move { attempt(tool(&tools, "servicenow.update"), &action, false).await });
    while instance.requests() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    instance.change("incident", INCIDENT, "state", "6");
    let outcome = writing.await.unwrap();
    assert_eq!((classify(&outcome), failure(&outcome).0.code.as_str()), ("terminal", "CONFLICT"));
    assert_eq!(instance.value("incident", INCIDENT, "state"), "6");
}

#[tokio::test]
async fn stock_instance_gets_one_write_after_lost_reply() {
    let (instance, tools) = instance().await;
    instance.ignore_preconditions();
    let tool = tool(&tools, "servicenow.update");
    let action = propose(tool, &update(&json!({"state": "2"}))).await.unwrap();
    instance.faults().on_write(FakeFault::LostReply);
    assert_eq!(classify(&attempt(tool, &action, false).await), "may have happened");
    assert_eq!(classify(&attempt(tool, &action, true).await), "done");
    assert_eq!(instance.writes(INCIDENT), 1);
}

#[tokio::test]
async fn unchanged_values_are_not_written() {
    let (instance, tools) = instance().await;
    let tool = tool(&tools, "servicenow.update");
    let action = propose(tool, &update(&json!({"state": 1}))).await.unwrap();
    assert_eq!((action.changes.len(), &action.reversibility), (0, &Reversibility::NoEffect));
    let ToolOutcome::Done(done) = attempt(tool, &action, false).await else { panic!("not done") };
    assert_eq!((done.response, done.inverse), (json!({"how": "no change was needed", "changed": 0}), None));
    assert_eq!(instance.writes(INCIDENT), 0);
}

#[tokio::test]
async fn silently_ignored_fields_are_reported() {
    let (instance, tools) = instance().await;
    instance.protect("state");
    let tool = tool(&tools, "servicenow.update");
    let action = propose(tool, &update(&json!({"state": "2"}))).await.unwrap();
    let outcome = attempt(tool, &action, false).await;
    assert_eq!((classify(&outcome), failure(&outcome).0.code.as_str()), ("terminal", "UPDATE_IGNORED"));
    let action = propose(tool, &update(&json!({"state": "2", "urgency": "1"}))).await.unwrap();
    let ToolOutcome::Done(done) = attempt(tool, &action, false).await else { panic!("not done") };
    assert_eq!(done.response["unexpected_fields"], json!(["state"]));
    assert_eq!(done.output["fields"], json!({"state": "1", "urgency": "1"}));
}

#[tokio::test]
async fn base_url_cannot_be_a_metadata_address() {
    for base in ["http://169.254.169.254", "http://[fd00:ec2::254]/latest", "http://2852039166/"] {
        let tools = tools_on(ConnectionKind::ServiceNow, base, basic());
        let refused = propose(tool(&tools, "servicenow.update"), &update(&json!({"state": "2"}))).await;
        assert_eq!(refused.unwrap_err().code, "HTTP_BLOCKED", "{base}");
    }
}

#[tokio::test]
async fn redirect_is_not_followed() {
    let (instance, tools) = instance().await;
    instance.faults().on_read(FakeFault::Status(307));
    let failure =
        propose(tool(&tools, "servicenow.update"), &update(&json!({"state": "2"}))).await.unwrap_err();
    assert!(failure.message.ends_with("redirects are not followed"), "{}", failure.message);
    assert_eq!(instance.requests(), 0);
}

#[tokio::test]
async fn unobserved_update_is_never_performed() {
    let (instance, tools) = instance().await;
    let tool = tool(&tools, "servicenow.update");
    let (run, step) = (run("run-1"), step());
    let fields = update(&json!({"state": "2"}));
    let action = tool
        .propose(ProposalRequest {
            run: &run,
            step: &step,
            reverts: false,
            has_rollback: false,
            fields,
            observed: None,
        })
        .unwrap();
    assert_eq!(action.changes[0].before, None);
    assert_eq!(classify(&attempt(tool, &action, false).await), "terminal");
    assert_eq!(instance.requests(), 0);
}

#[tokio::test]
async fn unknown_column_fails_before_approval() {
    let (_instance, tools) = instance().await;
    let failure =
        propose(tool(&tools, "servicenow.update"), &update(&json!({"stat": "2"}))).await.unwrap_err();
    assert_eq!(
        (failure.code.as_str(), failure.message.as_str()),
        ("NO_SUCH_FIELD", "the record has no field `stat`")
    );
}

async fn refused(name: &str, with: Value) -> Failure {
    let (instance, tools) = instance().await;
    let failure = propose(tool(&tools, name), &with).await.unwrap_err();
    assert_eq!(instance.requests(), 0, "{with}: invalid fields must not cause a request");
    failure
}

#[tokio::test]
async fn invalid_fields_are_rejected() {
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
    let unassigned = json!({ "table": "incident", "sys_id": INCIDENT });
    assert_eq!(refused("servicenow.assign", unassigned).await.code, "TOOL_FIELDS");
}

#[tokio::test]
async fn references_are_read_as_plain_values() {
    let (instance, tools) = instance().await;
    instance.change("incident", INCIDENT, "assigned_to", "ada");
    let tool = tool(&tools, "servicenow.get");
    let with = json!({ "table": "incident", "sys_id": INCIDENT, "fields": ["number", "assigned_to"] });
    let action = propose(tool, &with).await.unwrap();
    let ToolOutcome::Done(done) = attempt(tool, &action, false).await else { panic!("not done") };
    assert_eq!(done.output, json!({"number": "INC0010001", "assigned_to": "ada"}));
    let all = json!({ "table": "incident", "sys_id": INCIDENT });
    let ToolOutcome::Done(done) = attempt(tool, &propose(tool, &all).await.unwrap(), false).await else {
        panic!("not done")
    };
    assert_eq!(done.output["priority"], "1");
}

#[tokio::test]
async fn token_works_and_wrong_credential_is_terminal() {
    let instance = ServiceNow::start().await.unwrap();
    let with = json!({ "table": "incident", "sys_id": INCIDENT });
    let get = |tools: &ToolRegistry| {
        let (tools, with) = (tools.clone(), with.clone());
        async move {
            let tool = tool(&tools, "servicenow.get");
            attempt(tool, &propose(tool, &with).await.unwrap(), false).await
        }
    };
    let known = servicenow_tools(&instance, Credential::Bearer(TOKEN.into()));
    assert_eq!(classify(&get(&known).await), "done");
    let wrong = Credential::Basic { user: "x".to_owned(), password: "hunter2".into() };
    let unknown = get(&servicenow_tools(&instance, wrong)).await;
    assert_eq!((classify(&unknown), failure(&unknown).0.code.as_str()), ("terminal", "NOT_AUTHORIZED"));
    assert!(!format!("{unknown:?}").contains("hunter2"));
}

#[tokio::test]
async fn recorded_inverse_does_not_overwrite_a_later_change() {
    let (instance, tools) = instance().await;
    let tool = tool(&tools, "servicenow.update");
    let action = propose(tool, &update(&json!({ "state": "2", "urgency": "1" }))).await.unwrap();
    let ToolOutcome::Done(done) = attempt(tool, &action, false).await else { panic!("not done") };
    let inverse = done.inverse.unwrap()["with"].clone();

    let other = propose(tool, &update(&json!({ "state": "6" }))).await.unwrap();
    assert_eq!(classify(&attempt(tool, &other, false).await), "done");
    let refused = propose(tool, &inverse).await.unwrap_err();
    assert_eq!(refused.code, "CONFLICT");
    assert!(refused.message.contains("state") && !refused.message.contains("urgency"), "{}", refused.message);
    assert_eq!(instance.value("incident", INCIDENT, "state"), "6");

    // A change to other fields does not matter, nor does a value that was restored already.
    let back = propose(tool, &update(&json!({ "state": "2", "short_description": "other" }))).await.unwrap();
    assert_eq!(classify(&attempt(tool, &back, false).await), "done");
    let restores = propose(tool, &inverse).await.unwrap();
    assert_eq!(classify(&attempt(tool, &restores, false).await), "done");
    assert!(propose(tool, &inverse).await.unwrap().changes.is_empty());
}

#[tokio::test]
async fn missing_record_is_terminal() {
    let (_instance, tools) = instance().await;
    let with = json!({ "table": "incident", "sys_id": "0".repeat(32), "fields": {"state": "2"}, });
    assert_eq!(propose(tool(&tools, "servicenow.update"), &with).await.unwrap_err().code, "NOT_FOUND");
    let with = json!({ "table": "incident", "sys_id": "0".repeat(32), "text": "x" });
    assert_eq!(propose(tool(&tools, "servicenow.work_note"), &with).await.unwrap_err().code, "NOT_FOUND");
}

#[tokio::test]
async fn rate_limited_observe_returns_retry_after() {
    let (instance, tools) = instance().await;
    instance.faults().on_read(FakeFault::RateLimited { retry_after: "30".to_owned() });
    let (run, step, fields) = (run("run-1"), step(), update(&json!({"state": "2"})));
    let request = ProposalRequest {
        run: &run,
        step: &step,
        reverts: false,
        has_rollback: false,
        fields,
        observed: None,
    };
    match tool(&tools, "servicenow.update").observe(&request).await {
        Observed::Retryable { retry_after, .. } => assert_eq!(retry_after, Some(Millis::secs(30))),
        other => panic!("{other:?}"),
    }
}

fn note(text: &str) -> Value {
    json!({ "table": "incident", "sys_id": INCIDENT, "text": text })
}

#[tokio::test]
async fn note_is_written_as_shown_with_a_mark() {
    let (instance, tools) = instance().await;
    let tool = tool(&tools, "servicenow.work_note");
    let action = propose(tool, &note("Restarted.")).await.unwrap();
    assert_eq!(classify(&attempt(tool, &action, false).await), "done");
    let [written] = instance.work_notes(INCIDENT).try_into().unwrap();
    assert_eq!(action.changes[0].after, written.as_str());
    assert!(written.starts_with("Restarted.\n\n[countersign:") && written.ends_with(']'), "{written}");
    assert!(action.key.as_str().starts_with("sn:incident:note:"), "{}", action.key);
}

#[tokio::test]
async fn two_runs_may_write_the_same_note() {
    let (instance, tools) = instance().await;
    let tool = tool(&tools, "servicenow.work_note");
    let first = propose(tool, &note("Restarted.")).await.unwrap();
    let second = propose_in(&run("run-2"), tool, &note("Restarted."), false).await.unwrap();
    for action in [&first, &second, &first] {
        assert_eq!(classify(&attempt(tool, action, true).await), "done");
    }
    assert_eq!(instance.work_notes(INCIDENT).len(), 2);
}

async fn noted() -> (ServiceNow, ToolRegistry, Action) {
    let (instance, tools) = instance().await;
    let action = propose(tool(&tools, "servicenow.work_note"), &note("Restarted.")).await.unwrap();
    (instance, tools, action)
}

#[tokio::test]
async fn missing_note_may_still_arrive() {
    let (_instance, tools, action) = noted().await;
    let tool = tool(&tools, "servicenow.work_note");
    assert!(matches!(look_up(tool, &action).await, LookUpResult::Unclear(_)));
    attempt(tool, &action, false).await;
    assert!(matches!(look_up(tool, &action).await, LookUpResult::Found(_)));
}

#[tokio::test]
async fn note_is_not_repeated_without_a_search() {
    let (instance, tools, action) = noted().await;
    instance.faults().on_read(FakeFault::Status(500));
    let outcome = attempt(tool(&tools, "servicenow.work_note"), &action, true).await;
    assert_eq!(classify(&outcome), "may have happened");
    assert!(instance.work_notes(INCIDENT).is_empty());
}

#[tokio::test]
async fn slow_instance_is_abandoned_at_lease_end() {
    let (instance, tools, action) = noted().await;
    instance.faults().on_write(FakeFault::Slow(Duration::from_secs(30)));
    let started = Instant::now();
    let outcome =
        attempt_within(tool(&tools, "servicenow.work_note"), &action, false, Duration::from_secs(1)).await;
    assert_eq!(classify(&outcome), "may have happened");
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn stored_data_does_not_contain_the_password() {
    let (instance, tools, action) = noted().await;
    let outcome = attempt(tool(&tools, "servicenow.work_note"), &action, false).await;
    let stored = format!("{action:?}{outcome:?}{:?}", instance.record("incident", INCIDENT));
    assert!(!stored.contains(PASSWORD) && !stored.contains("Basic "), "{stored}");
}
