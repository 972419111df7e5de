//! The whole way: an approval is shown in a simulated Slack, somebody presses a button, the click is
//! decided, and the card says who did what.
#![expect(clippy::unwrap_used, reason = "tests and their helpers may")]

extern crate countersign_slack as slack;

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use domain::approval::{Card, Consumed};
use domain::command::{Advanced, Answered};
use domain::{Approval, ApprovalStatus, Millis, People};
use fakes::slack::{SimulatedSlack, Trouble};
use serde_json::Value;
use slack::card::{APPROVE, REJECT};
use slack::client::Settings;
use slack::{Fault, Pager, Slack};

use support::{ANNA, BEN, Story, Workspace, client};

#[tokio::test]
async fn two_people_approve_and_the_card_says_who() {
    let (workspace, mut story) = (Workspace::start().await, Story::asking(People::Two));
    let card = workspace.show(&story).await;
    assert!(workspace.seen(&card).contains("Two different people of oncall"));

    let anna = workspace.approves(&card, ANNA, &story);
    assert_eq!(story.answer(anna), Ok(Answered::Counted { missing: 1 }));
    let card = workspace.slack.show(&story.approval(), Some(&card)).await.unwrap();
    assert!(workspace.seen(&card).contains("Said yes: anna; 1 more needed"));
    assert!(workspace.seen(&card).contains(APPROVE));

    let ben = workspace.approves(&card, BEN, &story);
    assert_eq!(story.answer(ben), Ok(Answered::Decided(Advanced::Ready)));
    let card = workspace.slack.show(&story.approval(), Some(&card)).await.unwrap();
    let seen = workspace.seen(&card);
    assert!(
        seen.contains("Approved.\\nanna approved at 2025-06-15 15:06:40 UTC\\nben approved at"),
        "{seen}"
    );
    assert!(!seen.contains(APPROVE) && !seen.contains(REJECT));
    assert_eq!(workspace.simulated.messages().len(), 1);
}

#[tokio::test]
async fn a_rejection_is_asked_for_its_reason_and_the_card_repeats_it() {
    let (workspace, mut story) = (Workspace::start().await, Story::asking(People::One));
    let card = workspace.show(&story).await;
    let click = workspace.rejects(&card, BEN, "not during the <freeze>", &story).await;
    assert_eq!(click.place.to_string(), card.place);
    assert!(matches!(story.answer(click), Ok(Answered::Decided(_))));
    assert_eq!(story.approval().status, ApprovalStatus::Rejected);
    let card = workspace.slack.show(&story.approval(), Some(&card)).await.unwrap();
    let seen = workspace.seen(&card);
    assert!(
        seen.contains("ben rejected at 2025-06-15 15:06:40 UTC: not during the &lt;freeze&gt;"),
        "{seen}"
    );
}

#[tokio::test]
async fn whoever_clicked_is_told_alone() {
    let (workspace, story) = (Workspace::start().await, Story::asking(People::One));
    let card = workspace.show(&story).await;
    let click = workspace.approves(&card, ANNA, &story);
    workspace.slack.tell(&click, "already decided by <!channel>").await.unwrap();
    let answer = workspace.simulated.answers().pop().unwrap();
    assert_eq!(answer["response_type"], "ephemeral");
    assert!(!answer["text"].as_str().unwrap().contains('<'), "{answer}");
}

#[tokio::test]
async fn showing_again_does_nothing() {
    let (workspace, mut story) = (Workspace::start().await, Story::asking(People::One));
    let card = workspace.show(&story).await;
    let calls = workspace.simulated.calls();
    assert_eq!(workspace.slack.show(&story.approval(), Some(&card)).await, Ok(card.clone()));
    // Nor does somebody who has an older approval in hand than people see.
    let before = story.approval();
    let click = workspace.approves(&card, ANNA, &story);
    story.answer(click).unwrap();
    let newer = workspace.slack.show(&story.approval(), Some(&card)).await.unwrap();
    assert_eq!(workspace.slack.show(&before, Some(&newer)).await, Ok(newer.clone()));
    assert_eq!(workspace.slack.show(&story.approval(), Some(&newer)).await, Ok(newer));
    assert_eq!(workspace.simulated.calls(), calls + 1);
}

