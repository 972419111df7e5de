//! The report: what was counted, whether it adds up, and a table for people.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::plan::Storm;
use super::sender::Told;

/// How many workers must be killed until one of them held a step for sure. In storms of 10,000 three of four did; were it
/// one of four, fifty would all be idle once in two million storms.
const MANY: u32 = 50;

/// What was counted.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// What was let loose.
    pub storm: Storm,
    /// Whether the table stood in a DynamoDB of its own, and not in that of the local AWS.
    pub table_apart: bool,
    /// What the sender was told.
    pub sent: Sending,
    /// How many workers were killed.
    pub killed: u32,
    /// How often the sweep was called, and answered.
    pub sweeps: u32,
    /// How often it was called and did not answer, or failed.
    pub sweeps_failed: u32,
    /// Who hung, if nothing moved any more.
    pub stalled: Option<Vec<String>>,
    /// What the workers warned of, each with how often.
    pub warnings: BTreeMap<String, u32>,
    /// How long it took. Machines differ.
    pub seconds: Seconds,
    /// What was left.
    #[serde(flatten)]
    pub counted: Counted,
}

/// What the sender was told.
#[derive(Debug, Clone, Serialize)]
pub struct Sending {
    /// Deliveries that were answered for good, or given up.
    pub delivered: u32,
    /// Answered as new.
    pub accepted: u32,
    /// Answered with 200: known before.
    pub repeated: u32,
    /// Anything else, by what it was.
    pub others: BTreeMap<String, u32>,
    /// Sent again, because nobody replied or the reply asked for it.
    pub retried: u32,
    /// Records of which all replies named one run.
    pub keys: u32,
    /// Records of which two replies named two runs.
    pub keys_with_two_runs: u32,
}

/// How long it took.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Seconds {
    /// Until every delivery was answered.
    pub delivering: u64,
    /// Until every run had its evidence and the queues were empty.
    pub all: u64,
}

/// What was left.
#[derive(Debug, Clone, Serialize)]
pub struct Counted {
    /// Runs.
    pub runs: u32,
    /// Of those, succeeded.
    pub succeeded: u32,
    /// Runs by where they stand.
    pub statuses: BTreeMap<String, u32>,
    /// Runs that were taken over from a worker that died, or woken.
    pub taken_over: u32,
    /// Runs that no reply named.
    pub not_promised: u32,
    /// Runs that a reply named and that are not there.
    pub not_found: u32,
    /// Records that were changed outside.
    pub records_changed: u32,
    /// Changes outside, a second one of the same record included.
    pub changes: u32,
    /// The most changes that one record saw.
    pub changes_of_one_max: u32,
    /// Their evidence.
    pub evidence: Evidence,
    /// How many messages were given up, by queue.
    pub given_up: Queues,
    /// What these asked for, and why they were given up, as far as they can be read.
    pub dead: Vec<Dead>,
    /// Messages that are still there.
    pub left: Queues,
}

/// The evidence of all runs.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Evidence {
    /// Recorded, in the bucket, whole, good without the account, and about one effect.
    pub verified: u32,
    /// Of those, how many different places in the log of runs they have.
    pub places_in_the_log: u32,
    /// What was wrong with the others.
    pub missing: BTreeMap<String, u32>,
}

impl Queues {
    /// All of them.
    pub fn sum(self) -> u64 {
        self.ingest + self.decisions + self.steps
    }
}

/// A message that was given up.
#[derive(Debug, Clone, Serialize)]
pub struct Dead {
    /// Which way it went.
    pub queue: String,
    /// What it asked for.
    pub job: String,
    /// Which run it was about.
    pub run: String,
    /// How often it was delivered.
    pub receives: u32,
    /// Whether what it asked for was done all the same.
    pub done: bool,
    /// What workers warned of about this run, each with how often: why it was not deleted.
    pub warnings: BTreeMap<String, u32>,
}

/// Messages by queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Queues {
    /// What comes in.
    pub ingest: u64,
    /// What people decided.
    pub decisions: u64,
    /// The work of runs.
    pub steps: u64,
}

impl Sending {
    pub(super) fn of(told: &Told) -> Self {
        let named = |wanted: fn(usize) -> bool| told.runs.values().filter(|runs| wanted(runs.len())).count();
        let count = |wanted| u32::try_from(named(wanted)).unwrap_or(u32::MAX);
        Self {
            delivered: told.delivered,
            accepted: told.accepted,
            repeated: told.repeated,
            others: told.others.clone(),
            retried: told.retried,
            keys: count(|runs| runs == 1),
            keys_with_two_runs: count(|runs| runs > 1),
        }
    }
}

