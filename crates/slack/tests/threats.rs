//! Clicks that must not count, and texts that must not be parsed: the named cases.
//!
//! Every click is pressed in a simulated Slack, signed as Slack signs, verified, read and put to the domain.
#![expect(clippy::unwrap_used, reason = "tests and their helpers may")]

extern crate countersign_slack as slack;

mod support;

use std::process::ExitCode;

use domain::command::{Advanced, Answered, Claimed};
use domain::refusal::NotApprover;
use domain::{Action, ApprovalStatus, People, Refusal, RunStatus};
use fakes::slack::{Callback, Press};
use libtest_mimic::{Arguments, Trial};
use serde_json::{Value, json};
use slack::card::{APPROVE, REJECT};
use slack::interaction::parse;
use slack::{
    Click, Hooks, Interaction, InvalidInteraction, Secrets, SignatureFault, Stranger, Unanswerable, person_of,
};

use support::{ANNA, BEN, CARA, No, RITA, SECRET, Story, Workspace, action};

fn main() -> ExitCode {
    let trials = vec![
        trial("click_by_non_approver", click_by_non_approver),
        trial("click_by_requester_self_approval", click_by_requester_self_approval),
        trial("click_in_other_workspace_team_id", click_in_other_workspace_team_id),
        trial("click_twice_two_users_race", click_twice_two_users_race),
        trial("click_after_expiry", click_after_expiry),
        trial("click_after_cancel", click_after_cancel),
        trial("approve_while_action_hash_changed", approve_while_action_hash_changed),
        trial("forged_action_value_other_run", forged_action_value_other_run),
        trial("response_url_not_slack", response_url_not_slack),
        trial("bot_user_click", bot_user_click),
        trial("mrkdwn_channel_mention", mrkdwn_channel_mention),
        trial("mrkdwn_link_disguise", mrkdwn_link_disguise),
        trial("rtl_override_in_command", rtl_override_in_command),
        trial("3001_char_block_text", a_3001_char_block_text),
        trial("unsigned_or_badly_signed_click", unsigned_or_badly_signed_click),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn trial<T: Future<Output = ()>>(name: &str, test: impl FnOnce() -> T + Send + 'static) -> Trial {
    Trial::test(name, move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(test());
        Ok(())
    })
}

/// What becomes of an approving press by Anna in which `lie` has changed the payload, signed all the same.
async fn lied(lie: impl FnOnce(&mut Value)) -> Result<Interaction, InvalidInteraction> {
    let (workspace, story) = (Workspace::start().await, Story::asking(People::One));
    let card = workspace.show(&story).await;
    let mut payload = workspace.press(&card, APPROVE, ANNA, &story).payload();
    lie(&mut payload);
    workspace.read(&Callback::signed(&payload, SECRET, story.now_secs()), &story)
}

fn not_approver(story: &Story, person: &str, why: NotApprover) -> No {
    No::Refused(Refusal::NotApprover { approval: story.approval().id, person: person.parse().unwrap(), why })
}

async fn click_by_non_approver() {
    let (workspace, mut story) = (Workspace::start().await, Story::asking(People::One));
    let card = workspace.show(&story).await;
    let before = story.approval();
    // Known to the tenant, but in none of the groups.
    let click = workspace.approves(&card, CARA, &story);
    assert_eq!(story.answer(click), Err(not_approver(&story, "cara", NotApprover::NotInGroup)));
    let click = workspace.rejects(&card, CARA, "no", &story).await;
    assert_eq!(story.answer(click), Err(not_approver(&story, "cara", NotApprover::NotInGroup)));
    // In the workspace, but unknown to the tenant.
    let click = workspace.approves(&card, "U0NOBODY", &story);
    assert_eq!(story.answer(click), Err(No::Unanswerable(Stranger::UnknownUser.into())));
    assert_eq!(story.approval(), before);
}

async fn click_by_requester_self_approval() {
    let (workspace, mut story) = (Workspace::start().await, Story::asking(People::One));
    let card = workspace.show(&story).await;
    let click = workspace.approves(&card, RITA, &story);
    assert_eq!(story.answer(click), Err(not_approver(&story, "rita", NotApprover::Requester)));
    assert!(story.approval().is_open());
    // Whoever wrote the workflow is no better off.
    let alan = "alan".parse().unwrap();
    let refused = domain::command::may_answer(&story.approval(), &alan, &story.tenant);
    assert!(matches!(refused, Err(Refusal::NotApprover { why: NotApprover::Author, .. })), "{refused:?}");
}

async fn click_in_other_workspace_team_id() {
    let (workspace, mut story) = (Workspace::start().await, Story::asking(People::One));
    let card = workspace.show(&story).await;
    let elsewhere = Press {
        place: &card.place,
        action_id: APPROVE,
        user: ANNA,
        team: "T0OTHER",
        at_secs: story.now_secs(),
    };
    let callback = workspace.simulated.press(&elsewhere).unwrap();
    let Ok(Interaction::Answered(click)) = workspace.read(&callback, &story) else { unreachable() };
    assert_eq!(person_of(&click, &story.tenant), Err(Stranger::OtherWorkspace));
    assert_eq!(Stranger::OtherWorkspace.to_string(), Stranger::UnknownUser.to_string());
    assert_eq!(story.answer(click), Err(No::Unanswerable(Stranger::OtherWorkspace.into())));
    assert!(story.approval().is_open());
    // A guest from another workspace in a shared channel, under the id that one of ours has here.
    let guest = lied(|payload| payload["user"]["team_id"] = json!("T0OTHER")).await;
    assert_eq!(guest, Err(InvalidInteraction::OtherWorkspace));
}

async fn click_twice_two_users_race() {
    let (workspace, mut story) = (Workspace::start().await, Story::asking(People::One));
    let card = workspace.show(&story).await;
    let (yes, no) =
        (workspace.approves(&card, ANNA, &story), workspace.rejects(&card, BEN, "wait", &story).await);
    // Both are decided from the same record; one of them is kept.
    let (said_yes, anna) = story.decide(yes.clone()).unwrap();
    let (_, ben) = story.decide(no.clone()).unwrap();
    assert_eq!(said_yes, Answered::Decided(Advanced::Ready));
    assert!(story.commit(anna));
    assert!(!story.commit(ben));
    // Whoever comes second is shown the first answer.
    let Err(No::Refused(Refusal::AlreadyDecided { decision, .. })) = story.answer(no) else { unreachable() };
    assert!(decision.starts_with("approved by anna"), "{decision}");
    // And the same click again changes nothing.
    let revision = story.approval().revision;
    assert_eq!(story.answer(yes), Ok(Answered::Duplicate));
    assert_eq!(story.approval().revision, revision);
    assert_eq!(story.approval().votes.len(), 1);
}

async fn click_after_expiry() {
    let (workspace, mut story) = (Workspace::start().await, Story::asking(People::One));
    let card = workspace.show(&story).await;
    story.now = story.approval().expires_at;
    let click = workspace.approves(&card, ANNA, &story);
    let lapsed = Refusal::Lapsed { approval: story.approval().id, at: story.now };
    assert_eq!(story.answer(click.clone()), Err(No::Refused(lapsed)));
    story.time_out();
    let refused = story.answer(click);
    assert!(matches!(refused, Err(No::Refused(Refusal::AlreadyDecided { .. }))), "{refused:?}");
    assert_eq!(story.approval().status, ApprovalStatus::Expired);
    let card = workspace.slack.show(&story.approval(), Some(&card)).await.unwrap();
    assert!(!workspace.seen(&card).contains(APPROVE));
}

async fn click_after_cancel() {
    let (workspace, mut story) = (Workspace::start().await, Story::asking(People::One));
    let card = workspace.show(&story).await;
    let late = workspace.approves(&card, ANNA, &story);
    story.cancel();
    let refused = story.answer(late);
    let Err(No::Refused(Refusal::AlreadyDecided { decision, .. })) = refused else { unreachable() };
    assert_eq!(decision, "canceled");
    assert_eq!(story.record.status, RunStatus::Canceled);
    let card = workspace.slack.show(&story.approval(), Some(&card)).await.unwrap();
    assert!(workspace.seen(&card).contains("Withdrawn"));
}

async fn approve_while_action_hash_changed() {
    let (workspace, mut story) = (Workspace::start().await, Story::asking(People::One));
    let old = story.approval();
    let card = workspace.show(&story).await;
    let (yes, late) = (workspace.approves(&card, ANNA, &story), workspace.approves(&card, BEN, &story));
    story.answer(yes).unwrap();
    // What would be done has changed since: the yes is worth nothing, and people are asked anew.
    assert_eq!(story.claim(action("the-attackers")), Claimed::Asked);
    assert_eq!(story.approvals[&old.id].status, ApprovalStatus::Canceled);
    assert_ne!(story.approval().subject.hash(), old.subject.hash());
    // A click on the old card meets a question that was withdrawn.
    let refused = story.answer(late.clone());
    assert!(matches!(refused, Err(No::Refused(Refusal::AlreadyDecided { .. }))), "{refused:?}");
    // The old hash does not fit the new question.
    let mixed = Click { approval: story.approval().id, ..late };
    assert_eq!(story.answer(mixed), Err(No::Unanswerable(Unanswerable::OtherSubject)));
    assert!(story.approval().is_open() && story.approval().votes.is_empty());
}

async fn forged_action_value_other_run() {
    let (workspace, mut story) = (Workspace::start().await, Story::asking(People::One));
    let card = workspace.show(&story).await;
    let good = workspace.approves(&card, ANNA, &story);
    let other_run = domain::RunKey { run: "run-other".parse().unwrap(), ..good.run.clone() };
    let other_tenant = domain::RunKey { tenant: "other".parse().unwrap(), ..good.run.clone() };
    let unknown = "ap-unknown".parse().unwrap();
    for (forged, no) in [
        (Click { run: other_run, ..good.clone() }, Unanswerable::OtherApproval),
        (Click { run: other_tenant, ..good.clone() }, Stranger::OtherTenant.into()),
        (Click { approval: unknown, ..good.clone() }, Unanswerable::OtherApproval),
    ] {
        assert_eq!(story.answer(forged), Err(No::Unanswerable(no)));
    }
    assert!(story.approval().votes.is_empty());
    for value in ["", "ap-1", "v1:a:b:c", "v1:a:b:c:d:e", "v1:../x:b:c:00"] {
        let forged = lied(|payload| payload["actions"][0]["value"] = json!(value)).await;
        assert!(matches!(forged, Err(InvalidInteraction::Token(_))), "{value}: {forged:?}");
    }
}

async fn response_url_not_slack() {
    for url in [
        "https://evil.example/actions",
        "http://hooks.slack.com/actions",
        "https://hooks.slack.com.evil.example/",
        "https://hooks.slack.com@evil.example/",
        "https://user:pass@hooks.slack.com/",
        "https://hooks.slack.com:8443/",
        "https://slack.com/actions",
        "http://169.254.169.254/latest/meta-data/",
        "file:///etc/passwd",
        "//hooks.slack.com/x",
        "",
    ] {
        let refused = click_answered_at(url).await;
        assert_eq!(refused.unwrap_err(), InvalidInteraction::ResponseUrl, "{url}");
    }
    assert!(click_answered_at("https://hooks.slack.com/actions/T0/1/x").await.is_ok());
}

/// An approving press that names `url` for answers, read as in production.
async fn click_answered_at(url: &str) -> Result<Interaction, InvalidInteraction> {
    let (workspace, story) = (Workspace::start().await, Story::asking(People::One));
    let card = workspace.show(&story).await;
    let mut payload = workspace.press(&card, APPROVE, ANNA, &story).payload();
    payload["response_url"] = json!(url);
    parse(&Callback::signed(&payload, SECRET, story.now_secs()).body, &Hooks::slack())
}

async fn bot_user_click() {
    let lies: [fn(&mut Value); 6] = [
        |payload| payload["user"]["is_bot"] = json!(true),
        |payload| payload["user"]["is_bot"] = json!("true"),
        |payload| payload["user"]["bot_id"] = json!("B0BOT"),
        |payload| payload["bot_id"] = json!("B0BOT"),
        |payload| payload["user"]["id"] = json!("B0BOT"),
        |payload| payload["user"]["id"] = json!("USLACKBOT"),
    ];
    for lie in lies {
        assert_eq!(lied(lie).await, Err(InvalidInteraction::Bot));
    }
    assert!(lied(|payload| payload["user"]["is_bot"] = json!(false)).await.is_ok());
}

/// The whole card of an action whose every text holds `text`, after Slack has taken it.
async fn card_with(text: &str) -> String {
    let mut hostile = Action {
        target: text.to_owned(),
        reversibility: domain::Reversibility::Irreversible(text.to_owned()),
        ..action(text)
    };
    text.clone_into(&mut hostile.changes[0].field);
    let (workspace, story) = (Workspace::start().await, Story::asking_about(People::One, hostile));
    let card = workspace.show(&story).await;
    workspace.seen(&card)
}

async fn mrkdwn_channel_mention() {
    for mention in ["<!channel>", "<!here>", "<!everyone>", "<@U0ANNA>", "<!subteam^S0>", "<#C0APPROVALS>"] {
        let seen = card_with(&format!("disk full {mention} please approve")).await;
        assert!(!seen.contains(mention), "{seen}");
        assert!(seen.contains(&mention.replace('<', "&lt;").replace('>', "&gt;")), "{seen}");
    }
}

async fn mrkdwn_link_disguise() {
    for link in ["<https://evil.example|https://wiki.acme.example>", "<mailto:a@evil.example|help>"] {
        let seen = card_with(link).await;
        assert!(!seen.contains(link), "{seen}");
        assert!(seen.contains("&lt;") && seen.contains('|') && seen.contains("evil.example"), "{seen}");
    }
    // What Slack formats at all holds our own words only.
    let seen: Value = serde_json::from_str(&card_with("`*evil*` <https://evil.example|x>").await).unwrap();
    for element in seen.as_array().unwrap().iter().filter_map(|block| block["elements"].as_array()).flatten()
    {
        assert!(element["type"] != "mrkdwn" || !element.to_string().contains("evil"), "{element}");
    }
}

async fn rtl_override_in_command() {
    let seen = card_with("systemctl restart \u{202e}bd-yramirp\u{202c} \u{2066}x\u{2069}").await;
    assert!(!seen.contains(['\u{202e}', '\u{202c}', '\u{2066}', '\u{2069}']), "{seen}");
    assert!(seen.contains("systemctl restart ⟨U+202E⟩bd-yramirp⟨U+202C⟩ ⟨U+2066⟩x⟨U+2069⟩"), "{seen}");
    let seen = card_with("rm\u{200b} -rf\u{feff} \u{1b}[8m/srv\u{7f}").await;
    assert!(seen.contains("rm⟨U+200B⟩ -rf⟨U+FEFF⟩ ⟨U+001B⟩[8m/srv⟨U+007F⟩"), "{seen}");
}

async fn a_3001_char_block_text() {
    for chars in [2_999, 3_000, 3_001, 40_000] {
        // Slack, simulated, would have refused a text that is too long.
        let seen = card_with(&"x".repeat(chars)).await;
        assert!(seen.contains("more characters; the hash covers all of it"), "{chars}");
    }
    // What is not shown is covered all the same.
    let (one, other) = ("x".repeat(3_001), "x".repeat(3_000) + "y");
    assert_ne!(action(&one).hash(), action(&other).hash());
}

async fn unsigned_or_badly_signed_click() {
    let (workspace, story) = (Workspace::start().await, Story::asking(People::One));
    let card = workspace.show(&story).await;
    let Callback { timestamp, signature, body } = workspace.press(&card, REJECT, ANNA, &story);
    let secrets = Secrets::new(SECRET.into()).unwrap();
    let check = |timestamp: &str, signature: Option<&str>, body: &[u8]| {
        slack::signature::verify(&secrets, Some(timestamp), signature, body, story.now)
    };
    assert_eq!(check(&timestamp, Some(&signature), &body), Ok(()));
    assert_eq!(check(&timestamp, None, &body), Err(SignatureFault::SignatureMissing));
    let old = (story.now_secs() - 301).to_string();
    assert_eq!(check(&old, Some(&signature), &body), Err(SignatureFault::TimestampOutsideWindow));
    // The same meaning in other bytes is another request.
    let reencoded = String::from_utf8(body).unwrap().replace("%3A", "%3a");
    assert_eq!(check(&timestamp, Some(&signature), reencoded.as_bytes()), Err(SignatureFault::Forged));
}

#[expect(clippy::panic, reason = "a test fails by it")]
fn unreachable() -> ! {
    panic!("something else was expected")
}
