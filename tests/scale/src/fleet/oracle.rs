//! The invariants of a simulation: nothing lost, nothing doubled, nothing late.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use domain::{Evidence, RunKey, RunRecord, RunStatus, TenantId, Timestamp};
use tokio::time::Instant;

use super::external::Effect;
use super::load::{Kind, TIMER};

/// A timer may fire this much later than its deadline. If the sweeping worker dies, the others replace it after 45 s
/// without a heartbeat, at their next sweep, within 30 s; then the index is read, and the run is woken.
pub(crate) const TIMER_BOUND: Duration = Duration::from_secs(45 + 30 + 5);

/// A run may get its evidence this long after its end.
pub(crate) const EVIDENCE_BOUND: Duration = Duration::from_mins(2);

/// 95 % of the runs of the other tenants have their effect within this time, also while the first tenant has a backlog.
pub(crate) const EFFECT_BOUND: Duration = Duration::from_secs(3);

/// What is known about a run at the end of a simulation.
#[derive(Debug)]
pub(crate) struct FinishedRun {
    pub(crate) key: RunKey,
    pub(crate) kind: Kind,
    /// When its start was accepted.
    pub(crate) accepted: Instant,
    /// `None` if the store does not have the run.
    pub(crate) progress: Option<Progress>,
    pub(crate) evidence: Option<Evidence>,
    pub(crate) effects: Vec<Effect>,
}

/// How far a run came.
#[derive(Debug, Clone)]
pub(crate) struct Progress {
    status: RunStatus,
    created_at: Timestamp,
    completed_at: Option<Timestamp>,
    /// The state of its current step.
    step_state: String,
}

impl From<RunRecord> for Progress {
    fn from(record: RunRecord) -> Self {
        let RunRecord { status, created_at, completed_at, step_state, .. } = record;
        Self { status, created_at, completed_at, step_state: format!("{step_state:?}") }
    }
}

/// Every violation.
pub(crate) fn check(runs: &[FinishedRun], first: &TenantId) -> Vec<String> {
    let mut violations: Vec<String> = runs.iter().flat_map(check_run).collect();
    violations.extend(check_log(runs));
    violations.extend(check_concurrency(runs));
    let others = effect_delays(runs.iter().filter(|run| run.key.tenant != *first));
    let p95 = percentile(&others, 95);
    if p95 > EFFECT_BOUND {
        violations.push(format!("the effects of small tenants took {p95:?} (95th percentile)"));
    }
    violations
}

fn check_run(run: &FinishedRun) -> Vec<String> {
    let FinishedRun { key, kind, effects, .. } = run;
    let Some(record) = &run.progress else { return vec![format!("{key} ({kind:?}) was accepted and lost")] };
    let mut violations = Vec::new();
    let status = record.status;
    if !kind.final_statuses().contains(&status) {
        violations.push(format!("{key} ({kind:?}) is {status}: {}", record.step_state));
    }
    let expected = kind.effects();
    if effects.len() > expected || (status == RunStatus::Succeeded && effects.len() != expected) {
        violations.push(format!("{key} ({kind:?}) is {status} and had {} effects", effects.len()));
    }
    let Some(completed) = record.completed_at else { return violations };
    match &run.evidence {
        None => violations.push(format!("{key} ({kind:?}) has no evidence")),
        Some(evidence) if elapsed(completed, evidence.recorded_at) > EVIDENCE_BOUND => {
            let late = elapsed(completed, evidence.recorded_at);
            violations.push(format!("{key} ({kind:?}) got its evidence after {late:?}"));
        }
        Some(_) => {}
    }
    let late = elapsed(record.created_at, completed).saturating_sub(TIMER);
    if *kind == Kind::Timer && late > TIMER_BOUND {
        violations.push(format!("the timer of {key} fired {late:?} late"));
    }
    violations
}

/// The entries of a tenant's log are those of its runs, without gaps.
fn check_log(runs: &[FinishedRun]) -> Vec<String> {
    let mut logs: BTreeMap<&TenantId, (u64, BTreeSet<u64>)> = BTreeMap::new();
    for (tenant, index) in runs.iter().filter_map(|run| Some((&run.key.tenant, run.evidence.as_ref()?.index)))
    {
        let (count, indexes) = logs.entry(tenant).or_default();
        *count += 1;
        indexes.insert(index);
    }
    let wrong = |(count, indexes): &(u64, BTreeSet<u64>)| {
        indexes.len() as u64 != *count || indexes.last().is_some_and(|last| last + 1 != *count)
    };
    let wrong = logs.iter().filter(|(_, log)| wrong(log));
    wrong
        .map(|(tenant, (count, indexes))| {
            format!(
                "the log of {tenant} has {} positions up to {:?} for {count} runs",
                indexes.len(),
                indexes.last()
            )
        })
        .collect()
}

/// Two runs with one concurrency key have no effects at the same time.
fn check_concurrency(runs: &[FinishedRun]) -> Vec<String> {
    let mut effects_by_tenant: BTreeMap<&TenantId, Vec<(Effect, &RunKey)>> = BTreeMap::new();
    for run in runs.iter().filter(|run| run.kind == Kind::Queued) {
        let effects = effects_by_tenant.entry(&run.key.tenant).or_default();
        effects.extend(run.effects.iter().map(|effect| (*effect, &run.key)));
    }
    let mut violations = Vec::new();
    for mut effects in effects_by_tenant.into_values() {
        effects.sort_by_key(|(effect, _)| effect.began);
        for pair in effects.windows(2) {
            if let [(first, first_run), (second, second_run)] = pair
                && second.began < first.ended
            {
                violations
                    .push(format!("{first_run} and {second_run} have one concurrency key and overlapped"));
            }
        }
    }
    violations
}

