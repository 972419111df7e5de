//! What external systems and API clients send.

use api::{CursorSecret, List};
use bytes::Bytes;
use domain::{Source, Timestamp};
use http::Request;
use ingress::webhook::{AuthScheme, SIGNATURE_HEADER, WebhookAuth, deliver};
use serde_json::Value;
use signing::{Secrets, sign, sign_body};
use slack::interaction::{self, Interaction, ResponseOrigin};
use slack::slash_command;
use store::Cursor;
use testkit::TestClock;

use super::{Execute, FuzzTarget, ensure};

const SECRET: &str = "the secret of acme's senders";

const NOW_SECS: i64 = 1_800_000_000;

/// A new engine after this many deliveries, because each accepted event is stored.
const DELIVERIES_PER_ENGINE: u32 = 500;

/// A header with this value gets a valid signature or credential.
const SIGNED: &str = "SIGNED";

pub(super) const WEBHOOK: FuzzTarget = FuzzTarget {
    name: "webhook",
    corpus: Vec::new,
    words: &[
        "/webhook/github/acme\n",
        "/webhook/servicenow/acme\n",
        "/webhook/webhook/acme\n",
        "/prod/webhook/github/acme\n",
        "x-github-event: ",
        "x-github-delivery: ",
        "x-hub-signature-256: SIGNED\n",
        "x-hub-signature-256: sha256=",
        "x-countersign-signature: SIGNED\n",
        "x-countersign-signature: v0=",
        "x-countersign-timestamp: 1800000000\n",
        "authorization: Basic ",
        "authorization: Bearer ",
        "content-type: application/json\n",
        "content-type: ",
        "; charset=utf-8",
        "idempotency-key: ",
        "traceparent: 00-",
        "\n\n",
        "\"action\": ",
        "\"pull_request\": {",
        "\"number\": ",
        "\"table\": ",
        "\"sys_id\": ",
        "\"event\": ",
        "\\u0000",
        "\\ud800",
        "{\"a\":",
        "[[",
        "1e999",
    ],
    open: webhook,
    executions: 15_000,
};

/// An unsigned delivery is never accepted, a repeated one is accepted once, and no delivery is an error of the server.
fn webhook() -> Execute {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let build = || {
        let clock = TestClock::at(Timestamp(NOW_SECS * 1_000));
        testkit::engine().clock(clock).build()
    };
    let mut engine = build();
    let mut deliveries = 0;
    let secrets = || Secrets::new(SECRET.into()).unwrap();
    let auth = WebhookAuth::default()
        .with(testkit::acme(), Source::GitHub, AuthScheme::GitHub(secrets()))
        .and_then(|auth| auth.with(testkit::acme(), Source::ServiceNow, AuthScheme::Hmac(secrets())))
        .and_then(|auth| auth.with(testkit::acme(), Source::Webhook, AuthScheme::Bearer(secrets())))
        .unwrap();
    Box::new(move |input| {
        let Some((request, is_signed)) = request(input) else { return Ok("no request".to_owned()) };
        deliveries += 1;
        if deliveries % DELIVERIES_PER_ENGINE == 0 {
            engine = build();
        }
        let response = runtime.block_on(deliver(&engine, &auth, &request));
        let status = response.status();
        ensure(!status.is_server_error(), "the server failed")?;
        ensure(is_signed || !status.is_success(), "an unsigned delivery was accepted")?;
        let body: Value = serde_json::from_str(response.body()).map_err(|error| error.to_string())?;
        if body["status"] == "accepted" {
            let again = runtime.block_on(deliver(&engine, &auth, &request));
            let again: Value = serde_json::from_str(again.body()).map_err(|error| error.to_string())?;
            ensure(again["status"] != "accepted", "one delivery was accepted twice")?;
        }
        Ok(format!("{status} {} {} {}", body["status"], body["code"], body["detail"]).replace('"', ""))
    })
}

/// The request in `input`: a path, headers, an empty line and the body. Whether it has a valid signature.
fn request(input: &[u8]) -> Option<(Request<Bytes>, bool)> {
    let end = input.windows(2).position(|window| window == b"\n\n")?;
    let (head, body) = (std::str::from_utf8(&input[..end]).ok()?, &input[end + 2..]);
    let mut lines = head.lines();
    let mut request = Request::post(lines.next()?);
    let mut is_signed = false;
    for line in lines {
        let (name, value) = line.split_once(": ")?;
        let signed = (value == SIGNED).then(|| signature(name, body)).flatten();
        is_signed |= signed.is_some();
        request = request.header(name, signed.unwrap_or_else(|| value.to_owned()));
    }
    Some((request.body(Bytes::copy_from_slice(body)).ok()?, is_signed))
}

