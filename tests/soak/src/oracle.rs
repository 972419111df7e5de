//! The oracle: compares what happened outside, the receipts, the evidence, the transparency log, and what the soak did.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use domain::merkle::Frontier;
use domain::{Digest, EffectClass, RunId};
use evidence::bundle::{ReceiptStatus, ReceiptSummary};

use crate::external_systems::{EffectName, ExternalCounts};
use crate::facts::{BundleFacts, IntentFacts, Journal, LogFacts, Observed, RunFacts};
use crate::people::ONCALL;

/// A difference that must not exist.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Violation {
    pub(crate) run: Option<RunId>,
    pub(crate) what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.run {
            Some(run) => write!(f, "{run}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

/// The numbers that the oracle compared.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Totals {
    pub(crate) runs: usize,
    pub(crate) succeeded: usize,
    pub(crate) failed: usize,
    pub(crate) canceled: usize,
    pub(crate) undo_runs: usize,
    /// Effects that reached the external systems.
    pub(crate) effects: u64,
    /// Receipts with a result.
    pub(crate) receipts_done: usize,
    /// Receipts of effects whose outcome stayed unknown.
    pub(crate) receipts_open: usize,
    /// Effects whose outcome was unknown at some time.
    pub(crate) unknown: usize,
    pub(crate) approved_effects: usize,
    pub(crate) bundles: usize,
    pub(crate) log_entries: u64,
}

/// How often an effect may have happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Bounds {
    min: u32,
    max: u32,
}

impl Bounds {
    fn add(&mut self, other: Self) {
        self.min += other.min;
        self.max += other.max;
    }

    fn contains(self, count: u32) -> bool {
        (self.min..=self.max).contains(&count)
    }
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.min == self.max {
            write!(f, "{}", self.min)
        } else {
            write!(f, "{} to {}", self.min, self.max)
        }
    }
}

pub(crate) fn check(observed: &Observed) -> (Totals, Vec<Violation>) {
    let mut oracle = Oracle { observed, violations: Vec::new(), totals: Totals::default() };
    oracle.check_starts();
    for run in &observed.runs {
        oracle.check_run(run);
    }
    oracle.check_effects();
    oracle.check_labels();
    oracle.check_log();
    let reported = observed.journal.violations.iter();
    oracle.violations.extend(reported.map(|(run, what)| Violation { run: run.clone(), what: what.clone() }));
    oracle.violations.sort();
    (oracle.totals, oracle.violations)
}

struct Oracle<'a> {
    observed: &'a Observed,
    violations: Vec<Violation>,
    totals: Totals,
}

