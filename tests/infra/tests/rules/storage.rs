//! The table is the one the code uses; buckets and logs are encrypted, private, and kept as long as said.

use std::collections::BTreeSet;

use hcl_edit::expr::Expression;
use hcl_edit::structure::Block;

use crate::module::{
    Module, assert_found, behind, entry, fixture, infra, label, source, text, text_of, value, value_in,
};

/// An index: its name, and the attributes it is partitioned and sorted by.
type Index = (String, String, String);

/// The indexes that were agreed on (docs/decisions/0014-one-table-on-dynamodb.md).
const INDEXES: [(&str, &str, &str); 5] = [
    ("due", "due_in", "due_at"),
    ("open_approvals", "open_of", "asked"),
    ("runs_by_record", "runs_on", "begun"),
    ("runs_by_status", "runs_in", "begun"),
    ("runs_by_tenant", "runs_of", "begun"),
];

#[test]
fn the_table_can_be_put_back_and_is_encrypted() {
    assert_eq!(tables(&infra()), [""; 0]);
    let bare = r#"
        resource "aws_dynamodb_table" "a" {
          point_in_time_recovery { enabled = false }
        }
    "#;
    let faults = tables(&fixture(bare));
    assert_found(&faults, "point_in_time_recovery");
    assert_found(&faults, "server_side_encryption");
    assert_found(&faults, "deletion_protection_enabled");
}

#[test]
fn the_indexes_are_the_ones_that_were_agreed_on() {
    let agreed: BTreeSet<Index> = INDEXES.map(|(a, b, c)| (a.into(), b.into(), c.into())).into();
    assert_eq!(indexes(&ledger()), agreed);
}

#[test]
fn the_table_is_the_one_that_the_code_reads() {
    let code = source("crates/store/src/aws/table.rs");
    let module = ledger();
    assert_eq!(indexes(&module), indexes_in(&code), "crates/store/src/aws/table.rs has other indexes");
    let table = module.resources("aws_dynamodb_table").next().unwrap();
    let ttl = value_in(&table.body, "ttl", "attribute_name").map(text).unwrap_or_default();
    assert!(
        code.contains(&format!("TIME_TO_LIVE: &str = \"{ttl}\"")),
        "the code expires items by another attribute"
    );
}

