//! The queues of terraform, of localstack and of the programs agree. Only messages that fail repeatedly become dead letters.

use hcl_edit::structure::Block;

use crate::module::{infra, label, source, text, text_after, text_of, value_in};

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

/// The retention of a queue, which is written as a product.
fn retention_seconds(queue: &Block) -> u64 {
    let number = |factor: &str| factor.trim().parse::<u64>().unwrap();
    text_of(&queue.body, "message_retention_seconds").split('*').map(number).product()
}
