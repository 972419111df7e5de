//! Every way in which a policy can fail to answer is a deny. Each is brought about by a real policy or by
//! real facts, none by making up the fault.

use countersign_policy::{Bundle, FaultKind, without_bundle};
use domain::{Digest, Ruling, Verdict};
use serde_json::json;

use crate::case::Case;
use crate::files::{bundle, files};

/// A rule that allows everything, so that each deny below is the fault's doing.
const ALLOW: &str = r#"allow contains {"rule": "all", "says": "anything goes"} if true"#;

/// The verdict in which a fault of `kind` ends. A new kind does not compile without a row here.
fn verdict(kind: FaultKind) -> Verdict {
    let harmless = Case::default();
    match kind {
        FaultKind::NoBundle => {
            let refused = Bundle::parse(files(&[("policy.rego", "package other")])).unwrap_err();
            without_bundle(Digest::ZERO, &refused.to_string())
        }
        FaultKind::Unjudgeable => {
            let mut case = Case::default();
            case.action.fields = json!({"amount": 9_007_199_254_740_993_u64});
            bundle(ALLOW).judge(&case.facts())
        }
        FaultKind::Silent => {
            bundle(r#"allow contains {"rule": "never", "says": "never"} if input.run.tenant == "nobody""#)
                .judge(&harmless.facts())
        }
        FaultKind::Evaluation => {
            asked(r#"deny contains {"rule": "r", "says": "s"} if to_number("many") > 1"#)
        }
        FaultKind::Conflict => asked(
            r#"
            limit := 1 if input.caps.writes_max > 0
            limit := 2 if input.caps.writes_max > 1
            deny contains {"rule": "r", "says": "s"} if limit > 5
            "#,
        ),
        FaultKind::OutOfTime => asked(
            r#"
            n := [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
            endless if { some a in n; some b in n; some c in n; some d in n; some e in n; some f in n; some g in n; a + b + c + d + e + f + g > 1000 }
            deny contains {"rule": "r", "says": "s"} if endless
            "#,
        ),
        // The evaluator takes the small two for a digit, and falls over it.
        FaultKind::Crashed => asked(r#"deny contains {"rule": "r", "says": sprintf("%²d", [1])} if true"#),
        FaultKind::TooManyAnswers => asked(
            r#"
            n := [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
            allow contains {"rule": "r", "says": sprintf("%d%d%d", [a, b, c])} if { some a in n; some b in n; some c in n }
            "#,
        ),
        FaultKind::Misshapen => asked(
            r#"
            tier := "extreme" if input.run.tenant == "acme"
            needs_approval contains {"rule": "r", "says": "s", "tier": tier, "people": 1, "groups": []} if true
            "#,
        ),
    }
}

/// What a policy says about something harmless that allows everything, and has `rules` besides.
fn asked(rules: &str) -> Verdict {
    bundle(&format!("{ALLOW}\n{rules}")).judge(&Case::default().facts())
}

#[test]
fn every_fault_is_a_deny_that_says_so() {
    for kind in FaultKind::ALL {
        let verdict = verdict(*kind);
        assert_eq!(verdict.ruling, Ruling::Deny, "{kind:?}");
        let reasons: Vec<&str> = verdict.because.iter().map(|reason| reason.rule.as_str()).collect();
        assert_eq!(reasons, [kind.rule()], "{kind:?}: {verdict:?}");
        assert!(!verdict.because[0].says.is_empty());
    }
}

#[test]
fn the_policy_they_are_tried_on_allows_everything_otherwise() {
    assert_eq!(asked("").ruling, Ruling::Allow);
}

#[test]
fn a_fault_names_its_place_where_there_is_one() {
    for kind in [FaultKind::Evaluation, FaultKind::Conflict, FaultKind::Misshapen] {
        let verdict = verdict(kind);
        let reason = &verdict.because[0];
        assert_eq!(reason.file.as_deref(), Some("policy.rego"), "{kind:?}");
        assert!(reason.line.is_some_and(|line| line > 2), "{kind:?}: {reason:?}");
    }
}

#[test]
fn every_misshapen_answer_is_a_deny() {
    for (name, value) in [
        ("tier", r#""extreme""#),
        ("tier", "1"),
        ("people", "0"),
        ("people", "3"),
        ("people", "1.5"),
        ("people", r#""1""#),
        ("groups", r#"["a b"]"#),
        ("groups", r#"{"db-oncall": true}"#),
        ("groups", r#""db-oncall""#),
        ("says", r#""""#),
        ("says", "null"),
        ("says", "[]"),
    ] {
        let mut member = [("says", r#""s""#), ("tier", r#""low""#), ("people", "1"), ("groups", "[]")];
        member.iter_mut().filter(|(field, _)| *field == name).for_each(|field| field.1 = "odd");
        let fields: Vec<String> = member.iter().map(|(name, value)| format!("\"{name}\": {value}")).collect();
        // The value is known only when the rule runs.
        let rule = format!(
            "needs_approval contains {{\"rule\": \"r\", {}}} if {{ odd := [{value}][input.step.attempt - 1] }}",
            fields.join(", ")
        );
        let verdict = asked(&rule);
        assert_eq!(verdict.because[0].rule, FaultKind::Misshapen.rule(), "{name}: {value}: {verdict:?}");
        assert_eq!(verdict.ruling, Ruling::Deny);
    }
}

#[test]
fn a_deny_beats_an_approval_and_an_approval_beats_an_allow() {
    let ask = r#"needs_approval contains {"rule": "ask", "says": "s", "tier": "low", "people": 1, "groups": []} if true"#;
    let deny = r#"deny contains {"rule": "no", "says": "s"} if true"#;
    assert!(matches!(asked(ask).ruling, Ruling::NeedsApproval(_)));
    assert_eq!(asked(&format!("{ask}\n{deny}")).ruling, Ruling::Deny);
}

/// Steps each of which is twice the one before it: `last` is a terabyte to whoever writes it out, and a few kilobytes to
/// the evaluator.
fn doubled(last: &str) -> String {
    let steps: Vec<String> = (1..40).map(|n| format!("a{n} := [a{0}, a{0}]", n - 1)).collect();
    format!("a0 := [1]; {}; {last} := a39", steps.join("; "))
}

#[test]
fn an_answer_that_grows_without_end_is_a_deny_and_is_never_written_out() {
    for rule in [
        format!(r#"deny contains {{"rule": "r", "says": large}} if {{ {} }}"#, doubled("large")),
        format!(
            r#"needs_approval contains {{"rule": "r", "says": "s", "tier": "low", "people": 1, "groups": large}} if {{ {} }}"#,
            doubled("large")
        ),
    ] {
        let verdict = asked(&rule);
        assert_eq!(verdict.ruling, Ruling::Deny);
        assert_eq!(verdict.because[0].rule, FaultKind::Misshapen.rule(), "{verdict:?}");
    }
}

#[test]
fn a_test_that_grows_without_end_has_failed_and_is_never_written_out() {
    let rules = format!("package countersign\n{ALLOW}\n");
    let tests = format!("package countersign_test\ntest_large := large if {{ {} }}\n", doubled("large"));
    let bundle = Bundle::parse(files(&[("p.rego", &rules), ("p_test.rego", &tests)])).unwrap();
    let failed: Vec<_> = bundle.test().failures().map(|test| test.failed.clone()).collect();
    assert_eq!(failed, [Some("it is something large, not true".to_owned())]);
}
