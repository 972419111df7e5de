//! Every queue has its dead letters, under the name that the programs expect, with an alarm on them.

use hcl_edit::structure::Block;

use crate::module::{Module, assert_found, fixture, infra, label, source, text, text_of, value};

/// What the programs add to a queue's URL to find its dead letters.
const DEAD: &str = "-dead";

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
}

#[test]
fn a_message_is_given_up_as_often_as_the_embedded_store_gives_it_up() {
    let store = source("store/src/queue.rs");
    let limit = store.split_once("pub const RECEIVES_MAX: u32 = ").unwrap().1.split_once(';').unwrap().0;
    let modules = infra();
    let queue = modules.iter().find(|module| module.path == "modules/queue").unwrap();
    let variable = queue.blocks("variable").find(|block| label(block, 0) == "receives_max").unwrap();
    assert_eq!(text_of(&variable.body, "default"), limit, "modules/queue gives up after another number");
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
    });
    (!watched).then(|| format!("nobody is told of dead letters in {name}"))
}
