//! The tests that every tool with an effect passes.

use std::collections::BTreeSet;

use connectors::{HostAllowList, ToolOutcome, ToolResult, standard_tools};
use domain::{Action, Millis, Reversibility};
use fakes::server::FakeFault;
use serde_json::{Value, json};

use crate::driver::{attempt, classify, failure, propose, propose_in, retry, run};
use crate::subject::{Subject, TOOLS};

fn done(outcome: ToolOutcome) -> ToolResult {
    match outcome {
        ToolOutcome::Done(done) => done,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_tool_with_an_effect_is_tested() {
    let registry = standard_tools(HostAllowList::default());
    let changes = json!({ "method": "POST" });
    let with_effect = |name: &&domain::ToolName| {
        registry.get(name).unwrap().effect_class(&changes).is_none_or(domain::EffectClass::has_effect)
    };
    let with_effect: BTreeSet<_> =
        registry.names().filter(with_effect).map(domain::ToolName::as_str).collect();
    let tested: BTreeSet<_> = TOOLS.iter().copied().chain(["http.request"]).collect();
    assert_eq!(with_effect, tested, "add a new tool with an effect to `TOOLS`");
}

#[tokio::test]
async fn run_twice_happens_once() {
    for name in TOOLS {
        let subject = Subject::of(name).await;
        let before = subject.state();
        let action = propose(subject.tool(), &subject.with).await.unwrap();
        assert!(action.class.has_effect() && !action.changes.is_empty(), "{name}");
        assert_eq!(
            (subject.effects(), subject.state()),
            (0, before.clone()),
            "{name} has an effect before `perform`"
        );
        let first = done(attempt(subject.tool(), &action, false).await);
        assert_eq!(subject.effects(), 1, "{name}");
        assert_ne!(subject.state(), before, "{name}");
        // As after a worker crash between effect and commit.
        let second = done(attempt(subject.tool(), &action, true).await);
        assert_eq!(subject.effects(), 1, "{name} did it twice");
        assert_eq!((second.output, second.inverse), (first.output, first.inverse), "{name}");
    }
}

#[tokio::test]
async fn rate_limited_once_happens_once() {
    for name in TOOLS {
        let subject = Subject::of(name).await;
        let action = propose(subject.tool(), &subject.with).await.unwrap();
        subject.faults.on_write(FakeFault::RateLimited { retry_after: "7".to_owned() });
        let first = attempt(subject.tool(), &action, false).await;
        assert_eq!(classify(&first), "did not happen", "{name}");
        assert_eq!(failure(&first).1, Some(Millis::secs(7)), "{name}");
        assert_eq!(subject.effects(), 0, "{name}");
        done(attempt(subject.tool(), &action, false).await);
        assert_eq!(subject.effects(), 1, "{name}");
    }
}

#[tokio::test]
async fn error_before_the_effect_happens_once() {
    failed_once(FakeFault::Status(500)).await;
}

#[tokio::test]
async fn gateway_error_happens_once() {
    failed_once(FakeFault::Status(503)).await;
}

#[tokio::test]
async fn error_after_the_effect_happens_once() {
    failed_once(FakeFault::ErrorAfterEffect).await;
}

async fn failed_once(fault: FakeFault) {
    for name in TOOLS {
        let subject = Subject::of(name).await;
        let action = propose(subject.tool(), &subject.with).await.unwrap();
        subject.faults.on_write(fault.clone());
        done(retry(subject.tool(), &action).await.outcome);
        assert_eq!(subject.effects(), 1, "{name} after {fault:?}");
    }
}

#[tokio::test]
async fn lost_reply_happens_once() {
    for name in TOOLS {
        let subject = Subject::of(name).await;
        let action = propose(subject.tool(), &subject.with).await.unwrap();
        subject.faults.on_write(FakeFault::LostReply);
        let ending = retry(subject.tool(), &action).await;
        assert_eq!(ending.operator_decisions, 0, "{name} needs an operator although it can find its effect");
        let lost = done(ending.outcome);
        assert_eq!(subject.effects(), 1, "{name}");
        let found = done(attempt(subject.tool(), &action, true).await);
        assert_eq!((found.output, found.inverse), (lost.output, lost.inverse), "{name}");
        assert_eq!(subject.effects(), 1, "{name}");
    }
}

#[tokio::test]
async fn undo_restores_and_second_undo_changes_nothing() {
    for name in TOOLS {
        let subject = Subject::of(name).await;
        let before = subject.state();
        let action = propose(subject.tool(), &subject.with).await.unwrap();
        let first = done(attempt(subject.tool(), &action, false).await);
        let Some(inverse) = first.inverse else {
            assert_irreversible_with_reason(&action);
            continue;
        };
        assert_eq!(action.reversibility, Reversibility::Inverse, "{name}");
        let undone = undo(&subject, &inverse).await;
        assert_eq!(subject.state(), before, "{name}");
        let effects = subject.effects();
        let tool = subject.named(undone.tool.as_str());
        done(attempt(tool, &undone, true).await);
        undo(&subject, &inverse).await;
        assert_eq!((subject.effects(), subject.state()), (effects, before), "{name} is undone twice");
    }
}

fn assert_irreversible_with_reason(action: &Action) {
    match &action.reversibility {
        Reversibility::Irreversible(why) => assert!(why.len() > 20, "{}: {why:?}", action.tool),
        other => panic!("{} returns no inverse and declares {other:?}", action.tool),
    }
}

async fn undo(subject: &Subject, inverse: &Value) -> Action {
    let tool = subject.named(inverse["tool"].as_str().unwrap());
    let action = propose_in(&run("run-1"), tool, &inverse["with"], true).await.unwrap();
    done(attempt(tool, &action, false).await);
    action
}

#[tokio::test]
async fn nothing_is_sent_without_time_left() {
    for name in TOOLS {
        let subject = Subject::of(name).await;
        let action = propose(subject.tool(), &subject.with).await.unwrap();
        let outcome =
            crate::driver::attempt_within(subject.tool(), &action, false, std::time::Duration::ZERO).await;
        assert_eq!(classify(&outcome), "did not happen", "{name}");
        assert_eq!(subject.effects(), 0, "{name}");
    }
}

#[tokio::test]
async fn failed_observe_has_no_effect() {
    for name in TOOLS {
        let subject = Subject::of(name).await;
        subject.faults.on_read(FakeFault::Status(503));
        match propose(subject.tool(), &subject.with).await {
            Err(failure) => assert_eq!(failure.code, "HTTP_STATUS", "{name}"),
            Ok(action) => {
                assert_eq!(action.tool.as_str(), "slack.post", "only `slack.post` proposes without reading");
            }
        }
        assert_eq!(subject.effects(), 0, "{name}");
    }
}
