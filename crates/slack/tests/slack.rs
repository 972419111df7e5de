//! End to end with a fake Slack: a card is posted, a user clicks, the domain decides, and the card shows the result.
#![expect(clippy::unwrap_used, reason = "tests and their helpers may")]

extern crate countersign_slack as slack;

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use connectors::{Credential, ToolConnection};
use domain::approval::{ApprovalUse, Card, PageStatus};
use domain::command::{AfterStep, VoteResult};
use domain::{Approval, ApprovalStatus, ApproverCount, Millis};
use fakes::slack::{FakeSlack, FakeSlackFault};
use serde_json::Value;
use slack::card::{APPROVE, REJECT};
use slack::client::SlackClientSettings;
use slack::{Pager, Slack, SlackError};
use testkit::{HttpStub, StubReply, StubRequest};

use support::{ANNA, BEN, PendingRun, Workspace, client};

#[tokio::test]
async fn card_shows_both_approvers() {
    let (workspace, mut env) = (Workspace::start().await, PendingRun::asking(ApproverCount::Two));
    let card = workspace.post_card(&env).await;
    assert!(workspace.card_text(&card).contains("Two different people from oncall"));

    let anna = workspace.press_approve(&card, ANNA, &env);
    assert_eq!(env.answer(anna), Ok(VoteResult::Counted { missing: 1 }));
    let card = workspace.slack.sync_card(&env.approval(), Some(&card)).await.unwrap();
    assert!(workspace.card_text(&card).contains("Approved by: anna; 1 more needed"));
    assert!(workspace.card_text(&card).contains(APPROVE));

    let ben = workspace.press_approve(&card, BEN, &env);
    assert_eq!(env.answer(ben), Ok(VoteResult::Decided(AfterStep::Ready)));
    let card = workspace.slack.sync_card(&env.approval(), Some(&card)).await.unwrap();
    let seen = workspace.card_text(&card);
    assert!(seen.contains("Approved.\\nanna approved at 2025-06-15T15:06:40Z\\nben approved at"), "{seen}");
    assert!(!seen.contains(APPROVE) && !seen.contains(REJECT));
    assert_eq!(workspace.fake.messages().len(), 1);
}

#[tokio::test]
async fn card_shows_the_reason_of_a_rejection() {
    let (workspace, mut env) = (Workspace::start().await, PendingRun::asking(ApproverCount::One));
    let card = workspace.post_card(&env).await;
    let click = workspace.submit_rejection(&card, BEN, "not during the <freeze>", &env).await;
    assert_eq!(click.place.to_string(), card.message);
    assert!(matches!(env.answer(click), Ok(VoteResult::Decided(_))));
    assert_eq!(env.approval().status, ApprovalStatus::Rejected);
    let card = workspace.slack.sync_card(&env.approval(), Some(&card)).await.unwrap();
    let seen = workspace.card_text(&card);
    assert!(seen.contains("ben rejected at 2025-06-15T15:06:40Z: not during the &lt;freeze&gt;"), "{seen}");
}

#[tokio::test]
async fn private_reply_is_escaped_and_ephemeral() {
    let (workspace, env) = (Workspace::start().await, PendingRun::asking(ApproverCount::One));
    let card = workspace.post_card(&env).await;
    let click = workspace.press_approve(&card, ANNA, &env);
    workspace.slack.reply_privately(&click, "already decided by <!channel>").await.unwrap();
    let answer = workspace.fake.answers().pop().unwrap();
    assert_eq!(answer["response_type"], "ephemeral");
    assert!(!answer["text"].as_str().unwrap().contains('<'), "{answer}");
}

