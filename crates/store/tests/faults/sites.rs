//! Every place that sends a request, and what a fault there means to the caller.
//!
//! A row for each operation that a call of the store makes. The table is held against the sources: a place that
//! sends, a verb of the store, or a text that tells what was being done without a row of its own fails the test.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use Kind::{Courtesy, Read, Write};

/// What a request is to whoever made the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Whatever happens, nothing was done.
    Read,
    /// It may have been done.
    Write,
    /// If it fails nobody is told: somebody else makes up for it later.
    Courtesy,
}

/// An operation that a call makes.
#[derive(Debug)]
pub(crate) struct Row {
    /// Which call: a verb of the store, and how it is called, where there are several ways.
    pub(crate) call: &'static str,
    pub(crate) operation: &'static str,
    /// Where in the sources it is sent from.
    pub(crate) sent_by: &'static str,
    pub(crate) kind: Kind,
    /// What an error says was being done.
    pub(crate) doing: &'static [&'static str],
}

macro_rules! rows {
    ($($call:literal: $operation:literal from $sent_by:literal, $kind:ident, $($doing:literal)|*;)*) => {
        &[$(Row { call: $call, operation: $operation, sent_by: $sent_by, kind: $kind, doing: &[$($doing),*] }),*]
    };
}

/// All of them.
pub(crate) const ROWS: &[Row] = rows![
    // The ledger.
    "put_plan": "PutItem" from "mod.rs::put", Write, "keep a plan";
    "plan": "GetItem" from "mod.rs::get", Read, "read a plan";
    "admit": "TransactWriteItems" from "commit.rs::transact", Write, "commit a decision";
    "admit, with a ticket": "TransactWriteItems" from "commit.rs::transact", Write, "commit a decision";
    "holder": "GetItem" from "mod.rs::get", Read, "find who has a ticket";
    "enqueue_waiter": "UpdateItem" from "mod.rs::update", Write, "wait for a ticket";
    "commit": "TransactWriteItems" from "commit.rs::transact", Write, "commit a decision";
    "commit, whose job goes late": "TransactWriteItems" from "commit.rs::transact", Write, "commit a decision";
    "commit, whose job goes late": "DeleteItem" from "outbox.rs::forget", Courtesy, ;
    "commit, of a record alone": "UpdateItem" from "commit.rs::alone", Write, "commit a decision";
    "load": "GetItem" from "mod.rs::get", Read, "load a run";
    "input": "GetItem" from "mod.rs::get", Read, "read a run's input";
    "step": "GetItem" from "mod.rs::get", Read, "read a step";
    "steps": "Query" from "index.rs::range", Read, "read a run's steps";
    "events": "Query" from "index.rs::range", Read, "read a run's events";
    "history": "Query" from "index.rs::range", Read, "read a run's history";
    "receipt": "GetItem" from "mod.rs::get", Read, "read a receipt";
    "displaced": "GetItem" from "mod.rs::get", Read, "read a displaced receipt";
    "signal": "GetItem" from "mod.rs::get", Read, "read a signal";
    "runs": "Query" from "index.rs::query", Read, "list runs";
    "runs": "BatchGetItem" from "mod.rs::get_batch", Read, "list runs";
    "runs, about a record": "Query" from "index.rs::query", Read, "list runs";
    "runs, about a record": "BatchGetItem" from "mod.rs::get_batch", Read, "list runs";
    "due": "Query" from "index.rs::query", Read, "find due runs";
    "due": "BatchGetItem" from "mod.rs::get_batch", Read, "find due runs";
    "due_excluding": "Query" from "index.rs::query", Read, "find due runs";
    "due_excluding": "BatchGetItem" from "mod.rs::get_batch", Read, "find due runs";
    "tenants": "Query" from "index.rs::query", Read, "find tenants";
    "flush": "Query" from "index.rs::query", Read, "send what is left in the outbox";
    "flush": "GetItem" from "mod.rs::get", Read, "send what is left in the outbox";
    "flush": "DeleteItem" from "outbox.rs::forget", Write, "forget an job";
    "flush": "BatchGetItem" from "mod.rs::get_batch", Read, "send what is left in the outbox";
    "flush, for evidence": "Query" from "index.rs::query", Read, "send what is left in the outbox";
    "flush, for evidence": "BatchGetItem" from "mod.rs::get_batch", Read, "send what is left in the outbox";
    "flush, for evidence": "UpdateItem" from "mod.rs::update", Write, "send what is left in the outbox";
    // Governance.
    "tenant": "GetItem" from "mod.rs::get", Read, "read a tenant";
    "put_tenant": "PutItem" from "mod.rs::put", Write, "write a tenant";
    "fleet": "GetItem" from "mod.rs::get", Read, "read the fleet's switch";
    "eventual": "BatchGetItem" from "mod.rs::get_batch", Read, "read the switches";
    "put_fleet": "PutItem" from "mod.rs::put", Write, "write the fleet's switch";
    "put_policy": "PutItem" from "mod.rs::put", Write, "keep a policy";
    "policy": "GetItem" from "mod.rs::get", Read, "read a policy";
    "approval": "GetItem" from "mod.rs::get", Read, "read an approval";
    "approvals": "GetItem" from "mod.rs::get", Read, "read a run's approvals";
    "approvals": "BatchGetItem" from "mod.rs::get_batch", Read, "read a run's approvals";
    "open_approvals": "Query" from "index.rs::query", Read, "list open approvals";
    "open_approvals": "BatchGetItem" from "mod.rs::get_batch", Read, "list open approvals";
    "card": "GetItem" from "mod.rs::get", Read, "read a card";
    "put_card": "PutItem" from "mod.rs::put", Write, "write a card";
    "put_card, over another": "PutItem" from "mod.rs::put", Write, "write a card";
    "put_card, over one in other words": "GetItem" from "mod.rs::get", Read, "write a card";
    "put_card, over one in other words": "PutItem" from "mod.rs::put", Write, "write a card";
    // The archive.
    "append_log": "GetItem" from "mod.rs::get", Read, "append to the log";
    "append_log": "PutItem" from "mod.rs::put", Write, "append to the log";
    "append_log, after another": "GetItem" from "mod.rs::get", Read, "append to the log";
    "append_log, after another": "PutItem" from "mod.rs::put", Write, "append to the log";
    "put_evidence": "UpdateItem" from "mod.rs::update", Write, "record evidence";
    "put_evidence, of a run that goes on": "UpdateItem" from "mod.rs::update", Write, "record evidence";
    "filed": "GetItem" from "mod.rs::get", Read, "find evidence";
    "evidence": "GetItem" from "mod.rs::get", Read, "find evidence";
    // The inbox.
    "accept": "TransactWriteItems" from "commit.rs::transact", Write, "keep an entry";
    "accept, known by its proof": "TransactWriteItems" from "commit.rs::transact", Write, "keep an entry";
    "accept, known by its proof": "GetItem" from "mod.rs::get", Read, "read an entry" | "keep an entry";
    "accept, known by what it tells": "TransactWriteItems" from "commit.rs::transact", Write, "keep an entry";
    "accept, known by what it tells": "GetItem" from "mod.rs::get", Read, "read an entry" | "keep an entry";
    "entry": "GetItem" from "mod.rs::get", Read, "read an entry";
    "settle": "UpdateItem" from "mod.rs::update", Write, "settle an entry";
    "reopen": "UpdateItem" from "mod.rs::update", Write, "reopen an entry";
    "apply": "GetItem" from "mod.rs::get", Read, "put a workflow to use";
    "apply": "TransactWriteItems" from "commit.rs::transact", Write, "put a workflow to use";
    "due_schedules": "Query" from "index.rs::query", Read, "find due schedules";
    "due_schedules": "BatchGetItem" from "mod.rs::get_batch", Read, "find due schedules";
    "reschedule": "UpdateItem" from "mod.rs::update", Write, "reschedule a workflow";
    "applied": "Query" from "index.rs::range", Read, "read the workflows in use";
    "versions": "Query" from "index.rs::range", Read, "read a workflow's versions";
    // Access.
    "key": "GetItem" from "mod.rs::get", Read, "read a key";
    "put_key": "PutItem" from "mod.rs::put", Write, "write a key";
    "keys": "Query" from "index.rs::range", Read, "read a tenant's keys";
    // The roll.
    "registered_worker": "GetItem" from "mod.rs::get", Read, "find a worker";
    "put_worker": "PutItem" from "mod.rs::put", Write, "sign the roll";
    "roll": "Query" from "index.rs::range", Read, "read the roll";
    // The queue.
    "send": "SendMessage" from "sqs.rs::send", Write, "send a message";
    "send_all": "SendMessageBatch" from "sqs.rs::try_batch", Write, "send a message";
    "receive": "ReceiveMessage" from "sqs.rs::take", Read, "receive messages";
    "extend": "ChangeMessageVisibility" from "sqs.rs::extend", Write, "extend a message";
    "delete": "DeleteMessage" from "sqs.rs::delete", Write, "delete a message";
    "dead_letters": "ReceiveMessage" from "sqs.rs::take", Read, "receive messages";
    "dead_letters": "GetQueueAttributes" from "dead.rs::receives_max", Read, "read dead letters";
    "dead_letters": "ChangeMessageVisibilityBatch" from "dead.rs::give_back", Courtesy, ;
    "redrive": "ReceiveMessage" from "sqs.rs::take", Read, "receive messages";
    "redrive": "SendMessage" from "sqs.rs::send", Write, "send a message";
    "redrive": "DeleteMessage" from "dead.rs::move_one", Write, "redrive dead letters";
    "redrive, of none": "ReceiveMessage" from "sqs.rs::take", Read, "receive messages";
    "redrive, of none": "ChangeMessageVisibilityBatch" from "dead.rs::give_back", Courtesy, ;
    "depth": "GetQueueAttributes" from "sqs.rs::count", Read, "count messages";
    "waiting": "GetQueueAttributes" from "sqs.rs::count", Read, "count messages";
    // Blobs.
    "put_blob": "PutObject" from "s3.rs::put", Write, "keep a blob";
    "put_blob, of what is there": "PutObject" from "s3.rs::put", Write, "keep a blob";
    "put_blob, of what is there": "HeadObject" from "s3.rs::is_young", Courtesy, ;
    "put_blob, of what is old": "PutObject" from "s3.rs::put", Write, "keep a blob";
    "put_blob, of what is old": "HeadObject" from "s3.rs::is_young", Courtesy, ;
    "blob": "GetObject" from "s3.rs::blob", Read, "read a blob";
    // What the ledger asks of the queue and the blobs.
    "put_policy, by pointer": "PutObject" from "s3.rs::put", Write, "keep a blob";
    "put_policy, by pointer": "PutItem" from "mod.rs::put", Write, "keep a policy";
    "policy, by pointer": "GetItem" from "mod.rs::get", Read, "read a policy";
    "policy, by pointer": "GetObject" from "s3.rs::blob", Read, "read a blob";
    "commit, with jobs": "TransactWriteItems" from "commit.rs::transact", Write, "commit a decision";
    "commit, with jobs": "SendMessage" from "sqs.rs::send", Courtesy, "send a message";
    "commit, of the end": "TransactWriteItems" from "commit.rs::transact", Write, "commit a decision";
    "commit, of the end": "SendMessage" from "sqs.rs::send", Courtesy, "send a message";
    // What a local stand-in is furnished with.
    "create_table": "CreateTable" from "table.rs::create", Write, "create the table";
    "create_queues": "CreateQueue" from "local.rs::create_queue", Write, "create the queues";
    "create_queues": "GetQueueAttributes" from "local.rs::arn", Read, "create the queues";
    "create_buckets": "CreateBucket" from "local.rs::create_bucket", Write, "create the buckets";
];

