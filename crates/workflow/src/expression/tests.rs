//! Evaluation, errors and limits of expressions.

use serde_json::json;

use super::*;
use crate::text::Text;

fn scope() -> Scope {
    Scope {
        trigger: Some(Arc::new(json!({
            "record": {"id": "INC1", "priority": 1, "tags": ["db", "prod"], "score": 0.5},
            "items": [{"name": "a", "n": 1}, {"name": "b", "n": 2}, {"name": "c", "n": 3}],
            "labels": {"zone": "eu", "app": "db", "owner": "ops"},
            "big": 9_007_199_254_740_991_i64,
        }))),
        steps: [("read".parse().unwrap(), Arc::new(json!({"rows": (0..200).collect::<Vec<_>>()})))].into(),
        run: Arc::new(json!({"id": "run-1", "created_at_ms": 1_700_000_000_000_i64})),
    }
}

fn text(code: &str) -> Result<Text, (usize, ExpressionCompileError)> {
    Text::compile(&format!("${{{code}}}")).map_err(|(at, error)| (at - 2, error))
}

fn value(code: &str) -> Result<Value, String> {
    let text = text(code).map_err(|(_, error)| error.to_string())?;
    text.bind(&scope(), &Arc::new(Meter::default())).map_err(|e| e.to_string())
}

fn evaluate(code: &str, scope: &Scope, meter: Meter) -> Result<Value, ExpressionEvalError> {
    let Text::Whole { expression, .. } = text(code).unwrap() else { panic!("{code} is one expression") };
    expression.evaluate(scope, &Arc::new(meter))
}

fn eval_error(code: &str) -> ExpressionEvalError {
    evaluate(code, &scope(), Meter::default()).unwrap_err()
}

/// A meter with a small remaining budget, so that a debug build exhausts it quickly.
fn nearly_exhausted() -> Meter {
    let meter = Meter::default();
    assert!(meter.spend(meter::WORK_MAX - 4 * 1024 * 1024));
    meter
}

fn compile_error(code: &str) -> (usize, ExpressionCompileError) {
    text(code).err().unwrap_or_else(|| panic!("{code} compiles"))
}

#[test]
fn expressions_follow_cel() {
    for (code, expected) in [
        ("trigger.record.id + '-' + string(trigger.record.priority)", json!("INC1-1")),
        ("trigger.record.priority == 1 && 'db' in trigger.record.tags", json!(true)),
        ("trigger.items.filter(x, x.n > 1).map(x, x.name)", json!(["b", "c"])),
        ("trigger.items.all(x, x.n > 0)", json!(true)),
        ("trigger.items.exists(x, x.name == 'c')", json!(true)),
        ("trigger.items.exists_one(x, x.n == 2)", json!(true)),
        ("trigger.items.map(x, x.n > 1, x.n * 10)", json!([20, 30])),
        ("trigger.items.map(x, trigger.items.map(y, x.n * y.n))", json!([[1, 2, 3], [2, 4, 6], [3, 6, 9]])),
        ("{'id': trigger.record.id, 'list': [1, 2.5, null]}", json!({"id": "INC1", "list": [1, 2.5, null]})),
        ("has(trigger.record.nope) ? trigger.record.nope : 'none'", json!("none")),
        ("has(trigger.record.id)", json!(true)),
        ("trigger.record.tags[1]", json!("prod")),
        ("trigger['record']['id']", json!("INC1")),
        ("size(trigger.items) + size('é')", json!(4)),
        ("'abc'.matches('^a.c$')", json!(true)),
        (r"'opѕ.example.com'.matches(r'^[\w.]+$')", json!(false)),
        (r"'ops.example.com'.matches(r'^[\w.]+$')", json!(true)),
        (r"'٣'.matches(r'^\d$') || '\u00a0'.matches(r'^\s$')", json!(false)),
        ("'&'.matches('^[a&&b]$')", json!(true)),
        ("type(trigger.record.score) == double", json!(true)),
        ("run.created_at_ms / 1000", json!(1_700_000_000)),
        ("steps.read.rows[199]", json!(199)),
        ("-trigger.record.priority", json!(-1)),
        ("!true || false", json!(false)),
        ("7 % 4", json!(3)),
    ] {
        assert_eq!(value(code), Ok(expected), "{code}");
    }
}

