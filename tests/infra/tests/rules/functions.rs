//! Every function is defined in one module, which gives it its alarms.

use crate::module::{Module, assert_reported, fixture, infra, label, source, text_after, text_of};

/// The module that defines functions.
const FUNCTION: &str = "modules/function";

/// The metrics that need an alarm.
const ALARMS: [&str; 2] = ["Errors", "Throttles"];

#[test]
fn every_function_has_its_alarms() {
    assert_eq!(faults(&infra()), [""; 0]);
}

#[test]
fn function_without_alarms_is_reported() {
    let bare = r#"
        resource "aws_lambda_function" "a" {}
        resource "aws_cloudwatch_metric_alarm" "b" {
          metric_name = "Errors"
          dimensions  = { FunctionName = aws_lambda_function.other.function_name }
        }
    "#;
    let faults = faults(&fixture(bare));
    assert_reported(&faults, "aws_lambda_function.a is defined outside of modules/function");
    assert_reported(&faults, "aws_lambda_function.a has no alarm on Errors");
    assert_reported(&faults, "aws_lambda_function.a has no alarm on Throttles");
}

#[test]
fn webhook_answers_before_the_function_timeout() {
    let module = infra().into_iter().find(|module| module.path == FUNCTION).unwrap();
    let ended = module.blocks("variable").find(|block| label(block, 0) == "timeout_seconds").unwrap();
    let ended: u64 = text_of(&ended.body, "default").parse().unwrap();
    let code = source("crates/ingress/src/webhook/mod.rs");
    let answered: u64 = text_after(&code, "ANSWER_WITHIN: Millis = Millis::secs(", ')').parse().unwrap();
    assert!(
        answered < ended,
        "the function times out after {ended} s, but the webhook answers within {answered} s"
    );
}

fn faults(modules: &[Module]) -> Vec<String> {
    let mut faults = Vec::new();
    for module in modules {
        for function in module.resources("aws_lambda_function") {
            let name = format!("aws_lambda_function.{}", label(function, 1));
            if module.path != FUNCTION {
                faults.push(format!("{name} is defined outside of {FUNCTION}"));
            }
            let missing = ALARMS.iter().filter(|metric| !has_alarm(module, metric, &name));
            faults.extend(missing.map(|metric| format!("{name} has no alarm on {metric}")));
        }
    }
    faults
}

fn has_alarm(module: &Module, metric: &str, function: &str) -> bool {
    module.resources("aws_cloudwatch_metric_alarm").any(|alarm| {
        text_of(&alarm.body, "metric_name") == metric
            && text_of(&alarm.body, "dimensions").contains(&format!("{function}.function_name"))
            && text_of(&alarm.body, "alarm_actions") == "var.alarm_topic_arns"
    })
}