/// The row of an operation that `call` made.
pub(crate) fn row(call: &str, operation: &str) -> &'static Row {
    ROWS.iter().find(|row| row.call == call && row.operation == operation).unwrap_or_else(|| {
        unreachable!("`{call}` sends {operation}, which has no row in the table of call sites")
    })
}

/// Texts that read like what was being done, and are something else.
const OTHER_WORDS: [&str; 1] = ["no reason given"];

/// The traits of a store.
const TRAITS: [&str; 8] =
    ["ledger.rs", "queue.rs", "blobs.rs", "governance.rs", "archive.rs", "inbox.rs", "access.rs", "roll.rs"];

pub(crate) fn every_call_site_has_a_row() {
    let sources: Vec<Source> = sources();
    let senders = sources.iter().flat_map(Source::senders).collect();
    assert_same(
        &senders,
        &ROWS.iter().map(|row| (row.sent_by.to_owned(), row.operation.to_owned())).collect(),
    );
    let words = sources.iter().flat_map(Source::words).filter(|words| !OTHER_WORDS.contains(&words.as_str()));
    let told = ROWS.iter().flat_map(|row| row.doing).map(|doing| (*doing).to_owned());
    assert_same(&words.collect(), &told.collect());
    let called: BTreeSet<_> = ROWS.iter().filter_map(|row| row.call.split(',').next()).collect();
    for verb in TRAITS.iter().flat_map(|of| verbs(&read(&root().join(of)))) {
        assert!(called.contains(verb.as_str()), "the verb `{verb}` of the store has no row");
    }
}