/// How long the effects of plain runs took from the acceptance, in order.
pub(crate) fn effect_delays<'r>(runs: impl Iterator<Item = &'r FinishedRun>) -> Vec<Duration> {
    let plain = runs.filter(|run| run.kind == Kind::Plain);
    let mut delays: Vec<Duration> = plain
        .filter_map(|run| Some(run.effects.first()?.began.saturating_duration_since(run.accepted)))
        .collect();
    delays.sort();
    delays
}

/// The lateness of timers, in order.
pub(crate) fn timer_delays(runs: &[FinishedRun]) -> Vec<Duration> {
    let mut delays: Vec<Duration> = runs
        .iter()
        .filter(|run| run.kind == Kind::Timer)
        .filter_map(|run| run.progress.as_ref())
        .filter_map(|record| Some(elapsed(record.created_at, record.completed_at?).saturating_sub(TIMER)))
        .collect();
    delays.sort();
    delays
}

/// The value that `percent` of the sorted values do not exceed.
pub(crate) fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let index = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(index).copied().unwrap_or_default()
}

fn elapsed(from: Timestamp, to: Timestamp) -> Duration {
    Duration::from_millis(u64::try_from(to.0 - from.0).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use domain::{BlobRef, Digest, RunId};

    use super::*;

    fn run(tenant: &str, number: u64, kind: Kind) -> FinishedRun {
        let tenant: TenantId = tenant.parse().unwrap();
        let key = RunKey { run: RunId::derive(&tenant, &format!("run-{number}").parse().unwrap()), tenant };
        let began = Instant::now() + Duration::from_secs(number);
        let effect = Effect { began, ended: began + Duration::from_millis(500) };
        let timer = i64::try_from(TIMER.as_millis()).unwrap();
        FinishedRun {
            key,
            kind,
            accepted: Instant::now(),
            progress: Some(Progress {
                status: kind.final_statuses()[0],
                created_at: Timestamp(1_000),
                completed_at: Some(Timestamp(1_000 + timer)),
                step_state: String::new(),
            }),
            evidence: Some(Evidence {
                bundle: BlobRef { sha256: Digest::of_bytes(b"x"), bytes: 1 },
                name: String::new(),
                index: number,
                recorded_at: Timestamp(1_000 + timer),
            }),
            effects: vec![effect; kind.effects()],
        }
    }

    fn violations(run: FinishedRun) -> Vec<String> {
        check(&[run], &"first".parse().unwrap())
    }

    fn assert_one(found: &[String], text: &str) {
        assert!(found.len() == 1 && found[0].contains(text), "{found:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn runs_without_a_violation_pass() {
        let kinds = [Kind::Plain, Kind::Slow, Kind::Timer, Kind::Approved, Kind::Queued, Kind::KeyHolder];
        for kind in kinds {
            assert_eq!(violations(run("a", 0, kind)), Vec::<String>::new());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn lost_and_unfinished_runs_are_reported() {
        assert_one(
            &violations(FinishedRun { progress: None, evidence: None, ..run("a", 0, Kind::Plain) }),
            "lost",
        );
        let mut running = run("a", 0, Kind::Plain);
        running.progress.as_mut().unwrap().status = RunStatus::Running;
        assert_one(&violations(running), "is running");
        assert_one(&violations(FinishedRun { evidence: None, ..run("a", 0, Kind::Plain) }), "no evidence");
    }

    #[tokio::test(start_paused = true)]
    async fn repeated_and_missing_effects_are_reported() {
        let mut repeated = run("a", 0, Kind::Slow);
        repeated.effects.extend(repeated.effects.clone());
        assert_one(&violations(repeated), "had 2 effects");
        let missing = FinishedRun { effects: Vec::new(), ..run("a", 0, Kind::Plain) };
        assert_one(&violations(missing), "had 0 effects");
    }

    #[tokio::test(start_paused = true)]
    async fn late_timers_evidence_and_effects_are_reported() {
        let late = |kind, by: Duration| {
            let (mut late, by) = (run("a", 0, kind), i64::try_from(by.as_millis()).unwrap());
            late.progress.as_mut().unwrap().completed_at.as_mut().unwrap().0 += by;
            late.evidence.as_mut().unwrap().recorded_at.0 += by;
            late
        };
        assert_one(&violations(late(Kind::Timer, TIMER_BOUND + Duration::from_millis(1))), "late");
        let mut evidence = late(Kind::Timer, Duration::ZERO);
        evidence.evidence.as_mut().unwrap().recorded_at.0 += 120_001;
        assert_one(&violations(evidence), "got its evidence after");
        let slow = run("a", 0, Kind::Plain);
        let effects = slow
            .effects
            .iter()
            .map(|effect| Effect { began: effect.began + EFFECT_BOUND * 2, ..*effect })
            .collect();
        assert_one(&violations(FinishedRun { effects, ..slow }), "95th percentile");
    }

    #[tokio::test(start_paused = true)]
    async fn overlaps_and_gaps_in_the_log_are_reported() {
        let first = "first".parse().unwrap();
        let (one, two) = (run("a", 0, Kind::Queued), run("a", 1, Kind::Queued));
        let together = FinishedRun { effects: one.effects.clone(), ..two };
        assert_one(&check(&[one, together], &first), "overlapped");
        assert_one(&check(&[run("a", 0, Kind::Plain), run("a", 2, Kind::Plain)], &first), "log of a");
    }
}