impl Oracle<'_> {
    fn report(&mut self, run: Option<&RunId>, what: impl Into<String>) {
        self.violations.push(Violation { run: run.cloned(), what: what.into() });
    }

    /// Every accepted request has its run, and every run was requested.
    fn check_starts(&mut self) {
        let existing: BTreeSet<&RunId> = self.observed.runs.iter().map(|run| &run.run).collect();
        let started: BTreeSet<&RunId> = self.observed.journal.started.values().collect();
        for run in started.difference(&existing) {
            self.report(Some(run), "the request was accepted, but the run does not exist");
        }
        for run in existing.difference(&started) {
            self.report(Some(run), "the run exists, but no accepted request started it");
        }
    }

    fn check_run(&mut self, run: &RunFacts) {
        self.totals.runs += 1;
        self.totals.undo_runs += usize::from(run.trigger == "undo");
        match run.status {
            domain::RunStatus::Succeeded => self.totals.succeeded += 1,
            domain::RunStatus::FailedTerminal => self.totals.failed += 1,
            domain::RunStatus::Canceled => self.totals.canceled += 1,
            other => self.report(Some(&run.run), format!("the run has not ended: it is {other}")),
        }
        let bundle = match &run.bundle {
            Ok(bundle) => bundle,
            Err(why) => return self.report(Some(&run.run), why.clone()),
        };
        self.totals.bundles += 1;
        if bundle.status != run.status {
            self.report(
                Some(&run.run),
                format!("the bundle says {}, the store {}", bundle.status, run.status),
            );
        }
        self.check_receipts(run, bundle);
        for intent in &bundle.intents {
            if let Err(why) = check_intent(run, bundle, intent, &self.observed.journal) {
                self.report(Some(&run.run), format!("step {}: {why}", intent.step));
            }
        }
        self.totals.approved_effects +=
            bundle.intents.iter().filter(|intent| intent.approval.is_some()).count();
        self.totals.unknown += bundle.unknown.len();
    }

    /// The ledger and the evidence have the same receipts.
    fn check_receipts(&mut self, run: &RunFacts, bundle: &BundleFacts) {
        let by_key = |receipts: &[ReceiptSummary]| -> BTreeMap<String, ReceiptSummary> {
            receipts.iter().map(|receipt| (receipt.key.to_string(), receipt.clone())).collect()
        };
        let (stored, sealed) = (by_key(&run.receipts), by_key(&bundle.receipts));
        for key in stored.keys().chain(sealed.keys()).collect::<BTreeSet<_>>() {
            match (stored.get(key), sealed.get(key)) {
                (Some(one), Some(other)) if one == other => {}
                (Some(_), Some(_)) => {
                    self.report(
                        Some(&run.run),
                        format!("the receipt {key} differs between ledger and evidence"),
                    );
                }
                (Some(_), None) => self.report(Some(&run.run), format!("the evidence has no receipt {key}")),
                (None, _) => self.report(Some(&run.run), format!("the ledger has no receipt {key}")),
            }
        }
        for receipt in &bundle.receipts {
            match receipt.state {
                ReceiptStatus::Done { .. } => self.totals.receipts_done += 1,
                ReceiptStatus::Intent => self.totals.receipts_open += 1,
                ReceiptStatus::Failed { .. } => {}
            }
        }
    }

    /// Every effect outside belongs to a receipt and happened as often as the receipt allows.
    fn check_effects(&mut self) {
        let expected = Expected::new(bounded_receipts(self.observed));
        let (effects, found) = expected.compare(&self.observed.external);
        self.totals.effects = effects;
        self.violations.extend(found);
    }

    /// A label is on its issue exactly if it was added and not removed.
    fn check_labels(&mut self) {
        let mut added: BTreeMap<u64, (i64, bool)> = BTreeMap::new();
        for (_, receipt, bounds) in bounded_receipts(self.observed) {
            let sign = match receipt.tool.as_str() {
                "github.label" => 1,
                "github.unlabel" => -1,
                _ => continue,
            };
            let issue =
                receipt.target.rsplit('/').next().and_then(|number| number.parse().ok()).unwrap_or_default();
            let entry = added.entry(issue).or_default();
            entry.0 += sign * i64::from(bounds.min);
            entry.1 |= bounds.min != bounds.max;
        }
        for (issue, (expected, unsure)) in added {
            let labels = self.observed.external.labels.get(&issue).map_or(0, BTreeSet::len);
            if !unsure && i64::try_from(labels) != Ok(expected) {
                self.report(None, format!("issue {issue} has {labels} labels, expected {expected}"));
            }
        }
    }

    /// Each log has one entry for each run with evidence, without gaps, and every bundle has the root of that log at its
    /// size.
    fn check_log(&mut self) {
        let mut logs: BTreeMap<&str, BTreeMap<u64, (&RunId, &LogFacts)>> = BTreeMap::new();
        let sealed =
            self.observed.runs.iter().filter_map(|run| Some((&run.run, &run.bundle.as_ref().ok()?.log)));
        let mut found = Vec::new();
        for (run, log) in sealed {
            if let Some((other, _)) = logs.entry(&log.origin).or_default().insert(log.index, (run, log)) {
                found.push((run, format!("entry {} of the log also belongs to {other}", log.index)));
            }
        }
        for entries in logs.values() {
            let mut frontier = Frontier::default();
            let mut roots: BTreeMap<u64, Digest> = BTreeMap::new();
            for (expected, (index, (run, log))) in (0_u64..).zip(entries) {
                if *index != expected {
                    found.push((run, format!("the log has no run at entry {expected}")));
                    break;
                }
                let position = frontier.push(log.leaf);
                roots.insert(position.size, position.root);
            }
            self.totals.log_entries += entries.len() as u64;
            for (run, log) in entries.values() {
                if roots.get(&log.size) != Some(&log.root) {
                    found.push((run, format!("the root of the log at size {} differs", log.size)));
                }
            }
        }
        for (run, what) in found {
            self.report(Some(run), what);
        }
    }
}

/// All receipts with the number of times that their effect may have happened.
fn bounded_receipts(observed: &Observed) -> impl Iterator<Item = (&RunId, &ReceiptSummary, Bounds)> {
    let sealed = observed.runs.iter().filter_map(|run| Some((run, run.bundle.as_ref().ok()?)));
    sealed.flat_map(move |(run, bundle)| {
        let bounded = move |receipt| (&run.run, receipt, bounds(run, bundle, receipt, &observed.journal));
        bundle.receipts.iter().map(bounded)
    })
}

/// What must have happened outside, according to the receipts.
#[derive(Default)]
struct Expected<'a> {
    effects: BTreeMap<EffectName, (Option<&'a RunId>, Bounds)>,
    /// Writes by record.
    records: BTreeMap<&'a str, (Option<&'a RunId>, Bounds)>,
    deleted_comments: Bounds,
}

