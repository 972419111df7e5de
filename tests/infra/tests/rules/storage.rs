//! The table and the buckets of terraform, of localstack and of the store agree.

use std::collections::BTreeSet;

use hcl_edit::expr::Expression;
use hcl_edit::structure::Block;

use crate::module::{Module, entry, infra, label, source, text, text_after, text_of, value, value_in};

/// An index: its name, partition attribute and sort attribute.
type Index = (String, String, String);

#[test]
fn table_matches_the_store_code() {
    let code = source("crates/store/src/aws/table.rs");
    let module = ledger();
    assert_eq!(indexes(&module), indexes_in(&code), "crates/store/src/aws/table.rs has other indexes");
    let table = module.resources("aws_dynamodb_table").next().unwrap();
    let ttl = value_in(&table.body, "ttl", "attribute_name").map(text).unwrap_or_default();
    assert!(
        code.contains(&format!("TIME_TO_LIVE: &str = \"{ttl}\"")),
        "crates/store/src/aws/table.rs has another TTL attribute"
    );
}

#[test]
fn localstack_table_matches_terraform() {
    let script = source("localstack/init.sh");
    assert_eq!(indexes(&ledger()), indexes_made_by(&script), "localstack/init.sh creates other indexes");
    for attribute in indexes(&ledger()).into_iter().flat_map(|(_, hash, range)| [hash, range]) {
        let kind = if attribute == "due_at" { "N" } else { "S" };
        let defined = format!(r#"{{ "AttributeName": "{attribute}", "AttributeType": "{kind}" }}"#);
        assert!(script.contains(&defined), "localstack/init.sh does not define {attribute} as {kind}");
    }
    let made = indexes_made_by("  $(index due due_pk due_at),\n  $(index two)\n");
    assert_eq!(made, [("due".into(), "due_pk".into(), "due_at".into())].into());
}

/// The indexes that a script creates by `$(index NAME HASH RANGE)`.
fn indexes_made_by(script: &str) -> BTreeSet<Index> {
    let calls = script.split("$(index ").skip(1).filter_map(|rest| rest.split_once(')'));
    let words = calls.map(|(words, _)| words.split(' ').map(str::to_owned).collect::<Vec<_>>());
    words.filter_map(|words| Some(<[String; 3]>::try_from(words).ok()?.into())).collect()
}

#[test]
fn index_is_recognized_in_the_code() {
    let code = r#"const DUE: Index = Index { name: "due", hash: "due_pk", range: "due_at" };"#;
    assert_eq!(indexes_in(code), [("due".into(), "due_pk".into(), "due_at".into())].into());
}

/// A load balancer cannot write to a bucket that is encrypted with KMS.
#[test]
fn only_balancer_logs_are_encrypted_without_kms() {
    let modules = infra();
    let takes_logs = |call: &Block| value(&call.body, "takes_balancer_logs").is_some();
    let takers = modules.iter().filter(|module| module.blocks("module").any(takes_logs));
    assert_eq!(takers.map(|module| module.path.as_str()).collect::<Vec<_>>(), ["modules/server"]);
}

#[test]
fn expiring_prefix_is_that_of_the_payloads() {
    let modules = infra();
    let payloads = modules.iter().find(|module| module.path == "modules/payloads").unwrap();
    let lifecycle = payloads.resources("aws_s3_bucket_lifecycle_configuration").next().unwrap();
    let mut rules = lifecycle.body.get_blocks("rule");
    let expiring = rules.find(|rule| rule.body.get_blocks("expiration").next().is_some()).unwrap();
    assert_eq!(value_in(&expiring.body, "filter", "prefix").map(text).as_deref(), Some("payloads/"));
    let blobs = source("crates/store/src/blobs.rs");
    assert!(
        blobs.contains("Self::Payloads => \"payloads\","),
        "the payloads have another prefix in the code"
    );
}

#[test]
fn payloads_are_renewed_long_before_they_expire() {
    let modules = infra();
    let payloads = modules.iter().find(|module| module.path == "modules/payloads").unwrap();
    let keep = payloads.blocks("variable").find(|block| label(block, 0) == "keep_days").unwrap();
    let condition = value_in(&keep.body, "validation", "condition").map(text).unwrap();
    let least: u64 = text_after(&condition, "var.keep_days >= ", ' ').parse().unwrap();
    let code = source("crates/store/src/aws/s3.rs");
    let hours: u64 = text_after(&code, "const RENEWED_AFTER: Millis = Millis::hours(", ')').parse().unwrap();
    assert!(
        least * 24 >= 10 * hours,
        "payloads may expire after {least} days, but are renewed after {hours} hours"
    );
}

#[test]
fn evidence_bucket_has_object_lock() {
    let modules = infra();
    let evidence = modules.iter().find(|module| module.path == "modules/evidence").unwrap();
    let bucket = evidence.blocks("module").find(|call| label(call, 0) == "bucket").unwrap();
    assert_eq!(text_of(&bucket.body, "object_lock"), "true");
}

fn ledger() -> Module {
    infra().into_iter().find(|module| module.path == "modules/ledger").unwrap()
}

/// The indexes in the module's local value.
fn indexes(module: &Module) -> BTreeSet<Index> {
    let indexes = module.local("indexes").and_then(Expression::as_object).unwrap();
    let attribute = |name: &str, key| {
        let index = entry(indexes, name).and_then(Expression::as_object).unwrap();
        entry(index, key).map(text).unwrap()
    };
    let names = crate::module::keys(indexes).into_iter();
    names.map(|name| (name.clone(), attribute(&name, "hash"), attribute(&name, "range"))).collect()
}

/// The indexes that the code declares.
fn indexes_in(code: &str) -> BTreeSet<Index> {
    let declared = code.split("Index { name: ").skip(1).filter_map(|rest| {
        let mut quoted = rest.split('}').next()?.split('"').skip(1).step_by(2).map(str::to_owned);
        Some((quoted.next()?, quoted.next()?, quoted.next()?))
    });
    declared.collect()
}
