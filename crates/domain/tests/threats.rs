//! The named cases of invalid input that the domain must reject: with a clear error, without a panic, and without
//! echoing long input.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a case fails by panicking")]

use countersign_domain as domain;

use domain::id::{ID_BYTES_MAX, InvalidId};
use domain::json::{BYTES_MAX, DEPTH_MAX, InvalidJson, check, parse};
use domain::key::{InvalidIdempotencyKey, KEY_BYTES_MAX};
use domain::{
    EventName, IdempotencyKey, OpId, RunId, SignalId, StepId, TenantId, ToolName, WorkerId, WorkflowName,
    WorkspaceId,
};
use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::{Value, json};

/// An error that a user reads at a glance.
const ANSWER_CHARS_MAX: usize = 200;

fn main() {
    let cases = [
        case("body_empty", body_empty),
        case("body_26MB", body_26mb),
        case("json_depth_10000", json_depth_10000),
        case("json_duplicate_keys", json_duplicate_keys),
        case("json_int_2^53_plus_1", json_int_2_53_plus_1),
        case("json_1e400", json_1e400),
        case("json_lone_surrogate", json_lone_surrogate),
        case("utf8_invalid", utf8_invalid),
        case("nul_in_string", nul_in_string),
        case("sqs_forbidden_control_char", sqs_forbidden_control_char),
        case("key_delimiter_in_id", key_delimiter_in_id),
        case("id_2049_bytes", id_2049_bytes),
    ];
    libtest_mimic::run(&Arguments::from_args(), cases.into()).exit();
}

fn case(name: &str, body: fn()) -> Trial {
    Trial::test(name, move || {
        body();
        Ok::<(), Failed>(())
    })
}

fn body_empty() {
    assert_eq!(parse(b""), Err(InvalidJson::Empty));
    for blank in [" ", "\n\t\r ", "\u{feff}"] {
        refused(blank.as_bytes());
    }
}

fn body_26mb() {
    let bytes = 26 * 1024 * 1024;
    // Rejected by its length, before it is parsed.
    assert_eq!(parse(&vec![b'['; bytes]), Err(InvalidJson::TooLarge { bytes }));
    assert_eq!(parse(&text_of(BYTES_MAX + 1)), Err(InvalidJson::TooLarge { bytes: BYTES_MAX + 1 }));
    assert!(parse(&text_of(BYTES_MAX)).is_ok());
}

/// A JSON string of exactly `bytes` bytes.
fn text_of(bytes: usize) -> Vec<u8> {
    format!("\"{}\"", "x".repeat(bytes - 2)).into_bytes()
}

