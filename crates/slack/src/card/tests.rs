//! The texts of a card. Two complete cards are compared with `tests/cards/*.json`.

use domain::approval::{Channel, Consumed};
use domain::plan::{Call, Environment, OnReject};
use domain::record::Rejection;
use domain::{
    Action, Approval, ApprovalId, ApprovalRequirement, ApprovalStatus, ApproverCount, Digest, EffectClass,
    Fence, FieldChange, GroupName, IdempotencyKey, Millis, ParticipantRole, Participants, PersonId, Reason,
    Reversibility, Ruling, RunId, RunKey, StepId, StepSeq, Subject, TenantId, Tier, Timestamp, ToolName,
    Verdict, Vote, WorkflowName,
};
use serde_json::{Value, json};

use super::block::{
    BLOCKS_MAX, BUTTON_UNITS_MAX, FIELD_UNITS_MAX, FIELDS_MAX, HEADER_UNITS_MAX, MESSAGE_UNITS_MAX,
    SECTION_UNITS_MAX, VALUE_UNITS_MAX,
};
use super::*;
use crate::escape::units;

const NOON: Timestamp = Timestamp(1_750_075_200_000);

fn action() -> Action {
    let change =
        |field: &str, before: Option<Value>, after| FieldChange { field: field.to_owned(), before, after };
    Action {
        tool: ToolName::new("servicenow.update").unwrap(),
        contract: 1,
        class: EffectClass::CompareAndSet,
        reversibility: Reversibility::Inverse,
        target: "incident/46d44a".to_owned(),
        key: IdempotencyKey::new("sn:incident:update:46d44a").unwrap(),
        key_retention: None,
        fields: json!({ "table": "incident" }),
        changes: vec![
            change("assignment_group", Some(json!("service desk")), json!("db-oncall")),
            change("priority", None, json!(1)),
        ],
        destructive: false,
        estimate_microusd: Some(12_300),
    }
}

fn verdict() -> Verdict {
    let requirement = ApprovalRequirement {
        tier: Tier::High,
        people: ApproverCount::Two,
        groups: vec![GroupName::new("db-oncall").unwrap()],
    };
    let reason = Reason {
        rule: "prod-write".to_owned(),
        message: "a write in prod needs two people".to_owned(),
        file: Some("base.rego".to_owned()),
        line: Some(12),
    };
    Verdict { ruling: Ruling::NeedsApproval(requirement), reasons: vec![reason], policy: Digest::ZERO }
}

fn about(action: Action) -> Approval {
    let run = RunKey { tenant: TenantId::new("acme").unwrap(), run: RunId::new("run-1").unwrap() };
    let Ruling::NeedsApproval(requirement) = verdict().ruling else { panic!("approval is required") };
    Approval {
        id: ApprovalId::new("ap-1").unwrap(),
        run,
        workflow: WorkflowName::new("incident-triage").unwrap(),
        environment: Environment::Prod,
        step: StepId::new("assign").unwrap(),
        seq: StepSeq(1),
        undo: false,
        subject: Subject::Action { action: Box::new(action), verdict: verdict(), rollback: None },
        requirement,
        excluded: excluded(&[
            ("rita", ParticipantRole::Requester),
            ("alan", ParticipantRole::Author),
            ("dora", ParticipantRole::Applier),
        ]),
        attempted_at: None,
        rejected: None,
        on_reject: OnReject::Fail,
        status: ApprovalStatus::Requested,
        votes: vec![vote("anna", true, "")],
        requested_at: NOON,
        sla_at: NOON + Millis::mins(10),
        expires_at: NOON + Millis::hours(24),
        reminders: 0,
        escalated_at: None,
        consumed: None,
        revision: 2,
    }
}

fn excluded(participants: &[(&str, ParticipantRole)]) -> Participants {
    let mut excluded = Participants::default();
    for (person, role) in participants {
        excluded.add(PersonId::new(person).unwrap(), *role);
    }
    excluded
}

fn vote(person: &str, approve: bool, reason: &str) -> Vote {
    Vote {
        person: PersonId::new(person).unwrap(),
        approve,
        reason: reason.to_owned(),
        at: NOON + Millis::mins(1),
        through: Channel::CommandLine,
    }
}

fn question(message: &str) -> Approval {
    Approval { subject: Subject::Question { message: message.to_owned() }, ..about(action()) }
}

/// Every text on a message, with its kind.
fn texts(value: &Value) -> Vec<(String, String)> {
    match value {
        Value::Array(items) => items.iter().flat_map(texts).collect(),
        Value::Object(fields) => {
            let own = fields.get("text").and_then(Value::as_str);
            let kind = fields.get("type").and_then(Value::as_str).unwrap_or("mrkdwn");
            let own = own.map(|text| (kind.to_owned(), text.to_owned()));
            own.into_iter().chain(fields.values().flat_map(texts)).collect()
        }
        _ => Vec::new(),
    }
}