impl Report {
    /// What does not add up; nothing, if nothing was lost and nothing happened twice.
    pub fn broken(&self) -> Vec<String> {
        let Self { sent, counted, .. } = self;
        let distinct = self.storm.distinct();
        let equal = [
            ("deliveries answered with 202 or 200", sent.accepted + sent.repeated, self.storm.deliveries),
            ("keys", sent.keys, distinct),
            ("keys with two runs", sent.keys_with_two_runs, 0),
            ("runs", counted.runs, distinct),
            ("runs that no reply named", counted.not_promised, 0),
            ("runs that a reply named and that are not there", counted.not_found, 0),
            ("runs that succeeded", counted.succeeded, counted.runs),
            ("records changed", counted.records_changed, counted.runs),
            ("changes", counted.changes, counted.runs),
            ("bundles", counted.evidence.verified, counted.runs),
            ("places in the log", counted.evidence.places_in_the_log, counted.runs),
        ];
        let unequal = equal.into_iter().filter(|(_, found, wanted)| found != wanted);
        let mut broken: Vec<String> =
            unequal.map(|(what, found, wanted)| format!("{what}: {found}, and should be {wanted}")).collect();
        // Of two that were told of at once, one is new. Where a reply was lost, none may have been told so.
        if sent.accepted > distinct {
            broken.push(format!("{} deliveries were said to be new, of {distinct}", sent.accepted));
        }
        if counted.left != Queues::default() {
            broken.push(format!("messages are left: {:?}", counted.left));
        }
        let lost = counted.dead.iter().filter(|dead| !dead.done);
        if counted.given_up.sum() != counted.dead.len() as u64 {
            broken.push(format!("given up: {:?}, and {} can be read", counted.given_up, counted.dead.len()));
        }
        broken.extend(lost.map(|dead| format!("given up, and not done: {} of {}", dead.job, dead.run)));
        if self.sweeps == 0 {
            broken.push(format!("of {} sweeps none answered", self.sweeps_failed));
        }
        // One worker that dies may hold nothing; not so many of them.
        if self.killed >= MANY && counted.taken_over == 0 {
            broken.push(format!("{} workers were killed, and nobody took anything over", self.killed));
        }
        if let Some(hanging) = &self.stalled {
            broken.push("nothing moved any more".to_owned());
            broken.extend(hanging.iter().map(|run| format!("hangs: {run}")));
        }
        broken
    }
}

/// A table for people.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sent, counted, seconds, .. } = self;
        let others: u32 = sent.others.values().sum();
        let rows: [(&str, u64, String); 12] = [
            (
                "deliveries",
                sent.delivered.into(),
                format!(
                    "{} new, {} known, {others} other; {} sent again",
                    sent.accepted, sent.repeated, sent.retried
                ),
            ),
            ("distinct keys", sent.keys.into(), String::new()),
            ("runs", counted.runs.into(), format!("{} taken over or woken", counted.taken_over)),
            ("succeeded", counted.succeeded.into(), String::new()),
            (
                "changes outside",
                counted.changes.into(),
                format!("at most {} each", counted.changes_of_one_max),
            ),
            ("bundles", counted.evidence.verified.into(), "in the bucket, verified offline".to_owned()),
            ("workers killed", self.killed.into(), format!("of {} at a time", self.storm.workers)),
            ("sweeps", self.sweeps.into(), format!("{} failed", self.sweeps_failed)),
            ("dead letters", counted.given_up.sum(), dead_in_short(&counted.dead)),
            ("messages left", counted.left.sum(), String::new()),
            ("warnings", self.warnings.values().copied().map(u64::from).sum(), String::new()),
            ("seconds", seconds.all, format!("{} of them delivering", seconds.delivering)),
        ];
        for (name, number, note) in rows {
            writeln!(f, "{}", format!("{name:<16}{number:>8}  {note}").trim_end())?;
        }
        let table = if self.table_apart { "a DynamoDB of its own" } else { "the local AWS" };
        writeln!(f, "the table stood in {table}")?;
        let mut warnings: Vec<_> = self.warnings.iter().collect();
        warnings.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        for (said, count) in warnings {
            writeln!(f, "{count:>24}  {said}")?;
        }
        Ok(())
    }
}

fn dead_in_short(dead: &[Dead]) -> String {
    let mut kinds: BTreeMap<String, u32> = BTreeMap::new();
    for dead in dead {
        let done = if dead.done { "done all the same" } else { "NOT DONE" };
        *kinds.entry(format!("{} in {}, {done}", dead.job, dead.queue)).or_default() += 1;
    }
    kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect::<Vec<_>>().join("; ")
}