#[tokio::test]
async fn that_an_approval_was_used_changes_no_card() {
    let (workspace, mut story) = (Workspace::start().await, Story::asking(People::One));
    let card = workspace.show(&story).await;
    let click = workspace.approves(&card, ANNA, &story);
    story.answer(click).unwrap();
    let answered = workspace.slack.show(&story.approval(), Some(&card)).await.unwrap();
    let calls = workspace.simulated.calls();
    let used = Consumed { fence: story.record.fence, at: story.now };
    let approval = story.approval();
    let used = Approval { consumed: Some(used), revision: approval.revision + 1, ..approval };
    assert_eq!(workspace.slack.show(&used, Some(&answered)).await, Ok(answered.clone()));
    assert_eq!(workspace.simulated.calls(), calls);
    // Whoever shows the answer only now says that, too.
    let late = workspace.slack.show(&used, Some(&card)).await.unwrap();
    assert!(workspace.seen(&late).contains("Used at"));
    assert_eq!(late.shown, answered.shown);
}

#[tokio::test]
async fn people_are_reminded_once_and_then_told_that_it_is_overdue() {
    let (workspace, mut story) = (Workspace::start().await, Story::asking(People::One));
    let card = workspace.show(&story).await;
    story.now = story.approval().nudge_at();
    story.nudge();
    let card = workspace.slack.show(&story.approval(), Some(&card)).await.unwrap();
    story.now = story.approval().nudge_at();
    story.nudge();
    let card = workspace.slack.show(&story.approval(), Some(&card)).await.unwrap();
    assert_eq!((card.reminders, card.escalated), (1, true));
    assert_eq!(workspace.slack.show(&story.approval(), Some(&card)).await, Ok(card.clone()));
    let said: Vec<_> = workspace.simulated.messages().into_iter().filter(|m| m.thread.is_some()).collect();
    assert_eq!(said.len(), 2);
    assert!(said.iter().all(|message| card.place.ends_with(message.thread.as_deref().unwrap())));
    assert!(said[0].text.starts_with("Reminder") && said[1].text.starts_with("Overdue"));
}

#[tokio::test]
async fn nobody_is_reminded_of_what_is_decided() {
    let (workspace, mut story) = (Workspace::start().await, Story::asking(People::One));
    let card = workspace.show(&story).await;
    story.now = story.approval().nudge_at();
    story.nudge();
    let click = workspace.approves(&card, ANNA, &story);
    story.answer(click).unwrap();
    let card = workspace.slack.show(&story.approval(), Some(&card)).await.unwrap();
    assert_eq!(card.reminders, 1);
    assert_eq!(workspace.simulated.messages().len(), 1);
}

#[tokio::test]
async fn a_reminder_that_fails_is_tried_again_without_a_second_card() {
    let (workspace, mut story) = (Workspace::start().await, Story::asking(People::One));
    story.now = story.approval().nudge_at();
    story.nudge();
    workspace.simulated.trouble(Trouble::Slow(Duration::ZERO));
    workspace.simulated.trouble(Trouble::ServerError);
    let error = workspace.slack.show(&story.approval(), None).await.unwrap_err();
    assert_eq!((error.doing, &error.fault), ("post the reminder", &Fault::Status(500)));
    assert!(error.fault.may_pass());
    let card = workspace.slack.show(&story.approval(), error.so_far.as_ref()).await.unwrap();
    assert_eq!(card.reminders, 1);
    assert_eq!(workspace.simulated.messages().len(), 2);
}

#[tokio::test]
async fn a_card_that_was_deleted_is_posted_anew() {
    let (workspace, mut story) = (Workspace::start().await, Story::asking(People::Two));
    let card = workspace.show(&story).await;
    let click = workspace.approves(&card, ANNA, &story);
    story.answer(click).unwrap();
    workspace.simulated.delete(&card.place);
    let again = workspace.slack.show(&story.approval(), Some(&card)).await.unwrap();
    assert_ne!(again.place, card.place);
    assert!(workspace.seen(&again).contains("Said yes: anna"));
}

#[tokio::test]
async fn a_limit_is_told_with_its_time() {
    let (workspace, story) = (Workspace::start().await, Story::asking(People::One));
    workspace.simulated.trouble(Trouble::RateLimited { retry_after_secs: 7 });
    let error = workspace.slack.show(&story.approval(), None).await.unwrap_err();
    assert_eq!(error.fault, Fault::RateLimited { retry_after: Millis::secs(7) });
    assert_eq!(error.so_far, None);
}

#[tokio::test]
async fn a_lost_reply_is_no_answer_and_a_second_card_at_worst() {
    let (workspace, story) = (Workspace::start().await, Story::asking(People::One));
    workspace.simulated.trouble(Trouble::LostReply);
    let error = workspace.slack.show(&story.approval(), None).await.unwrap_err();
    assert!(matches!(error.fault, Fault::NoReply(_)), "{error:?}");
    let card = workspace.show(&story).await;
    let messages = workspace.simulated.messages();
    assert_eq!(messages.len(), 2);
    assert_eq!(
        messages[0].button(APPROVE),
        workspace.simulated.message(&card.place).unwrap().button(APPROVE)
    );
}