fn signature(header: &str, body: &[u8]) -> Option<String> {
    match header {
        "x-hub-signature-256" => Some(sign_body(&SECRET.into(), body)),
        SIGNATURE_HEADER => Some(sign(&SECRET.into(), &NOW_SECS.to_string(), body)),
        "authorization" => Some(format!("Bearer {SECRET}")),
        _ => None,
    }
}

pub(super) const SLACK: FuzzTarget = FuzzTarget {
    name: "slack",
    corpus: Vec::new,
    words: &[
        "payload=",
        "%7B",
        "%22",
        "%5C",
        "%00",
        "+",
        "&",
        "=",
        "team_id=T0SIM",
        "user_id=U0ANNA",
        "text=",
        "trigger_id=",
        "ssl_check=1",
        "\"type\":\"block_actions\"",
        "\"type\":\"view_submission\"",
        "\"type\":\"shortcut\"",
        "\"type\":\"message_action\"",
        "\"actions\":[",
        "\"action_id\":\"approve\"",
        "\"value\":",
        "\"container\":{",
        "\"channel_id\":\"C0\"",
        "\"message_ts\":\"1.2\"",
        "\"response_url\":\"https://hooks.slack.com/\"",
        "\"team\":{\"id\":",
        "\"user\":{\"id\":",
        "\"private_metadata\":",
        "\"state\":{\"values\":",
        "\"callback_id\":",
        "\"is_bot\":true",
    ],
    open: || Box::new(slack),
    executions: 8_000,
};

/// A payload is read in one way, as a form and as the JSON of its field, and a button survives printing.
fn slack(input: &[u8]) -> Result<String, String> {
    let form: Vec<u8> = if input.first() == Some(&b'{') {
        let payload = String::from_utf8_lossy(input);
        url::form_urlencoded::Serializer::new(String::new())
            .append_pair("payload", &payload)
            .finish()
            .into_bytes()
    } else {
        input.to_vec()
    };
    let (allowed, command) = (ResponseOrigin::slack(), slash_command::parse(&form));
    ensure(slash_command::parse(&form) == command, "a second parse of the command differs")?;
    let parsed = interaction::parse(&form, &allowed);
    ensure(interaction::parse(&form, &allowed) == parsed, "a second parse differs")?;
    ensure(parsed.is_err() || command.is_none(), "a body is a command and an interaction")?;
    match parsed {
        Ok(Interaction::Decision(click) | Interaction::RejectPressed(click)) => {
            let token = click.token();
            ensure(token.to_string().parse().as_ref() == Ok(&token), "a printed button differs")?;
            Ok(format!("click {}", click.approve))
        }
        Ok(Interaction::ShortcutUsed(_)) => Ok("shortcut".to_owned()),
        Ok(Interaction::StartSubmitted(_)) => Ok("start".to_owned()),
        Err(error) => Ok(format!("{error} {} {}", command.is_some(), slash_command::is_ssl_check(&form))),
    }
}

pub(super) const CURSOR: FuzzTarget = FuzzTarget {
    name: "cursor",
    corpus: || vec![list(&CursorSecret::new([1; 32])).encode_cursor(&Cursor::new("1234567")).into_bytes()],
    words: &["A", "_", "-", "=", "==", "\u{80}", "0"],
    open: || Box::new(cursor),
    executions: 10_000,
};

fn list(secret: &CursorSecret) -> List<'_> {
    static ACME: std::sync::LazyLock<domain::TenantId> = std::sync::LazyLock::new(testkit::acme);
    List { secret, tenant: &ACME, name: "runs", filter: String::new() }
}

/// A cursor that opens is encrypted to the same text, and any cursor of a store survives encryption.
fn cursor(input: &[u8]) -> Result<String, String> {
    let secret = CursorSecret::new([1; 32]);
    let (list, text) = (list(&secret), String::from_utf8_lossy(input));
    let encrypted = list.encode_cursor(&Cursor::new(text.as_ref()));
    let opened = list.open(&encrypted).map_err(|_| "a encrypted cursor does not open".to_owned())?;
    ensure(opened == Cursor::new(text.as_ref()), "an opened cursor differs")?;
    match list.open(&text) {
        Ok(cursor) => {
            ensure(list.encode_cursor(&cursor) == text, "an opened cursor is encrypted differently")?;
            Ok("opened".to_owned())
        }
        Err(error) => Ok(error.code.to_string()),
    }
}