fn whole(message: &Value) -> String {
    texts(message).into_iter().map(|(_, text)| text).collect::<Vec<_>>().join("\n")
}

fn has_buttons(message: &Value) -> bool {
    message["blocks"].as_array().unwrap().iter().any(|block| block["type"] == "actions")
}

fn assert_snapshot(message: &Value, file: &str) {
    let pretty = serde_json::to_string_pretty(message).unwrap();
    assert_eq!(pretty, file.trim_end(), "\n{pretty}\n");
}

#[test]
fn open_card_matches_its_snapshot() {
    assert_snapshot(&render(&about(action())), include_str!("../../tests/cards/open.json"));
}

#[test]
fn decided_card_matches_its_snapshot() {
    let approval = Approval {
        status: ApprovalStatus::Approved,
        votes: vec![vote("anna", true, ""), vote("ben", true, "looks right")],
        consumed: Some(Consumed { fence: Fence(3), at: NOON + Millis::mins(2) }),
        ..about(action())
    };
    assert_snapshot(&render(&approval), include_str!("../../tests/cards/approved.json"));
}

#[test]
fn only_an_open_card_has_buttons() {
    assert!(has_buttons(&render(&about(action()))));
    for (status, text) in [
        (ApprovalStatus::Approved, "anna approved at 2025-06-16T12:01:00Z"),
        (ApprovalStatus::Rejected, "Rejected.\n"),
        (ApprovalStatus::Expired, "Expired: not decided before 2025-06-17T12:00:00Z"),
        (ApprovalStatus::Canceled, "Withdrawn: the run stopped"),
    ] {
        let message = render(&Approval { status, ..about(action()) });
        assert!(!has_buttons(&message), "{status:?}");
        assert!(whole(&message).contains(text), "{status:?}: {}", whole(&message));
    }
}

#[test]
fn rejection_shows_its_reason() {
    let votes = vec![vote("ben", false, "not during <!here> the\nfreeze")];
    let message = render(&Approval { status: ApprovalStatus::Rejected, votes, ..about(action()) });
    let line = "ben rejected at 2025-06-16T12:01:00Z: not during &lt;!here&gt; the⟨U+000A⟩freeze";
    assert!(whole(&message).contains(line), "{}", whole(&message));
}

#[test]
fn button_value_is_the_token() {
    let approval = about(action());
    let message = render(&approval);
    let elements = message["blocks"].as_array().unwrap().last().unwrap()["elements"].clone();
    for (element, id) in elements.as_array().unwrap().iter().zip([APPROVE, REJECT]) {
        assert_eq!(element["action_id"], id);
        assert_eq!(element["value"].as_str().unwrap().parse(), Ok(ButtonToken::for_approval(&approval)));
    }
}

#[test]
fn action_without_changes_shows_its_arguments() {
    let blind = Action { changes: Vec::new(), fields: json!({ "argv": ["rm", "-rf", "/srv"] }), ..action() };
    let shown = whole(&render(&about(blind)));
    assert!(
        shown.contains(
            r#"Arguments
{"argv":["rm","-rf","/srv"]}"#
        ),
        "{shown}"
    );
}

#[test]
fn card_says_whether_the_action_can_be_undone() {
    let why = "mail <cannot> be unsent".to_owned();
    let irreversible =
        Action { reversibility: Reversibility::Irreversible(why), class: EffectClass::Opaque, ..action() };
    let message = render(&about(irreversible));
    let shown = whole(&message);
    assert!(shown.contains("No: mail &lt;cannot&gt; be unsent"), "{shown}");
    assert!(shown.contains("Outcome unknown: the run pauses"), "{shown}");
    assert!(shown.contains("This cannot be undone."), "{shown}");
}

#[test]
fn value_cannot_imitate_another_change() {
    let forged = FieldChange {
        field: "note\npriority".to_owned(),
        before: None,
        after: json!("x\" → \"y\npriority: 1 → 5"),
    };
    let shown = whole(&render(&about(Action { changes: vec![forged], ..action() })));
    let line = r#"note⟨U+000A⟩priority: (unknown) → "x\" → \"y\npriority: 1 → 5""#;
    assert!(shown.lines().any(|shown| shown == line), "{shown}");
}

