//! The grid: every kind of fault at every call, every pair of faults for short flows, and random mixtures of
//! faults. The small grid has every single fault, and a sample of the pairs and of the faults under clock skew.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread::available_parallelism;

use serde::Serialize;

use crate::fault::{FaultKind, FaultPoint};
use crate::flow::{FLOWS, Flow};
use crate::scenario::{self, Scenario, Skew};

/// Which scenarios to run.
#[derive(Debug, Clone, Copy)]
pub struct Sweep {
    /// Number of random mixtures of faults to run after the grid.
    pub seeds: u64,
    pub first_seed: u64,
    pub pairs: bool,
    pub size: Size,
    /// Run the grid of this flow only.
    pub only: Option<&'static str>,
}

/// How many of the pairs of faults and of the faults under clock skew to run. Single faults without clock skew always
/// run all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// One in [`SAMPLED`], the same in every run.
    Sample,
    Full,
}

/// The full grid takes 8 to 17 minutes on two cores; one in eight takes about two.
const SAMPLED: u64 = 8;

#[derive(Debug, Clone, Serialize)]
pub struct Report {
    pub flows: usize,
    /// Single faults.
    pub points_planned: u64,
    pub points_reached: u64,
    pub pairs_planned: u64,
    /// Pairs of faults of which both were reached.
    pub pairs_reached: u64,
    /// Random mixtures.
    pub seeds: u64,
    pub simulations: u64,
    pub violations: u64,
    pub first_violations: Vec<Violation>,
    pub by_flow: Vec<FlowReport>,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct FlowReport {
    pub name: &'static str,
    /// Number of calls without faults and without clock skew.
    pub calls: u32,
    /// Single faults.
    pub points_planned: u64,
    pub points_reached: u64,
    pub pairs_planned: u64,
    /// Pairs of faults of which both were reached.
    pub pairs_reached: u64,
    pub simulations: u64,
    pub violations: u64,
}

/// A scenario after which an invariant did not hold.
#[derive(Debug, Clone, Serialize)]
pub struct Violation {
    pub flow: &'static str,
    pub points: Vec<FaultPoint>,
    pub skew: Skew,
    /// The seed of a random mixture; absent for a scenario of the grid.
    pub seed: Option<u64>,
    /// The invariants that did not hold.
    pub broken: Vec<String>,
    /// Every call of the scenario.
    pub trace: Vec<String>,
}

/// The report holds the first few violations in full; a reader needs no more to find the bug.
const VIOLATIONS_KEPT: usize = 5;

/// Seeds are run in batches so that all cores are used.
const BATCH_SIZE: u64 = 100;

/// A unit of work for one thread. Each simulation is single-threaded; batches run in parallel.
#[derive(Debug, Clone)]
enum Batch {
    Grid(&'static Flow),
    Mixtures(Range<u64>),
}

#[derive(Debug, Default)]
struct BatchResult {
    flow: FlowReport,
    violations: Vec<Violation>,
    /// Chooses the scenarios of a sample; absent if all are run.
    sample: Option<Rng>,
}

impl Size {
    fn sample(self) -> Option<Rng> {
        match self {
            Self::Sample => Some(Rng(0)),
            Self::Full => None,
        }
    }
}

/// Simulates every flow and calls `progress` after each.
pub fn simulate(sweep: Sweep, mut progress: impl FnMut(&FlowReport)) -> Report {
    let batches = batches(sweep);
    let next = AtomicUsize::new(0);
    let (done, results) = channel();
    let mut result: Vec<(usize, BatchResult)> = Vec::with_capacity(batches.len());
    std::thread::scope(|scope| {
        for _ in 0..available_parallelism().map_or(1, usize::from) {
            let (done, batches, next) = (done.clone(), &batches, &next);
            scope.spawn(move || {
                while let Some((index, batch)) = next_batch(batches, next) {
                    if done.send((index, batch.run(sweep))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(done);
        for (index, batch) in results {
            if matches!(batches[index], Batch::Grid(_)) {
                progress(&batch.flow);
            }
            result.push((index, batch));
        }
    });
    result.sort_by_key(|(index, _)| *index);
    report(sweep, &batches, result)
}

fn batches(sweep: Sweep) -> Vec<Batch> {
    let flows = FLOWS.iter().filter(|flow| sweep.only.is_none_or(|only| flow.name == only)).map(Batch::Grid);
    let end = sweep.first_seed.saturating_add(sweep.seeds);
    let starts = (sweep.first_seed..end).step_by(usize::try_from(BATCH_SIZE).unwrap_or(1));
    flows
        .chain(starts.map(|start| Batch::Mixtures(start..end.min(start.saturating_add(BATCH_SIZE)))))
        .collect()
}

fn next_batch<'l>(batches: &'l [Batch], next: &AtomicUsize) -> Option<(usize, &'l Batch)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    batches.get(index).map(|batch| (index, batch))
}

impl Batch {
    fn run(&self, sweep: Sweep) -> BatchResult {
        let mut result = BatchResult { sample: sweep.size.sample(), ..BatchResult::default() };
        match self {
            Self::Grid(flow) => {
                result.flow.name = flow.name;
                for skew in [Skew::None, Skew::FastAndSlow, Skew::SlowAndFast] {
                    result.grid(flow, skew, sweep.pairs && flow.pairs && skew == Skew::None);
                }
            }
            Self::Mixtures(seeds) => {
                for seed in seeds.clone() {
                    result.run(mixture(seed), Some(seed));
                }
            }
        }
        result
    }
}

impl BatchResult {
    fn grid(&mut self, flow: &'static Flow, skew: Skew, pairs: bool) {
        let calls = self.run(Scenario { flow, points: Vec::new(), skew }, None).calls;
        if skew == Skew::None {
            self.flow.calls = calls;
        }
        for call in 0..calls {
            for kind in FaultKind::ALL {
                let first = FaultPoint { call, kind };
                if skew != Skew::None && !self.is_sampled() {
                    continue;
                }
                let result = self.run(Scenario { flow, points: vec![first], skew }, None);
                self.flow.points_planned += 1;
                self.flow.points_reached += u64::from(result.reached == 1);
                if pairs && FaultKind::PAIRED.contains(&kind) {
                    self.pairs(flow, first, result.calls);
                }
            }
        }
    }

    /// Runs every second fault that can follow `first`: at each call made after it.
    fn pairs(&mut self, flow: &'static Flow, first: FaultPoint, calls: u32) {
        for call in first.call + 1..calls {
            for kind in FaultKind::PAIRED {
                if !self.is_sampled() {
                    continue;
                }
                let points = vec![first, FaultPoint { call, kind }];
                let result = self.run(Scenario { flow, points, skew: Skew::None }, None);
                self.flow.pairs_planned += 1;
                self.flow.pairs_reached += u64::from(result.reached == 2);
            }
        }
    }

    fn is_sampled(&mut self) -> bool {
        self.sample.as_mut().is_none_or(|random| random.below(SAMPLED) == 0)
    }

    fn run(&mut self, scenario: Scenario, seed: Option<u64>) -> scenario::ScenarioResult {
        let result = scenario.run();
        self.flow.simulations += 1;
        if !result.broken.is_empty() {
            self.flow.violations += 1;
            if self.violations.len() < VIOLATIONS_KEPT {
                self.violations.push(Violation {
                    flow: scenario.flow.name,
                    points: scenario.points,
                    skew: scenario.skew,
                    seed,
                    broken: result.broken.clone(),
                    trace: result.trace.clone(),
                });
            }
        }
        result
    }
}

fn report(sweep: Sweep, batches: &[Batch], result: Vec<(usize, BatchResult)>) -> Report {
    let sum = |count: fn(&FlowReport) -> u64| result.iter().map(|(_, batch)| count(&batch.flow)).sum::<u64>();
    let mut report = Report {
        flows: 0,
        points_planned: sum(|flow| flow.points_planned),
        points_reached: sum(|flow| flow.points_reached),
        pairs_planned: sum(|flow| flow.pairs_planned),
        pairs_reached: sum(|flow| flow.pairs_reached),
        seeds: sweep.seeds,
        simulations: sum(|flow| flow.simulations),
        violations: sum(|flow| flow.violations),
        first_violations: Vec::new(),
        by_flow: Vec::new(),
    };
    for (index, batch) in result {
        report.first_violations.extend(batch.violations);
        if matches!(batches[index], Batch::Grid(_)) {
            report.by_flow.push(batch.flow);
        }
    }
    report.first_violations.truncate(VIOLATIONS_KEPT);
    report.flows = report.by_flow.len();
    report
}

/// A random scenario, determined by the seed.
fn mixture(seed: u64) -> Scenario {
    let mut rng = Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d);
    let flow = rng.one_of(FLOWS);
    let skew = *rng.one_of(&[Skew::None, Skew::None, Skew::FastAndSlow, Skew::SlowAndFast]);
    let faults = 2 + rng.below(3);
    let mut points: Vec<FaultPoint> = (0..faults)
        .map(|_| FaultPoint {
            call: u32::try_from(rng.below(60)).unwrap_or(0),
            kind: *rng.one_of(&FaultKind::ALL),
        })
        .collect();
    points.sort_unstable();
    points.dedup_by_key(|point| point.call);
    Scenario { flow, points, skew }
}

/// A seeded random number generator (splitmix64).
#[derive(Debug)]
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn one_of<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        let index = usize::try_from(self.below(items.len() as u64)).unwrap_or(0);
        &items[index]
    }
}

#[cfg(test)]
mod tests {
    use domain::RunStatus;

    use super::*;
    use crate::flow::Script;

    /// A tool that declares native keys, on a service that ignores them.
    const WRONG_CLASS: Flow = Flow {
        name: "liar",
        workflow: "steps:\n- { id: a, tool: sim.liar }\n",
        script: Script::Nothing,
        final_statuses: &[RunStatus::Succeeded],
        final_statuses_with_faults: &[],
        pairs: false,
        writes_max: 64,
    };

    fn grid(flow: &'static Flow, skew: Skew) -> BatchResult {
        let mut result = BatchResult::default();
        result.grid(flow, skew, false);
        result
    }

    fn flow(name: &str) -> &'static Flow {
        FLOWS.iter().find(|flow| flow.name == name).unwrap()
    }

    #[test]
    fn every_flow_ends_as_expected_without_faults() {
        for flow in FLOWS {
            let result = Scenario { flow, points: Vec::new(), skew: Skew::None }.run();
            assert_eq!(result.broken, Vec::<String>::new(), "{}", flow.name);
        }
    }

    #[test]
    fn each_effect_class_survives_every_fault_at_every_call() {
        for flow in FLOWS.iter().filter(|flow| flow.name.starts_with("take-over")) {
            let result = grid(flow, Skew::None);
            assert_eq!(result.flow.violations, 0, "{:?}", result.violations);
            assert_eq!(result.flow.points_reached, result.flow.points_planned, "{}", flow.name);
        }
    }

    #[test]
    fn clocks_an_hour_apart_keep_every_invariant() {
        for skew in [Skew::FastAndSlow, Skew::SlowAndFast] {
            let result = grid(flow("take-over, native key"), skew);
            assert_eq!(result.flow.violations, 0, "{:?}", result.violations);
        }
    }

    #[test]
    fn sample_has_every_single_fault_without_skew() {
        let flow = flow("take-over, read only");
        let mut result = BatchResult { sample: Size::Sample.sample(), ..BatchResult::default() };
        result.grid(flow, Skew::None, false);
        assert_eq!(result.flow.points_planned, u64::from(result.flow.calls) * FaultKind::ALL.len() as u64);
        let sampled = (0..8_000).filter(|_| result.is_sampled()).count();
        assert!((900..1_100).contains(&sampled), "{sampled}");
        result.sample = Size::Full.sample();
        assert!((0..8_000).all(|_| result.is_sampled()));
    }

    #[test]
    fn oracle_detects_a_tool_that_breaks_its_effect_class() {
        static FLOW: Flow = WRONG_CLASS;
        let result = grid(&FLOW, Skew::None);
        assert!(result.flow.violations > 0);
        let reported =
            |violation: &Violation| violation.broken.iter().any(|broken| broken.contains("happened 2 times"));
        assert!(result.violations.iter().any(reported), "{:?}", result.violations);
    }

    #[test]
    fn same_seed_gives_the_same_trace() {
        for seed in 0..20 {
            assert_eq!(mixture(seed).run().trace, mixture(seed).run().trace, "seed {seed}");
        }
    }
}
