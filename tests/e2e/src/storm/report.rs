//! The report: the counts, their checks, and a table.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::plan::Storm;
use super::sender::SendResults;

/// After this many kills at least one killed worker held a step. In storms of 10,000 deliveries three of four did; with
/// one of four, all fifty would be idle once in two million storms.
const MANY: u32 = 50;

#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The parameters.
    pub storm: Storm,
    /// Whether the table was in a separate DynamoDB instead of the local AWS.
    pub separate_dynamodb: bool,
    pub sent: SendReport,
    /// The number of killed workers.
    pub killed: u32,
    /// The number of successful sweeps.
    pub sweeps: u32,
    /// The number of failed sweeps.
    pub sweeps_failed: u32,
    /// The stuck runs, if the storm was aborted.
    pub stalled: Option<Vec<String>>,
    pub warnings: BTreeMap<String, u32>,
    /// Depends on the machine.
    pub seconds: RunSeconds,
    #[serde(flatten)]
    pub audit: AuditReport,
}

/// The replies to the sender.
#[derive(Debug, Clone, Serialize)]
pub struct SendReport {
    /// Deliveries with a final reply, or abandoned.
    pub delivered: u32,
    /// Accepted as new.
    pub accepted: u32,
    /// Recognized as duplicates.
    pub repeated: u32,
    /// Other results.
    pub others: BTreeMap<String, u32>,
    /// Retries after no reply or a retryable one.
    pub retried: u32,
    /// Records whose replies all named one run.
    pub keys: u32,
    /// Records whose replies named more than one run.
    pub keys_with_two_runs: u32,
}

/// The duration.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct RunSeconds {
    /// Until every delivery had a final reply.
    pub delivering: u64,
    /// Until every run had its evidence and the queues were empty.
    pub all: u64,
}

