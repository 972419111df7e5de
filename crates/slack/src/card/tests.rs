//! The texts of a card. Two complete cards are compared with `tests/cards/*.json`.

use domain::approval::{ApprovalUse, Channel};
use domain::plan::{Call, Environment, OnReject};
use domain::record::Rejection;
use domain::{
    Action, Approval, ApprovalId, ApprovalRequirement, ApprovalStatus, ApproverCount, Digest, EffectClass,
    Fence, FieldChange, GroupName, IdempotencyKey, Millis, ParticipantRole, Participants, PersonId, Reason,
    Reversibility, Ruling, RunId, RunKey, StepId, StepSeq, Subject, TenantId, Tier, Timestamp, ToolName,
    Verdict, Vote, WorkflowName,
};
use serde_json::{Value, json};

use proptest::collection::vec;
use proptest::prelude::*;

use super::block::{
    BLOCKS_MAX, BUTTON_UNITS_MAX, FIELD_UNITS_MAX, FIELDS_MAX, HEADER_UNITS_MAX, MESSAGE_UNITS_MAX,
    SECTION_UNITS_MAX, VALUE_UNITS_MAX,
};
use super::*;
use crate::escape::units;

fn render(approval: &Approval) -> Value {
    super::render(approval, None)
}

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
        connection: None,
    }
}