impl<'a> Expected<'a> {
    fn new(receipts: impl Iterator<Item = (&'a RunId, &'a ReceiptSummary, Bounds)>) -> Self {
        let mut expected = Self::default();
        for (run, receipt, bounds) in receipts {
            let tool = receipt.tool.as_str();
            let name = match tool {
                "http.request" => Some(EffectName::HttpKey(receipt.key.to_string())),
                "servicenow.work_note" => Some(EffectName::Note(mark(receipt))),
                "github.comment" | "slack.post" => Some(EffectName::Post(mark(receipt))),
                _ => None,
            };
            if let Some(name) = name {
                expected.effects.entry(name).or_insert((Some(run), Bounds::default())).1.add(bounds);
            }
            if tool.starts_with("servicenow.") {
                let record = receipt.target.rsplit('/').next().unwrap_or_default();
                expected.records.entry(record).or_insert((Some(run), Bounds::default())).1.add(bounds);
            }
            if tool == "github.delete_comment" {
                expected.deleted_comments.add(bounds);
            }
        }
        expected
    }

    /// Returns the number of effects outside, and what differs.
    fn compare(&self, external: &ExternalCounts) -> (u64, Vec<Violation>) {
        let mut found = Vec::new();
        let mut check_count = |(run, bounds): (Option<&RunId>, Bounds), what: &str, count: u32| {
            if !bounds.contains(count) {
                let what = format!("{what} happened {count} times outside; the receipts say {bounds}");
                found.push(Violation { run: run.cloned(), what });
            }
        };
        for name in self.effects.keys().chain(external.effects.keys()).collect::<BTreeSet<_>>() {
            let count = external.effects.get(name).copied().unwrap_or_default();
            check_count(
                self.effects.get(name).copied().unwrap_or_default(),
                &format!("the effect {name:?}"),
                count,
            );
        }
        let records = external.record_writes.keys().map(String::as_str);
        for record in self.records.keys().copied().chain(records).collect::<BTreeSet<_>>() {
            let count = external.record_writes.get(record).copied().unwrap_or_default();
            check_count(
                self.records.get(record).copied().unwrap_or_default(),
                &format!("writes of {record}"),
                count,
            );
        }
        let deleted = u32::try_from(external.deleted_comments.len()).unwrap_or(u32::MAX);
        check_count((None, self.deleted_comments), "deletions of comments", deleted);
        // A note is also a write of its record.
        let named = external.effects.iter().filter(|(name, _)| !matches!(name, EffectName::Note(_)));
        let counts = named.map(|(_, count)| count).chain(external.record_writes.values());
        (counts.map(|count| u64::from(*count)).sum::<u64>() + u64::from(deleted), found)
    }
}

/// How often the effect of a receipt may have happened. Only a person who resumed a run with an unknown outcome can
/// cause a second effect.
fn bounds(run: &RunFacts, bundle: &BundleFacts, receipt: &ReceiptSummary, journal: &Journal) -> Bounds {
    let repeatable = receipt.class == EffectClass::Opaque && bundle.unknown.contains(&receipt.key);
    let resumed = journal.resumed.get(&run.run).copied().unwrap_or_default();
    let repeats = if repeatable { resumed } else { 0 };
    match receipt.state {
        ReceiptStatus::Done { .. } => Bounds { min: 1, max: 1 + repeats },
        ReceiptStatus::Intent => Bounds { min: 0, max: 1 + repeats },
        ReceiptStatus::Failed { .. } => Bounds { min: 0, max: repeats },
    }
}

/// The mark that the tools derive from the key.
fn mark(receipt: &ReceiptSummary) -> String {
    Digest::of_parts("countersign/mark/v1", &[receipt.key.as_str()]).to_string()[..32].to_owned()
}

/// An attempt needs a verdict that allows it and the approvers that the verdict and the soak's own rules require.
fn check_intent(
    run: &RunFacts,
    bundle: &BundleFacts,
    intent: &IntentFacts,
    journal: &Journal,
) -> Result<(), String> {
    if intent.denied {
        return Err("the effect was attempted although policy denies it".to_owned());
    }
    // An undo run has steps of its own, and restoring the state before a run needs no approval.
    let step = if run.trigger == "undo" || intent.rollback { "" } else { intent.step.as_str() };
    let (people, permitted) = match step.split('-').next() {
        Some("medium") => (1, &ONCALL[..]),
        Some("high") => (2, &[][..]),
        _ => (intent.people, &[][..]),
    };
    if people == 0 {
        return Ok(());
    }
    let approval =
        intent.approval.as_ref().ok_or("the effect was attempted without the required approval")?;
    let voters = bundle
        .approvals
        .get(approval)
        .ok_or_else(|| format!("the approval {approval} is not in the evidence"))?;
    let sent = journal.approved_by.get(approval);
    let is_permitted = |person: &&String| {
        sent.is_some_and(|sent| sent.contains(*person))
            && run.requester.as_ref() != Some(*person)
            && (permitted.is_empty() || permitted.contains(&person.as_str()))
    };
    let counted = voters.iter().filter(is_permitted).count();
    if counted < people {
        return Err(format!("{counted} permitted users approved {approval}, required are {people}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
