//! Tests specific to the GitHub tools.

use connectors::{LookUpResult, ProposalRequest, Tool, ToolOutcome, ToolRegistry};
use domain::{EffectClass, Reversibility, ToolName};
use fakes::github::{Comment, GitHub, ISSUE, REPO, TOKEN};
use fakes::server::FakeFault;
use serde_json::{Value, json};

use crate::driver::{attempt, classify, failure, look_up, propose, propose_in, run, step};
use crate::subject::github_tools;

async fn github() -> (GitHub, ToolRegistry) {
    let github = GitHub::start().await.unwrap();
    let tools = github_tools(&github, TOKEN);
    (github, tools)
}

fn tool<'a>(tools: &'a ToolRegistry, name: &str) -> &'a dyn Tool {
    tools.get(&ToolName::new(name).unwrap()).unwrap().as_ref()
}

fn labels(labels: &Value) -> Value {
    json!({ "repo": REPO, "number": ISSUE, "labels": labels })
}

fn comment(text: &str) -> Value {
    json!({ "repo": REPO, "number": ISSUE, "text": text })
}

#[tokio::test]
async fn get_returns_the_documented_fields() {
    let (_github, tools) = github().await;
    let tool = tool(&tools, "github.get");
    let action = propose(tool, &json!({ "repo": REPO, "number": ISSUE })).await.unwrap();
    let ToolOutcome::Done(done) = attempt(tool, &action, false).await else { panic!("not done") };
    assert_eq!(done.output["title"], "Checkout fails");
    assert_eq!(done.output["labels"], json!(["bug"]));
    assert_eq!(done.output["is_pull_request"], false);
}

#[tokio::test]
async fn undo_removes_only_added_labels() {
    let (github, tools) = github().await;
    let action = propose(tool(&tools, "github.label"), &labels(&json!(["bug", "p1"]))).await.unwrap();
    assert_eq!(action.changes.len(), 1);
    assert_eq!(action.changes[0].field, "labels.p1");
    let ToolOutcome::Done(done) = attempt(tool(&tools, "github.label"), &action, false).await else {
        panic!("not done")
    };
    let inverse = done.inverse.unwrap();
    assert_eq!(inverse, json!({ "tool": "github.unlabel", "with": labels(&json!(["p1"])) }));
    github.change(ISSUE, |issue| issue.labels.extend(["added by another user".to_owned()]));
    let undo =
        propose_in(&run("run-1"), tool(&tools, "github.unlabel"), &inverse["with"], true).await.unwrap();
    attempt(tool(&tools, "github.unlabel"), &undo, false).await;
    let left: Vec<_> = github.issue(ISSUE).unwrap().labels.into_iter().collect();
    assert_eq!(left, ["added by another user", "bug"]);
}

#[tokio::test]
async fn present_labels_change_nothing() {
    let (github, tools) = github().await;
    let tool = tool(&tools, "github.label");
    let action = propose(tool, &labels(&json!(["BUG"]))).await.unwrap();
    assert_eq!(action.reversibility, Reversibility::NoEffect, "upper and lower case are the same");
    let ToolOutcome::Done(done) = attempt(tool, &action, false).await else { panic!("not done") };
    assert_eq!((done.inverse, github.writes()), (None, 0));
}

#[tokio::test]
async fn partial_removal_may_have_happened() {
    let (github, tools) = github().await;
    github.change(ISSUE, |issue| issue.labels.extend(["p1".to_owned()]));
    let tool = tool(&tools, "github.unlabel");
    let action = propose(tool, &labels(&json!(["bug", "p1"]))).await.unwrap();
    github.faults().on_write(FakeFault::Slow(std::time::Duration::ZERO));
    github.faults().on_write(FakeFault::Status(403));
    assert_eq!(classify(&attempt(tool, &action, false).await), "may have happened");
    assert_eq!(classify(&attempt(tool, &action, true).await), "done");
    assert!(github.issue(ISSUE).unwrap().labels.is_empty());
}

#[tokio::test]
async fn comment_has_hidden_mark_and_inverse() {
    let (github, tools) = github().await;
    let tool = tool(&tools, "github.comment");
    let action = propose(tool, &comment("Fixed.")).await.unwrap();
    assert_eq!(action.class, EffectClass::Opaque);
    let ToolOutcome::Done(done) = attempt(tool, &action, false).await else { panic!("not done") };
    let posted = github.issue(ISSUE).unwrap().comments[0].clone();
    assert!(
        posted.body.starts_with("Fixed.\n\n<!-- countersign:") && posted.body.ends_with(" -->"),
        "{}",
        posted.body
    );
    let with = json!({ "repo": REPO, "comment_id": posted.id });
    assert_eq!(done.inverse, Some(json!({ "tool": "github.delete_comment", "with": with })));
}

