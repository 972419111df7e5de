//! The tools for GitHub, beyond the story that every tool is told.

use connectors::{Ask, LookUp, Outcome, Tool, Toolbox};
use domain::{EffectClass, Reversibility, ToolName};
use fakes::github::{Comment, GitHub, ISSUE, REPO, TOKEN};
use fakes::server::Fault;
use serde_json::{Value, json};

use crate::engine::{attempt, failure, gist, look_up, propose, propose_in, run, step};
use crate::subject::github_tools;

async fn world() -> (GitHub, Toolbox) {
    let world = GitHub::start().await.unwrap();
    let tools = github_tools(&world, TOKEN);
    (world, tools)
}

fn tool<'a>(tools: &'a Toolbox, name: &str) -> &'a dyn Tool {
    tools.get(&ToolName::new(name).unwrap()).unwrap().as_ref()
}

fn labels(labels: &Value) -> Value {
    json!({ "repo": REPO, "number": ISSUE, "labels": labels })
}

fn comment(text: &str) -> Value {
    json!({ "repo": REPO, "number": ISSUE, "text": text })
}

#[tokio::test]
async fn an_issue_is_read_in_the_parts_that_workflows_use() {
    let (_world, tools) = world().await;
    let tool = tool(&tools, "github.get");
    let action = propose(tool, &json!({ "repo": REPO, "number": ISSUE })).await.unwrap();
    let Outcome::Done(done) = attempt(tool, &action, false).await else { panic!("not done") };
    assert_eq!(done.output["title"], "Checkout fails");
    assert_eq!(done.output["labels"], json!(["bug"]));
    assert_eq!(done.output["is_pull_request"], false);
}

#[tokio::test]
async fn undoing_a_label_removes_only_what_was_not_there_before() {
    let (world, tools) = world().await;
    let action = propose(tool(&tools, "github.label"), &labels(&json!(["bug", "p1"]))).await.unwrap();
    assert_eq!(action.changes.len(), 1);
    assert_eq!(action.changes[0].field, "labels.p1");
    let Outcome::Done(done) = attempt(tool(&tools, "github.label"), &action, false).await else {
        panic!("not done")
    };
    let inverse = done.inverse.unwrap();
    assert_eq!(inverse, json!({ "tool": "github.unlabel", "with": labels(&json!(["p1"])) }));
    world.change(ISSUE, |issue| issue.labels.extend(["of a stranger".to_owned()]));
    let undo =
        propose_in(&run("run-1"), tool(&tools, "github.unlabel"), &inverse["with"], true).await.unwrap();
    attempt(tool(&tools, "github.unlabel"), &undo, false).await;
    let left: Vec<_> = world.issue(ISSUE).unwrap().labels.into_iter().collect();
    assert_eq!(left, ["bug", "of a stranger"]);
}

#[tokio::test]
async fn labels_that_are_all_there_change_nothing() {
    let (world, tools) = world().await;
    let tool = tool(&tools, "github.label");
    let action = propose(tool, &labels(&json!(["BUG"]))).await.unwrap();
    assert_eq!(action.reversibility, Reversibility::NoEffect, "upper and lower case are the same");
    let Outcome::Done(done) = attempt(tool, &action, false).await else { panic!("not done") };
    assert_eq!((done.inverse, world.writes()), (None, 0));
}

#[tokio::test]
async fn labels_that_are_removed_in_part_are_no_clean_failure() {
    let (world, tools) = world().await;
    world.change(ISSUE, |issue| issue.labels.extend(["p1".to_owned()]));
    let tool = tool(&tools, "github.unlabel");
    let action = propose(tool, &labels(&json!(["bug", "p1"]))).await.unwrap();
    world.faults().on_write(Fault::Slow(std::time::Duration::ZERO));
    world.faults().on_write(Fault::Status(403));
    assert_eq!(gist(&attempt(tool, &action, false).await), "may have happened");
    assert_eq!(gist(&attempt(tool, &action, true).await), "done");
    assert!(world.issue(ISSUE).unwrap().labels.is_empty());
}

#[tokio::test]
async fn a_comment_hides_its_mark_and_is_taken_back_by_its_id() {
    let (world, tools) = world().await;
    let tool = tool(&tools, "github.comment");
    let action = propose(tool, &comment("Fixed.")).await.unwrap();
    assert_eq!(action.class, EffectClass::Opaque);
    let Outcome::Done(done) = attempt(tool, &action, false).await else { panic!("not done") };
    let said = world.issue(ISSUE).unwrap().comments[0].clone();
    assert!(
        said.body.starts_with("Fixed.\n\n<!-- countersign:") && said.body.ends_with(" -->"),
        "{}",
        said.body
    );
    let with = json!({ "repo": REPO, "comment_id": said.id });
    assert_eq!(done.inverse, Some(json!({ "tool": "github.delete_comment", "with": with })));
}

