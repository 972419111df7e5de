//! The grid: every call, every kind of fault; every pair for short flows; and as many random mixtures as
//! somebody has time for.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread::available_parallelism;

use serde::Serialize;

use crate::fault::{Kind, Point};
use crate::flow::{FLOWS, Flow};
use crate::scenario::{self, Scenario, Skew};

/// How much is simulated.
#[derive(Debug, Clone, Copy)]
pub struct Sweep {
    /// How many random mixtures of faults are tried beside the grid.
    pub seeds: u64,
    /// The first seed.
    pub first_seed: u64,
    /// Whether pairs are tried.
    pub pairs: bool,
    /// Only the flow of this name, if one is given.
    pub only: Option<&'static str>,
}

/// What was simulated, and what was found.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The flows.
    pub flows: usize,
    /// Single faults that were planned.
    pub points_planned: u64,
    /// Single faults that were reached.
    pub points_reached: u64,
    /// Pairs of faults that were planned.
    pub pairs_planned: u64,
    /// Pairs of faults of which both were reached.
    pub pairs_reached: u64,
    /// Random mixtures.
    pub seeds: u64,
    /// Simulations in all.
    pub simulations: u64,
    /// What went wrong: how often.
    pub violations: u64,
    /// What went wrong: the first few.
    pub first_violations: Vec<Violation>,
    /// By flow.
    pub by_flow: Vec<FlowReport>,
}

/// What was simulated of a flow.
#[derive(Debug, Clone, Default, Serialize)]
pub struct FlowReport {
    /// Which flow.
    pub name: &'static str,
    /// How many calls it makes when nothing fails and all clocks are right.
    pub calls: u32,
    /// Single faults that were planned.
    pub points_planned: u64,
    /// Single faults that were reached.
    pub points_reached: u64,
    /// Pairs of faults that were planned.
    pub pairs_planned: u64,
    /// Pairs of faults of which both were reached.
    pub pairs_reached: u64,
    /// Simulations in all.
    pub simulations: u64,
    /// What went wrong: how often.
    pub violations: u64,
}

/// Something that must not be.
#[derive(Debug, Clone, Serialize)]
pub struct Violation {
    /// In which flow.
    pub flow: &'static str,
    /// With which faults.
    pub points: Vec<Point>,
    /// With which clocks.
    pub skew: Skew,
    /// From which seed, if chance chose the faults.
    pub seed: Option<u64>,
    /// What it is.
    pub broken: Vec<String>,
    /// Every call that led there.
    pub trace: Vec<String>,
}

/// More than a person reads.
const VIOLATIONS_KEPT: usize = 5;

/// Seeds are played in lots, so that every core has something to do.
const LOT: u64 = 100;

