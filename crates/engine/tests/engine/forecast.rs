//! `policy explain` forecasts what a worker does with the same step.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use connectors::{ProposalRequest, Tool, ToolCall, ToolOutcome, ToolResult};
use countersign_engine::{DryRunRequest, StartRun, StepForecast};
use domain::{
    Action, EffectClass, EventBody, Failure, Reversibility, Ruling, RunStatus, ToolName, Verdict, failure,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use testkit::TestEnv;

/// A tool that accepts any fields and does nothing.
struct AnyFields(&'static str, EffectClass);

#[async_trait]
impl Tool for AnyFields {
    fn name(&self) -> ToolName {
        self.0.parse().unwrap()
    }

    fn effect_class(&self, _: &Value) -> Option<EffectClass> {
        Some(self.1)
    }

    fn propose(&self, ask: ProposalRequest<'_>) -> Result<Action, Failure> {
        let reversibility =
            if self.1.has_effect() { Reversibility::Inverse } else { Reversibility::NoEffect };
        Ok(Action { class: self.1, reversibility, ..testkit::action(self.name(), ask) })
    }

    async fn perform(&self, _: ToolCall<'_>) -> ToolOutcome {
        ToolOutcome::Done(ToolResult::default())
    }
}

#[derive(Debug, Clone)]
struct Case {
    tool: &'static str,
    environment: &'static str,
    /// The value of the field `value` in the workflow.
    expression: Value,
    /// The field `v` of the input.
    input: Value,
    policy: Option<&'static str>,
}

const POLICIES: [Option<&str>; 4] = [
    None,
    Some("package countersign\ndeny contains {\"rule\": \"all\", \"message\": \"closed\"}\n"),
    Some("package countersign\nallow contains {\"rule\": \"all\", \"message\": \"open\"}\n"),
    Some(
        "package countersign\nneeds_approval contains {\"rule\": \"all\", \"message\": \"ask\", \
         \"tier\": \"low\", \"people\": 1, \"groups\": []}\n",
    ),
];

fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-9_007_199_254_740_991..=9_007_199_254_740_991_i64).prop_map(Value::from),
        (-1e6..1e6_f64).prop_map(Value::from),
        Just(json!(0.9)),
        Just(json!("x".repeat(140 * 1024))),
        Just(json!((0..1_500).map(|n| (format!("f{n}"), json!(n))).collect::<BTreeMap<_, _>>())),
        "[a-z]{0,8}".prop_map(Value::from),
    ]
}

fn any_case() -> impl Strategy<Value = Case> {
    let expression = prop_oneof![
        Just(json!("${ trigger.v }")),
        Just(json!("${ trigger.absent.deep }")),
        Just(json!("${ run.workflow }")),
        (-1e6..1e6_f64).prop_map(Value::from),
    ];
    let tools = prop::sample::select(vec!["transform", "test.read", "test.write"]);
    let environments = prop::sample::select(vec!["dev", "staging", "prod"]);
    (tools, environments, expression, any_value(), prop::sample::select(POLICIES.to_vec())).prop_map(
        |(tool, environment, expression, input, policy)| Case {
            tool,
            environment,
            expression,
            input,
            policy,
        },
    )
}

/// The outcome of a step, forecast or real.
#[derive(Debug, PartialEq)]
enum StepResult {
    NoEffect,
    Refused(String),
    Evaluated(Verdict),
}

async fn env_of(case: &Case) -> TestEnv {
    let env = testkit::engine()
        .standard_tools()
        .tool(AnyFields("test.read", EffectClass::ReadOnly))
        .tool(AnyFields("test.write", EffectClass::NativeKey))
        .env();
    if let Some(rules) = case.policy {
        env.put_policy(rules).await;
    }
    env
}