#[tokio::test]
async fn copied_mark_is_not_taken_for_the_comment() {
    let (github, tools) = github().await;
    let tool = tool(&tools, "github.comment");
    let action = propose(tool, &comment("Fixed.")).await.unwrap();
    let mark = action.fields["text"].as_str().unwrap().lines().last().unwrap().to_owned();
    let copies = |from: u64, to: u64| {
        let mark = mark.clone();
        (from..to).map(move |id| Comment { id, body: format!("Not fixed. {mark}") })
    };
    github.change(ISSUE, |issue| issue.comments.extend(copies(1, 40)));
    assert!(matches!(look_up(tool, &action).await, LookUpResult::Unclear(_)));
    attempt(tool, &action, false).await;
    github.change(ISSUE, |issue| issue.comments.extend(copies(41, 80)));
    assert!(matches!(look_up(tool, &action).await, LookUpResult::Found(_)));
    attempt(tool, &action, true).await;
    assert_eq!(github.writes(), 1);
}

#[tokio::test]
async fn two_runs_may_post_the_same_comment() {
    let (github, tools) = github().await;
    let tool = tool(&tools, "github.comment");
    for run_id in ["run-1", "run-2"] {
        let action = propose_in(&run(run_id), tool, &comment("Fixed."), false).await.unwrap();
        attempt(tool, &action, true).await;
        attempt(tool, &action, true).await;
    }
    assert_eq!(github.writes(), 2);
}

#[tokio::test]
async fn delete_shows_the_comment() {
    let (github, tools) = github().await;
    github.change(ISSUE, |issue| issue.comments.push(Comment { id: 5, body: "Precious.".to_owned() }));
    let action = propose(tool(&tools, "github.delete_comment"), &json!({ "repo": REPO, "comment_id": 5 }))
        .await
        .unwrap();
    assert!(action.destructive);
    assert_eq!(action.changes[0].before, Some(json!("Precious.")));
    assert!(matches!(action.reversibility, Reversibility::Irreversible(_)));
}

#[tokio::test]
async fn edited_comment_is_not_deleted() {
    let (github, tools) = github().await;
    github.change(ISSUE, |issue| issue.comments.push(Comment { id: 5, body: "Spam.".to_owned() }));
    let tool = tool(&tools, "github.delete_comment");
    let action = propose(tool, &json!({ "repo": REPO, "comment_id": 5 })).await.unwrap();
    github.change(ISSUE, |issue| issue.comments[0].body = "Precious.".to_owned());
    let outcome = attempt(tool, &action, false).await;
    assert_eq!((classify(&outcome), failure(&outcome).0.code.as_str()), ("terminal", "CONFLICT"));
    assert_eq!(github.writes(), 0);
}

#[tokio::test]
async fn unobserved_action_is_never_performed() {
    let (github, tools) = github().await;
    github.change(ISSUE, |issue| issue.comments.push(Comment { id: 5, body: "Spam.".to_owned() }));
    for (name, fields) in [
        ("github.label", labels(&json!(["p1"]))),
        ("github.unlabel", labels(&json!(["bug"]))),
        ("github.delete_comment", json!({ "repo": REPO, "comment_id": 5 })),
    ] {
        let (run, step, tool) = (run("run-1"), step(), tool(&tools, name));
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
        let outcome = attempt(tool, &action, false).await;
        assert_eq!(
            (classify(&outcome), failure(&outcome).0.code.as_str()),
            ("terminal", "TOOL_CONTRACT"),
            "{name}"
        );
    }
    assert_eq!(github.requests(), 0);
}

#[tokio::test]
async fn invisible_repository_is_not_found() {
    let (_github, tools) = github().await;
    let with = json!({ "repo": "acme/secret", "comment_id": 5 });
    let failure = propose(tool(&tools, "github.delete_comment"), &with).await.unwrap_err();
    assert_eq!(failure.code, "NOT_FOUND");
}

#[tokio::test]
async fn wrong_token_is_terminal_and_not_shown() {
    let github = GitHub::start().await.unwrap();
    let tools = github_tools(&github, "hunter2");
    let tool = tool(&tools, "github.get");
    let action = propose(tool, &json!({ "repo": REPO, "number": ISSUE })).await.unwrap();
    let outcome = attempt(tool, &action, false).await;
    assert_eq!((classify(&outcome), failure(&outcome).0.code.as_str()), ("terminal", "NOT_AUTHORIZED"));
    assert!(!format!("{outcome:?}{action:?}").contains("hunter2"));
}

#[tokio::test]
async fn invalid_fields_are_rejected() {
    let (github, tools) = github().await;
    for (name, with) in [
        ("github.get", json!({ "repo": "shop", "number": 7 })),
        ("github.get", json!({ "repo": "acme/../x", "number": 7 })),
        ("github.get", json!({ "repo": "acme/..", "number": 7 })),
        ("github.get", json!({ "repo": "ac me/shop", "number": 7 })),
        ("github.get", json!({ "repo": REPO, "number": 0 })),
        ("github.get", json!({ "repo": REPO, "number": "7" })),
        ("github.label", labels(&json!([]))),
        ("github.label", labels(&json!(["a,b"]))),
        ("github.label", labels(&json!([" a"]))),
        ("github.unlabel", labels(&json!([".."]))),
        ("github.label", labels(&json!([7]))),
        ("github.comment", comment(" ")),
        ("github.comment", comment(&"x".repeat(40_000))),
        ("github.delete_comment", json!({ "repo": REPO })),
    ] {
        let failure = propose(tool(&tools, name), &with).await.unwrap_err();
        assert_eq!(failure.code, "TOOL_FIELDS", "{with}");
    }
    assert_eq!(github.requests(), 0);
}
