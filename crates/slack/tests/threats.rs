//! Named attack cases: clicks that must not count, and texts that must not be parsed.
//!
//! Every click is pressed in a fake Slack, signed as Slack signs, verified, parsed and passed to the domain.
#![expect(clippy::unwrap_used, reason = "tests and their helpers may")]

extern crate countersign_slack as slack;

mod support;

use std::process::ExitCode;

use domain::command::{AfterStep, ClaimResult, VoteResult};
use domain::refusal::NotApprover;
use domain::{Action, ApprovalStatus, ApproverCount, Refusal, RunStatus};
use fakes::slack::{ButtonPress, Callback};
use libtest_mimic::{Arguments, Trial};
use serde_json::{Value, json};
use slack::card::{APPROVE, REJECT};
use slack::interaction::parse;
use slack::{
    Click, Interaction, InvalidClick, InvalidInteraction, ResponseOrigin, Secrets, SignatureError,
    UnknownSlackUser, person_of,
};

use support::{ANNA, BEN, CARA, ClickError, PendingRun, RITA, SECRET, Workspace, action};

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
        trial("deactivated_user_click", deactivated_user_click),
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

/// The result of an approving press by Anna whose payload `forge` changed before it was signed.
async fn forged_press(forge: impl FnOnce(&mut Value)) -> Result<Interaction, InvalidInteraction> {
    let (workspace, env) = (Workspace::start().await, PendingRun::asking(ApproverCount::One));
    let card = workspace.post_card(&env).await;
    let mut payload = workspace.press(&card, APPROVE, ANNA, &env).payload();
    forge(&mut payload);
    workspace.read(&Callback::signed(&payload, SECRET, env.now_secs()), &env)
}

fn not_approver(env: &PendingRun, person: &str, why: NotApprover) -> ClickError {
    ClickError::Refused(Refusal::NotApprover {
        approval: env.approval().id,
        person: person.parse().unwrap(),
        why,
    })
}

async fn click_by_non_approver() {
    let (workspace, mut env) = (Workspace::start().await, PendingRun::asking(ApproverCount::One));
    let card = workspace.post_card(&env).await;
    let before = env.approval();
    // A tenant user, but in none of the groups.
    let click = workspace.press_approve(&card, CARA, &env);
    assert_eq!(env.answer(click), Err(not_approver(&env, "cara", NotApprover::NotInGroup)));
    let click = workspace.submit_rejection(&card, CARA, "no", &env).await;
    assert_eq!(env.answer(click), Err(not_approver(&env, "cara", NotApprover::NotInGroup)));
    // In the workspace, but not a tenant user.
    let click = workspace.press_approve(&card, "U0UNKNOWN", &env);
    assert_eq!(env.answer(click), Err(ClickError::Invalid(UnknownSlackUser::UnknownUser.into())));
    assert_eq!(env.approval(), before);
}

async fn click_by_requester_self_approval() {
    let (workspace, mut env) = (Workspace::start().await, PendingRun::asking(ApproverCount::One));
    let card = workspace.post_card(&env).await;
    let click = workspace.press_approve(&card, RITA, &env);
    assert_eq!(
        env.answer(click),
        Err(not_approver(&env, "rita", NotApprover::Participant(domain::ParticipantRole::Requester)))
    );
    assert!(env.approval().is_open());
    // The author of the workflow cannot approve either.
    let alan = "alan".parse().unwrap();
    let refused = domain::approval::may_approve(&env.approval(), &alan, &env.tenant);
    assert!(
        matches!(
            refused,
            Err(Refusal::NotApprover { why: NotApprover::Participant(domain::ParticipantRole::Author), .. })
        ),
        "{refused:?}"
    );
}

async fn click_in_other_workspace_team_id() {
    let (workspace, mut env) = (Workspace::start().await, PendingRun::asking(ApproverCount::One));
    let card = workspace.post_card(&env).await;
    let other_workspace = ButtonPress {
        place: &card.message,
        action_id: APPROVE,
        user: ANNA,
        team: "T0OTHER",
        at_secs: env.now_secs(),
    };
    let callback = workspace.fake.press(&other_workspace).unwrap();
    let Ok(Interaction::Decision(click)) = workspace.read(&callback, &env) else { unreachable() };
    assert_eq!(person_of(&click, &env.tenant), Err(UnknownSlackUser::OtherWorkspace));
    assert_eq!(UnknownSlackUser::OtherWorkspace.to_string(), UnknownSlackUser::UnknownUser.to_string());
    assert_eq!(env.answer(click), Err(ClickError::Invalid(UnknownSlackUser::OtherWorkspace.into())));
    assert!(env.approval().is_open());
    // A guest from another workspace in a shared channel, with the id of a tenant user.
    let guest = forged_press(|payload| payload["user"]["team_id"] = json!("T0OTHER")).await;
    assert_eq!(guest, Err(InvalidInteraction::OtherWorkspace));
}