#[test]
fn the_table_of_a_local_stand_in_is_the_same() {
    let script = source("localstack/init.sh");
    assert_eq!(indexes(&ledger()), indexes_made_by(&script), "localstack/init.sh makes other indexes");
    for attribute in indexes(&ledger()).into_iter().flat_map(|(_, hash, range)| [hash, range]) {
        let kind = if attribute == "due_at" { "N" } else { "S" };
        let defined = format!(r#"{{ "AttributeName": "{attribute}", "AttributeType": "{kind}" }}"#);
        assert!(script.contains(&defined), "localstack/init.sh does not define {attribute} as {kind}");
    }
    let made = indexes_made_by("  $(index due due_in due_at),\n  $(index two)\n");
    assert_eq!(made, [("due".into(), "due_in".into(), "due_at".into())].into());
}

/// The indexes that a script has made by `$(index NAME HASH RANGE)`.
fn indexes_made_by(script: &str) -> BTreeSet<Index> {
    let calls = script.split("$(index ").skip(1).filter_map(|rest| rest.split_once(')'));
    let words = calls.map(|(words, _)| words.split(' ').map(str::to_owned).collect::<Vec<_>>());
    words.filter_map(|words| Some(<[String; 3]>::try_from(words).ok()?.into())).collect()
}

#[test]
fn an_index_is_recognised_in_the_code() {
    let code = r#"const DUE: Index = Index { name: "due", hash: "due_in", range: "due_at" };"#;
    assert_eq!(indexes_in(code), [("due".into(), "due_in".into(), "due_at".into())].into());
}

#[test]
fn every_attribute_of_a_key_has_its_type() {
    let module = ledger();
    let attributes = module.local("attributes").and_then(Expression::as_object).unwrap();
    let named: BTreeSet<String> = crate::module::keys(attributes).into_iter().collect();
    let of_indexes = indexes(&module).into_iter().flat_map(|(_, hash, range)| [hash, range]);
    let needed = of_indexes.chain(["pk".to_owned(), "sk".to_owned()]).collect();
    assert_eq!(named, needed);
    assert_eq!(entry(attributes, "due_at").map(text).as_deref(), Some("N"));
}

#[test]
fn every_bucket_is_encrypted_private_and_keeps_versions() {
    assert_eq!(buckets(&infra()), [""; 0]);
    let faults = buckets(&fixture(
        r#"
        resource "aws_s3_bucket" "a" {}
        resource "aws_s3_bucket_public_access_block" "a" {
          bucket            = aws_s3_bucket.a.id
          block_public_acls = true
        }
        "#,
    ));
    assert_found(&faults, "aws_s3_bucket.a has no aws_s3_bucket_server_side_encryption_configuration");
    assert_found(&faults, "aws_s3_bucket.a has no aws_s3_bucket_versioning");
    assert_found(&faults, "aws_s3_bucket.a does not set restrict_public_buckets");
}

#[test]
fn only_a_balancers_log_is_encrypted_with_another_key_than_ours() {
    let modules = infra();
    let bucket = modules.iter().find(|module| module.path == "modules/bucket").unwrap();
    let encryption = bucket.resources("aws_s3_bucket_server_side_encryption_configuration").next().unwrap();
    let rule = encryption.body.get_blocks("rule").next().unwrap();
    let by_default = |key| value_in(&rule.body, "apply_server_side_encryption_by_default", key).map(text);
    let algorithm = r#"var.takes_balancer_logs ? "AES256" : "aws:kms""#;
    assert_eq!(by_default("sse_algorithm").as_deref(), Some(algorithm));
    assert_eq!(by_default("kms_master_key_id").as_deref(), Some("var.kms_key_arn"));
    let takes_logs = |call: &Block| value(&call.body, "takes_balancer_logs").is_some();
    let takers = modules.iter().filter(|module| module.blocks("module").any(takes_logs));
    assert_eq!(takers.map(|module| module.path.as_str()).collect::<Vec<_>>(), ["modules/server"]);
}

#[test]
fn payloads_expire_and_nothing_that_stands_beside_them() {
    let modules = infra();
    let payloads = modules.iter().find(|module| module.path == "modules/payloads").unwrap();
    assert_eq!(expiring(payloads), ["payloads/"]);
    let shelves = source("crates/store/src/blobs.rs");
    assert!(shelves.contains("Self::Payloads => \"payloads\","), "payloads stand under another name");
    let everything = r#"
        resource "aws_s3_bucket_lifecycle_configuration" "a" {
          rule {
            filter {}
            expiration { days = 180 }
          }
          rule {
            filter {}
            noncurrent_version_expiration { noncurrent_days = 7 }
          }
        }
    "#;
    assert_eq!(expiring(&fixture(everything)[0]), [""]);
}

#[test]
fn a_payload_is_written_anew_long_before_it_expires() {
    let modules = infra();
    let payloads = modules.iter().find(|module| module.path == "modules/payloads").unwrap();
    let keep = payloads.blocks("variable").find(|block| label(block, 0) == "keep_days").unwrap();
    let condition = value_in(&keep.body, "validation", "condition").map(text).unwrap();
    let least: u64 = behind(&condition, "var.keep_days >= ", ' ').parse().unwrap();
    let code = source("crates/store/src/aws/s3.rs");
    let hours: u64 = behind(&code, "const RENEWED_AFTER: Millis = Millis::hours(", ')').parse().unwrap();
    assert!(least * 24 >= 10 * hours, "kept for {least} days, and written anew after {hours} hours");
}

/// How the keys begin of what a lifecycle deletes; nothing where it deletes everything.
fn expiring(module: &Module) -> Vec<String> {
    let lifecycles = module.resources("aws_s3_bucket_lifecycle_configuration");
    let rules = lifecycles.flat_map(|lifecycle| lifecycle.body.get_blocks("rule"));
    let expiring = rules.filter(|rule| rule.body.get_blocks("expiration").next().is_some());
    expiring.map(|rule| value_in(&rule.body, "filter", "prefix").map(text).unwrap_or_default()).collect()
}

#[test]
fn evidence_is_locked() {
    let modules = infra();
    let evidence = modules.iter().find(|module| module.path == "modules/evidence").unwrap();
    assert_eq!(evidence.resources("aws_s3_bucket_object_lock_configuration").count(), 1);
    let bucket = evidence.blocks("module").find(|call| label(call, 0) == "bucket").unwrap();
    assert_eq!(text_of(&bucket.body, "object_lock"), "true");
}

#[test]
fn every_log_is_encrypted_and_kept_as_long_as_said() {
    assert_eq!(logs(&infra()), [""; 0]);
    let faults = logs(&fixture(r#"resource "aws_cloudwatch_log_group" "a" { name = "a" }"#));
    assert_found(&faults, "aws_cloudwatch_log_group.a has no retention_in_days");
    assert_found(&faults, "aws_cloudwatch_log_group.a has no kms_key_id");
}

fn ledger() -> Module {
    infra().into_iter().find(|module| module.path == "modules/ledger").unwrap()
}

fn tables(modules: &[Module]) -> Vec<String> {
    let mut faults = Vec::new();
    for table in modules.iter().flat_map(|module| module.resources("aws_dynamodb_table")) {
        for block in ["point_in_time_recovery", "server_side_encryption", "ttl"] {
            if value_in(&table.body, block, "enabled").and_then(Expression::as_bool) != Some(true) {
                faults.push(format!("{block} of the table `{}` is not enabled", label(table, 1)));
            }
        }
        faults.extend(unset(table, &["deletion_protection_enabled"]));
    }
    faults
}

/// The indexes in the module's table of them.
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

fn buckets(modules: &[Module]) -> Vec<String> {
    let per_module = |module: &Module| {
        let of = |bucket: &Block| beside(module, label(bucket, 1));
        module.resources("aws_s3_bucket").flat_map(of).collect::<Vec<_>>()
    };
    modules.iter().flat_map(per_module).collect()
}

/// What stands beside a bucket, and what does not.
fn beside(module: &Module, bucket: &str) -> Vec<String> {
    let name = format!("aws_s3_bucket.{bucket}");
    let mut faults = Vec::new();
    for kind in [
        "aws_s3_bucket_server_side_encryption_configuration",
        "aws_s3_bucket_versioning",
        "aws_s3_bucket_policy",
        "aws_s3_bucket_public_access_block",
    ] {
        let is_its = |block: &&Block| text_of(&block.body, "bucket") == format!("{name}.id");
        match module.resources(kind).find(is_its) {
            None => faults.push(format!("{name} has no {kind}")),
            Some(block) if kind.ends_with("access_block") => faults.extend(open(&name, block)),
            Some(_) => {}
        }
    }
    faults
}

fn open(bucket: &str, block: &Block) -> Vec<String> {
    let four = ["block_public_acls", "block_public_policy", "ignore_public_acls", "restrict_public_buckets"];
    let unset = four.iter().filter(|key| text_of(&block.body, key) != "true");
    unset.map(|key| format!("{bucket} does not set {key}")).collect()
}

fn logs(modules: &[Module]) -> Vec<String> {
    let groups = modules.iter().flat_map(|module| module.resources("aws_cloudwatch_log_group"));
    groups.flat_map(|group| unset(group, &["retention_in_days", "kms_key_id"])).collect()
}

fn unset(resource: &Block, wanted: &[&str]) -> Vec<String> {
    let missing = wanted.iter().filter(|key| value(&resource.body, key).is_none());
    missing.map(|key| format!("{}.{} has no {key}", label(resource, 0), label(resource, 1))).collect()
}
