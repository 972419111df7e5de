//! The named cases of clocks that are wrong: one worker's is an hour off, the other's is right. Every flow ends as it
//! may; and one in which a step is taken over does with every fault at every call.

use countersign_simulation::{FLOWS, Flow, Kind, Point, Scenario, Skew};
use libtest_mimic::{Arguments, Failed, Trial};

/// The flow in which it matters most who thinks that a lease is over.
const TAKEN_OVER: &str = "take-over, native key";

fn main() {
    let cases = [("clock_+1h", Skew::Fast), ("clock_-1h", Skew::Slow)];
    let trials = cases.map(|(name, skew)| Trial::test(name, move || holds(skew)));
    libtest_mimic::run(&Arguments::from_args(), trials.into()).exit();
}

fn holds(skew: Skew) -> Result<(), Failed> {
    for flow in FLOWS {
        play(&Scenario { flow, points: Vec::new(), skew })?;
    }
    let flow = FLOWS.iter().find(|flow| flow.name == TAKEN_OVER).ok_or("there is no such flow")?;
    for point in points(flow) {
        play(&Scenario { flow, points: vec![point], skew })?;
    }
    Ok(())
}

/// Every fault at every call that the flow makes when nothing fails.
fn points(flow: &'static Flow) -> Vec<Point> {
    let calls = 0..u32::try_from(flow.trace().len()).unwrap_or(u32::MAX);
    calls.flat_map(|call| Kind::ALL.map(|kind| Point { call, kind })).collect()
}

fn play(scenario: &Scenario) -> Result<(), Failed> {
    match scenario.broken().as_slice() {
        [] => Ok(()),
        broken => Err(format!("{} with {:?}: {broken:?}", scenario.flow.name, scenario.points).into()),
    }
}
