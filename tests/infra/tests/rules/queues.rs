//! Every queue has a dead-letter queue with the name that the programs expect and an alarm. Dead letters are retained long
//! enough to be inspected, and only messages that fail repeatedly become dead letters.

use hcl_edit::structure::Block;

use crate::module::{
    Module, assert_reported, fixture, infra, label, source, text, text_after, text_of, value, value_in,
};

/// The suffix that the programs add to a queue's URL for its dead-letter queue.
const DEAD: &str = "-dead";

/// The minimum number of days for which a dead letter can be inspected. SQS counts the retention from the time the message
/// was sent, and an operator may be away for a week.
const INSPECTION_DAYS: u64 = 10;

const DAY_SECONDS: u64 = 24 * 60 * 60;

/// The default retention of SQS.
const DEFAULT_RETENTION_SECONDS: u64 = 4 * DAY_SECONDS;

#[test]
fn every_queue_has_a_dead_letter_queue() {
    assert_eq!(faults(&infra()), [""; 0]);
}

#[test]
fn queue_without_dead_letter_queue_is_reported() {
    let alone = r#"resource "aws_sqs_queue" "a" { name = "a" }"#;
    assert_reported(&faults(&fixture(alone)), "aws_sqs_queue.a has no redrive_policy");

    let elsewhere = r#"
        resource "aws_sqs_queue" "a" {
          name           = var.name
          redrive_policy = jsonencode({ deadLetterTargetArn = aws_sqs_queue.b.arn, maxReceiveCount = 3 })
        }
        resource "aws_sqs_queue" "b" { name = "b-dead" }
    "#;
    assert_reported(&faults(&fixture(elsewhere)), "aws_sqs_queue.a does not send its dead letters to");

    let unwatched = r#"resource "aws_sqs_queue" "a" { name = "${var.name}-dead" }"#;
    assert_reported(&faults(&fixture(unwatched)), "no alarm on dead letters in aws_sqs_queue.a");
    let watched = |actions: &str| {
        format!(
            r#"{unwatched}
            resource "aws_cloudwatch_metric_alarm" "a" {{
              metric_name   = "ApproximateNumberOfMessagesVisible"
              dimensions    = {{ QueueName = aws_sqs_queue.a.name }}
              alarm_actions = {actions}
            }}"#
        )
    };
    assert_eq!(faults(&fixture(&watched("var.alarm_topic_arns"))), [""; 0]);
    assert_reported(&faults(&fixture(&watched("[]"))), "no alarm on dead letters in aws_sqs_queue.a");
}

#[test]
fn dead_letters_are_retained_longer_than_messages() {
    assert_eq!(expiring_early(&infra()), [""; 0]);
    let same_retention = r#"
        resource "aws_sqs_queue" "a" {
          name                      = "a"
          message_retention_seconds = 14 * 24 * 60 * 60
        }
        resource "aws_sqs_queue" "b" {
          name                      = "a-dead"
          message_retention_seconds = 14 * 24 * 60 * 60
        }
    "#;
    assert_reported(
        &expiring_early(&fixture(same_retention)),
        "a dead letter of aws_sqs_queue.a may expire after 0 days",
    );
    let default_retention = r#"
        resource "aws_sqs_queue" "a" { name = var.name }
        resource "aws_sqs_queue" "b" {
          name                      = "${var.name}-dead"
          message_retention_seconds = 1209600
        }
    "#;
    assert_eq!(expiring_early(&fixture(default_retention)), [""; 0]);
}

#[test]
fn localstack_has_the_same_visibility_timeout() {
    let modules = infra();
    let queue = modules.iter().find(|module| module.path == "modules/queue").unwrap();
    let hidden = queue.blocks("variable").find(|block| label(block, 0) == "visibility_seconds").unwrap();
    let script = source("localstack/init.sh");
    assert_eq!(text_after(&script, "\nvisibility_s=", '\n'), text_of(&hidden.body, "default"));
}

#[test]
fn localstack_has_the_same_retention() {
    let modules = infra();
    let queue = modules.iter().find(|module| module.path == "modules/queue").unwrap();
    let (script, local) = (source("localstack/init.sh"), source("crates/store/src/aws/local.rs"));
    for (name, in_script, in_code) in [
        ("this", "\nkept_s=", "const RETENTION_SECONDS"),
        ("dead", "\ndead_kept_s=", "const DEAD_RETENTION_SECONDS"),
    ] {
        let made = queue.resources("aws_sqs_queue").find(|block| label(block, 1) == name).unwrap();
        let retention = retention_seconds(made).to_string();
        assert_eq!(text_after(&script, in_script, '\n'), retention, "localstack/init.sh");
        assert_eq!(
            text_after(&local, &format!("{in_code}: &str = \""), '"'),
            retention,
            "crates/store/src/aws/local.rs"
        );
    }
}