fn verdict() -> Verdict {
    let requirement = ApprovalRequirement {
        tier: Tier::High,
        people: ApproverCount::Two,
        groups: vec![GroupName::new("db-oncall").unwrap()],
        ..ApprovalRequirement::default()
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
        rollback: false,
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
        consumed: Some(ApprovalUse { fence: Fence(3), at: NOON + Millis::mins(2) }),
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
    assert!(shown.lines().any(|line| line == r#"argv: ["rm","-rf","/srv"]"#), "{shown}");
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
        connection: None,
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
    let rollback = Some(Call { tool: ToolName::new("http.request").unwrap(), connection: None, with });
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
            assert!(units(element["value"].as_str().unwrap_or_default()) <= VALUE_UNITS_MAX);
            assert!(units(element["text"]["text"].as_str().unwrap()) <= BUTTON_UNITS_MAX);
        }
    }
}

#[test]
fn largest_card_fits_and_says_what_is_missing() {
    let mut approval = largest();
    assert_fits(&render(&approval));
    assert!(whole(&render(&approval)).contains("5 more fields; the hash covers all of them"));
    assert!(whole(&render(&approval)).contains("more characters; the hash covers all of it"));
    approval.status = ApprovalStatus::Rejected;
    assert_fits(&render(&approval));
    assert_fits(&render(&question(&"<\u{200b}>".repeat(10_000))));
    let Subject::Action { action, verdict, rollback } = approval.subject.clone() else { panic!("an action") };
    let blind = Action { changes: Vec::new(), fields: json!("<".repeat(100_000)), ..*action };
    approval.subject = Subject::Action { action: Box::new(blind), verdict, rollback };
    assert_fits(&render(&approval));
}

/// A vote in Slack would be refused, so the card has the link to the console instead of buttons.
#[test]
fn card_of_an_assured_approval_has_no_buttons() {
    let mut approval = about(action());
    approval.requirement.assurance = domain::verdict::RequiredAssurance::IdentityProvider;
    let console = "https://countersign.acme.example".parse().unwrap();
    let linked = super::render(&approval, Some(&console));
    assert!(whole(&linked).contains("Approvers must sign in to the console through the identity provider."));
    let elements = &linked["blocks"].as_array().unwrap().last().unwrap()["elements"];
    assert_eq!(elements.as_array().unwrap().len(), 1);
    assert_eq!(elements[0]["url"], "https://countersign.acme.example/approvals/ap-1");
    let alone = render(&approval).to_string();
    assert!(!alone.contains(APPROVE) && !alone.contains(REJECT), "{alone}");
    assert_fits(&linked);
}

fn has_approve(message: &Value) -> bool {
    message.to_string().contains(APPROVE)
}

#[test]
fn long_field_does_not_hide_the_others() {
    let url = format!("https://pay.example/transfer?to=eve&{}", "x=1&".repeat(100));
    let fields = json!({
        "body": { "note": "x".repeat(5_000), "amount": 9_000, "more": "y".repeat(4_000) },
        "headers": { "x-a": "1" },
        "method": "POST",
        "timeout": "20s",
        "url": url,
    });
    let approval = about(Action { changes: Vec::new(), fields, ..action() });
    let message = render(&approval);
    let shown = whole(&message);
    let position =
        |line: &str| shown.lines().position(|shown| shown == line).unwrap_or_else(|| panic!("{shown}"));
    let first =
        [r#"method: "POST""#.to_owned(), format!("url: {}", json!(url).to_string().replace('&', "&amp;"))];
    let lines = [&first[0], &first[1], "body.amount: 9000", r#"headers.x-a: "1""#, r#"timeout: "20s""#];
    assert!(lines.map(position).is_sorted(), "{shown}");
    assert!(shown.contains("Not shown in full: body.more, body.note."), "{shown}");
    assert!(!has_approve(&message) && message.to_string().contains(REJECT), "{message}");
    assert_fits(&message);

    let console = "https://countersign.acme.example".parse().unwrap();
    let linked = super::render(&approval, Some(&console));
    let elements = linked["blocks"].as_array().unwrap().last().unwrap()["elements"].clone();
    assert_eq!(elements[0]["url"], "https://countersign.acme.example/approvals/ap-1");
    assert!(!has_approve(&linked));
    // The console shows everything.
    let complete = whole(&render_whole(&approval));
    assert!(complete.contains(&"x".repeat(5_000)) && complete.contains(&"y".repeat(4_000)));
    assert!(has_approve(&render_whole(&approval)));
}

fn any_text() -> impl Strategy<Value = String> {
    let length = prop_oneof![4 => 0..8_usize, 2 => 0..80_usize, 1 => 200..1_200_usize];
    (prop_oneof![Just('x'), Just('<'), Just('\n'), any::<char>()], length)
        .prop_map(|(c, length)| c.to_string().repeat(length))
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any_text().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::from),
            vec((any_name(), inner), 0..4).prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn any_name() -> impl Strategy<Value = String> {
    prop_oneof![4 => "[a-z]{1,8}", 1 => any_text()]
}

fn any_action() -> impl Strategy<Value = Action> {
    let change = (any_name(), prop::option::of(any_value()), any_value());
    let change = change.prop_map(|(field, before, after)| FieldChange { field, before, after });
    let fields = prop_oneof![4 => vec((any_name(), any_value()), 0..20)
        .prop_map(|fields| Value::Object(fields.into_iter().collect())), 1 => any_value()];
    (fields, vec(change, 0..10), any_text(), any_text()).prop_map(|(fields, changes, target, why)| Action {
        fields,
        changes,
        target,
        reversibility: Reversibility::Irreversible(why),
        ..action()
    })
}

/// The values of an object at any depth, with null and empty objects.
fn values(value: &Value) -> Vec<&Value> {
    match value {
        Value::Object(fields) if !fields.is_empty() => fields.values().flat_map(values).collect(),
        value => vec![value],
    }
}

/// The values of the arguments of an action. A null parameter of the tool itself is absent.
fn arguments(fields: &Value) -> Vec<&Value> {
    match fields {
        Value::Object(fields) => fields.values().filter(|value| !value.is_null()).flat_map(values).collect(),
        Value::Null => Vec::new(),
        value => vec![value],
    }
}

/// Every text that a reader needs to know the action.
fn expected_texts(action: &Action) -> Vec<String> {
    let Reversibility::Irreversible(why) = &action.reversibility else { panic!("irreversible") };
    let changes = action.changes.iter().flat_map(|change| {
        let before = change.before.iter().map(Value::to_string);
        before.chain([change.field.clone(), change.after.to_string()])
    });
    let arguments = arguments(&action.fields).into_iter().map(Value::to_string);
    changes
        .chain(arguments)
        .chain([action.target.clone(), why.clone()])
        .map(|text| escape::line(&text, TextLimit::UNLIMITED))
        .collect()
}

#[test]
fn card_shows_null_and_empty_objects() {
    let fields = json!({
        "method": "POST",
        "body": { "query": { "match_all": {} }, "mfa_policy": null },
        "timeout": null,
    });
    let card = whole(&render(&about(Action { fields, changes: Vec::new(), ..action() })));
    for shown in ["body.query.match_all", "{}", "body.mfa_policy", "null"] {
        assert!(card.contains(shown), "{shown}: {card}");
    }
    assert!(!card.contains("timeout"), "{card}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn card_shows_all_of_an_action_or_has_no_approve(action in any_action()) {
        let approval = about(action.clone());
        let message = render(&approval);
        assert_fits(&message);
        let shown = whole(&message);
        if has_approve(&message) {
            for text in expected_texts(&action) {
                prop_assert!(shown.contains(&text), "{text}: {shown}");
            }
            prop_assert_eq!(incomplete(&approval, None), None);
        } else {
            let text = incomplete(&approval, None).unwrap();
            prop_assert!(text.contains("Not shown in full: ") && shown.contains(&text), "{shown}");
        }
        let complete = whole(&render_whole(&approval));
        for text in expected_texts(&action) {
            prop_assert!(complete.contains(&text), "{text}: {complete}");
        }
    }
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

#[test]
fn cost_is_shown_only_if_the_action_has_one() {
    let free = about(Action { estimate_microusd: None, ..action() });
    assert!(!render(&free).to_string().contains("cost"));
    assert!(render(&about(action())).to_string().contains("Maximum cost\\n$0.0123"));
}