/// A share of the work. Each simulation has one thread; several simulations go on at once.
#[derive(Debug, Clone)]
enum Lot {
    Grid(&'static Flow),
    Mixtures(Range<u64>),
}

/// What came of a lot.
#[derive(Debug, Default)]
struct Played {
    flow: FlowReport,
    violations: Vec<Violation>,
}

/// Simulates every flow. `progress` hears of each one that is done.
pub fn simulate(sweep: Sweep, mut progress: impl FnMut(&FlowReport)) -> Report {
    let lots = lots(sweep);
    let next = AtomicUsize::new(0);
    let (done, results) = channel();
    let mut played: Vec<(usize, Played)> = Vec::with_capacity(lots.len());
    std::thread::scope(|scope| {
        for _ in 0..available_parallelism().map_or(1, usize::from) {
            let (done, lots, next) = (done.clone(), &lots, &next);
            scope.spawn(move || {
                while let Some((index, lot)) = take(lots, next) {
                    if done.send((index, lot.play(sweep.pairs))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(done);
        for (index, lot) in results {
            if matches!(lots[index], Lot::Grid(_)) {
                progress(&lot.flow);
            }
            played.push((index, lot));
        }
    });
    played.sort_by_key(|(index, _)| *index);
    report(sweep, &lots, played)
}

fn lots(sweep: Sweep) -> Vec<Lot> {
    let flows = FLOWS.iter().filter(|flow| sweep.only.is_none_or(|only| flow.name == only)).map(Lot::Grid);
    let end = sweep.first_seed.saturating_add(sweep.seeds);
    let starts = (sweep.first_seed..end).step_by(usize::try_from(LOT).unwrap_or(1));
    flows.chain(starts.map(|start| Lot::Mixtures(start..end.min(start.saturating_add(LOT))))).collect()
}

fn take<'l>(lots: &'l [Lot], next: &AtomicUsize) -> Option<(usize, &'l Lot)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    lots.get(index).map(|lot| (index, lot))
}

impl Lot {
    fn play(&self, pairs: bool) -> Played {
        let mut played = Played::default();
        match self {
            Self::Grid(flow) => {
                played.flow.name = flow.name;
                for skew in [Skew::None, Skew::FastAndSlow, Skew::SlowAndFast] {
                    played.grid(flow, skew, pairs && flow.pairs && skew == Skew::None);
                }
            }
            Self::Mixtures(seeds) => {
                for seed in seeds.clone() {
                    played.play(mixture(seed), Some(seed));
                }
            }
        }
        played
    }
}

impl Played {
    fn grid(&mut self, flow: &'static Flow, skew: Skew, pairs: bool) {
        let calls = self.play(Scenario { flow, points: Vec::new(), skew }, None).calls;
        if skew == Skew::None {
            self.flow.calls = calls;
        }
        for call in 0..calls {
            for kind in Kind::ALL {
                let first = Point { call, kind };
                let played = self.play(Scenario { flow, points: vec![first], skew }, None);
                self.flow.points_planned += 1;
                self.flow.points_reached += u64::from(played.reached == 1);
                if pairs && Kind::PAIRED.contains(&kind) {
                    self.pairs(flow, first, played.calls);
                }
            }
        }
    }

    /// Every second fault that can follow `first`: the calls are those that were made after it.
    fn pairs(&mut self, flow: &'static Flow, first: Point, calls: u32) {
        for call in first.call + 1..calls {
            for kind in Kind::PAIRED {
                let points = vec![first, Point { call, kind }];
                let played = self.play(Scenario { flow, points, skew: Skew::None }, None);
                self.flow.pairs_planned += 1;
                self.flow.pairs_reached += u64::from(played.reached == 2);
            }
        }
    }

    fn play(&mut self, scenario: Scenario, seed: Option<u64>) -> scenario::Played {
        let played = scenario.play();
        self.flow.simulations += 1;
        if !played.broken.is_empty() {
            self.flow.violations += 1;
            if self.violations.len() < VIOLATIONS_KEPT {
                self.violations.push(Violation {
                    flow: scenario.flow.name,
                    points: scenario.points,
                    skew: scenario.skew,
                    seed,
                    broken: played.broken.clone(),
                    trace: played.trace.clone(),
                });
            }
        }
        played
    }
}

fn report(sweep: Sweep, lots: &[Lot], played: Vec<(usize, Played)>) -> Report {
    let sum = |of: fn(&FlowReport) -> u64| played.iter().map(|(_, lot)| of(&lot.flow)).sum::<u64>();
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
    for (index, lot) in played {
        report.first_violations.extend(lot.violations);
        if matches!(lots[index], Lot::Grid(_)) {
            report.by_flow.push(lot.flow);
        }
    }
    report.first_violations.truncate(VIOLATIONS_KEPT);
    report.flows = report.by_flow.len();
    report
}

/// A random scenario: the same seed always gives the same one.
fn mixture(seed: u64) -> Scenario {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d);
    let flow = dice.one_of(FLOWS);
    let skew = *dice.one_of(&[Skew::None, Skew::None, Skew::FastAndSlow, Skew::SlowAndFast]);
    let faults = 2 + dice.roll(3);
    let mut points: Vec<Point> = (0..faults)
        .map(|_| Point { call: u32::try_from(dice.roll(60)).unwrap_or(0), kind: *dice.one_of(&Kind::ALL) })
        .collect();
    points.sort_unstable();
    points.dedup_by_key(|point| point.call);
    Scenario { flow, points, skew }
}

/// Chance, from a seed (splitmix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `sides`.
    fn roll(&mut self, sides: u64) -> u64 {
        self.next() % sides
    }

    fn one_of<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        let index = usize::try_from(self.roll(items.len() as u64)).unwrap_or(0);
        &items[index]
    }
}

#[cfg(test)]
mod tests {
    use domain::RunStatus;

    use super::*;
    use crate::flow::Script;

    /// A tool that promises to honour keys, on a service that does not.
    const LIAR: Flow = Flow {
        name: "liar",
        workflow: "steps:\n- { id: a, tool: sim.liar }\n",
        script: Script::Nothing,
        ends: &[RunStatus::Succeeded],
        may_end: &[],
        pairs: false,
        writes_max: 64,
    };

    fn grid(flow: &'static Flow, skew: Skew) -> Played {
        let mut played = Played::default();
        played.grid(flow, skew, false);
        played
    }

    fn flow(name: &str) -> &'static Flow {
        FLOWS.iter().find(|flow| flow.name == name).unwrap()
    }

    #[test]
    fn every_flow_ends_as_it_says_when_nothing_fails() {
        for flow in FLOWS {
            let played = Scenario { flow, points: Vec::new(), skew: Skew::None }.play();
            assert_eq!(played.broken, Vec::<String>::new(), "{}", flow.name);
        }
    }

    #[test]
    fn an_effect_of_each_class_survives_every_fault_at_every_call() {
        for flow in FLOWS.iter().filter(|flow| flow.name.starts_with("take-over")) {
            let played = grid(flow, Skew::None);
            assert_eq!(played.flow.violations, 0, "{:?}", played.violations);
            assert_eq!(played.flow.points_reached, played.flow.points_planned, "{}", flow.name);
        }
    }

    #[test]
    fn clocks_an_hour_apart_cost_work_and_not_correctness() {
        for skew in [Skew::FastAndSlow, Skew::SlowAndFast] {
            let played = grid(flow("take-over, native key"), skew);
            assert_eq!(played.flow.violations, 0, "{:?}", played.violations);
        }
    }

    #[test]
    fn the_oracle_notices_a_tool_that_breaks_its_promise() {
        static FLOW: Flow = LIAR;
        let played = grid(&FLOW, Skew::None);
        assert!(played.flow.violations > 0);
        let told =
            |violation: &Violation| violation.broken.iter().any(|broken| broken.contains("happened 2 times"));
        assert!(played.violations.iter().any(told), "{:?}", played.violations);
    }

    #[test]
    fn the_same_scenario_always_goes_the_same_way() {
        for seed in 0..20 {
            assert_eq!(mixture(seed).play().trace, mixture(seed).play().trace, "seed {seed}");
        }
    }
}
