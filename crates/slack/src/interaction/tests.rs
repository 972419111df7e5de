//! Which payloads are valid interactions.

use serde_json::json;

use super::*;

fn token() -> String {
    format!("v1:ap-1:acme:run-1:{}", Digest::ZERO)
}

fn press(action_id: &str) -> Value {
    json!({
        "type": "block_actions",
        "user": { "id": "U0ANNA", "name": "anna", "team_id": "T0SIM" },
        "team": { "id": "T0SIM", "domain": "sim" },
        "enterprise": null,
        "container": { "type": "message", "channel_id": "C0123", "message_ts": "1700000000.000100" },
        "trigger_id": "1.2.abc",
        "response_url": "https://hooks.slack.com/actions/T0SIM/1/x",
        "actions": [{ "type": "button", "action_id": action_id, "value": token() }],
    })
}

fn submission(reason: &Value) -> Value {
    json!({
        "type": "view_submission",
        "user": { "id": "U0ANNA" },
        "team": { "id": "T0SIM" },
        "trigger_id": "1.2.abc",
        "view": {
            "callback_id": CALLBACK_ID,
            "private_metadata": format!("{} C0123/1700000000.000100", token()),
            "state": { "values": { REASON_BLOCK: { REASON_INPUT: { "value": reason } } } },
        },
    })
}

fn form(payload: &str) -> Vec<u8> {
    let mut form = url::form_urlencoded::Serializer::new(String::new());
    form.append_pair("payload", payload).finish().into_bytes()
}

fn read(payload: &Value) -> Result<Interaction, InvalidInteraction> {
    parse(&form(&payload.to_string()), &ResponseOrigin::slack())
}

/// The error of an approving press in which `pointer` is replaced.
fn error_with(pointer: &str, value: Value) -> InvalidInteraction {
    let mut payload = press(APPROVE);
    *payload.pointer_mut(pointer).unwrap() = value;
    read(&payload).unwrap_err()
}

#[test]
fn approve_press_is_a_decision() {
    let Ok(Interaction::Decision(click)) = read(&press(APPROVE)) else { panic!("a decision") };
    assert!(click.approve);
    assert_eq!((click.team.as_str(), click.user.as_str()), ("T0SIM", "U0ANNA"));
    assert_eq!(click.token().to_string(), token());
    assert_eq!(click.place.to_string(), "C0123/1700000000.000100");
    assert!(click.response_url.is_some());
}

#[test]
fn reject_press_decides_nothing_yet() {
    let Ok(Interaction::RejectPressed(click)) = read(&press(REJECT)) else { panic!("a reject press") };
    assert!(!click.approve && click.reason.is_empty());
}

#[test]
fn submitted_modal_is_a_rejection_with_reason() {
    let Ok(Interaction::Decision(click)) = read(&submission(&json!("  not & today "))) else {
        panic!("a decision")
    };
    assert_eq!((click.approve, click.reason.as_str()), (false, "not & today"));
    assert_eq!(click.token().to_string(), token());
}

#[test]
fn rejection_needs_a_reason_within_its_limit() {
    for bad in [json!(""), json!(" \n "), json!(null), json!(7), json!("x".repeat(MESSAGE_CHARS_MAX + 1))] {
        assert_eq!(read(&submission(&bad)), Err(InvalidInteraction::Reason), "{bad}");
    }
}

#[test]
fn form_has_exactly_one_payload() {
    let good = form(&press(APPROVE).to_string());
    let bad: [Vec<u8>; 6] = [
        Vec::new(),
        press(APPROVE).to_string().into_bytes(),
        [good.as_slice(), b"&payload=%7B%7D"].concat(),
        [b"a=1&", good.as_slice()].concat(),
        [good.as_slice(), b"%2"].concat(),
        [good.as_slice(), b"%zz"].concat(),
    ];
    for body in bad {
        assert_eq!(parse(&body, &ResponseOrigin::slack()), Err(InvalidInteraction::NotAForm));
    }
    let huge = vec![b'x'; BODY_BYTES_MAX + 1];
    assert_eq!(
        parse(&huge, &ResponseOrigin::slack()),
        Err(InvalidInteraction::TooLarge { bytes: BODY_BYTES_MAX + 1 })
    );
}

