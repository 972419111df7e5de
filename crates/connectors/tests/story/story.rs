//! The story.

use std::collections::BTreeSet;

use connectors::{Allow, Done, Outcome, Settings, standard};
use domain::{Action, Millis, Reversibility};
use fakes::server::Fault;
use serde_json::{Value, json};

use crate::engine::{attempt, failure, gist, persist, propose, propose_in, run};
use crate::subject::{Subject, TOOLS};

fn done(outcome: Outcome) -> Done {
    match outcome {
        Outcome::Done(done) => done,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_tool_with_an_effect_is_told_of() {
    let toolbox = standard(Allow::default(), Settings::default());
    let changes = json!({ "method": "POST" });
    let with_effect = |name: &&domain::ToolName| {
        toolbox.get(name).unwrap().declares(&changes).is_none_or(domain::EffectClass::has_effect)
    };
    let with_effect: BTreeSet<_> =
        toolbox.names().filter(with_effect).map(domain::ToolName::as_str).collect();
    let told: BTreeSet<_> = TOOLS.iter().copied().chain(["http.request"]).collect();
    assert_eq!(with_effect, told, "a new tool with an effect belongs into `TOOLS`");
}

#[tokio::test]
async fn run_twice_it_is_done_once() {
    for name in TOOLS {
        let subject = Subject::of(name).await;
        let before = subject.state();
        let action = propose(subject.tool(), &subject.with).await.unwrap();
        assert!(action.class.has_effect() && !action.changes.is_empty(), "{name}");
        assert_eq!((subject.effects(), subject.state()), (0, before.clone()), "{name} changes before it may");
        let first = done(attempt(subject.tool(), &action, false).await);
        assert_eq!(subject.effects(), 1, "{name}");
        assert_ne!(subject.state(), before, "{name}");
        // As after a worker that died between effect and commit.
        let second = done(attempt(subject.tool(), &action, true).await);
        assert_eq!(subject.effects(), 1, "{name} did it twice");
        assert_eq!((second.output, second.inverse), (first.output, first.inverse), "{name}");
    }
}

#[tokio::test]
async fn turned_away_once_it_waits_and_is_done_once() {
    for name in TOOLS {
        let subject = Subject::of(name).await;
        let action = propose(subject.tool(), &subject.with).await.unwrap();
        subject.faults.on_write(Fault::TurnedAway { retry_after: "7".to_owned() });
        let first = attempt(subject.tool(), &action, false).await;
        assert_eq!(gist(&first), "did not happen", "{name}");
        assert_eq!(failure(&first).1, Some(Millis::secs(7)), "{name}");
        assert_eq!(subject.effects(), 0, "{name}");
        done(attempt(subject.tool(), &action, false).await);
        assert_eq!(subject.effects(), 1, "{name}");
    }
}

#[tokio::test]
async fn failed_once_before_the_effect_it_is_done_once() {
    failed_once(Fault::Status(500)).await;
}

#[tokio::test]
async fn failed_once_at_a_gateway_it_is_done_once() {
    failed_once(Fault::Status(503)).await;
}

#[tokio::test]
async fn failed_once_after_the_effect_it_is_done_once() {
    failed_once(Fault::BrokenAfterwards).await;
}

async fn failed_once(fault: Fault) {
    for name in TOOLS {
        let subject = Subject::of(name).await;
        let action = propose(subject.tool(), &subject.with).await.unwrap();
        subject.faults.on_write(fault.clone());
        done(persist(subject.tool(), &action).await.outcome);
        assert_eq!(subject.effects(), 1, "{name} after {fault:?}");
    }
}

#[tokio::test]
async fn with_its_reply_lost_once_it_is_done_once() {
    for name in TOOLS {
        let subject = Subject::of(name).await;
        let action = propose(subject.tool(), &subject.with).await.unwrap();
        subject.faults.on_write(Fault::ReplyLost);
        let ending = persist(subject.tool(), &action).await;
        assert_eq!(ending.people_asked, 0, "{name} asks a person for what it could see itself");
        let lost = done(ending.outcome);
        assert_eq!(subject.effects(), 1, "{name}");
        let found = done(attempt(subject.tool(), &action, true).await);
        assert_eq!((found.output, found.inverse), (lost.output, lost.inverse), "{name}");
        assert_eq!(subject.effects(), 1, "{name}");
    }
}

#[tokio::test]
async fn undone_and_undone_twice_it_is_as_it_was() {
    for name in TOOLS {
        let subject = Subject::of(name).await;
        let before = subject.state();
        let action = propose(subject.tool(), &subject.with).await.unwrap();
        let first = done(attempt(subject.tool(), &action, false).await);
        let Some(inverse) = first.inverse else {
            says_why_it_cannot_be_undone(&action);
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

fn says_why_it_cannot_be_undone(action: &Action) {
    match &action.reversibility {
        Reversibility::Irreversible(why) => assert!(why.len() > 20, "{}: {why:?}", action.tool),
        other => panic!("{} gives no inverse, and says {other:?}", action.tool),
    }
}

async fn undo(subject: &Subject, inverse: &Value) -> Action {
    let tool = subject.named(inverse["tool"].as_str().unwrap());
    let action = propose_in(&run("run-1"), tool, &inverse["with"], true).await.unwrap();
    done(attempt(tool, &action, false).await);
    action
}

#[tokio::test]
async fn without_time_nothing_is_sent() {
    for name in TOOLS {
        let subject = Subject::of(name).await;
        let action = propose(subject.tool(), &subject.with).await.unwrap();
        let outcome =
            crate::engine::attempt_within(subject.tool(), &action, false, std::time::Duration::ZERO).await;
        assert_eq!(gist(&outcome), "did not happen", "{name}");
        assert_eq!(subject.effects(), 0, "{name}");
    }
}

#[tokio::test]
async fn a_broken_survey_is_no_reason_to_act() {
    for name in TOOLS {
        let subject = Subject::of(name).await;
        subject.faults.on_read(Fault::Status(503));
        match propose(subject.tool(), &subject.with).await {
            Err(failure) => assert_eq!(failure.code, "HTTP_STATUS", "{name}"),
            Ok(action) => assert_eq!(action.tool.as_str(), "slack.post", "only a post looks at nothing"),
        }
        assert_eq!(subject.effects(), 0, "{name}");
    }
}