async fn forecast(env: &TestEnv, request: &StartRun) -> StepResult {
    let dry_run = DryRunRequest {
        plan: Arc::new(workflow::CompiledPlan::compile(request.plan.clone()).unwrap()),
        trigger_kind: request.trigger_kind.clone(),
        input: request.input.clone(),
        outputs: BTreeMap::new(),
        policy: None,
    };
    let steps = env.handle("ada").explain(dry_run).await.unwrap().steps;
    match steps.into_iter().next().unwrap() {
        StepForecast::NoEffect => StepResult::NoEffect,
        StepForecast::Refused(why) => StepResult::Refused(why.split(':').next().unwrap().to_owned()),
        StepForecast::InvalidExpression(_) => StepResult::Refused(failure::EXPRESSION.to_owned()),
        StepForecast::Evaluated(evaluated) => StepResult::Evaluated(evaluated.verdict.abridged()),
        _ => panic!("the step calls a tool, and its input is known"),
    }
}

async fn outcome(env: &TestEnv, request: StartRun) -> StepResult {
    let run = env.start_as(request).await;
    let status = env.advance(&run).await;
    let events = env.events(&run).await;
    let verdict = events.iter().find_map(|event| match &event.body {
        EventBody::EffectIntended { verdict, .. } | EventBody::ActionDenied { verdict, .. } => {
            Some(verdict.clone())
        }
        EventBody::ApprovalRequested { verdict, .. } => verdict.clone(),
        _ => event.read_verdict.clone(),
    });
    let failed = events.iter().find_map(|event| match &event.body {
        EventBody::StepFailed { failure, .. } => Some(failure.code.clone()),
        _ => None,
    });
    match (verdict, failed) {
        (Some(verdict), None) => {
            let expected = match &verdict.ruling {
                Ruling::Deny => RunStatus::FailedTerminal,
                Ruling::NeedsApproval(_) => RunStatus::WaitingApproval,
                Ruling::Allow => RunStatus::Succeeded,
            };
            assert_eq!(status, expected, "{verdict:?}");
            StepResult::Evaluated(verdict.abridged())
        }
        (None, Some(code)) => StepResult::Refused(code),
        (None, None) => {
            assert_eq!(status, RunStatus::Succeeded);
            StepResult::NoEffect
        }
        both => panic!("{both:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn explain_forecasts_what_the_worker_does(case in any_case()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let env = env_of(&case).await;
            let Case { tool, environment, expression, input, .. } = &case;
            let source = format!(
                "workflow: w\nversion: 1\nenvironment: {environment}\nvalidation: critical_only\n\
                 steps:\n  - {{ id: a, tool: {tool}, with: {{ value: {expression} }} }}\n"
            );
            let request = StartRun { input: json!({ "v": input }), ..env.request(&source, "k") };
            let expected = forecast(&env, &request).await;
            assert_eq!(outcome(&env, request).await, expected);
        });
    }
}

/// A POST can be undone only by a declared call that changes something. `rollback: auto` needs an inverse that the
/// tool records, and `http.request` records none.
#[tokio::test]
async fn ineffective_rollback_leaves_a_post_irreversible() {
    let env = testkit::engine().standard_tools().env();
    let ruling = async |rollback: &str| {
        let source = format!(
            "workflow: w\nversion: 1\nenvironment: dev\nsteps:\n- id: a\n  tool: http.request\n  \
             with: {{ method: POST, url: 'https://example.com/a', effect: native_key }}\n{rollback}"
        );
        match forecast(&env, &env.request(&source, "k")).await {
            StepResult::Evaluated(verdict) => verdict.ruling,
            _ => panic!("the action is evaluated"),
        }
    };
    let call = |with: &str| format!("  rollback: {{ {with} }}\n");
    let delete = call(
        "tool: http.request, with: { method: DELETE, url: 'https://example.com/a', effect: native_key }",
    );
    assert_eq!(ruling(&delete).await, Ruling::Allow);
    let nothing = ["", "  rollback: auto\n", &call("tool: transform, with: { a: 1 }")];
    for rollback in nothing {
        assert!(matches!(ruling(rollback).await, Ruling::NeedsApproval(_)), "{rollback}");
    }
}