#[test]
fn ambiguous_json_is_rejected() {
    let deep = "[".repeat(10_000);
    for payload in
        ["", "{", r#"{"type":"block_actions","type":"view_submission"}"#, r#"{"n":9007199254740993}"#, &deep]
    {
        let refused = parse(&form(payload), &ResponseOrigin::slack());
        assert!(matches!(refused, Err(InvalidInteraction::Json(_))), "{refused:?}");
    }
    let invalid = parse(b"payload=%22%ff%22", &ResponseOrigin::slack());
    assert!(matches!(invalid, Err(InvalidInteraction::Json(_))), "{invalid:?}");
}

#[test]
fn ids_are_checked() {
    let bad = [
        json!("U1 "),
        json!("u0anna"),
        json!("U0:X"),
        json!("U"),
        json!(7),
        json!(format!("U{}", "1".repeat(40))),
    ];
    for id in bad {
        assert_eq!(
            error_with("/user/id", id.clone()),
            InvalidInteraction::Field { field: "user.id" },
            "{id}"
        );
    }
    for id in [json!("C0123"), json!("T0:SIM"), json!("")] {
        assert_eq!(
            error_with("/team/id", id.clone()),
            InvalidInteraction::Field { field: "team.id" },
            "{id}"
        );
    }
    assert_eq!(error_with("/team", json!(null)), InvalidInteraction::Field { field: "team.id" });
    assert_eq!(
        error_with("/container/channel_id", json!("C0/1")),
        InvalidInteraction::Field { field: "container" }
    );
    assert_eq!(error_with("/trigger_id", json!("a b")), InvalidInteraction::Field { field: "trigger_id" });
}

#[test]
fn only_one_press_of_a_known_button_counts() {
    let action = press(APPROVE)["actions"][0].clone();
    for actions in [json!([]), json!([action, action]), json!({})] {
        assert_eq!(error_with("/actions", actions), InvalidInteraction::Action);
    }
    assert_eq!(read(&press("other.app")), Err(InvalidInteraction::Action));
    assert_eq!(error_with("/actions/0/value", json!("v2:x")), InvalidInteraction::Token(InvalidButtonToken));
    assert_eq!(error_with("/type", json!("block_suggestion")), InvalidInteraction::Kind);
    assert_eq!(error_with("/type", json!("shortcut")), InvalidInteraction::Field { field: "callback_id" });
}

#[test]
fn debug_does_not_show_the_response_url() {
    let shown = format!("{:?}", read(&press(APPROVE)).unwrap());
    assert!(!shown.contains("hooks.slack.com"), "{shown}");
}

fn shortcut_payload(kind: &str, callback_id: &str) -> Value {
    json!({
        "type": kind,
        "callback_id": callback_id,
        "user": { "id": "U0ANNA", "team_id": "T0SIM" },
        "team": { "id": "T0SIM", "domain": "sim" },
        "trigger_id": "1.2.abc",
        "channel": { "id": "C0123", "name": "ops" },
        "message": { "type": "message", "bot_id": "B01", "ts": "1700000000.000100", "text": "db1 &amp; db2" },
    })
}

fn start_submission(values: &Value) -> Value {
    json!({
        "type": "view_submission",
        "user": { "id": "U0ANNA", "team_id": "T0SIM" },
        "team": { "id": "T0SIM" },
        "trigger_id": "1.2.abc",
        "view": { "id": "V0123", "callback_id": start_modal::CALLBACK_ID, "state": { "values": values } },
    })
}

fn form_values(workflow: &Value, input: &Value) -> Value {
    json!({
        start_modal::WORKFLOW_BLOCK: { start_modal::WORKFLOW_NAME: { "selected_option": { "value": workflow } } },
        start_modal::INPUT_BLOCK: { start_modal::INPUT_TEXT: { "value": input } },
    })
}

#[test]
fn shortcut_has_user_and_message() {
    let Ok(Interaction::ShortcutUsed(global)) = read(&shortcut_payload("shortcut", start_modal::START))
    else {
        panic!("a shortcut")
    };
    assert_eq!((global.user.as_str(), global.message), ("U0ANNA", None));
    let Ok(Interaction::ShortcutUsed(on_message)) =
        read(&shortcut_payload("message_action", start_modal::ON_MESSAGE))
    else {
        panic!("a shortcut")
    };
    let message = on_message.message.unwrap();
    assert_eq!(
        (message.place.to_string().as_str(), message.text.as_str()),
        ("C0123/1700000000.000100", "db1 &amp; db2")
    );
    assert_eq!(message.permalink, None);
}

#[test]
fn unknown_shortcut_is_rejected() {
    for (kind, callback_id) in
        [("shortcut", "other"), ("shortcut", start_modal::ON_MESSAGE), ("message_action", start_modal::START)]
    {
        assert_eq!(
            read(&shortcut_payload(kind, callback_id)),
            Err(InvalidInteraction::Action),
            "{kind} {callback_id}"
        );
    }
    let mut bad_ts = shortcut_payload("message_action", start_modal::ON_MESSAGE);
    bad_ts["message"]["ts"] = json!("now");
    assert_eq!(read(&bad_ts), Err(InvalidInteraction::Field { field: "message" }));
    let mut bot = shortcut_payload("shortcut", start_modal::START);
    bot["user"]["is_bot"] = json!(true);
    assert_eq!(read(&bot), Err(InvalidInteraction::Bot));
}

#[test]
fn start_submission_has_workflow_and_input() {
    for (input, expected) in [(json!("host=db1"), "host=db1"), (json!(null), "")] {
        let Ok(Interaction::StartSubmitted(submitted_start)) =
            read(&start_submission(&form_values(&json!("w"), &input)))
        else {
            panic!("a start submission")
        };
        assert_eq!((submitted_start.view.as_str(), submitted_start.workflow.as_str()), ("V0123", "w"));
        assert_eq!(submitted_start.input, expected);
    }
}

#[test]
fn invalid_start_submission_is_rejected() {
    let long = "x".repeat(start_modal::INPUT_UNITS_MAX + 1);
    let bad = Err(InvalidInteraction::Field { field: "view.state" });
    for (workflow, input) in
        [(json!(null), json!("")), (json!(7), json!("")), (json!("w"), json!(long)), (json!("w"), json!({}))]
    {
        assert_eq!(read(&start_submission(&form_values(&workflow, &input))), bad, "{workflow}");
    }
    let mut unnamed = start_submission(&form_values(&json!("w"), &json!("")));
    unnamed["view"]["id"] = json!("V0:1");
    assert_eq!(read(&unnamed), Err(InvalidInteraction::Field { field: "view.id" }));
}