#[derive(Debug, Clone, Serialize)]
pub struct AuditReport {
    pub runs: u32,
    pub succeeded: u32,
    /// Runs by status.
    pub statuses: BTreeMap<String, u32>,
    /// Runs that were taken over from a killed worker, or resumed.
    pub taken_over: u32,
    /// Runs that no reply named.
    pub not_announced: u32,
    /// Runs that a reply named but that do not exist.
    pub not_found: u32,
    /// External records that were changed.
    pub records_changed: u32,
    /// External changes, including repeated ones.
    pub changes: u32,
    /// The maximum number of changes of one record.
    pub changes_of_one_max: u32,
    pub evidence: EvidenceReport,
    /// Dead-letter messages by queue.
    pub dead_letter_count: QueueCounts,
    /// The readable dead-letter messages.
    pub dead: Vec<DeadLetterReport>,
    /// Messages left in the queues.
    pub left: QueueCounts,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct EvidenceReport {
    /// Recorded, in the bucket, intact, verified offline, and with one receipt.
    pub verified: u32,
    /// The number of distinct log positions of those.
    pub log_positions: u32,
    /// The faults of the others, with their numbers.
    pub missing: BTreeMap<String, u32>,
}

impl QueueCounts {
    pub fn sum(self) -> u64 {
        self.ingest + self.decisions + self.steps
    }
}

/// A dead-letter message.
#[derive(Debug, Clone, Serialize)]
pub struct DeadLetterReport {
    pub queue: String,
    pub job: String,
    pub run: String,
    pub receives: u32,
    /// Whether its job was done by other means.
    pub done: bool,
    /// The warnings about its run: the reasons why it was not deleted.
    pub warnings: BTreeMap<String, u32>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct QueueCounts {
    pub ingest: u64,
    pub decisions: u64,
    pub steps: u64,
}

impl SendReport {
    pub(super) fn of(results: &SendResults) -> Self {
        let named =
            |wanted: fn(usize) -> bool| results.runs.values().filter(|runs| wanted(runs.len())).count();
        let count = |wanted| u32::try_from(named(wanted)).unwrap_or(u32::MAX);
        Self {
            delivered: results.delivered,
            accepted: results.accepted,
            repeated: results.repeated,
            others: results.others.clone(),
            retried: results.retried,
            keys: count(|runs| runs == 1),
            keys_with_two_runs: count(|runs| runs > 1),
        }
    }
}

impl Report {
    /// A message for each check that fails.
    pub fn failures(&self) -> Vec<String> {
        let Self { sent, audit, .. } = self;
        let distinct = self.storm.distinct();
        let equal = [
            ("deliveries answered with 202 or 200", sent.accepted + sent.repeated, self.storm.deliveries),
            ("distinct keys", sent.keys, distinct),
            ("keys with two runs", sent.keys_with_two_runs, 0),
            ("runs", audit.runs, distinct),
            ("runs that no reply named", audit.not_announced, 0),
            ("runs that a reply named but that do not exist", audit.not_found, 0),
            ("runs that succeeded", audit.succeeded, audit.runs),
            ("records changed", audit.records_changed, audit.runs),
            ("changes", audit.changes, audit.runs),
            ("bundles", audit.evidence.verified, audit.runs),
            ("log positions", audit.evidence.log_positions, audit.runs),
        ];
        let unequal = equal.into_iter().filter(|(_, found, wanted)| found != wanted);
        let mut failures: Vec<String> =
            unequal.map(|(what, found, wanted)| format!("{what}: {found}, expected {wanted}")).collect();
        // Of two concurrent deliveries of a record one is accepted. If its reply is lost, the count is lower.
        if sent.accepted > distinct {
            failures.push(format!(
                "{} deliveries were accepted as new; there are {distinct} distinct ones",
                sent.accepted
            ));
        }
        if audit.left != QueueCounts::default() {
            failures.push(format!("messages left in the queues: {:?}", audit.left));
        }
        let lost = audit.dead.iter().filter(|dead| !dead.done);
        if audit.dead_letter_count.sum() != audit.dead.len() as u64 {
            failures.push(format!(
                "dead letters: {:?}, but {} can be read",
                audit.dead_letter_count,
                audit.dead.len()
            ));
        }
        failures.extend(
            lost.map(|dead| format!("dead letter whose job was not done: {} of {}", dead.job, dead.run)),
        );
        if self.sweeps == 0 {
            failures.push(format!("none of {} sweeps succeeded", self.sweeps_failed));
        }
        // One killed worker may have been idle, but not so many.
        if self.killed >= MANY && audit.taken_over == 0 {
            failures.push(format!("{} workers were killed, but no run was taken over", self.killed));
        }
        if let Some(stuck) = &self.stalled {
            failures.push("no progress until the time limit".to_owned());
            failures.extend(stuck.iter().map(|run| format!("stuck: {run}")));
        }
        failures
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sent, audit, seconds, .. } = self;
        let others: u32 = sent.others.values().sum();
        let rows: [(&str, u64, String); 12] = [
            (
                "deliveries",
                sent.delivered.into(),
                format!(
                    "{} new, {} duplicates, {others} other; {} retries",
                    sent.accepted, sent.repeated, sent.retried
                ),
            ),
            ("distinct keys", sent.keys.into(), String::new()),
            ("runs", audit.runs.into(), format!("{} taken over or resumed", audit.taken_over)),
            ("succeeded", audit.succeeded.into(), String::new()),
            (
                "external changes",
                audit.changes.into(),
                format!("at most {} per record", audit.changes_of_one_max),
            ),
            ("bundles", audit.evidence.verified.into(), "in the bucket, verified offline".to_owned()),
            ("workers killed", self.killed.into(), format!("{} at a time", self.storm.workers)),
            ("sweeps", self.sweeps.into(), format!("{} failed", self.sweeps_failed)),
            ("dead letters", audit.dead_letter_count.sum(), summarize_dead_letters(&audit.dead)),
            ("messages left", audit.left.sum(), String::new()),
            ("warnings", self.warnings.values().copied().map(u64::from).sum(), String::new()),
            ("seconds", seconds.all, format!("{} for the deliveries", seconds.delivering)),
        ];
        for (name, number, note) in rows {
            writeln!(f, "{}", format!("{name:<16}{number:>8}  {note}").trim_end())?;
        }
        let table = if self.separate_dynamodb { "a separate server" } else { "the local AWS" };
        writeln!(f, "DynamoDB: {table}")?;
        let mut warnings: Vec<_> = self.warnings.iter().collect();
        warnings.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        for (warning, count) in warnings {
            writeln!(f, "{count:>24}  {warning}")?;
        }
        Ok(())
    }
}

fn summarize_dead_letters(dead: &[DeadLetterReport]) -> String {
    let mut kinds: BTreeMap<String, u32> = BTreeMap::new();
    for dead in dead {
        let done = if dead.done { "job done" } else { "JOB NOT DONE" };
        *kinds.entry(format!("{} in {}, {done}", dead.job, dead.queue)).or_default() += 1;
    }
    kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect::<Vec<_>>().join("; ")
}
