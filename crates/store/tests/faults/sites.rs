//! Every place in the AWS store that sends a request, and what a failure there means for the caller.
//!
//! The table has one row per AWS operation of each store call. The test compares it with the sources: a place that
//! sends a request, a store method or an operation name without a row fails the test.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use Kind::{BestEffort, Read, Write};

/// What a failed request means for the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing was written.
    Read,
    /// The write may have been applied.
    Write,
    /// The failure is not returned: a later retry or sweep makes up for it.
    BestEffort,
}

/// An AWS operation of a store call.
#[derive(Debug)]
pub(crate) struct Row {
    /// The store method, and a variant where it has several.
    pub(crate) call: &'static str,
    pub(crate) operation: &'static str,
    /// The file and function that send the request.
    pub(crate) sent_by: &'static str,
    pub(crate) kind: Kind,
    /// The operation names that errors of this request may have.
    pub(crate) doing: &'static [&'static str],
}

macro_rules! rows {
    ($($call:literal: $operation:literal from $sent_by:literal, $kind:ident, $($doing:literal)|*;)*) => {
        &[$(Row { call: $call, operation: $operation, sent_by: $sent_by, kind: $kind, doing: &[$($doing),*] }),*]
    };
}

pub(crate) const ROWS: &[Row] = rows![
    // The ledger.
    "put_plan": "PutItem" from "mod.rs::put", Write, "store a plan";
    "plan": "GetItem" from "mod.rs::get", Read, "read a plan";
    "admit": "TransactWriteItems" from "commit.rs::transact", Write, "commit a decision";
    "admit, with a concurrency key": "TransactWriteItems" from "commit.rs::transact", Write, "commit a decision";
    "holder": "Query" from "index.rs::range", Read, "find the holder of a concurrency key";
    "enqueue_waiter": "PutItem" from "ledger.rs::enqueue_waiter", Write, "enqueue a run for a concurrency key";
    "remove_waiter": "DeleteItem" from "outbox.rs::delete_item", Write, "remove a run from the wait queue of a concurrency key";
    "commit": "TransactWriteItems" from "commit.rs::transact", Write, "commit a decision";
    "commit, job sent late": "TransactWriteItems" from "commit.rs::transact", Write, "commit a decision";
    "commit, job sent late": "DeleteItem" from "outbox.rs::delete_item", BestEffort, ;
    "commit, record only": "UpdateItem" from "commit.rs::update_one", Write, "commit a decision";
    "load": "GetItem" from "mod.rs::get", Read, "load a run";
    "input": "GetItem" from "mod.rs::get", Read, "read the input of a run";
    "step": "GetItem" from "mod.rs::get", Read, "read a step";
    "steps": "Query" from "index.rs::range", Read, "list the steps of a run";
    "events": "Query" from "index.rs::range", Read, "list the events of a run";
    "history": "Query" from "index.rs::range", Read, "read the history of a run";
    "receipt": "GetItem" from "mod.rs::get", Read, "read a receipt";
    "displaced": "GetItem" from "mod.rs::get", Read, "read a displaced receipt";
    "signal": "GetItem" from "mod.rs::get", Read, "read a signal";
    "runs": "Query" from "index.rs::query", Read, "list runs";
    "runs": "BatchGetItem" from "mod.rs::get_batch", Read, "list runs";
    "runs, by record": "Query" from "index.rs::query", Read, "list runs";
    "runs, by record": "BatchGetItem" from "mod.rs::get_batch", Read, "list runs";
    "due": "Query" from "index.rs::query", Read, "find due runs";
    "due": "BatchGetItem" from "mod.rs::get_batch", Read, "find due runs";
    "due_excluding": "Query" from "index.rs::query", Read, "find due runs";
    "due_excluding": "BatchGetItem" from "mod.rs::get_batch", Read, "find due runs";
    "tenants": "Query" from "index.rs::query", Read, "list tenants";
    "flush": "Query" from "index.rs::query", Read, "flush the outbox";
    "flush": "GetItem" from "mod.rs::get", Read, "flush the outbox";
    "flush": "DeleteItem" from "outbox.rs::delete_item", Write, "delete an outbox entry";
    "flush": "BatchGetItem" from "mod.rs::get_batch", Read, "flush the outbox";
    "flush, for evidence": "Query" from "index.rs::query", Read, "flush the outbox";
    "flush, for evidence": "BatchGetItem" from "mod.rs::get_batch", Read, "flush the outbox";
    "flush, for evidence": "UpdateItem" from "mod.rs::update", Write, "flush the outbox";
    // Governance.
    "tenant": "GetItem" from "mod.rs::get", Read, "read the settings of a tenant";
    "put_tenant": "PutItem" from "mod.rs::put", Write, "write the settings of a tenant";
    "fleet": "GetItem" from "mod.rs::get", Read, "read the fleet settings";
    "settings_eventual": "BatchGetItem" from "mod.rs::get_batch", Read, "read the dispatch switches";
    "tenant_eventual": "BatchGetItem" from "mod.rs::get_batch", Read, "read the dispatch switches";
    "put_fleet": "PutItem" from "mod.rs::put", Write, "write the fleet settings";
    "put_policy": "PutItem" from "mod.rs::put", Write, "store a policy";
    "policy": "GetItem" from "mod.rs::get", Read, "read a policy";
    "approval": "GetItem" from "mod.rs::get", Read, "read an approval request";
    "approvals": "GetItem" from "mod.rs::get", Read, "list the approval requests of a run";
    "approvals": "BatchGetItem" from "mod.rs::get_batch", Read, "list the approval requests of a run";
    "open_approvals": "Query" from "index.rs::query", Read, "list open approval requests";
    "open_approvals": "BatchGetItem" from "mod.rs::get_batch", Read, "list open approval requests";
    "card": "GetItem" from "mod.rs::get", Read, "read a card";
    "put_card": "PutItem" from "mod.rs::put", Write, "write a card";
    "put_card, replace": "PutItem" from "mod.rs::put", Write, "write a card";
    "put_card, replace another encoding": "GetItem" from "mod.rs::get", Read, "write a card";
    "put_card, replace another encoding": "PutItem" from "mod.rs::put", Write, "write a card";
    "page": "GetItem" from "mod.rs::get", Read, "read a page";
    "put_page": "PutItem" from "mod.rs::put", Write, "write a page";
    // The archive.
    "append_log": "GetItem" from "mod.rs::get", Read, "append to the transparency log";
    "append_log": "PutItem" from "mod.rs::put", Write, "append to the transparency log";
    "append_log": "BatchGetItem" from "mod.rs::get_batch", Read, "append to the transparency log";
    "append_log, second entry": "GetItem" from "mod.rs::get", Read, "append to the transparency log";
    "append_log, second entry": "BatchGetItem" from "mod.rs::get_batch", Read, "append to the transparency log";
    "append_log, second entry": "BatchWriteItem" from "log.rs::put_batch", Write, "append to the transparency log";
    "append_log, second entry": "PutItem" from "mod.rs::put", Write, "append to the transparency log";
    "put_evidence": "UpdateItem" from "mod.rs::update", Write, "record evidence";
    "put_evidence, run resumed": "UpdateItem" from "mod.rs::update", Write, "record evidence";
    "load_with_evidence": "GetItem" from "mod.rs::get", Read, "find the evidence of a run";
    "evidence": "GetItem" from "mod.rs::get", Read, "find the evidence of a run";
    // The inbox.
    "accept": "PutItem" from "mod.rs::put", Write, "store an inbox entry";
    "accept, dedupe key": "TransactWriteItems" from "commit.rs::transact", Write, "store an inbox entry";
    "accept, duplicate proof": "PutItem" from "mod.rs::put", Write, "store an inbox entry";
    "accept, duplicate proof": "GetItem" from "mod.rs::get", Read, "read an inbox entry" | "store an inbox entry";
    "accept, duplicate dedupe key": "TransactWriteItems" from "commit.rs::transact", Write, "store an inbox entry";
    "accept, duplicate dedupe key": "GetItem" from "mod.rs::get", Read, "read an inbox entry" | "store an inbox entry";
    "entry": "GetItem" from "mod.rs::get", Read, "read an inbox entry";
    "set_status": "UpdateItem" from "mod.rs::update", Write, "update an inbox entry";
    "reopen": "UpdateItem" from "mod.rs::update", Write, "reopen an inbox entry";
    "postpone_entry": "UpdateItem" from "mod.rs::update", Write, "update an inbox entry";
    "apply": "GetItem" from "mod.rs::get", Read, "apply a workflow";
    "apply": "TransactWriteItems" from "commit.rs::transact", Write, "apply a workflow";
    "due_schedules": "Query" from "index.rs::query", Read, "find due schedules";
    "due_schedules": "BatchGetItem" from "mod.rs::get_batch", Read, "find due schedules";
    "reschedule": "UpdateItem" from "mod.rs::update", Write, "reschedule a workflow";
    "applied": "Query" from "index.rs::range", Read, "list the applied workflows";
    "versions": "Query" from "index.rs::range", Read, "list the versions of a workflow";
    // Access.
    "key": "GetItem" from "mod.rs::get", Read, "read an API key";
    "put_key": "PutItem" from "mod.rs::put", Write, "write an API key";
    "keys": "Query" from "index.rs::range", Read, "list the API keys of a tenant";
    // The audit log.
    "write_audited": "BatchGetItem" from "mod.rs::get_batch", Read, "write an administrative change";
    "write_audited": "TransactWriteItems" from "commit.rs::transact", Write, "write an administrative change";
    "write_audited, workflow": "BatchGetItem" from "mod.rs::get_batch", Read, "write an administrative change";
    "write_audited, workflow": "GetItem" from "mod.rs::get", Read, "write an administrative change";
    "write_audited, workflow": "TransactWriteItems" from "commit.rs::transact", Write, "write an administrative change";
    "write_audited, superseded": "BatchGetItem" from "mod.rs::get_batch", Read, "write an administrative change";
    "write_audited, superseded": "TransactWriteItems" from "commit.rs::transact", Write, "write an administrative change";
    "write_audited, superseded": "GetItem" from "mod.rs::get", Read, "write an administrative change";
    "audit": "Query" from "index.rs::range", Read, "read the audit log";
    "audit_record": "GetItem" from "mod.rs::get", Read, "read an audit entry";
    "audit_head": "GetItem" from "mod.rs::get", Read, "read the head of the audit log";
    // The worker registry.
    "worker": "GetItem" from "mod.rs::get", Read, "read a worker record";
    "put_worker": "PutItem" from "mod.rs::put", Write, "write a worker record";
    "workers": "Query" from "index.rs::range", Read, "list the workers";
    // The queue.
    "send": "SendMessage" from "sqs.rs::send", Write, "send a message";
    "send_all": "SendMessageBatch" from "sqs.rs::try_batch", Write, "send a message";
    "receive": "ReceiveMessage" from "sqs.rs::receive_batch", Read, "receive messages";
    "extend": "ChangeMessageVisibility" from "sqs.rs::extend", Write, "extend a message";
    "delete": "DeleteMessage" from "sqs.rs::delete", Write, "delete a message";
    "dead_letters": "ReceiveMessage" from "sqs.rs::receive_batch", Read, "receive messages";
    "dead_letters": "GetQueueAttributes" from "dead_letters.rs::max_receive_count", Read, "read dead letters";
    "dead_letters": "ChangeMessageVisibilityBatch" from "dead_letters.rs::make_visible", BestEffort, ;
    "redrive": "ReceiveMessage" from "sqs.rs::receive_batch", Read, "receive messages";
    "redrive": "SendMessage" from "sqs.rs::send", Write, "send a message";
    "redrive": "DeleteMessage" from "dead_letters.rs::redrive_one", Write, "redrive dead letters";
    "redrive, limit zero": "ReceiveMessage" from "sqs.rs::receive_batch", Read, "receive messages";
    "redrive, limit zero": "ChangeMessageVisibilityBatch" from "dead_letters.rs::make_visible", BestEffort, ;
    "depth": "GetQueueAttributes" from "sqs.rs::count", Read, "count messages";
    "visible": "GetQueueAttributes" from "sqs.rs::count", Read, "count messages";
    // Blobs.
    "put_blob": "PutObject" from "s3.rs::put", Write, "store a blob";
    "put_blob, existing": "PutObject" from "s3.rs::put", Write, "store a blob";
    "put_blob, existing": "HeadObject" from "s3.rs::is_recent", BestEffort, ;
    "put_blob, old object": "PutObject" from "s3.rs::put", Write, "store a blob";
    "put_blob, old object": "HeadObject" from "s3.rs::is_recent", BestEffort, ;
    "blob": "GetObject" from "s3.rs::get", Read, "read a blob";
    "put_bundle": "PutObject" from "s3.rs::put", Write, "store a blob";
    "put_bundle, existing": "PutObject" from "s3.rs::put", Write, "store a blob";
    "put_bundle, existing": "GetObject" from "s3.rs::get", Read, "read a blob";
    "bundle": "GetObject" from "s3.rs::get", Read, "read a blob";
    // Requests of the ledger to the queue and the blob store.
    "put_policy, in a blob": "PutObject" from "s3.rs::put", Write, "store a blob";
    "put_policy, in a blob": "PutItem" from "mod.rs::put", Write, "store a policy";
    "policy, in a blob": "GetItem" from "mod.rs::get", Read, "read a policy";
    "policy, in a blob": "GetObject" from "s3.rs::get", Read, "read a blob";
    "commit, with jobs": "TransactWriteItems" from "commit.rs::transact", Write, "commit a decision";
    "commit, with jobs": "SendMessage" from "sqs.rs::send", BestEffort, "send a message";
    "commit, run ends": "TransactWriteItems" from "commit.rs::transact", Write, "commit a decision";
    "commit, run ends": "SendMessage" from "sqs.rs::send", BestEffort, "send a message";
    // Resources of a local emulator.
    "create_table": "CreateTable" from "table.rs::create", Write, "create the table";
    "create_queues": "CreateQueue" from "local.rs::create_queue", Write, "create the queues";
    "create_queues": "GetQueueAttributes" from "local.rs::arn", Read, "create the queues";
    "create_buckets": "CreateBucket" from "local.rs::create_bucket", Write, "create the buckets";
];