#[test]
fn loop_over_a_map_is_sorted() {
    for _ in 0..20 {
        assert_eq!(
            value("trigger.labels.map(k, k + '=' + trigger.labels[k])"),
            Ok(json!(["app=db", "owner=ops", "zone=eu"]))
        );
    }
}

#[test]
fn unknown_name_is_refused_at_its_position() {
    for (code, at, name) in [
        ("trigger.x + env.HOME", 12, "env"),
        ("trigger.env == env", 15, "env"),
        ("trigger.items.map(x, y)", 21, "y"),
        // The parser keeps no positions, so the error is at the first use of the name.
        ("[1].map(x, x)[0] == x", 8, "x"),
        ("record", 0, "record"),
        (".trigger.x", 1, ".trigger"),
    ] {
        assert_eq!(
            compile_error(code),
            (at, ExpressionCompileError::UnknownName { name: name.to_owned() }),
            "{code}"
        );
    }
}

#[test]
fn step_references_must_be_literal() {
    for (code, at) in [
        ("steps", 0),
        ("size(steps)", 5),
        ("steps[trigger.id]", 0),
        ("steps['a' + 'b']", 0),
        ("has(steps.read)", 4),
        ("'read' in steps", 10),
        ("trigger.items.map(x, steps[x.name])", 21),
        ("trigger.steps == steps", 17),
    ] {
        assert_eq!(compile_error(code), (at, ExpressionCompileError::WhichStep), "{code}");
    }
    assert!(matches!(compile_error("steps['a b'].x"), (0, ExpressionCompileError::StepId(_))));
}

#[test]
fn inputs_of_an_expression_are_listed() {
    let reads = |code: &str| {
        let Text::Whole { expression, .. } = text(code).unwrap() else { panic!("{code} is one expression") };
        let reads = expression.reads();
        let steps: Vec<String> =
            reads.steps.iter().map(|read| format!("{}@{}", read.step, read.at)).collect();
        (reads.trigger, reads.run, steps.join(" "))
    };
    assert_eq!(reads("1"), (false, false, String::new()));
    assert_eq!(reads("trigger.a + run.id"), (true, true, String::new()));
    assert_eq!(reads("steps.b.x + steps.a.y + steps.b.z"), (false, false, "b@0 a@12".to_owned()));
    assert_eq!(reads("[1].map(x, steps['my-id'].y)"), (false, false, "my-id@11".to_owned()));
    assert_eq!(reads("has(steps.a.x)"), (false, false, "a@4".to_owned()));
}

#[test]
fn unknown_functions_are_refused() {
    for (code, at, name) in [
        ("now()", 0, "now"),
        ("trigger.id.split('-')", 11, "split"),
        ("1 + optional.of(1)", 13, "of"),
        ("max(1, 2)", 0, "max"),
        ("matches('a', 'b')", 0, "matches"),
        ("'a'.string()", 4, "string"),
    ] {
        assert_eq!(
            compile_error(code),
            (at, ExpressionCompileError::UnknownFunction { name: name.to_owned() }),
            "{code}"
        );
    }
}

#[test]
fn listed_functions_exist() {
    for code in FUNCTIONS
        .map(|name| format!("{name}(1)"))
        .into_iter()
        .chain(METHODS.map(|name| format!("''.{name}('')")))
    {
        let outcome = value(&code);
        assert!(!matches!(&outcome, Err(e) if e.contains("unknown")), "{code}: {outcome:?}");
    }
}

#[test]
fn loop_variable_cannot_hide_data() {
    assert_eq!(
        compile_error("[1].map(trigger, 1)"),
        (8, ExpressionCompileError::ReservedName { name: "trigger".to_owned() })
    );
    assert_eq!(
        compile_error("[1].all(steps, true)"),
        (8, ExpressionCompileError::ReservedName { name: "steps".to_owned() })
    );
}

#[test]
fn syntax_errors_have_their_position() {
    for (code, at, reason) in [
        ("1 +", 3, "mismatched input 'the end' expecting expression"),
        ("a b", 2, "mismatched input 'b' expecting the end"),
        ("a = b", 2, "mismatched input '=' expecting the end"),
        ("for", 0, "reserved identifier: for"),
        ("a.?b", 1, "unsupported syntax '.?'"),
        ("a\n  ..b", 5, "expected identifier after '.'"),
    ] {
        assert_eq!(compile_error(code), (at, ExpressionCompileError::Syntax(reason.to_owned())), "{code}");
    }
    assert_eq!(compile_error("Foo{a: 1}"), (0, ExpressionCompileError::Message { name: "Foo".to_owned() }));
}