#[test]
fn receive_limit_matches_the_embedded_store() {
    let store = source("crates/store/src/queue.rs");
    let limit = text_after(&store, "pub const RECEIVES_MAX: u32 = ", ';');
    let default = text_of(&receives_max().body, "default");
    assert_eq!(default, limit, "modules/queue has another receive limit than the store");
}

#[test]
fn early_message_is_replaced_before_the_receive_limit() {
    let job_runner = source("worker/src/job_runner.rs");
    let postponed: u32 = text_after(&job_runner, "const POSTPONED_MAX: u32 = ", ';').parse().unwrap();
    let variable = receives_max();
    let condition = value_in(&variable.body, "validation", "condition").map(text).unwrap();
    let least: u32 = text_after(&condition, "var.receives_max >= ", ' ').parse().unwrap();
    assert!(
        least > postponed,
        "the receive limit may be {least}, but a message is replaced after {postponed} deliveries"
    );
}

fn receives_max() -> Block {
    let modules = infra();
    let queue = modules.iter().find(|module| module.path == "modules/queue").unwrap();
    queue.blocks("variable").find(|block| label(block, 0) == "receives_max").unwrap().clone()
}

fn expiring_early(modules: &[Module]) -> Vec<String> {
    let per_module = |module: &Module| {
        let queues: Vec<&Block> = module.resources("aws_sqs_queue").collect();
        let fault = |queue: &&Block| {
            let dead = retention_seconds(dead_of(&queues, queue)?);
            let left = dead.saturating_sub(retention_seconds(queue)) / DAY_SECONDS;
            let name = format!("aws_sqs_queue.{}", label(queue, 1));
            (left < INSPECTION_DAYS).then(|| format!("a dead letter of {name} may expire after {left} days"))
        };
        queues.iter().filter_map(fault).collect::<Vec<_>>()
    };
    modules.iter().flat_map(per_module).collect()
}

/// The retention of a queue, which is written as a product.
fn retention_seconds(queue: &Block) -> u64 {
    let number = |factor: &str| factor.trim().parse::<u64>().unwrap();
    let written = value(&queue.body, "message_retention_seconds").map(text);
    written.map_or(DEFAULT_RETENTION_SECONDS, |written| written.split('*').map(number).product())
}

/// The dead-letter queue of a queue.
fn dead_of<'q>(queues: &[&'q Block], queue: &Block) -> Option<&'q Block> {
    let expected = dead_name(&text_of(&queue.body, "name"));
    queues.iter().copied().find(|dead| text_of(&dead.body, "name") == expected)
}

fn faults(modules: &[Module]) -> Vec<String> {
    let per_module = |module: &Module| {
        let queues: Vec<&Block> = module.resources("aws_sqs_queue").collect();
        let fault = |queue: &&Block| {
            if is_dead(queue) { unwatched(module, queue) } else { without(&queues, queue) }
        };
        let faults = queues.iter().filter_map(fault);
        faults.map(|fault| format!("{}: {fault}", module.path)).collect::<Vec<_>>()
    };
    modules.iter().flat_map(per_module).collect()
}

fn is_dead(queue: &Block) -> bool {
    text_of(&queue.body, "name").ends_with(DEAD)
}

fn without(queues: &[&Block], queue: &Block) -> Option<String> {
    let name = label(queue, 1);
    let Some(policy) = value(&queue.body, "redrive_policy").map(text) else {
        return Some(format!("aws_sqs_queue.{name} has no redrive_policy"));
    };
    let expected = dead_name(&text_of(&queue.body, "name"));
    let sends_there = queues.iter().any(|dead| {
        text_of(&dead.body, "name") == expected
            && policy.contains(&format!("aws_sqs_queue.{}.arn", label(dead, 1)))
    });
    let fault = format!("aws_sqs_queue.{name} does not send its dead letters to a queue named {expected}");
    (!sends_there).then_some(fault)
}

/// The name with the suffix `-dead`, as written in terraform.
fn dead_name(name: &str) -> String {
    if name.starts_with("var.") { format!("${{{name}}}{DEAD}") } else { format!("{name}{DEAD}") }
}

fn unwatched(module: &Module, queue: &Block) -> Option<String> {
    let name = format!("aws_sqs_queue.{}", label(queue, 1));
    let watched = module.resources("aws_cloudwatch_metric_alarm").any(|alarm| {
        text_of(&alarm.body, "metric_name") == "ApproximateNumberOfMessagesVisible"
            && text_of(&alarm.body, "dimensions").contains(&name)
            && text_of(&alarm.body, "alarm_actions") == "var.alarm_topic_arns"
    });
    (!watched).then(|| format!("no alarm on dead letters in {name}"))
}
