//! What counts as a person's answer, and what does not.

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
    parse(&form(&payload.to_string()), &Hooks::slack())
}

/// What becomes of an approving press in which `pointer` is replaced.
fn with(pointer: &str, value: Value) -> InvalidInteraction {
    let mut payload = press(APPROVE);
    *payload.pointer_mut(pointer).unwrap() = value;
    read(&payload).unwrap_err()
}

#[test]
fn a_press_of_approve_is_an_answer() {
    let Ok(Interaction::Answered(click)) = read(&press(APPROVE)) else { panic!("an answer") };
    assert!(click.approve);
    assert_eq!((click.team.as_str(), click.user.as_str()), ("T0SIM", "U0ANNA"));
    assert_eq!(click.token().to_string(), token());
    assert_eq!(click.place.to_string(), "C0123/1700000000.000100");
    assert!(click.response_url.is_some());
}

#[test]
fn a_press_of_reject_decides_nothing_yet() {
    let Ok(Interaction::WantsToReject(click)) = read(&press(REJECT)) else { panic!("no answer yet") };
    assert!(!click.approve && click.reason.is_empty());
}

#[test]
fn a_window_that_was_sent_off_is_a_no_with_a_reason() {
    let Ok(Interaction::Answered(click)) = read(&submission(&json!("  not & today "))) else {
        panic!("an answer")
    };
    assert_eq!((click.approve, click.reason.as_str()), (false, "not & today"));
    assert_eq!(click.token().to_string(), token());
}

#[test]
fn a_no_needs_a_reason_within_its_bound() {
    for bad in [json!(""), json!(" \n "), json!(null), json!(7), json!("x".repeat(MESSAGE_CHARS_MAX + 1))] {
        assert_eq!(read(&submission(&bad)), Err(InvalidInteraction::Reason), "{bad}");
    }
}

#[test]
fn a_form_has_one_payload_and_nothing_else() {
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
        assert_eq!(parse(&body, &Hooks::slack()), Err(InvalidInteraction::NotAForm));
    }
    let huge = vec![b'x'; BODY_BYTES_MAX + 1];
    assert_eq!(
        parse(&huge, &Hooks::slack()),
        Err(InvalidInteraction::TooLarge { bytes: BODY_BYTES_MAX + 1 })
    );
}