#[test]
fn pattern_must_be_a_valid_literal() {
    assert_eq!(
        compile_error("trigger.a.matches(trigger.b)"),
        (10, ExpressionCompileError::PatternNotLiteral)
    );
    assert_eq!(
        compile_error(&format!("'a'.matches('{}')", "a".repeat(300))).1,
        ExpressionCompileError::PatternNotLiteral
    );
    assert_eq!(compile_error("'a'.matches('(')"), (4, ExpressionCompileError::PatternInvalid));
    assert_eq!(compile_error("'a'.matches('(?x)a')"), (4, ExpressionCompileError::PatternInvalid));
    assert_eq!(
        compile_error("'a'.matches('(.{0,100}){0,100}y')"),
        (4, ExpressionCompileError::PatternTooLarge)
    );
}

#[test]
fn match_is_charged_by_text_and_pattern() {
    let scope = Scope { trigger: Some(Arc::new(json!({"text": "ab".repeat(500_000)}))), ..Scope::default() };
    let outcome = |code: &str| evaluate(code, &scope, Meter::default());
    assert_eq!(outcome("trigger.text.matches('b$')"), Ok(json!(true)));
    assert_eq!(outcome("trigger.text.matches('[ab]{100}c')"), Err(ExpressionEvalError::TooMuchWork));
}

#[test]
fn errors_contain_types_and_no_values() {
    for (code, expected) in [
        ("trigger.record.nope", "there is no key `nope`"),
        ("trigger.nope.deeper", "there is no key `nope`"),
        ("trigger.labels['nope']", "there is no key `nope`"),
        ("{'a': 1}[trigger.record.id]", "there is no such key"),
        ("trigger.record.id.x", "a value of type string has no fields"),
        ("trigger.items[9]", "the list has no item at that index"),
        ("trigger.record.id + 1", "`+` does not support string and int"),
        ("trigger.record.id < 1", "`<` does not support string and int"),
        ("1 / 0", "division by zero"),
        ("trigger.big * trigger.big", "`*` overflows"),
        ("trigger.record.id ? 1 : 2", "expected bool, found string"),
        ("{trigger.items: 1}", "a list cannot be a key"),
        ("trigger.record.id.map(x, x)", "expected iterable, found string"),
        (
            "trigger.big + 1",
            "the integer 9007199254740992 is beyond 2^53 and would be rounded; send it as a string",
        ),
        ("b'x'", "the result has type `bytes`, which JSON does not support"),
        ("type(1)", "the result has type `type`, which JSON does not support"),
        ("{1: 2}", "the result is a map with a key that is not a string; use `string(…)` for the key"),
        ("1.0 / 0.0", "the result is not a finite number"),
    ] {
        assert_eq!(eval_error(code).to_string(), expected, "{code}");
    }
}

#[test]
fn nested_loops_exhaust_the_budget() {
    for code in [
        "steps.read.rows.all(a, steps.read.rows.all(b, steps.read.rows.all(c, true)))",
        "steps.read.rows.map(a, steps.read.rows.map(b, steps.read.rows.map(c, 1)))",
        "steps.read.rows.filter(a, steps.read.rows.exists(b, steps.read.rows.exists_one(c, false)))",
        // An operator that discards the error does not restore the budget.
        "steps.read.rows.all(a, steps.read.rows.all(b, steps.read.rows.all(c, true) || true) || true) || true",
    ] {
        assert_eq!(
            evaluate(code, &scope(), nearly_exhausted()),
            Err(ExpressionEvalError::TooMuchWork),
            "{code}"
        );
    }
}

#[test]
fn copies_of_a_loop_variable_are_charged() {
    let large = json!({"one": [vec!["x"; 20_000]], "many": vec![1; 2_000]});
    let scope = Scope { trigger: Some(Arc::new(large)), ..Scope::default() };
    for code in [
        "size(trigger.one.map(x, trigger.many.map(y, x)))",
        "size(trigger.one.map(x, trigger.many.map(y, [x, x, x, x, x, x])))",
        "trigger.one.all(x, trigger.many.all(y, x == x))",
        "size(trigger.many.map(y, trigger.one))",
    ] {
        assert_eq!(
            evaluate(code, &scope, nearly_exhausted()),
            Err(ExpressionEvalError::TooMuchWork),
            "{code}"
        );
    }
}

