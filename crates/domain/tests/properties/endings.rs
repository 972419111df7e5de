//! Every run can end, after any scenario.

use domain::{RunStatus, StepState};
use proptest::prelude::*;

use crate::cases;
use crate::env::LedgerEnv;
use crate::scenario::{Op, WorkerRef, any_scenario};

/// More rounds than any run needs.
const ROUNDS_MAX: usize = 200;

/// The operator resumes three times, then cancels.
const RESUMES_MAX: u32 = 3;

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn driven_run_ends(scenario in any_scenario()) {
        let mut env = LedgerEnv::run(&scenario, |_, _| {});
        let mut resumes = 0;
        let ended = advance_until_ended(&mut env, |env| {
            resumes += 1;
            env.apply(0, if resumes > RESUMES_MAX { Op::Cancel } else { Op::Resume });
        });
        prop_assert!(ended, "{:?}", env.runs[0].record);
    }

    #[test]
    fn canceled_run_ends_without_a_resume(scenario in any_scenario()) {
        let mut env = LedgerEnv::run(&scenario, |_, _| {});
        env.apply(0, Op::Cancel);
        let ended = advance_until_ended(&mut env, |env| {
            env.apply(0, Op::Cancel);
        });
        prop_assert!(ended, "{:?}", env.runs[0].record);
    }
}

/// Advances the first run until it ends. `operator` acts whenever the run is paused.
fn advance_until_ended(env: &mut LedgerEnv, mut operator: impl FnMut(&mut LedgerEnv)) -> bool {
    for _ in 0..ROUNDS_MAX {
        let record = &env.runs[0].record;
        let op = match (record.status, &record.step_state) {
            (status, _) if status.is_terminal() => return true,
            (RunStatus::Paused, _) => {
                operator(env);
                continue;
            }
            (_, StepState::Running(_)) => Op::Finish { who: WorkerRef::Current, hand_off: false },
            (
                _,
                StepState::Retrying { .. }
                | StepState::WaitingEvent { .. }
                | StepState::WaitingApproval { .. },
            ) => {
                env.apply(0, Op::PassUntilDue);
                Op::Advance
            }
            _ => Op::Advance,
        };
        env.apply(0, op);
    }
    false
}