#[tokio::test]
async fn second_sync_does_nothing() {
    let (workspace, mut env) = (Workspace::start().await, PendingRun::asking(ApproverCount::One));
    let card = workspace.post_card(&env).await;
    let calls = workspace.fake.calls();
    assert_eq!(workspace.slack.sync_card(&env.approval(), Some(&card)).await, Ok(card.clone()));
    // Nor does a sync with an approval older than the card.
    let before = env.approval();
    let click = workspace.press_approve(&card, ANNA, &env);
    env.answer(click).unwrap();
    let newer = workspace.slack.sync_card(&env.approval(), Some(&card)).await.unwrap();
    assert_eq!(workspace.slack.sync_card(&before, Some(&newer)).await, Ok(newer.clone()));
    assert_eq!(workspace.slack.sync_card(&env.approval(), Some(&newer)).await, Ok(newer));
    assert_eq!(workspace.fake.calls(), calls + 1);
}

#[tokio::test]
async fn use_of_an_approval_changes_no_card() {
    let (workspace, mut env) = (Workspace::start().await, PendingRun::asking(ApproverCount::One));
    let card = workspace.post_card(&env).await;
    let click = workspace.press_approve(&card, ANNA, &env);
    env.answer(click).unwrap();
    let answered = workspace.slack.sync_card(&env.approval(), Some(&card)).await.unwrap();
    let calls = workspace.fake.calls();
    let used = ApprovalUse { fence: env.run.record.fence, at: env.now };
    let approval = env.approval();
    let used = Approval { consumed: Some(used), revision: approval.revision + 1, ..approval };
    assert_eq!(workspace.slack.sync_card(&used, Some(&answered)).await, Ok(answered.clone()));
    assert_eq!(workspace.fake.calls(), calls);
    // A late sync of the decision also shows its use.
    let late = workspace.slack.sync_card(&used, Some(&card)).await.unwrap();
    assert!(workspace.card_text(&late).contains("Used at"));
    assert_eq!(late.revision, answered.revision);
}

#[tokio::test]
async fn reminder_and_escalation_are_posted_once() {
    let (workspace, mut env) = (Workspace::start().await, PendingRun::asking(ApproverCount::One));
    let card = workspace.post_card(&env).await;
    env.now = env.approval().next_reminder_at();
    env.remind();
    let card = workspace.slack.sync_card(&env.approval(), Some(&card)).await.unwrap();
    env.now = env.approval().next_reminder_at();
    env.remind();
    let card = workspace.slack.sync_card(&env.approval(), Some(&card)).await.unwrap();
    assert_eq!((card.reminders, card.escalated), (1, true));
    assert_eq!(workspace.slack.sync_card(&env.approval(), Some(&card)).await, Ok(card.clone()));
    let replies: Vec<_> = workspace.fake.messages().into_iter().filter(|m| m.thread.is_some()).collect();
    assert_eq!(replies.len(), 2);
    assert!(replies.iter().all(|message| card.message.ends_with(message.thread.as_deref().unwrap())));
    assert!(replies[0].text.starts_with("Reminder") && replies[1].text.starts_with("Overdue"));
}

#[tokio::test]
async fn decided_approval_gets_no_reminder() {
    let (workspace, mut env) = (Workspace::start().await, PendingRun::asking(ApproverCount::One));
    let card = workspace.post_card(&env).await;
    env.now = env.approval().next_reminder_at();
    env.remind();
    let click = workspace.press_approve(&card, ANNA, &env);
    env.answer(click).unwrap();
    let card = workspace.slack.sync_card(&env.approval(), Some(&card)).await.unwrap();
    assert_eq!(card.reminders, 1);
    assert_eq!(workspace.fake.messages().len(), 1);
}

#[tokio::test]
async fn failed_reminder_is_retried_without_second_card() {
    let (workspace, mut env) = (Workspace::start().await, PendingRun::asking(ApproverCount::One));
    env.now = env.approval().next_reminder_at();
    env.remind();
    workspace.fake.inject(FakeSlackFault::Slow(Duration::ZERO));
    workspace.fake.inject(FakeSlackFault::ServerError);
    let error = workspace.slack.sync_card(&env.approval(), None).await.unwrap_err();
    assert_eq!((error.operation, &error.source), ("post the reminder", &SlackError::Status(500)));
    assert!(error.source.is_retryable());
    let card = workspace.slack.sync_card(&env.approval(), error.so_far.as_ref()).await.unwrap();
    assert_eq!(card.reminders, 1);
    assert_eq!(workspace.fake.messages().len(), 2);
}