#[test]
fn loop_over_a_thousand_records_fits_the_budget() {
    let records: Vec<Value> =
        (0..1_000).map(|i| json!({"id": i, "ok": i % 2 == 0, "text": "x".repeat(1_000)})).collect();
    let scope = Scope { trigger: Some(Arc::new(json!({"records": records}))), ..Scope::default() };
    let code = "size(trigger.records.filter(r, r.ok && r.id > 10 && r.text != '' && has(r.text) && r.id != 7).map(r, r.id))";
    assert_eq!(evaluate(code, &scope, Meter::default()), Ok(json!(494)));
}

/// An expression of a given depth.
type Shape = fn(usize) -> String;

#[test]
fn allowed_nesting_fits_a_thread_stack() {
    let shapes: [(&str, Shape); 9] = [
        ("parentheses", |n| format!("{}1{}", "(".repeat(n), ")".repeat(n))),
        ("lists", |n| format!("{}1{}", "[".repeat(n), "]".repeat(n))),
        ("maps", |n| format!("{}1{}", "{'a': ".repeat(n), "}".repeat(n))),
        ("calls", |n| format!("{}1{}", "dyn(".repeat(n), ")".repeat(n))),
        ("sums", |n| vec!["1"; n].join("+")),
        ("conditions", |n| "false ? 1 : ".repeat(n) + "1"),
        ("paths", |n| format!("trigger{}", ".a".repeat(n))),
        ("indices", |n| format!("trigger{}", "[0]".repeat(n))),
        ("loops", |n| format!("{}1{}", "[1].map(x, ".repeat(n), ")".repeat(n))),
    ];
    for (name, shape) in shapes {
        let run = move || (1..=400).map(|n| value(&shape(n)).err().unwrap_or_default()).collect::<Vec<_>>();
        let thread = std::thread::Builder::new().stack_size(1280 * 1024).spawn(run).unwrap();
        let errors = thread.join().unwrap();
        assert!(errors[..3].iter().all(|e| !e.contains("nested")), "{name}: {errors:?}");
        let last = errors.last().unwrap();
        let refused = ["nested too deeply", "tokens; split", "bytes; at most"];
        assert!(refused.iter().any(|reason| last.contains(reason)), "{name}: {last}");
    }
}

/// What every implementation of CEL must support.
#[test]
fn required_sizes_are_supported() {
    let repeat = |part: &str, count: usize, separator: &str| vec![part; count].join(separator);
    let nested = |open: &str, close: &str| format!("{}1{}", open.repeat(12), close.repeat(12));
    let supported = [
        repeat("trigger.n == 1", 32, " || "),
        repeat("trigger.n == 1", 32, " && "),
        format!("[{}]", repeat("trigger.n", 32, ", ")),
        format!("{{{}}}", (0..32).map(|n| format!("'k{n}': {n}")).collect::<Vec<_>>().join(", ")),
        format!("{}0", "trigger.n == 2 ? 1 : ".repeat(24)),
        repeat("trigger.n", 25, " + "),
        repeat("trigger.n", 25, " * "),
        format!("true{}", " == true".repeat(24)),
        nested("int(", ")"),
        nested("[", "]"),
        nested("{'a': ", "}"),
        format!("has(trigger{})", ".a".repeat(12)),
        format!("trigger.many{}", "[0]".repeat(12)),
    ];
    let many = (0..12).fold(json!(1), |inner, _| json!([inner]));
    let path = (0..12).fold(json!(1), |inner, _| json!({ "a": inner }));
    let mut trigger = path.clone();
    trigger["n"] = json!(1);
    trigger["many"] = many;
    let scope = Scope { trigger: Some(Arc::new(trigger)), ..Scope::default() };
    for code in supported {
        assert!(evaluate(&code, &scope, Meter::default()).is_ok(), "{code}");
    }
}

#[test]
fn integer_overflow_is_an_expression_error() {
    // The smallest integer, negated and divided, overflows.
    for code in
        ["-(-9223372036854775807 - 1)", "(-9223372036854775807 - 1) / -1", "(-9223372036854775807 - 1) % -1"]
    {
        assert!(value(code).is_err(), "{code}: {:?}", value(code));
    }
}