/// An approval with the longest texts, of characters that grow when escaped.
fn largest() -> Approval {
    let long = "<&>\u{202e}".repeat(1_000);
    let id = "i".repeat(domain::id::ID_BYTES_MAX);
    let change = FieldChange { field: long.clone(), before: Some(json!(long)), after: json!([long, long]) };
    let action = Action {
        target: long.clone(),
        reversibility: Reversibility::Irreversible(long.clone()),
        changes: vec![change; 20],
        destructive: true,
        estimate_microusd: Some(u64::MAX),
        ..action()
    };
    let reason =
        Reason { rule: long.clone(), message: long.clone(), file: Some(long.clone()), line: Some(u32::MAX) };
    let verdict = Verdict { reasons: vec![reason; 16], ..verdict() };
    let group = GroupName::new(&id).unwrap();
    let mut approval = about(action.clone());
    approval.run = RunKey { tenant: TenantId::new(&id).unwrap(), run: RunId::new(&id).unwrap() };
    approval.id = ApprovalId::new(&id).unwrap();
    approval.workflow = WorkflowName::new(&id).unwrap();
    approval.step = StepId::new(&id).unwrap();
    approval.excluded = excluded(&[(&id, ParticipantRole::Requester)]);
    approval.attempted_at = Some(NOON);
    approval.rejected = Some(Rejection { by: PersonId::new(&id).unwrap(), at: NOON, reason: long.clone() });
    approval.requirement.groups = vec![group; 100];
    approval.votes = vec![vote(&id, true, &long); 20];
    let with = json!({ "path": long });
    let rollback = Some(Call { tool: ToolName::new("http.request").unwrap(), with });
    approval.subject = Subject::Action { action: Box::new(action), verdict, rollback };
    approval
}

fn assert_fits(message: &Value) {
    let blocks = message["blocks"].as_array().unwrap();
    assert!(blocks.len() <= BLOCKS_MAX, "{}", blocks.len());
    let total: usize = texts(&message["blocks"]).iter().map(|(_, text)| units(text)).sum();
    assert!(total <= MESSAGE_UNITS_MAX, "{total}");
    for block in blocks {
        let max = if block["type"] == "header" { HEADER_UNITS_MAX } else { SECTION_UNITS_MAX };
        assert!(units(block["text"]["text"].as_str().unwrap_or_default()) <= max, "{block}");
        let fields = block["fields"].as_array().cloned().unwrap_or_default();
        assert!(fields.len() <= FIELDS_MAX);
        assert!(fields.iter().all(|field| units(field["text"].as_str().unwrap()) <= FIELD_UNITS_MAX));
        for element in block["elements"].as_array().into_iter().flatten().filter(|e| e["type"] == "button") {
            assert!(units(element["value"].as_str().unwrap()) <= VALUE_UNITS_MAX);
            assert!(units(element["text"]["text"].as_str().unwrap()) <= BUTTON_UNITS_MAX);
        }
    }
}

#[test]
fn largest_card_fits_and_says_what_is_missing() {
    let mut approval = largest();
    assert_fits(&render(&approval));
    assert!(whole(&render(&approval)).contains("8 more fields change; the hash covers all of them"));
    assert!(whole(&render(&approval)).contains("more characters; the hash covers all of it"));
    approval.status = ApprovalStatus::Rejected;
    assert_fits(&render(&approval));
    assert_fits(&render(&question(&"<\u{200b}>".repeat(10_000))));
    let Subject::Action { action, verdict, rollback } = approval.subject.clone() else { panic!("an action") };
    let blind = Action { changes: Vec::new(), fields: json!("<".repeat(100_000)), ..*action };
    approval.subject = Subject::Action { action: Box::new(blind), verdict, rollback };
    assert_fits(&render(&approval));
}

#[test]
fn untrusted_text_is_never_parsed() {
    for message in [
        render(&largest()),
        render(&question("<!channel> *go on?*")),
        reminder(&largest()),
        escalation(&largest()),
    ] {
        for (kind, text) in texts(&message) {
            // Dates are the only markup, and occur only in `mrkdwn` elements.
            let rest = text.replace("<!date^", "").replace("Z>", "Z");
            assert!(!rest.contains(['<', '>', '\u{202e}', '\u{200b}']), "{kind}: {text}");
            assert!(kind == "mrkdwn" || !text.contains("<!date"), "{text}");
        }
    }
}

#[test]
fn reject_modal_carries_token_and_message() {
    let token = ButtonToken::for_approval(&largest());
    let place = "C0123/1700000000.000100".parse().unwrap();
    let view = reject_modal(&token, &place);
    let carried = view["private_metadata"].as_str().unwrap();
    assert_eq!(carried, format!("{token} C0123/1700000000.000100"));
    assert!(units(carried) <= 3_000);
}
