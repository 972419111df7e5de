//! Threat cases with clock skew: one worker's clock is an hour off, the other's is right. Every flow ends in an
//! expected status, and a flow with a take-over does so with every fault at every call.

use countersign_simulation::{FLOWS, FaultKind, FaultPoint, Flow, Scenario, Skew};
use libtest_mimic::{Arguments, Failed, Trial};

/// The flow in which a wrong clock matters most: workers disagree on whether a lease has expired.
const TAKEN_OVER: &str = "take-over, native key";

fn main() {
    let cases = [("clock_+1h", Skew::Fast), ("clock_-1h", Skew::Slow)];
    let trials = cases.map(|(name, skew)| Trial::test(name, move || holds(skew)));
    libtest_mimic::run(&Arguments::from_args(), trials.into()).exit();
}

fn holds(skew: Skew) -> Result<(), Failed> {
    for flow in FLOWS {
        run(&Scenario { flow, points: Vec::new(), skew })?;
    }
    let flow = FLOWS.iter().find(|flow| flow.name == TAKEN_OVER).ok_or("unknown flow")?;
    for point in points(flow) {
        run(&Scenario { flow, points: vec![point], skew })?;
    }
    Ok(())
}

/// Every fault at every call that the flow makes without faults.
fn points(flow: &'static Flow) -> Vec<FaultPoint> {
    let calls = 0..u32::try_from(flow.trace().len()).unwrap_or(u32::MAX);
    calls.flat_map(|call| FaultKind::ALL.map(|kind| FaultPoint { call, kind })).collect()
}

fn run(scenario: &Scenario) -> Result<(), Failed> {
    match scenario.broken().as_slice() {
        [] => Ok(()),
        broken => Err(format!("{} with faults {:?}: {broken:?}", scenario.flow.name, scenario.points).into()),
    }
}
