//! Properties of JSON documents.

use domain::json::{canonical, check, parse};
use domain::payload::Fingerprint;
use proptest::prelude::*;
use serde_json::{Map, Number, Value};

use crate::cases;

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn parser_never_panics_on_bytes(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        let _ = parse(&bytes);
    }

    #[test]
    fn parser_never_panics_on_json_like_text(text in r#"[\[\]{}",:0-9.eE+\-\\unltrfas \t]{0,200}"#) {
        let _ = parse(text.as_bytes());
    }

    #[test]
    fn canonical_form_is_stable(value in any_value()) {
        let once = canonical(&value);
        let read = parse(&once).unwrap();
        prop_assert_eq!(canonical(&read), once);
    }

    #[test]
    fn number_spelling_keeps_its_fingerprint(text in r"-?(0|[1-9][0-9]{0,15})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?") {
        if let Ok(value) = parse(text.as_bytes()) {
            let kept = serde_json::to_vec(&value).unwrap();
            let loaded: Value = serde_json::from_slice(&kept).unwrap();
            prop_assert_eq!(Fingerprint::of(&loaded), Fingerprint::of(&value), "{}", text);
        }
    }

    #[test]
    fn parse_accepts_checked_values(value in any_value()) {
        prop_assert_eq!(check(&value), Ok(()));
        let written = serde_json::to_vec(&value).unwrap();
        prop_assert_eq!(canonical(&parse(&written).unwrap()), canonical(&value));
    }

    #[test]
    fn check_and_parse_agree(value in any_careless_value()) {
        let written = serde_json::to_vec(&value).unwrap();
        prop_assert_eq!(check(&value).is_ok(), parse(&written).is_ok(), "{}", value);
    }
}

/// A value that keeps the rules.
fn any_value() -> impl Strategy<Value = Value> {
    any_value_of(any_fair_number(), any_fair_text)
}

/// A value that may break the rules.
fn any_careless_value() -> impl Strategy<Value = Value> {
    let number = prop_oneof![
        any::<u64>().prop_map(Number::from),
        any::<i64>().prop_map(Number::from),
        any::<f64>().prop_filter_map("finite", Number::from_f64),
    ];
    any_value_of(number, || any::<String>().boxed())
}

fn any_value_of(
    number: impl Strategy<Value = Number> + 'static,
    text: fn() -> BoxedStrategy<String>,
) -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        number.prop_map(Value::Number),
        text().prop_map(Value::String),
    ];
    leaf.prop_recursive(4, 32, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            prop::collection::btree_map(text(), inner, 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn any_fair_number() -> impl Strategy<Value = Number> {
    prop_oneof![
        (-9_007_199_254_740_991..=9_007_199_254_740_991_i64).prop_map(Number::from),
        (-1e15..1e15_f64).prop_filter_map("finite", Number::from_f64),
        any::<f64>()
            .prop_filter("a fraction", |f| f.fract() != 0.0)
            .prop_filter_map("finite", Number::from_f64),
    ]
}

fn any_fair_text() -> BoxedStrategy<String> {
    "[a-zA-Z0-9 \t\n\r\"\\\\/äß€😀\u{7f}-\u{9f}]{0,12}".boxed()
}