#[test]
fn json_that_readers_disagree_about_is_refused() {
    let deep = "[".repeat(10_000);
    for payload in
        ["", "{", r#"{"type":"block_actions","type":"view_submission"}"#, r#"{"n":9007199254740993}"#, &deep]
    {
        let refused = parse(&form(payload), &Hooks::slack());
        assert!(matches!(refused, Err(InvalidInteraction::Json(_))), "{refused:?}");
    }
    let invalid = parse(b"payload=%22%ff%22", &Hooks::slack());
    assert!(matches!(invalid, Err(InvalidInteraction::Json(_))), "{invalid:?}");
}

#[test]
fn ids_are_held_to_their_charset() {
    let bad = [
        json!("U1 "),
        json!("u0anna"),
        json!("U0:X"),
        json!("U"),
        json!(7),
        json!(format!("U{}", "1".repeat(40))),
    ];
    for id in bad {
        assert_eq!(with("/user/id", id.clone()), InvalidInteraction::Field { field: "user.id" }, "{id}");
    }
    for id in [json!("C0123"), json!("T0:SIM"), json!("")] {
        assert_eq!(with("/team/id", id.clone()), InvalidInteraction::Field { field: "team.id" }, "{id}");
    }
    assert_eq!(with("/team", json!(null)), InvalidInteraction::Field { field: "team.id" });
    assert_eq!(
        with("/container/channel_id", json!("C0/1")),
        InvalidInteraction::Field { field: "container" }
    );
    assert_eq!(with("/trigger_id", json!("a b")), InvalidInteraction::Field { field: "trigger_id" });
}

#[test]
fn only_one_press_of_our_own_buttons_counts() {
    let action = press(APPROVE)["actions"][0].clone();
    for actions in [json!([]), json!([action, action]), json!({})] {
        assert_eq!(with("/actions", actions), InvalidInteraction::Action);
    }
    assert_eq!(read(&press("somebody.else")), Err(InvalidInteraction::Action));
    assert_eq!(with("/actions/0/value", json!("v2:x")), InvalidInteraction::Token(InvalidToken));
    assert_eq!(with("/type", json!("block_suggestion")), InvalidInteraction::Kind);
    assert_eq!(with("/type", json!("shortcut")), InvalidInteraction::Field { field: "callback_id" });
}

#[test]
fn debug_does_not_tell_where_answers_go() {
    let shown = format!("{:?}", read(&press(APPROVE)).unwrap());
    assert!(!shown.contains("hooks.slack.com"), "{shown}");
}

fn used(kind: &str, callback_id: &str) -> Value {
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

fn sent_off(values: &Value) -> Value {
    json!({
        "type": "view_submission",
        "user": { "id": "U0ANNA", "team_id": "T0SIM" },
        "team": { "id": "T0SIM" },
        "trigger_id": "1.2.abc",
        "view": { "id": "V0123", "callback_id": window::CALLBACK_ID, "state": { "values": values } },
    })
}

fn entered(workflow: &Value, input: &Value) -> Value {
    json!({
        window::WORKFLOW_BLOCK: { window::WORKFLOW_NAME: { "selected_option": { "value": workflow } } },
        window::INPUT_BLOCK: { window::INPUT_TEXT: { "value": input } },
    })
}

#[test]
fn a_shortcut_says_who_used_it_and_on_which_message() {
    let Ok(Interaction::WantsToStart(global)) = read(&used("shortcut", window::START)) else {
        panic!("a shortcut")
    };
    assert_eq!((global.user.as_str(), global.said), ("U0ANNA", None));
    let Ok(Interaction::WantsToStart(on_message)) = read(&used("message_action", window::ON_MESSAGE)) else {
        panic!("a shortcut")
    };
    let said = on_message.said.unwrap();
    assert_eq!(
        (said.place.to_string().as_str(), said.text.as_str()),
        ("C0123/1700000000.000100", "db1 &amp; db2")
    );
    assert_eq!(said.permalink, None);
}

#[test]
fn a_shortcut_of_somebody_elses_is_none_of_ours() {
    for (kind, called) in
        [("shortcut", "other"), ("shortcut", window::ON_MESSAGE), ("message_action", window::START)]
    {
        assert_eq!(read(&used(kind, called)), Err(InvalidInteraction::Action), "{kind} {called}");
    }
    let mut nowhere = used("message_action", window::ON_MESSAGE);
    nowhere["message"]["ts"] = json!("now");
    assert_eq!(read(&nowhere), Err(InvalidInteraction::Field { field: "message" }));
    let mut bot = used("shortcut", window::START);
    bot["user"]["is_bot"] = json!(true);
    assert_eq!(read(&bot), Err(InvalidInteraction::Bot));
}

#[test]
fn a_window_for_a_run_says_which_workflow_and_what_was_typed() {
    for (input, typed) in [(json!("host=db1"), "host=db1"), (json!(null), "")] {
        let Ok(Interaction::Starts(filled)) = read(&sent_off(&entered(&json!("w"), &input))) else {
            panic!("a wish for a run")
        };
        assert_eq!((filled.view.as_str(), filled.workflow.as_str()), ("V0123", "w"));
        assert_eq!(filled.input, typed);
    }
}

#[test]
fn a_window_for_a_run_is_held_to_what_slack_lets_people_enter() {
    let long = "x".repeat(window::INPUT_UNITS_MAX + 1);
    let bad = Err(InvalidInteraction::Field { field: "view.state" });
    for (workflow, input) in
        [(json!(null), json!("")), (json!(7), json!("")), (json!("w"), json!(long)), (json!("w"), json!({}))]
    {
        assert_eq!(read(&sent_off(&entered(&workflow, &input))), bad, "{workflow}");
    }
    let mut unnamed = sent_off(&entered(&json!("w"), &json!("")));
    unnamed["view"]["id"] = json!("V0:1");
    assert_eq!(read(&unnamed), Err(InvalidInteraction::Field { field: "view.id" }));
}