#[tokio::test]
async fn deleted_card_is_posted_again() {
    let (workspace, mut env) = (Workspace::start().await, PendingRun::asking(ApproverCount::Two));
    let card = workspace.post_card(&env).await;
    let click = workspace.press_approve(&card, ANNA, &env);
    env.answer(click).unwrap();
    workspace.fake.delete(&card.message);
    let again = workspace.slack.sync_card(&env.approval(), Some(&card)).await.unwrap();
    assert_ne!(again.message, card.message);
    assert!(workspace.card_text(&again).contains("Approved by: anna"));
}

#[tokio::test]
async fn rate_limit_error_has_its_delay() {
    let (workspace, env) = (Workspace::start().await, PendingRun::asking(ApproverCount::One));
    workspace.fake.inject(FakeSlackFault::RateLimited { retry_after_secs: 7 });
    let error = workspace.slack.sync_card(&env.approval(), None).await.unwrap_err();
    assert_eq!(error.source, SlackError::RateLimited { retry_after: Millis::secs(7) });
    assert_eq!(error.so_far, None);
}

#[tokio::test]
async fn lost_reply_leads_to_a_second_card() {
    let (workspace, env) = (Workspace::start().await, PendingRun::asking(ApproverCount::One));
    workspace.fake.inject(FakeSlackFault::LostReply);
    let error = workspace.slack.sync_card(&env.approval(), None).await.unwrap_err();
    assert!(matches!(error.source, SlackError::NoReply(_)), "{error:?}");
    let card = workspace.post_card(&env).await;
    let messages = workspace.fake.messages();
    assert_eq!(messages.len(), 2);
    assert_eq!(messages[0].button(APPROVE), workspace.fake.message(&card.message).unwrap().button(APPROVE));
}

#[tokio::test]
async fn error_has_slacks_code_and_no_token() {
    let fake = FakeSlack::start().await.unwrap();
    let env = PendingRun::asking(ApproverCount::One);
    let wrong_token = client(&fake, "xoxb-wrong-token", "C0APPROVALS");
    let error = wrong_token.sync_card(&env.approval(), None).await.unwrap_err();
    assert_eq!(error.source, SlackError::Api("invalid_auth".to_owned()));
    assert!(!error.source.is_retryable());
    assert!(!format!("{error:?} {error} {wrong_token:?}").contains("wrong-token"));
    let other_channel = client(&fake, "xoxb-fake", "C0ELSEWHERE");
    let error = other_channel.sync_card(&env.approval(), None).await.unwrap_err();
    assert_eq!(error.source, SlackError::Api("channel_not_found".to_owned()));
}

#[tokio::test]
async fn unreachable_server_is_not_sent() {
    let env = PendingRun::asking(ApproverCount::One);
    let gone = FakeSlack::start().await.unwrap().url();
    let settings = |base_url: &str, channel: &str| SlackClientSettings {
        base_url: base_url.parse().unwrap(),
        token: "xoxb-fake".into(),
        channel: channel.to_owned(),
    };
    tokio::task::yield_now().await;
    let slack = Slack::new(settings(&gone, "C0APPROVALS")).unwrap();
    let fault = slack.sync_card(&env.approval(), None).await.unwrap_err().source;
    assert!(matches!(fault, SlackError::NotSent(_)), "{fault:?}");
    for (url, channel) in [("http://slack.com/api", "C0APPROVALS"), ("https://slack.com/api", "#approvals")] {
        assert!(
            matches!(Slack::new(settings(url, channel)), Err(SlackError::Settings(_))),
            "{url} {channel}"
        );
    }
}