fn json_depth_10000() {
    let deep = 10_000;
    for (open, close) in [("[", "]"), (r#"{"a":"#, "}"), (r#"[{"a":"#, "}]")] {
        let whole = format!("{}null{}", open.repeat(deep), close.repeat(deep));
        let cut_off = open.repeat(deep);
        for document in [whole, cut_off] {
            let answer = refused(document.as_bytes());
            assert!(answer.contains("levels deep"), "{answer}");
        }
    }
    assert!(check(&nested(DEPTH_MAX)).is_ok());
    assert!(check(&nested(DEPTH_MAX + 1)).is_err());
    assert!(check(&nested(1_000)).is_err());
}

fn nested(levels: usize) -> Value {
    (0..levels).fold(Value::Null, |inner, _| Value::Array(vec![inner]))
}

fn json_duplicate_keys() {
    for document in [
        r#"{"a":1,"a":1}"#,
        r#"{"a":1,"b":2,"a":3}"#,
        r#"{"role":"user","\u0072ole":"admin"}"#,
        r#"[{"deep":{"x":null,"x":null}}]"#,
    ] {
        let answer = refused(document.as_bytes());
        assert!(answer.contains("appears twice"), "{answer}");
    }
    let long = "x".repeat(1_000_000);
    refused(format!(r#"{{"{long}":1,"{long}":2}}"#).as_bytes());
    assert!(parse(br#"{"a":1,"A":2,"b":{"a":3}}"#).is_ok());
}

fn json_int_2_53_plus_1() {
    for number in [
        "9007199254740993",
        "-9007199254740993",
        "9007199254740992",
        "9007199254740993.0",
        "9007199254740992.5",
        "9.007199254740993e15",
        "18446744073709551615",
        "-9223372036854775808",
        "123456789012345678901234567890",
        "1e300",
    ] {
        for document in [number.to_owned(), format!(r#"{{"id":[{number}]}}"#)] {
            let answer = refused(document.as_bytes());
            assert!(answer.contains("beyond 2^53"), "{number}: {answer}");
        }
    }
    for made_here in [json!(9_007_199_254_740_993_u64), json!(-9_007_199_254_740_993_i64), json!(1e300)] {
        assert!(check(&made_here).is_err(), "{made_here}");
    }
    assert_eq!(parse(b"9007199254740991"), Ok(json!(9_007_199_254_740_991_u64)));
    assert_eq!(parse(br#""9007199254740993""#), Ok(json!("9007199254740993")));
}

fn json_1e400() {
    for number in ["1e400", "-1e400", "1e309", "123456789e999999999", "1e99999999999999999999"] {
        refused(number.as_bytes());
        refused(format!(r#"{{"amount":{number}}}"#).as_bytes());
    }
    for not_a_number in ["NaN", "Infinity", "-Infinity", "0x10", "01", "1.", ".5", "+1"] {
        refused(not_a_number.as_bytes());
    }
}

fn json_lone_surrogate() {
    for text in [r#""\ud800""#, r#""\udc00""#, r#""\ud800\ud800""#, r#""\udc00\ud800""#, r#""\ud83dx""#] {
        refused(text.as_bytes());
        refused(format!("{{{text}:1}}").as_bytes());
    }
    assert_eq!(parse(br#""\ud83d\ude00""#), Ok(json!("😀")));
}

fn utf8_invalid() {
    let overlong_nul = [0xc0, 0x80];
    let surrogate = [0xed, 0xa0, 0x80];
    let beyond_unicode = [0xf4, 0x90, 0x80, 0x80];
    let cut_off = [0xe2, 0x82];
    let parts: [&[u8]; 6] = [&[0xff], &[0x80], &overlong_nul, &surrogate, &beyond_unicode, &cut_off];
    for part in parts {
        refused(&[b"\"", part, b"\""].concat());
        refused(&[b"{\"", part, b"\":1}"].concat());
        refused(part);
        refused(&[b"[1] ", part].concat());
    }
}

fn nul_in_string() {
    // JSON has no unescaped NUL. An escaped one is a character like any other.
    for document in ["\"a\0b\"", "{\"a\0\":1}", "\0", "1\0"] {
        refused(document.as_bytes());
    }
    for (document, value) in [(r#""a\u0000b""#, json!("a\0b")), (r#"{"a\u0000":1}"#, json!({ "a\0": 1 }))] {
        assert_eq!(parse(document.as_bytes()).as_ref(), Ok(&value));
        assert_eq!(check(&value), Ok(()));
    }
}

fn sqs_forbidden_control_char() {
    for c in '\0'..=char::MAX {
        let text = Value::String(c.into());
        assert_eq!(parse(text.to_string().as_bytes()).as_ref(), Ok(&text), "U+{:04X}", u32::from(c));
        assert_eq!(check(&text), Ok(()), "U+{:04X}", u32::from(c));
    }
    // A queue message contains only ids, which contain none of these characters.
    for c in ('\0'..=char::MAX).filter(|c| !fits_a_queue(*c)) {
        assert!(ids(&format!("a{c}b")).iter().all(Result::is_err), "U+{:04X}", u32::from(c));
    }
}

/// The characters that SQS allows in a message, by its documentation.
fn fits_a_queue(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}

fn key_delimiter_in_id() {
    for bad in ["a#b", "#", "a:b", "a/b", "../a", "a b", "a\0", "a\n", "a%23b", "ä", "a\u{202e}b"] {
        for answer in ids(bad) {
            assert!(matches!(answer, Err(InvalidId::Charset { .. })), "{bad:?}: {answer:?}");
        }
    }
    for path in [".", "..", "..."] {
        for answer in ids(path) {
            assert!(matches!(answer, Err(InvalidId::Dots { .. })), "{path:?}: {answer:?}");
        }
    }
    for bad in ["a#b", "#", "a b", "a\n", "a\0", "ä", "a\u{7f}"] {
        assert!(matches!(IdempotencyKey::new(bad), Err(InvalidIdempotencyKey::Charset { .. })), "{bad:?}");
        assert!(serde_json::from_value::<IdempotencyKey>(json!(bad)).is_err());
    }
}

fn id_2049_bytes() {
    let bytes = 2_049;
    for long in ["x".repeat(bytes), "#".repeat(bytes), "ä".repeat(bytes)] {
        for answer in ids(&long) {
            let refusal = answer.expect_err("too long");
            assert!(matches!(refusal, InvalidId::TooLong { .. }), "{refusal}");
            assert!(refusal.to_string().len() < ANSWER_CHARS_MAX);
        }
        let refusal = IdempotencyKey::new(&long).expect_err("too long");
        assert!(matches!(refusal, InvalidIdempotencyKey::TooLong { .. }), "{refusal}");
    }
    assert!(ids(&"x".repeat(ID_BYTES_MAX)).into_iter().all(|answer| answer.is_ok()));
    assert!(ids(&"x".repeat(ID_BYTES_MAX + 1)).into_iter().all(|answer| answer.is_err()));
    assert!(IdempotencyKey::new(&"k".repeat(KEY_BYTES_MAX)).is_ok());
}

/// The result of every id type for `text`. Deserialization must agree.
fn ids(text: &str) -> Vec<Result<(), InvalidId>> {
    macro_rules! each {
        ($($id:ident),*) => {
            vec![$({
                let answer = $id::new(text).map(|_| ());
                assert_eq!(serde_json::from_value::<$id>(json!(text)).is_ok(), answer.is_ok());
                answer
            }),*]
        };
    }
    each![TenantId, WorkspaceId, RunId, StepId, WorkflowName, ToolName, WorkerId, EventName, SignalId, OpId]
}

/// The error for a document that must be rejected: with a reason, and short.
fn refused(document: &[u8]) -> String {
    let answer = parse(document).unwrap_err().to_string();
    assert!(!answer.is_empty() && answer.chars().count() < ANSWER_CHARS_MAX, "{answer}");
    answer
}
