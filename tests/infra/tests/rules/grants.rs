//! IAM statements allow only actions on the table, the queues and the buckets that the store uses.

use std::path::Path;

use crate::module::{Module, assert_reported, fixture, infra, root};
use crate::statements::allowed;

/// The services whose actions are compared with the code.
const SERVICES: [&str; 3] = ["dynamodb", "sqs", "s3"];

/// Actions that need another piece of code than a call of the same name.
const NEEDED_FOR: [(&str, &str); 6] = [
    // IAM authorizes each part of a transaction.
    ("dynamodb:PutItem", "Put::builder()"),
    ("dynamodb:UpdateItem", "Update::builder()"),
    ("dynamodb:DeleteItem", "Delete::builder()"),
    ("dynamodb:ConditionCheckItem", "ConditionCheck::builder()"),
    // Without it, S3 answers 403 instead of 404 for a missing object.
    ("s3:ListBucket", ".get_object()"),
    ("s3:PutObjectRetention", ".set_object_lock_retain_until_date("),
];

/// Files that only set up a local AWS and never run in an account.
const LOCAL_SETUP: [&str; 2] = ["local.rs", "table.rs"];

#[test]
fn every_allowed_action_is_used_by_the_store() {
    assert_eq!(unused_actions(&infra(), &store()), [""; 0]);
}

#[test]
fn unused_action_is_reported() {
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
    let faults = unused_actions(&fixture(granted), code);
    assert_reported(&faults, "dynamodb:Scan is allowed");
    assert_reported(&faults, "s3:DeleteObject is allowed");
    assert_eq!(faults.len(), 2, "{faults:?}");
}

#[test]
fn store_sources_exclude_tests_and_local_setup() {
    let store = store();
    assert!(store.contains(".transact_write_items()") && store.contains(".head_object()"));
    assert!(!store.contains("mod tests") && !store.contains(".create_queue()"));
}

fn unused_actions(modules: &[Module], code: &str) -> Vec<String> {
    let per_module = |module: &Module| {
        let compared = allowed(module).into_iter().filter(|action| is_compared(action));
        let unused = compared.filter(|action| !is_used(action, code));
        let fault = |action: String| format!("{}: {action} is allowed but never used", module.path);
        unused.map(fault).collect::<Vec<_>>()
    };
    modules.iter().flat_map(per_module).collect()
}

fn is_compared(action: &str) -> bool {
    action.split_once(':').is_some_and(|(service, _)| SERVICES.contains(&service))
}

/// Whether the code calls the action, alone or in a batch, or contains the code that needs it.
fn is_used(action: &str, code: &str) -> bool {
    let call = snake(action.split_once(':').map_or(action, |(_, verb)| verb));
    let called = [format!(".{call}()"), format!(".{call}_batch()")].iter().any(|call| code.contains(call));
    called || NEEDED_FOR.iter().any(|(needed, what)| *needed == action && code.contains(what))
}

/// `GetItem` as the SDK method name: `get_item`.
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

/// The sources of the AWS store that run in an account.
fn store() -> String {
    let files =
        std::fs::read_dir(root().join("crates/store/src/aws")).unwrap().map(|entry| entry.unwrap().path());
    let is_local_setup = |path: &Path| LOCAL_SETUP.iter().any(|name| path.ends_with(name));
    let runs = files.filter(|path| !is_local_setup(path));
    let texts = runs.map(|path| std::fs::read_to_string(path).unwrap());
    texts.map(|text| text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default().to_owned()).collect()
}