/// The row of an operation of `call`.
pub(crate) fn row(call: &str, operation: &str) -> &'static Row {
    ROWS.iter().find(|row| row.call == call && row.operation == operation).unwrap_or_else(|| {
        unreachable!("`{call}` sends {operation}, which has no row in the table of call sites")
    })
}

/// Texts that look like operation names but are not.
const NOT_OPERATIONS: [&str; 4] = [
    "due index scan limit reached; due runs may be delayed",
    "no reason given",
    "skipped an undecodable item",
    "skipped an undecodable outbox entry",
];

/// Store methods that send no request to AWS.
const NO_REQUEST: [&str; 2] = ["receive_except", "bundle_name"];

/// The files of the store traits.
const TRAITS: [&str; 9] = [
    "ledger.rs",
    "queue.rs",
    "blobs.rs",
    "governance.rs",
    "archive.rs",
    "inbox.rs",
    "access.rs",
    "audit.rs",
    "worker_registry.rs",
];

pub(crate) fn every_call_site_has_a_row() {
    let sources: Vec<Source> = sources();
    let senders = sources.iter().flat_map(Source::senders).collect();
    assert_same(
        &senders,
        &ROWS.iter().map(|row| (row.sent_by.to_owned(), row.operation.to_owned())).collect(),
    );
    let texts = sources.iter().flat_map(Source::texts);
    let operations = texts.filter(|text| !NOT_OPERATIONS.contains(&text.as_str()));
    let listed = ROWS.iter().flat_map(|row| row.doing).map(|doing| (*doing).to_owned());
    assert_same(&operations.collect(), &listed.collect());
    let called: BTreeSet<_> = ROWS.iter().filter_map(|row| row.call.split(',').next()).collect();
    for method in TRAITS.iter().flat_map(|file| methods(&read(&root().join(file)))) {
        let is_listed = called.contains(method.as_str()) || NO_REQUEST.contains(&method.as_str());
        assert!(is_listed, "the store method `{method}` has no row");
    }
}