#[tokio::test]
async fn a_comment_is_found_among_many_and_a_strangers_copy_of_its_mark_is_not_it() {
    let (world, tools) = world().await;
    let tool = tool(&tools, "github.comment");
    let action = propose(tool, &comment("Fixed.")).await.unwrap();
    let mark = action.fields["text"].as_str().unwrap().lines().last().unwrap().to_owned();
    let strangers = |from: u64, to: u64| {
        let mark = mark.clone();
        (from..to).map(move |id| Comment { id, body: format!("Not fixed. {mark}") })
    };
    world.change(ISSUE, |issue| issue.comments.extend(strangers(1, 40)));
    assert!(matches!(look_up(tool, &action).await, LookUp::Unclear(_)));
    attempt(tool, &action, false).await;
    world.change(ISSUE, |issue| issue.comments.extend(strangers(41, 80)));
    assert!(matches!(look_up(tool, &action).await, LookUp::Found(_)));
    attempt(tool, &action, true).await;
    assert_eq!(world.writes(), 1);
}

#[tokio::test]
async fn two_runs_may_say_the_same() {
    let (world, tools) = world().await;
    let tool = tool(&tools, "github.comment");
    for run_id in ["run-1", "run-2"] {
        let action = propose_in(&run(run_id), tool, &comment("Fixed."), false).await.unwrap();
        attempt(tool, &action, true).await;
        attempt(tool, &action, true).await;
    }
    assert_eq!(world.writes(), 2);
}

#[tokio::test]
async fn deleting_a_comment_shows_what_is_lost() {
    let (world, tools) = world().await;
    world.change(ISSUE, |issue| issue.comments.push(Comment { id: 5, body: "Precious.".to_owned() }));
    let action = propose(tool(&tools, "github.delete_comment"), &json!({ "repo": REPO, "comment_id": 5 }))
        .await
        .unwrap();
    assert!(action.destructive);
    assert_eq!(action.changes[0].before, Some(json!("Precious.")));
    assert!(matches!(action.reversibility, Reversibility::Irreversible(_)));
}

#[tokio::test]
async fn a_comment_that_was_edited_after_people_saw_it_is_left_alone() {
    let (world, tools) = world().await;
    world.change(ISSUE, |issue| issue.comments.push(Comment { id: 5, body: "Spam.".to_owned() }));
    let tool = tool(&tools, "github.delete_comment");
    let action = propose(tool, &json!({ "repo": REPO, "comment_id": 5 })).await.unwrap();
    world.change(ISSUE, |issue| issue.comments[0].body = "Precious.".to_owned());
    let outcome = attempt(tool, &action, false).await;
    assert_eq!((gist(&outcome), failure(&outcome).0.code.as_str()), ("terminal", "CONFLICT"));
    assert_eq!(world.writes(), 0);
}

#[tokio::test]
async fn what_nobody_surveyed_can_be_explained_and_is_never_done() {
    let (world, tools) = world().await;
    world.change(ISSUE, |issue| issue.comments.push(Comment { id: 5, body: "Spam.".to_owned() }));
    for (name, fields) in [
        ("github.label", labels(&json!(["p1"]))),
        ("github.unlabel", labels(&json!(["bug"]))),
        ("github.delete_comment", json!({ "repo": REPO, "comment_id": 5 })),
    ] {
        let (run, step, tool) = (run("run-1"), step(), tool(&tools, name));
        let action = tool.propose(Ask { run: &run, step: &step, undo: false, fields, found: None }).unwrap();
        let outcome = attempt(tool, &action, false).await;
        assert_eq!(
            (gist(&outcome), failure(&outcome).0.code.as_str()),
            ("terminal", "TOOL_CONTRACT"),
            "{name}"
        );
    }
    assert_eq!(world.requests(), 0);
}

#[tokio::test]
async fn a_comment_in_a_repository_that_we_do_not_see_is_not_taken_for_gone() {
    let (_world, tools) = world().await;
    let with = json!({ "repo": "acme/secret", "comment_id": 5 });
    let failure = propose(tool(&tools, "github.delete_comment"), &with).await.unwrap_err();
    assert_eq!(failure.code, "NOT_FOUND");
}

#[tokio::test]
async fn a_wrong_token_is_final_and_not_shown() {
    let world = GitHub::start().await.unwrap();
    let tools = github_tools(&world, "hunter2");
    let tool = tool(&tools, "github.get");
    let action = propose(tool, &json!({ "repo": REPO, "number": ISSUE })).await.unwrap();
    let outcome = attempt(tool, &action, false).await;
    assert_eq!((gist(&outcome), failure(&outcome).0.code.as_str()), ("terminal", "NOT_AUTHORISED"));
    assert!(!format!("{outcome:?}{action:?}").contains("hunter2"));
}

#[tokio::test]
async fn what_cannot_be_part_of_a_path_or_a_key_is_refused() {
    let (world, tools) = world().await;
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
    assert_eq!(world.requests(), 0);
}
