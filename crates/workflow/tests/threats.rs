//! Attacks through the workflow file.
#![expect(clippy::unwrap_used, reason = "tests with their own main function")]

use std::collections::BTreeSet;
use std::sync::Arc;

use countersign_workflow::{ParseErrorKind, Scope, SourcePosition, Template, WorkflowError, parse};
use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::{Value, json};

fn main() {
    let trials = vec![
        case("yaml_alias_bomb_in_workflow", yaml_alias_bomb_in_workflow),
        case("10k_step_workflow", ten_thousand_steps),
        case("unknown_field_in_workflow", unknown_field_in_workflow),
        case("template_injection_in_param", template_injection_in_param),
        case("literal_bearer_in_with", literal_bearer_in_with),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn case(name: &str, test: fn()) -> Trial {
    Trial::test(name, move || -> Result<(), Failed> {
        test();
        Ok(())
    })
}

fn refused(source: &str) -> WorkflowError {
    let tools: BTreeSet<_> = ["transform", "http.request"].map(|tool| tool.parse().unwrap()).into();
    parse(source, &tools).unwrap_err()
}

/// A few hundred bytes that would expand to a billion values, to gigabytes of text, or to themselves.
fn yaml_alias_bomb_in_workflow() {
    let anchor = |i: usize| format!("a{i}: &a{i} [{}]\n", vec![format!("*a{}", i - 1); 9].join(", "));
    let anchors = (1..12).map(anchor).collect::<Vec<_>>().concat();
    assert_eq!(refused(&format!("a0: &a0 [x]\n{anchors}")).kind, ParseErrorKind::ExpandsTooMuch);

    let text = "x".repeat(100_000);
    let copies = |name: &str| vec![format!("*{name}"); 50].join(", ");
    let texts = format!("a: &a {text}\nb: &b [{}]\nc: [{}]\n", copies("a"), copies("b"));
    assert_eq!(refused(&texts).kind, ParseErrorKind::ExpandsTooMuch);

    assert_eq!(refused("a: &a [*a]\n").kind, ParseErrorKind::AnchorInItself);
}

/// Refused before any step is parsed.
fn ten_thousand_steps() {
    let steps = (0..10_000).map(|i| format!("- {{id: s{i}, tool: nope}}\n")).collect::<Vec<_>>().concat();
    let error = refused(&format!("workflow: w\nversion: 1\nsteps:\n{steps}"));
    assert_eq!(error.kind, ParseErrorKind::TooManySteps { steps: 10_000 });
    assert_eq!(error.position, SourcePosition { line: 3, column: 1 });
}

/// Reported with line and column, at every level.
fn unknown_field_in_workflow() {
    let step = "workflow: w\nversion: 1\nsteps:\n  - id: a\n    tool: transform\n";
    for (source, line, column, field) in [
        ("workflow: w\nverison: 1\n".to_owned(), 2, 1, "verison"),
        (format!("{step}    retrys: 3\n"), 6, 5, "retrys"),
        (format!("{step}    retry: {{attempt: 3}}\n"), 6, 13, "attempt"),
        (format!("{step}    rollback: {{tool: transform, whit: {{}}}}\n"), 6, 33, "whit"),
    ] {
        let error = refused(&source);
        assert_eq!(error.position, SourcePosition { line, column }, "{error}");
        assert!(
            matches!(&error.kind, ParseErrorKind::UnknownField { field: f, .. } if f == field),
            "{error}"
        );
    }
}

/// Ticket text that looks like an expression, a YAML document or a closing brace stays text.
fn template_injection_in_param() {
    let hostile = r#"${ steps.secret.token } } "} $${ x } 
workflow: other
${ trigger }"#;
    let scope = Scope {
        trigger: Some(Arc::new(json!({"text": hostile, "${ run.id }": {"text": hostile}}))),
        steps: [("secret".parse().unwrap(), Arc::new(json!({"token": "s3cret"})))].into(),
        run: Arc::new(json!({"id": "run-1"})),
    };
    let bound = |value: Value| Template::compile(&value).unwrap().bind(&scope).unwrap();
    assert_eq!(bound(json!({"note": "${ trigger.text }"})), json!({"note": hostile}));
    assert_eq!(bound(json!("<${ trigger.text }>")), json!(format!("<{hostile}>")));
    assert_eq!(bound(json!("${ [trigger.text, \"x\" + trigger.text][0] }")), json!(hostile));
    // A bound value is data and is not compiled again.
    let whole = bound(json!("${ trigger }"));
    assert_eq!(whole["${ run.id }"]["text"], json!(hostile));
    assert!(!whole.to_string().contains("s3cret"));
}

/// Refused with the line and the fix. Neither the message nor the excerpt repeats the credential.
fn literal_bearer_in_with() {
    let step = "workflow: w\nversion: 1\nsteps:\n  - id: a\n    tool: http.request\n    with:\n      url: https://a.example/\n";
    for with in [
        "headers: { Authorization: 'Bearer hunter2' }",
        "headers: { x_api_key: hunter2 }",
        "body: { note: 'send Bearer hunter2hunter2' }",
        "body: { list: [{ password: hunter2 }] }",
        "body: 'https://svc:hunter2@a.example/'",
        "body: 'env://hunter2'",
    ] {
        let source = format!("{step}      {with}\n");
        let error = refused(&source);
        assert_eq!((error.kind.clone(), error.position.line), (ParseErrorKind::LiteralSecret, 8), "{with}");
        let rendered = error.render(&source);
        assert!(rendered.contains("line 8") && rendered.contains("connection: NAME"), "{rendered}");
        assert!(!rendered.contains("hunter2"), "{rendered}");
    }
}