/// The calls that are played, by this program or the other one: a row whose call nobody plays shows nothing.
pub(crate) fn every_row_is_played() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let lists = ["aws/calls.rs", "stack/calls.rs"].map(|list| read(&tests.join(list)));
    let calls = |list: &'_ String| ["call!(", "name: "].map(|before| named_after(before, list)).concat();
    let played = lists.iter().flat_map(calls).collect();
    assert_same(&played, &ROWS.iter().map(|row| row.call.to_owned()).collect());
}

/// The literals that stand right after `before`.
fn named_after(before: &str, text: &str) -> Vec<String> {
    let rests = text.split(before).skip(1).filter_map(|rest| rest.trim_start().strip_prefix('"'));
    rests.filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect()
}

fn assert_same<T: Ord + std::fmt::Debug>(in_sources: &BTreeSet<T>, in_rows: &BTreeSet<T>) {
    let without: Vec<_> = in_sources.difference(in_rows).collect();
    assert!(without.is_empty(), "in the sources and without a row: {without:?}");
    let gone: Vec<_> = in_rows.difference(in_sources).collect();
    assert!(gone.is_empty(), "in a row and not in the sources: {gone:?}");
}

/// A file of the store on AWS, without its tests.
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
    /// Where requests are put together, and of which operation: a client, and what it is asked for.
    fn senders(&self) -> Vec<(String, String)> {
        let begun = self.text.match_indices("client").filter_map(|(at, client)| {
            let call = self.text[at + client.len()..].trim_start().strip_prefix('.')?.trim_start();
            let operation = call.split_once("()")?.0;
            let named =
                !operation.is_empty() && operation.chars().all(|c| c.is_ascii_lowercase() || c == '_');
            named.then(|| (format!("{}::{}", self.file, self.function_at(at)), camel(operation)))
        });
        // A copy is not a request.
        begun.filter(|(_, operation)| operation != "Clone").collect()
    }

    fn function_at(&self, at: usize) -> &str {
        let name = self.text[..at].rsplit_once("fn ").map_or("", |(_, name)| name);
        name.split(['(', '<']).next().unwrap_or_default()
    }

    /// Texts of several plain words.
    fn words(&self) -> Vec<String> {
        let lines = self.text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let literals = lines.flat_map(|line| line.split('"').skip(1).step_by(2));
        literals.filter(|literal| is_plain(literal)).map(str::to_owned).collect()
    }
}

fn is_plain(literal: &str) -> bool {
    let word = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c == '\'');
    literal.contains(' ') && literal.split(' ').all(word)
}

fn camel(name: &str) -> String {
    let upper = |word: &str| word[..1].to_uppercase() + &word[1..];
    name.split('_').map(upper).collect()
}

/// What a trait can be asked to do.
fn verbs(text: &str) -> Vec<String> {
    let inside = text.split("\npub trait ").nth(1).and_then(|rest| rest.split("\n}").next());
    let functions = inside.unwrap_or_default().lines().filter_map(|line| line.strip_prefix("    fn "));
    functions.filter_map(|line| line.split(['(', '<']).next()).map(str::to_owned).collect()
}
