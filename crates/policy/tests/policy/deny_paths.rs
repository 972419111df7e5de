//! Every evaluation error is a deny. Each error is caused by a real policy or a real request.

use countersign_policy::{EvaluationErrorKind, PolicyBundle, without_bundle};
use domain::{Digest, Ruling, Verdict};
use serde_json::json;

use crate::case::Case;
use crate::files::{bundle, files};

/// A rule that allows everything, so that the error causes each deny below.
const ALLOW: &str = r#"allow contains {"rule": "all", "message": "everything is allowed"} if true"#;

/// The verdict for an error of `kind`. A new kind does not compile without an arm here.
fn verdict(kind: EvaluationErrorKind) -> Verdict {
    let case = Case::default();
    match kind {
        EvaluationErrorKind::NoBundle => {
            let refused = PolicyBundle::parse(files(&[("policy.rego", "package other")])).unwrap_err();
            without_bundle(Digest::ZERO, &refused.to_string())
        }
        EvaluationErrorKind::InvalidAction => {
            let mut case = Case::default();
            case.action.fields = json!({"amount": 9_007_199_254_740_993_u64});
            bundle(ALLOW).evaluate(&case.request())
        }
        EvaluationErrorKind::NoMatch => {
            bundle(r#"allow contains {"rule": "never", "message": "never"} if input.run.tenant == "other""#)
                .evaluate(&case.request())
        }
        EvaluationErrorKind::Evaluation => {
            verdict_with(r#"deny contains {"rule": "r", "message": "s"} if to_number("many") > 1"#)
        }
        EvaluationErrorKind::Conflict => verdict_with(
            r#"
            limit := 1 if input.caps.writes_max > 0
            limit := 2 if input.caps.writes_max > 1
            deny contains {"rule": "r", "message": "s"} if limit > 5
            "#,
        ),
        EvaluationErrorKind::Timeout => verdict_with(
            r#"
            n := [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
            endless if { some a in n; some b in n; some c in n; some d in n; some e in n; some f in n; some g in n; a + b + c + d + e + f + g > 1000 }
            deny contains {"rule": "r", "message": "s"} if endless
            "#,
        ),
        EvaluationErrorKind::Crashed => panic!("no policy is known that crashes the evaluator"),
        EvaluationErrorKind::TooManyMembers => verdict_with(
            r#"
            n := [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
            allow contains {"rule": "r", "message": sprintf("%d%d%d", [a, b, c])} if { some a in n; some b in n; some c in n }
            "#,
        ),
        EvaluationErrorKind::InvalidMember => verdict_with(
            r#"
            tier := "extreme" if input.run.tenant == "acme"
            needs_approval contains {"rule": "r", "message": "s", "tier": tier, "people": 1, "groups": []} if true
            "#,
        ),
    }
}

/// The verdict on the default case of a policy that allows everything and also has `rules`.
fn verdict_with(rules: &str) -> Verdict {
    bundle(&format!("{ALLOW}\n{rules}")).evaluate(&Case::default().request())
}

#[test]
fn every_evaluation_error_is_a_deny_with_its_reason() {
    // `evaluate.rs` has the test of a crash.
    for kind in EvaluationErrorKind::ALL.iter().filter(|kind| **kind != EvaluationErrorKind::Crashed) {
        let verdict = verdict(*kind);
        assert_eq!(verdict.ruling, Ruling::Deny, "{kind:?}");
        let reasons: Vec<&str> = verdict.reasons.iter().map(|reason| reason.rule.as_str()).collect();
        assert_eq!(reasons, [kind.rule()], "{kind:?}: {verdict:?}");
        assert!(!verdict.reasons[0].message.is_empty());
    }
}

#[test]
fn base_policy_allows_everything() {
    assert_eq!(verdict_with("").ruling, Ruling::Allow);
}

#[test]
fn errors_in_rules_name_their_location() {
    for kind in
        [EvaluationErrorKind::Evaluation, EvaluationErrorKind::Conflict, EvaluationErrorKind::InvalidMember]
    {
        let verdict = verdict(kind);
        let reason = &verdict.reasons[0];
        assert_eq!(reason.file.as_deref(), Some("policy.rego"), "{kind:?}");
        assert!(reason.line.is_some_and(|line| line > 2), "{kind:?}: {reason:?}");
    }
}

#[test]
fn every_invalid_member_is_a_deny() {
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
        ("message", r#""""#),
        ("message", "null"),
        ("message", "[]"),
    ] {
        let mut member = [("message", r#""s""#), ("tier", r#""low""#), ("people", "1"), ("groups", "[]")];
        member.iter_mut().filter(|(field, _)| *field == name).for_each(|field| field.1 = "odd");
        let fields: Vec<String> = member.iter().map(|(name, value)| format!("\"{name}\": {value}")).collect();
        // The value is computed, so the static checks do not see it.
        let rule = format!(
            "needs_approval contains {{\"rule\": \"r\", {}}} if {{ odd := [{value}][input.step.attempt - 1] }}",
            fields.join(", ")
        );
        let verdict = verdict_with(&rule);
        assert_eq!(
            verdict.reasons[0].rule,
            EvaluationErrorKind::InvalidMember.rule(),
            "{name}: {value}: {verdict:?}"
        );
        assert_eq!(verdict.ruling, Ruling::Deny);
    }
}

#[test]
fn deny_beats_approval_and_approval_beats_allow() {
    let ask = r#"needs_approval contains {"rule": "ask", "message": "s", "tier": "low", "people": 1, "groups": []} if true"#;
    let deny = r#"deny contains {"rule": "no", "message": "s"} if true"#;
    assert!(matches!(verdict_with(ask).ruling, Ruling::NeedsApproval(_)));
    assert_eq!(verdict_with(&format!("{ask}\n{deny}")).ruling, Ruling::Deny);
}

/// Each value contains the previous one twice: `last` takes a few kilobytes in the evaluator and a terabyte when
/// serialized.
fn doubled(last: &str) -> String {
    let steps: Vec<String> = (1..40).map(|n| format!("a{n} := [a{0}, a{0}]", n - 1)).collect();
    format!("a0 := [1]; {}; {last} := a39", steps.join("; "))
}

#[test]
fn huge_member_is_a_deny_and_is_not_serialized() {
    for rule in [
        format!(r#"deny contains {{"rule": "r", "message": large}} if {{ {} }}"#, doubled("large")),
        format!(
            r#"needs_approval contains {{"rule": "r", "message": "s", "tier": "low", "people": 1, "groups": large}} if {{ {} }}"#,
            doubled("large")
        ),
    ] {
        let verdict = verdict_with(&rule);
        assert_eq!(verdict.ruling, Ruling::Deny);
        assert_eq!(verdict.reasons[0].rule, EvaluationErrorKind::InvalidMember.rule(), "{verdict:?}");
    }
}

#[test]
fn huge_test_result_fails_and_is_not_serialized() {
    let rules = format!("package countersign\n{ALLOW}\n");
    let tests = format!("package countersign_test\ntest_large := large if {{ {} }}\n", doubled("large"));
    let bundle = PolicyBundle::parse(files(&[("p.rego", &rules), ("p_test.rego", &tests)])).unwrap();
    let failed: Vec<_> = bundle.test().failures().map(|test| test.failed.clone()).collect();
    assert_eq!(failed, [Some("the test is a large value, expected true".to_owned())]);
}
