//! Nobody may do to the table, the queues and the buckets what the store never asks of them.

use std::path::Path;

use crate::module::{Module, assert_found, fixture, infra, root};
use crate::statements::allowed;

/// Whose actions are compared with what the store asks for.
const SERVICES: [&str; 3] = ["dynamodb", "sqs", "s3"];

/// What is needed for something else than a call of the same name, and for what.
const NEEDED_FOR: [(&str, &str); 6] = [
    // The parts of a transaction are allowed one by one.
    ("dynamodb:PutItem", "Put::builder()"),
    ("dynamodb:UpdateItem", "Update::builder()"),
    ("dynamodb:DeleteItem", "Delete::builder()"),
    ("dynamodb:ConditionCheckItem", "ConditionCheck::builder()"),
    // Whoever may not list is not told that an object is missing.
    ("s3:ListBucket", ".get_object()"),
    ("s3:PutObjectRetention", ".set_object_lock_retain_until_date("),
];

/// What furnishes a stand-in is never run in an account.
const FURNISHING: [&str; 2] = ["local.rs", "table.rs"];

#[test]
fn every_action_that_is_allowed_is_one_that_the_store_asks_for() {
    assert_eq!(unasked(&infra(), &store()), [""; 0]);
}

#[test]
fn an_action_that_nobody_asks_for_is_found() {
    let granted = r#"
        locals { a = { b = [{ actions = ["dynamodb:Scan", "dynamodb:PutItem"], resources = [var.arn] }] } }
        data "aws_iam_policy_document" "c" {
          statement {
            actions   = ["sqs:SendMessage", "s3:DeleteObject", "kms:Decrypt"]
            resources = [var.arn]
          }
          statement {
            effect  = "Deny"
            actions = ["s3:*"]
          }
        }
    "#;
    let code = "client.send_message_batch().send(); TransactWriteItem::builder().put(Put::builder())";
    let faults = unasked(&fixture(granted), code);
    assert_found(&faults, "dynamodb:Scan is allowed");
    assert_found(&faults, "s3:DeleteObject is allowed");
    assert_eq!(faults.len(), 2, "{faults:?}");
}

#[test]
fn what_the_store_asks_for_is_read_without_its_tests_and_its_stand_ins() {
    let store = store();
    assert!(store.contains(".transact_write_items()") && store.contains(".head_object()"));
    assert!(!store.contains("mod tests") && !store.contains(".create_queue()"));
}

fn unasked(modules: &[Module], code: &str) -> Vec<String> {
    let per_module = |module: &Module| {
        let compared = allowed(module).into_iter().filter(|action| is_compared(action));
        let unasked = compared.filter(|action| !is_asked(action, code));
        let fault = |action: String| format!("{}: {action} is allowed, and never asked for", module.path);
        unasked.map(fault).collect::<Vec<_>>()
    };
    modules.iter().flat_map(per_module).collect()
}

fn is_compared(action: &str) -> bool {
    action.split_once(':').is_some_and(|(service, _)| SERVICES.contains(&service))
}

/// Whether the code calls it, alone or in a batch, or does what it is needed for.
fn is_asked(action: &str, code: &str) -> bool {
    let call = snake(action.split_once(':').map_or(action, |(_, verb)| verb));
    let called = [format!(".{call}()"), format!(".{call}_batch()")].iter().any(|call| code.contains(call));
    called || NEEDED_FOR.iter().any(|(needed, what)| *needed == action && code.contains(what))
}

/// `GetItem` as the SDK calls it: `get_item`.
fn snake(verb: &str) -> String {
    let mut name = String::new();
    for letter in verb.chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

/// The sources of the store on AWS, as far as they run in an account.
fn store() -> String {
    let files =
        std::fs::read_dir(root().join("crates/store/src/aws")).unwrap().map(|entry| entry.unwrap().path());
    let furnishes = |path: &Path| FURNISHING.iter().any(|name| path.ends_with(name));
    let runs = files.filter(|path| !furnishes(path));
    let texts = runs.map(|path| std::fs::read_to_string(path).unwrap());
    texts.map(|text| text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default().to_owned()).collect()
}