/// A pager that records its events and refuses the first of them.
fn pager(refused: usize) -> (Pager, HttpStub) {
    let left = AtomicUsize::new(refused);
    let fails =
        move || left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
    let stub = HttpStub::start(move |_| StubReply::json(if fails() { 429 } else { 202 }, ""));
    let json = serde_json::json!({ "kind": "pagerduty", "base_url": stub.url("") });
    let connection = serde_json::from_value(json).unwrap();
    let connection = ToolConnection::new(&"pagerduty".parse().unwrap(), &connection).unwrap();
    let connection = connection.trust_base().with_credential(Credential::Bearer("routing-key".into()));
    (Pager::on(&connection).unwrap(), stub)
}

fn events(stub: &HttpStub) -> Vec<Value> {
    let posted = |request: &StubRequest| {
        assert_eq!(request.line(), "POST /v2/enqueue");
        assert_eq!(request.header("authorization"), None);
        serde_json::from_str(&request.body).unwrap()
    };
    stub.requests().iter().map(posted).collect()
}

async fn overdue(workspace: &Workspace) -> (PendingRun, Card) {
    let mut env = PendingRun::asking(ApproverCount::One);
    let card = workspace.post_card(&env).await;
    env.now = env.approval().sla_at;
    env.remind();
    (env, card)
}

#[tokio::test]
async fn overdue_approval_is_paged_and_resolved() {
    let (pager, stub) = pager(0);
    let workspace = Workspace::start().await;
    let (mut env, card) = overdue(&workspace).await;
    let page = pager.sync_page(&env.approval(), None).await.unwrap();
    assert_eq!(pager.sync_page(&env.approval(), page).await, Ok(Some(PageStatus::Paged)));
    let click = workspace.press_approve(&card, ANNA, &env);
    env.answer(click).unwrap();
    let page = pager.sync_page(&env.approval(), page).await.unwrap();
    assert_eq!(pager.sync_page(&env.approval(), page).await, Ok(Some(PageStatus::Resolved)));
    let events = events(&stub);
    let id = env.approval().id.to_string();
    assert_eq!(events.iter().map(|event| &event["event_action"]).collect::<Vec<_>>(), ["trigger", "resolve"]);
    assert!(events.iter().all(|event| event["dedup_key"] == id && event["routing_key"] == "routing-key"));
    assert!(!format!("{pager:?}").contains("routing-key"));
}

#[tokio::test]
async fn approval_in_time_is_not_paged() {
    let ((pager, stub), env) = (pager(0), PendingRun::asking(ApproverCount::One));
    assert_eq!(pager.sync_page(&env.approval(), None).await, Ok(None));
    assert_eq!(events(&stub), Vec::<Value>::new());
}

#[tokio::test]
async fn failed_page_is_sent_again() {
    let (pager, stub) = pager(1);
    let (env, _) = overdue(&Workspace::start().await).await;
    let error = pager.sync_page(&env.approval(), None).await.unwrap_err();
    assert!(matches!(error, SlackError::RateLimited { .. }));
    assert_eq!(pager.sync_page(&env.approval(), None).await, Ok(Some(PageStatus::Paged)));
    assert_eq!(events(&stub).len(), 2);
}

/// The reply to the page was lost, so it is not recorded.
#[tokio::test]
async fn unrecorded_page_is_resolved() {
    let (pager, stub) = pager(0);
    let workspace = Workspace::start().await;
    let (mut env, card) = overdue(&workspace).await;
    let click = workspace.press_approve(&card, ANNA, &env);
    env.answer(click).unwrap();
    assert_eq!(pager.sync_page(&env.approval(), None).await, Ok(Some(PageStatus::Resolved)));
    assert_eq!(events(&stub)[0]["event_action"], "resolve");
}
