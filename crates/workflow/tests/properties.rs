//! Properties of all files and expressions.
#![expect(clippy::unwrap_used, reason = "test code")]

use std::collections::BTreeSet;
use std::sync::Arc;

use countersign_workflow::{CompiledPlan, Scope, Template, parse};
use domain::ToolName;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};

const FILE: &str = r#"workflow: incident
version: 3
environment: staging
steps:
  - id: read
    tool: http.request
    with: &shared { method: GET, url: "https://itsm/${ trigger.record.id }" }
    retry: { attempts: 4, backoff: exponential, base: 2s, cap: 1m }
  - id: wait-for-it
    tool: wait.event
    with: { event: change.approved, timeout: 2h, on_timeout: continue }
  - id: ask
    tool: approval.gate
    with: { message: "Restart ${ steps.read.name }?", expires_after: 30m, on_reject: pause }
  - id: restart
    tool: http.request
    with:
      body: |
        ${ steps["wait-for-it"].x } and
        ${ trigger.items.filter(x, x.n > 1).map(x, x.name) }
    blast_radius: high
    rollback: { tool: http.request, with: *shared }
"#;

/// Text that a typing error or an attacker might insert.
const INSERTIONS: [&str; 24] = [
    "${",
    "}",
    "$${",
    "'",
    "\"",
    "&a ",
    "*a",
    "*shared",
    "<<: ",
    "- ",
    ": ",
    "\n",
    "  ",
    "[",
    "]",
    "{",
    "|\n",
    ">",
    "!!binary ",
    "\u{202e}",
    "é",
    "\0",
    "9007199254740993",
    "steps.",
];

/// Tokens of random expressions.
const TOKENS: [&str; 44] = [
    "trigger",
    "run",
    "steps.a",
    "steps['b.c']",
    "x",
    "1",
    "-1",
    "0",
    "1.5",
    "9223372036854775807",
    "'t'",
    "b'x'",
    "true",
    "null",
    "[",
    "]",
    "(",
    ")",
    "{",
    "}",
    ",",
    ":",
    "?",
    ".",
    ".a",
    ".n",
    "[0]",
    "['a']",
    "+",
    "-",
    "*",
    "/",
    "%",
    "==",
    "<",
    "&&",
    "||",
    "!",
    " in ",
    "has(",
    "size(",
    ".map(x,",
    ".all(x,",
    ".matches('a+')",
];

fn tools() -> BTreeSet<ToolName> {
    ["transform", "http.request"].map(|tool| tool.parse().unwrap()).into()
}

/// Parsing does not panic, an error has a position in the file and can be rendered, and a plan compiles.
fn parses_or_refuses(source: &str) {
    match parse(source, &tools()) {
        Ok(plan) => assert!(CompiledPlan::compile(plan).is_ok()),
        Err(error) => {
            assert!(error.position.line <= source.lines().count() + 1, "{error}");
            assert!(error.render(source).contains('^'));
        }
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-1_i64 << 52..1_i64 << 52).prop_map(Value::from),
        (-1e9..1e9_f64).prop_map(Value::from),
        "[a-z${}é ]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::from),
            btree_map("[an]|[a-z.]{1,3}", inner, 0..6).prop_map(|map| json!(map)),
        ]
    })
}

fn scope(trigger: Value, a: Value, b: Value) -> Scope {
    Scope {
        trigger: Some(Arc::new(trigger)),
        steps: [("a".parse().unwrap(), Arc::new(a)), ("b.c".parse().unwrap(), Arc::new(b))].into(),
        run: Arc::new(json!({"id": "run-1", "n": 1})),
    }
}

proptest! {
    #[test]
    fn any_text_is_parsed_or_refused(source in any::<String>()) {
        parses_or_refuses(&source);
    }

    #[test]
    fn changed_file_is_parsed_or_refused(insertions in vec((any::<Index>(), 0_usize..40, select(&INSERTIONS[..])), 1..6)) {
        let mut source: Vec<char> = FILE.chars().collect();
        for (position, length, insertion) in insertions {
            let start = position.index(source.len());
            let end = (start + length).min(source.len());
            source.splice(start..end, insertion.chars());
        }
        parses_or_refuses(&source.into_iter().collect::<String>());
    }

    #[test]
    fn any_tokens_are_bound_or_refused(
        tokens in vec(select(&TOKENS[..]), 1..14),
        (trigger, a, b) in (any_json(), any_json(), any_json()),
    ) {
        let text = json!(format!("${{ {} }}", tokens.join("")));
        if let Ok(template) = Template::compile(&text) {
            let scope = scope(trigger, a, b);
            prop_assert_eq!(template.bind(&scope), template.bind(&scope));
        }
    }

    #[test]
    fn data_passes_through_an_expression_unchanged(value in any_json()) {
        let template = Template::compile(&json!({"value": "${ trigger }"})).unwrap();
        let scope = scope(value.clone(), Value::Null, Value::Null);
        prop_assert_eq!(template.bind(&scope).unwrap(), json!({"value": value}));
    }

    #[test]
    fn data_inside_a_string_stays_unchanged(text in "[a-z${}'\"\\\\ é]{0,20}") {
        let template = Template::compile(&json!("<${ trigger }>")).unwrap();
        let scope = scope(json!(text), Value::Null, Value::Null);
        prop_assert_eq!(template.bind(&scope).unwrap(), json!(format!("<{text}>")));
    }

    #[test]
    fn escaped_string_is_literal(text in "[a-z${}' é]{0,20}") {
        let template = Template::compile(&json!(text.replace("${", "$${"))).unwrap();
        let expected = json!(text);
        prop_assert_eq!(template.literal(), Some(&expected));
    }
}
