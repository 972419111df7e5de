//! Every queue has its dead letters, under the name that the programs expect, with an alarm on them; they are kept for
//! long enough to be looked at, and only what gets nowhere becomes one.

use hcl_edit::structure::Block;

use crate::module::{
    Module, assert_found, behind, fixture, infra, label, source, text, text_of, value, value_in,
};

/// What the programs add to a queue's URL to find its dead letters.
const DEAD: &str = "-dead";

/// For how many days a dead letter can be looked at, however old its message was when it died: SQS goes on counting from
/// when the message was sent, and a person may be away for a week.
const LOOKED_AT_DAYS: u64 = 10;

const DAY_SECONDS: u64 = 24 * 60 * 60;

/// For how long SQS keeps a message of a queue that does not say.
const UNSAID_SECONDS: u64 = 4 * DAY_SECONDS;

#[test]
fn every_queue_has_its_dead_letters() {
    assert_eq!(faults(&infra()), [""; 0]);
}

#[test]
fn a_queue_without_is_found() {
    let alone = r#"resource "aws_sqs_queue" "a" { name = "a" }"#;
    assert_found(&faults(&fixture(alone)), "aws_sqs_queue.a has no redrive_policy");

    let elsewhere = r#"
        resource "aws_sqs_queue" "a" {
          name           = var.name
          redrive_policy = jsonencode({ deadLetterTargetArn = aws_sqs_queue.b.arn, maxReceiveCount = 3 })
        }
        resource "aws_sqs_queue" "b" { name = "b-dead" }
    "#;
    assert_found(&faults(&fixture(elsewhere)), "aws_sqs_queue.a does not send its dead letters to");

    let unwatched = r#"resource "aws_sqs_queue" "a" { name = "${var.name}-dead" }"#;
    assert_found(&faults(&fixture(unwatched)), "nobody is told of dead letters in aws_sqs_queue.a");
    let watched = |told: &str| {
        format!(
            r#"{unwatched}
            resource "aws_cloudwatch_metric_alarm" "a" {{
              metric_name   = "ApproximateNumberOfMessagesVisible"
              dimensions    = {{ QueueName = aws_sqs_queue.a.name }}
              alarm_actions = {told}
            }}"#
        )
    };
    assert_eq!(faults(&fixture(&watched("var.alarm_topic_arns"))), [""; 0]);
    assert_found(&faults(&fixture(&watched("[]"))), "nobody is told of dead letters in aws_sqs_queue.a");
}

#[test]
fn a_dead_letter_is_kept_for_longer_than_its_message() {
    assert_eq!(gone_early(&infra()), [""; 0]);
    let dedupe_key = r#"
        resource "aws_sqs_queue" "a" {
          name                      = "a"
          message_retention_seconds = 14 * 24 * 60 * 60
        }
        resource "aws_sqs_queue" "b" {
          name                      = "a-dead"
          message_retention_seconds = 14 * 24 * 60 * 60
        }
    "#;
    assert_found(
        &gone_early(&fixture(dedupe_key)),
        "a dead letter of aws_sqs_queue.a may be gone after 0 days",
    );
    let unsaid = r#"
        resource "aws_sqs_queue" "a" { name = var.name }
        resource "aws_sqs_queue" "b" {
          name                      = "${var.name}-dead"
          message_retention_seconds = 1209600
        }
    "#;
    assert_eq!(gone_early(&fixture(unsaid)), [""; 0]);
}

#[test]
fn a_stand_in_hides_a_message_for_as_long() {
    let modules = infra();
    let queue = modules.iter().find(|module| module.path == "modules/queue").unwrap();
    let hidden = queue.blocks("variable").find(|block| label(block, 0) == "visibility_seconds").unwrap();
    let script = source("localstack/init.sh");
    assert_eq!(behind(&script, "\nvisibility_s=", '\n'), text_of(&hidden.body, "default"));
}

#[test]
fn a_stand_in_keeps_messages_and_dead_letters_for_as_long() {
    let modules = infra();
    let queue = modules.iter().find(|module| module.path == "modules/queue").unwrap();
    let (script, local) = (source("localstack/init.sh"), source("crates/store/src/aws/local.rs"));
    for (name, in_script, in_code) in
        [("this", "\nkept_s=", "const KEPT_SECONDS"), ("dead", "\ndead_kept_s=", "const DEAD_KEPT_SECONDS")]
    {
        let made = queue.resources("aws_sqs_queue").find(|block| label(block, 1) == name).unwrap();
        let kept = kept_seconds(made).to_string();
        assert_eq!(behind(&script, in_script, '\n'), kept, "localstack/init.sh");
        assert_eq!(
            behind(&local, &format!("{in_code}: &str = \""), '"'),
            kept,
            "crates/store/src/aws/local.rs"
        );
    }
}

#[test]
fn a_message_is_given_up_as_often_as_the_embedded_store_gives_it_up() {
    let store = source("crates/store/src/queue.rs");
    let limit = behind(&store, "pub const RECEIVES_MAX: u32 = ", ';');
    let default = text_of(&receives_max().body, "default");
    assert_eq!(default, limit, "modules/queue gives up after another number");
}

#[test]
fn a_message_that_comes_too_early_is_replaced_before_it_is_given_up() {
    let walker = source("worker/src/walker.rs");
    let postponed: u32 = behind(&walker, "const POSTPONED_MAX: u32 = ", ';').parse().unwrap();
    let variable = receives_max();
    let condition = value_in(&variable.body, "validation", "condition").map(text).unwrap();
    let least: u32 = behind(&condition, "var.receives_max >= ", ' ').parse().unwrap();
    assert!(least > postponed, "put aside after {least} deliveries, and replaced after {postponed}");
}

fn receives_max() -> Block {
    let modules = infra();
    let queue = modules.iter().find(|module| module.path == "modules/queue").unwrap();
    queue.blocks("variable").find(|block| label(block, 0) == "receives_max").unwrap().clone()
}

fn gone_early(modules: &[Module]) -> Vec<String> {
    let per_module = |module: &Module| {
        let queues: Vec<&Block> = module.resources("aws_sqs_queue").collect();
        let fault = |queue: &&Block| {
            let dead = kept_seconds(dead_of(&queues, queue)?);
            let left = dead.saturating_sub(kept_seconds(queue)) / DAY_SECONDS;
            let name = format!("aws_sqs_queue.{}", label(queue, 1));
            (left < LOOKED_AT_DAYS).then(|| format!("a dead letter of {name} may be gone after {left} days"))
        };
        queues.iter().filter_map(fault).collect::<Vec<_>>()
    };
    modules.iter().flat_map(per_module).collect()
}

/// For how long a queue keeps a message, from when it was sent: a product, as it is written.
fn kept_seconds(queue: &Block) -> u64 {
    let number = |factor: &str| factor.trim().parse::<u64>().unwrap();
    let said = value(&queue.body, "message_retention_seconds").map(text);
    said.map_or(UNSAID_SECONDS, |said| said.split('*').map(number).product())
}

/// Where the dead letters of a queue go.
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

/// The name with `-dead` behind it, as it would be written.
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
    (!watched).then(|| format!("nobody is told of dead letters in {name}"))
}