async fn click_twice_two_users_race() {
    let (workspace, mut env) = (Workspace::start().await, PendingRun::asking(ApproverCount::One));
    let card = workspace.post_card(&env).await;
    let (approve, reject) = (
        workspace.press_approve(&card, ANNA, &env),
        workspace.submit_rejection(&card, BEN, "wait", &env).await,
    );
    // Both are decided from the same record; one of them is committed.
    let (approved, anna) = env.decide(approve.clone()).unwrap();
    let (_, ben) = env.decide(reject.clone()).unwrap();
    assert_eq!(approved, VoteResult::Decided(AfterStep::Ready));
    assert!(env.commit(&anna));
    assert!(!env.commit(&ben));
    // The second user gets the first decision.
    let Err(ClickError::Refused(Refusal::AlreadyDecided { decision, .. })) = env.answer(reject) else {
        unreachable()
    };
    assert!(decision.starts_with("approved by anna"), "{decision}");
    // And the same click again changes nothing.
    let revision = env.approval().revision;
    assert_eq!(env.answer(approve), Ok(VoteResult::Duplicate));
    assert_eq!(env.approval().revision, revision);
    assert_eq!(env.approval().votes.len(), 1);
}

async fn click_after_expiry() {
    let (workspace, mut env) = (Workspace::start().await, PendingRun::asking(ApproverCount::One));
    let card = workspace.post_card(&env).await;
    env.now = env.approval().expires_at;
    let click = workspace.press_approve(&card, ANNA, &env);
    let expired = Refusal::ApprovalExpired { approval: env.approval().id, at: env.now };
    assert_eq!(env.answer(click.clone()), Err(ClickError::Refused(expired)));
    env.time_out();
    let refused = env.answer(click);
    assert!(matches!(refused, Err(ClickError::Refused(Refusal::AlreadyDecided { .. }))), "{refused:?}");
    assert_eq!(env.approval().status, ApprovalStatus::Expired);
    let card = workspace.slack.sync_card(&env.approval(), Some(&card)).await.unwrap();
    assert!(!workspace.card_text(&card).contains(APPROVE));
}

async fn click_after_cancel() {
    let (workspace, mut env) = (Workspace::start().await, PendingRun::asking(ApproverCount::One));
    let card = workspace.post_card(&env).await;
    let late = workspace.press_approve(&card, ANNA, &env);
    env.cancel();
    let refused = env.answer(late);
    let Err(ClickError::Refused(Refusal::AlreadyDecided { decision, .. })) = refused else { unreachable() };
    assert_eq!(decision, "canceled");
    assert_eq!(env.run.record.status, RunStatus::Canceled);
    let card = workspace.slack.sync_card(&env.approval(), Some(&card)).await.unwrap();
    assert!(workspace.card_text(&card).contains("Withdrawn"));
}

async fn approve_while_action_hash_changed() {
    let (workspace, mut env) = (Workspace::start().await, PendingRun::asking(ApproverCount::One));
    let old = env.approval();
    let card = workspace.post_card(&env).await;
    let (approve, late) =
        (workspace.press_approve(&card, ANNA, &env), workspace.press_approve(&card, BEN, &env));
    env.answer(approve).unwrap();
    // The action changed: the approval is void, and a new one is requested.
    assert_eq!(env.claim(action("the-attackers")), ClaimResult::AwaitingApproval);
    assert_eq!(env.approvals[&old.id].status, ApprovalStatus::Canceled);
    assert_ne!(env.approval().subject.hash(), old.subject.hash());
    // A click on the old card meets a withdrawn approval.
    let refused = env.answer(late.clone());
    assert!(matches!(refused, Err(ClickError::Refused(Refusal::AlreadyDecided { .. }))), "{refused:?}");
    // The old hash does not match the new approval.
    let mixed = Click { approval: env.approval().id, ..late };
    assert_eq!(env.answer(mixed), Err(ClickError::Invalid(InvalidClick::OtherSubject)));
    assert!(env.approval().is_open() && env.approval().votes.is_empty());
}

