//! The table matches the code; buckets and logs are encrypted, private, and have a retention.

use std::collections::BTreeSet;

use hcl_edit::expr::Expression;
use hcl_edit::structure::Block;

use crate::module::{
    Module, assert_reported, entry, fixture, infra, label, source, text, text_after, text_of, value, value_in,
};

/// An index: its name, partition attribute and sort attribute.
type Index = (String, String, String);

/// The agreed indexes (docs/decisions/0014-one-table-on-dynamodb.md).
const INDEXES: [(&str, &str, &str); 5] = [
    ("due", "due_pk", "due_at"),
    ("open_approvals", "open_pk", "open_sk"),
    ("runs_by_record", "record_pk", "runs_sk"),
    ("runs_by_status", "status_pk", "runs_sk"),
    ("runs_by_tenant", "tenant_pk", "runs_sk"),
];

#[test]
fn table_is_encrypted_and_recoverable() {
    assert_eq!(tables(&infra()), [""; 0]);
    let bare = r#"
        resource "aws_dynamodb_table" "a" {
          point_in_time_recovery { enabled = false }
        }
    "#;
    let faults = tables(&fixture(bare));
    assert_reported(&faults, "point_in_time_recovery");
    assert_reported(&faults, "server_side_encryption");
    assert_reported(&faults, "deletion_protection_enabled");
}

#[test]
fn table_has_the_agreed_indexes() {
    let agreed: BTreeSet<Index> = INDEXES.map(|(a, b, c)| (a.into(), b.into(), c.into())).into();
    assert_eq!(indexes(&ledger()), agreed);
}

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

#[test]
fn every_key_attribute_has_a_type() {
    let module = ledger();
    let attributes = module.local("attributes").and_then(Expression::as_object).unwrap();
    let named: BTreeSet<String> = crate::module::keys(attributes).into_iter().collect();
    let of_indexes = indexes(&module).into_iter().flat_map(|(_, hash, range)| [hash, range]);
    let needed = of_indexes.chain(["pk".to_owned(), "sk".to_owned()]).collect();
    assert_eq!(named, needed);
    assert_eq!(entry(attributes, "due_at").map(text).as_deref(), Some("N"));
}

#[test]
fn every_bucket_is_encrypted_private_and_versioned() {
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
    assert_reported(&faults, "aws_s3_bucket.a has no aws_s3_bucket_server_side_encryption_configuration");
    assert_reported(&faults, "aws_s3_bucket.a has no aws_s3_bucket_versioning");
    assert_reported(&faults, "aws_s3_bucket.a does not set restrict_public_buckets");
}

#[test]
fn only_balancer_logs_use_another_encryption_key() {
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
fn only_payloads_expire() {
    let modules = infra();
    let payloads = modules.iter().find(|module| module.path == "modules/payloads").unwrap();
    assert_eq!(expiring(payloads), ["payloads/"]);
    let blobs = source("crates/store/src/blobs.rs");
    assert!(
        blobs.contains("Self::Payloads => \"payloads\","),
        "the payloads have another prefix in the code"
    );
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

/// The key prefixes of expiring objects; an empty prefix means all objects.
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
fn every_log_is_encrypted_and_has_a_retention() {
    assert_eq!(logs(&infra()), [""; 0]);
    let faults = logs(&fixture(r#"resource "aws_cloudwatch_log_group" "a" { name = "a" }"#));
    assert_reported(&faults, "aws_cloudwatch_log_group.a has no retention_in_days");
    assert_reported(&faults, "aws_cloudwatch_log_group.a has no kms_key_id");
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

fn buckets(modules: &[Module]) -> Vec<String> {
    let per_module = |module: &Module| {
        let of = |bucket: &Block| bucket_faults(module, label(bucket, 1));
        module.resources("aws_s3_bucket").flat_map(of).collect::<Vec<_>>()
    };
    modules.iter().flat_map(per_module).collect()
}

/// The missing configuration of a bucket.
fn bucket_faults(module: &Module, bucket: &str) -> Vec<String> {
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
