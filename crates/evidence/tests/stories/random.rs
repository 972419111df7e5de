//! Random runs: a random plan and random commands, until an operator cancels the run.

use domain::command::{Cancel, EffectOutcome, Fail, Pause, Postpone, Resume, RollBack};
use domain::{Failure, Millis, PlannedStep};

use super::story::{Story, gate, plan, step, undoable, wait};

/// Enough to finish most plans and to reach most failures.
const COMMANDS: usize = 60;

const TOOLS: [&str; 12] = [
    "read",
    "set.allow",
    "set.one",
    "set.two",
    "set.deny",
    "native.allow",
    "native.one",
    "find.allow",
    "find.one",
    "shell.allow",
    "shell.one",
    "shared.allow",
];

/// The splitmix64 generator: the same seed gives the same run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % bound as u64).unwrap()
    }

    fn tool(&mut self) -> &'static str {
        TOOLS[self.below(TOOLS.len())]
    }

    fn step(&mut self) -> PlannedStep {
        match self.below(8) {
            0 => wait(),
            1 => gate(),
            2..5 => undoable(self.tool(), self.tool()),
            _ => step(self.tool()),
        }
    }
}

pub(crate) fn story(seed: u64) -> Story {
    let mut random = Random(seed);
    let length = 1 + random.below(5);
    let mut run = Story::start(plan((0..length).map(|_| random.step()).collect::<Vec<_>>()));
    for _ in 0..COMMANDS {
        issue_command(&mut run, &mut random);
    }
    cancel(&mut run);
    run
}

/// Issues a random command. The domain may refuse it.
fn issue_command(run: &mut Story, random: &mut Random) {
    let reason = || "because".to_owned();
    let failure = || Failure::new("EXPRESSION", "no such field");
    let _refused = match random.below(40) {
        0 => run.try_decide("olga", Cancel { reason: reason() }).map(drop),
        1 | 2 => run.try_decide("olga", Pause { reason: reason() }).map(drop),
        3 => run.try_decide("olga", RollBack { reason: reason(), down_to: None }).map(drop),
        4..8 => run.try_decide("olga", Resume { reason: reason() }),
        8 => run.try_fail(),
        9 | 10 => run.try_retry(EffectOutcome::DidNotHappen),
        11 | 12 => run.try_retry(EffectOutcome::MayHaveHappened),
        13 => run.try_decide("worker", Fail { fence: None, failure: failure(), receipt: None }).map(drop),
        14 => run.try_decide("worker", Postpone { failure: failure(), retry_after: None }).map(drop),
        15 | 16 => run.try_signal(),
        17..21 => run.try_vote("paula", true),
        21..24 => run.try_vote("peter", true),
        24 => run.try_vote("peter", false),
        25 => {
            run.contract += 1;
            Ok(())
        }
        26 => {
            run.pass_time();
            Ok(())
        }
        27 => {
            run.now = run.now + Millis::mins(6);
            Ok(())
        }
        28..34 => run.try_finish(),
        _ => run.try_advance(),
    };
}

/// Cancels the run, after its current step finishes or loses its lease.
fn cancel(run: &mut Story) {
    while !run.record.status.is_terminal() {
        let stopped = run.try_decide("olga", Cancel { reason: "test end".to_owned() });
        let _refused = run.try_decide("olga", Pause { reason: "test end".to_owned() });
        if stopped.is_err() || !run.record.status.is_terminal() {
            run.pass_time();
            let _refused = run.try_advance().and_then(|()| run.try_finish());
        }
    }
}