/// Every call of the table is exercised by `aws/calls.rs` or `stack/calls.rs`.
pub(crate) fn every_row_is_exercised() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let lists = ["aws/calls.rs", "stack/calls.rs"].map(|list| read(&tests.join(list)));
    let calls = |list: &'_ String| ["call!(", "name: "].map(|before| named_after(before, list)).concat();
    let exercised = lists.iter().flat_map(calls).collect();
    assert_same(&exercised, &ROWS.iter().map(|row| row.call.to_owned()).collect());
}

/// The string literals directly after `before`.
fn named_after(before: &str, text: &str) -> Vec<String> {
    let tails = text.split(before).skip(1).filter_map(|rest| rest.trim_start().strip_prefix('"'));
    tails.filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect()
}

fn assert_same<T: Ord + std::fmt::Debug>(in_sources: &BTreeSet<T>, in_rows: &BTreeSet<T>) {
    let missing: Vec<_> = in_sources.difference(in_rows).collect();
    assert!(missing.is_empty(), "in the sources but without a row: {missing:?}");
    let stale: Vec<_> = in_rows.difference(in_sources).collect();
    assert!(stale.is_empty(), "in a row but not in the sources: {stale:?}");
}

/// A source file of the AWS store, without its tests.
struct Source {
    file: String,
    text: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

fn sources() -> Vec<Source> {
    let files = std::fs::read_dir(root().join("aws")).unwrap().map(|entry| entry.unwrap().path());
    files
        .map(|path| Source {
            file: path.file_name().unwrap().to_string_lossy().into_owned(),
            text: read(&path).split("#[cfg(test)]\nmod tests").next().unwrap_or_default().to_owned(),
        })
        .collect()
}

impl Source {
    /// The functions that build a request on a client, and the operation of each.
    fn senders(&self) -> Vec<(String, String)> {
        let requests = self.text.match_indices("client").filter_map(|(at, client)| {
            let call = self.text[at + client.len()..].trim_start().strip_prefix('.')?.trim_start();
            let operation = call.split_once("()")?.0;
            let named =
                !operation.is_empty() && operation.chars().all(|c| c.is_ascii_lowercase() || c == '_');
            named.then(|| (format!("{}::{}", self.file, self.function_at(at)), camel(operation)))
        });
        // `client.clone()` is not a request.
        requests.filter(|(_, operation)| operation != "Clone").collect()
    }

    fn function_at(&self, at: usize) -> &str {
        let name = self.text[..at].rsplit_once("fn ").map_or("", |(_, name)| name);
        name.split(['(', '<']).next().unwrap_or_default()
    }

    /// String literals that look like operation names.
    fn texts(&self) -> Vec<String> {
        let lines = self.text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let literals = lines.flat_map(|line| line.split('"').skip(1).step_by(2));
        literals.filter(|literal| is_plain(literal)).map(str::to_owned).collect()
    }
}

fn is_plain(literal: &str) -> bool {
    let is_word = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c == '\'');
    let word = |word: &str| word == "API" || is_word(word);
    literal.contains(' ') && literal.split(' ').all(word)
}

fn camel(name: &str) -> String {
    let upper = |word: &str| word[..1].to_uppercase() + &word[1..];
    name.split('_').map(upper).collect()
}

/// The methods of a trait.
fn methods(text: &str) -> Vec<String> {
    let inside = text.split("\npub trait ").nth(1).and_then(|rest| rest.split("\n}").next());
    let functions = inside.unwrap_or_default().lines().filter_map(|line| line.strip_prefix("    fn "));
    functions.filter_map(|line| line.split(['(', '<']).next()).map(str::to_owned).collect()
}