#[tokio::test]
async fn what_slack_refuses_is_told_by_its_code_and_without_the_token() {
    let simulated = SimulatedSlack::start().await.unwrap();
    let story = Story::asking(People::One);
    let stranger = client(&simulated, "xoxb-wrong-token", "C0APPROVALS");
    let error = stranger.show(&story.approval(), None).await.unwrap_err();
    assert_eq!(error.fault, Fault::Api("invalid_auth".to_owned()));
    assert!(!error.fault.may_pass());
    assert!(!format!("{error:?} {error} {stranger:?}").contains("wrong-token"));
    let elsewhere = client(&simulated, "xoxb-simulated", "C0ELSEWHERE");
    let error = elsewhere.show(&story.approval(), None).await.unwrap_err();
    assert_eq!(error.fault, Fault::Api("channel_not_found".to_owned()));
}

#[tokio::test]
async fn a_server_that_is_not_there_is_sent_nothing() {
    let story = Story::asking(People::One);
    let gone = SimulatedSlack::start().await.unwrap().url();
    let settings = |base_url: &str, channel: &str| Settings {
        base_url: base_url.parse().unwrap(),
        token: "xoxb-simulated".into(),
        channel: channel.to_owned(),
    };
    tokio::task::yield_now().await;
    let slack = Slack::new(settings(&gone, "C0APPROVALS")).unwrap();
    let fault = slack.show(&story.approval(), None).await.unwrap_err().fault;
    assert!(matches!(fault, Fault::NotSent(_)), "{fault:?}");
    for (url, channel) in [("http://slack.com", "C0APPROVALS"), ("https://slack.com", "#approvals")] {
        assert!(matches!(Slack::new(settings(url, channel)), Err(Fault::Settings(_))), "{url} {channel}");
    }
}

/// A pager that remembers what it was told.
async fn pager(refuse_first: bool) -> (Pager, Arc<Mutex<Vec<Value>>>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let take = move |State(told): State<Arc<Mutex<Vec<Value>>>>, body: String| async move {
        let mut told = told.lock().unwrap();
        told.push(serde_json::from_str(&body).unwrap());
        if refuse_first && told.len() == 1 { StatusCode::TOO_MANY_REQUESTS } else { StatusCode::ACCEPTED }
    };
    let router = Router::new().route("/v2/enqueue", post(take)).with_state(Arc::clone(&told));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    (Pager::new(&url, "routing-key".into()).unwrap(), told)
}

async fn overdue(workspace: &Workspace) -> (Story, Card) {
    let mut story = Story::asking(People::One);
    let card = workspace.show(&story).await;
    story.now = story.approval().sla_at;
    story.nudge();
    (story, card)
}

#[tokio::test]
async fn somebody_is_called_when_it_is_overdue_and_left_alone_when_it_is_decided() {
    let (pager, told) = pager(false).await;
    let workspace = Workspace::start().await;
    let slack = workspace.slack.clone().with_pager(pager);
    let (mut story, card) = overdue(&workspace).await;
    let card = slack.show(&story.approval(), Some(&card)).await.unwrap();
    let click = workspace.approves(&card, ANNA, &story);
    story.answer(click).unwrap();
    let card = slack.show(&story.approval(), Some(&card)).await.unwrap();
    slack.show(&story.approval(), Some(&card)).await.unwrap();
    let told = told.lock().unwrap();
    let id = story.approval().id.to_string();
    assert_eq!(told.iter().map(|event| &event["event_action"]).collect::<Vec<_>>(), ["trigger", "resolve"]);
    assert!(told.iter().all(|event| event["dedup_key"] == id && event["routing_key"] == "routing-key"));
    assert!(!format!("{slack:?}").contains("routing-key"));
}

#[tokio::test]
async fn a_pager_that_is_busy_is_called_again_and_the_channel_hears_of_it_once() {
    let (pager, told) = pager(true).await;
    let workspace = Workspace::start().await;
    let slack = workspace.slack.clone().with_pager(pager);
    let (story, card) = overdue(&workspace).await;
    let error = slack.show(&story.approval(), Some(&card)).await.unwrap_err();
    assert_eq!(error.doing, "call somebody");
    assert!(matches!(error.fault, Fault::RateLimited { .. }));
    let card = slack.show(&story.approval(), error.so_far.as_ref()).await.unwrap();
    assert!(card.escalated);
    assert_eq!(told.lock().unwrap().len(), 2);
    assert_eq!(workspace.simulated.messages().iter().filter(|m| m.thread.is_some()).count(), 1);
}