async fn forged_action_value_other_run() {
    let (workspace, mut env) = (Workspace::start().await, PendingRun::asking(ApproverCount::One));
    let card = workspace.post_card(&env).await;
    let good = workspace.press_approve(&card, ANNA, &env);
    let other_run = domain::RunKey { run: "run-other".parse().unwrap(), ..good.run.clone() };
    let other_tenant = domain::RunKey { tenant: "other".parse().unwrap(), ..good.run.clone() };
    let unknown = "ap-unknown".parse().unwrap();
    for (forged, error) in [
        (Click { run: other_run, ..good.clone() }, InvalidClick::OtherApproval),
        (Click { run: other_tenant, ..good.clone() }, UnknownSlackUser::OtherTenant.into()),
        (Click { approval: unknown, ..good.clone() }, InvalidClick::OtherApproval),
    ] {
        assert_eq!(env.answer(forged), Err(ClickError::Invalid(error)));
    }
    assert!(env.approval().votes.is_empty());
    for value in ["", "ap-1", "v1:a:b:c", "v1:a:b:c:d:e", "v1:../x:b:c:00"] {
        let forged = forged_press(|payload| payload["actions"][0]["value"] = json!(value)).await;
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
        let refused = click_with_response_url(url).await;
        assert_eq!(refused.unwrap_err(), InvalidInteraction::ResponseUrl, "{url}");
    }
    assert!(click_with_response_url("https://hooks.slack.com/actions/T0/1/x").await.is_ok());
}

/// An approving press with `url` as response URL, parsed as in production.
async fn click_with_response_url(url: &str) -> Result<Interaction, InvalidInteraction> {
    let (workspace, env) = (Workspace::start().await, PendingRun::asking(ApproverCount::One));
    let card = workspace.post_card(&env).await;
    let mut payload = workspace.press(&card, APPROVE, ANNA, &env).payload();
    payload["response_url"] = json!(url);
    parse(&Callback::signed(&payload, SECRET, env.now_secs()).body, &ResponseOrigin::slack())
}

async fn bot_user_click() {
    let forgeries: [fn(&mut Value); 6] = [
        |payload| payload["user"]["is_bot"] = json!(true),
        |payload| payload["user"]["is_bot"] = json!("true"),
        |payload| payload["user"]["bot_id"] = json!("B0BOT"),
        |payload| payload["bot_id"] = json!("B0BOT"),
        |payload| payload["user"]["id"] = json!("B0BOT"),
        |payload| payload["user"]["id"] = json!("USLACKBOT"),
    ];
    for forge in forgeries {
        assert_eq!(forged_press(forge).await, Err(InvalidInteraction::Bot));
    }
    assert!(forged_press(|payload| payload["user"]["is_bot"] = json!(false)).await.is_ok());
}

async fn deactivated_user_click() {
    for field in ["deleted", "deactivated", "is_deleted"] {
        for flag in [json!(true), json!("true"), json!(1)] {
            let clicked = forged_press(|payload| payload["user"][field] = flag).await;
            assert_eq!(clicked, Err(InvalidInteraction::Deactivated), "{field}");
        }
        assert!(forged_press(|payload| payload["user"][field] = json!(false)).await.is_ok(), "{field}");
    }
}

/// The card, as posted, of an action whose texts all contain `text`.
async fn card_with(text: &str) -> String {
    let mut hostile = Action {
        target: text.to_owned(),
        reversibility: domain::Reversibility::Irreversible(text.to_owned()),
        ..action(text)
    };
    text.clone_into(&mut hostile.changes[0].field);
    let (workspace, env) = (Workspace::start().await, PendingRun::asking_about(ApproverCount::One, hostile));
    let card = workspace.post_card(&env).await;
    workspace.card_text(&card)
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
    // Elements that Slack formats contain no untrusted text.
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
        // The fake Slack would reject a text that is too long.
        let seen = card_with(&"x".repeat(chars)).await;
        assert!(seen.contains("more characters; the hash covers all of it"), "{chars}");
    }
    // The hash covers the omitted part.
    let (one, other) = ("x".repeat(3_001), "x".repeat(3_000) + "y");
    assert_ne!(action(&one).hash(), action(&other).hash());
}

async fn unsigned_or_badly_signed_click() {
    let (workspace, env) = (Workspace::start().await, PendingRun::asking(ApproverCount::One));
    let card = workspace.post_card(&env).await;
    let Callback { timestamp, signature, body } = workspace.press(&card, REJECT, ANNA, &env);
    let secrets = Secrets::new(SECRET.into()).unwrap();
    let check = |timestamp: &str, signature: Option<&str>, body: &[u8]| {
        slack::signature::verify(&secrets, Some(timestamp), signature, body, env.now)
    };
    assert_eq!(check(&timestamp, Some(&signature), &body), Ok(()));
    assert_eq!(check(&timestamp, None, &body), Err(SignatureError::SignatureMissing));
    let old = (env.now_secs() - 301).to_string();
    assert_eq!(check(&old, Some(&signature), &body), Err(SignatureError::TimestampOutsideWindow));
    // The same content in other bytes has another signature.
    let reencoded = String::from_utf8(body).unwrap().replace("%3A", "%3a");
    assert_eq!(check(&timestamp, Some(&signature), reencoded.as_bytes()), Err(SignatureError::Forged));
}

#[expect(clippy::panic, reason = "a test fails by it")]
fn unreachable() -> ! {
    panic!("something else was expected")
}
