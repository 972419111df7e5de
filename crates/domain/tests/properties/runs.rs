//! Properties of a run's record after every commit.

use domain::chain::verify;
use domain::view::step_status;
use domain::{
    Cause, Decision, Event, EventBody, Job, Lease, QueueName, RunRecord, RunStatus, StepSeq, StepState,
    StepStatus,
};
use proptest::prelude::*;

use crate::cases;
use crate::env::{Commit, LedgerEnv, Outcome, Run};
use crate::scenario::any_scenario;

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn every_write_increments_the_version(scenario in any_scenario()) {
        LedgerEnv::run(&scenario, |_, commit| {
            let before = commit.before.as_ref().map(|before| before.version);
            assert_eq!(commit.decision.replaces, before);
            assert_eq!(commit.decision.record.version.0, before.map_or(1, |version| version.0 + 1));
        });
    }

    #[test]
    fn fence_never_decreases_and_grows_with_each_grant(scenario in any_scenario()) {
        LedgerEnv::run(&scenario, |_, commit| {
            let Some(before) = &commit.before else { return };
            let after = &commit.decision.record;
            match &commit.outcome {
                Outcome::Granted(grant) => assert!(grant.fence > before.fence && grant.fence == after.fence),
                _ => assert!(after.fence >= before.fence),
            }
        });
    }

    #[test]
    fn write_under_old_fence_is_refused(scenario in any_scenario()) {
        LedgerEnv::run(&scenario, |_, commit| {
            if let Some(fence) = commit.holds {
                assert_eq!(lease(commit).map(|lease| lease.fence), Some(fence));
            }
        });
    }

    #[test]
    fn only_expired_leases_are_taken_over(scenario in any_scenario()) {
        LedgerEnv::run(&scenario, |env, commit| {
            let granted = matches!(commit.outcome, Outcome::Granted(_));
            if let Some(lease) = lease(commit).filter(|_| granted && commit.holds.is_none()) {
                assert!(lease.until <= env.now);
            }
        });
    }

    #[test]
    fn ended_run_never_changes(scenario in any_scenario()) {
        LedgerEnv::run(&scenario, |_, commit| {
            if let Some(before) = commit.before.as_ref().filter(|before| before.status.is_terminal()) {
                assert_unchanged(before, commit);
            }
        });
    }

    #[test]
    fn run_succeeds_iff_all_steps_succeed(scenario in any_scenario()) {
        LedgerEnv::run(&scenario, |env, commit| assert_succeeded_together(&env.runs[commit.run]));
    }

    #[test]
    fn completed_at_is_set_iff_run_has_ended(scenario in any_scenario()) {
        LedgerEnv::run(&scenario, |_, commit| {
            let record = &commit.decision.record;
            assert_eq!(record.completed_at.is_some(), record.status.is_terminal());
        });
    }

    #[test]
    fn every_run_that_can_advance_has_a_due_time(scenario in any_scenario()) {
        LedgerEnv::run(&scenario, |_, commit| {
            let record = &commit.decision.record;
            let idle = record.status.is_terminal() || record.status == RunStatus::Paused;
            assert_eq!(record.due_at.is_none(), idle, "{record:?}");
        });
    }

    #[test]
    fn pending_work_has_a_message_and_idle_runs_have_none(scenario in any_scenario()) {
        LedgerEnv::run(&scenario, assert_message);
    }

    #[test]
    fn human_decisions_use_the_decisions_queue(scenario in any_scenario()) {
        LedgerEnv::run(&scenario, |_, commit| assert_queues(&commit.decision));
    }

    #[test]
    fn only_the_ending_commit_requests_evidence(scenario in any_scenario()) {
        LedgerEnv::run(&scenario, |_, commit| {
            let over = |record: &RunRecord| record.status.is_terminal();
            let ends = over(&commit.decision.record) && !commit.before.as_ref().is_some_and(over);
            let requests = commit.decision.outgoing.iter().filter(|message| message.job == Job::BuildEvidence).count();
            assert_eq!(requests, usize::from(ends));
        });
    }

    #[test]
    fn live_state_matches_run_status(scenario in any_scenario()) {
        LedgerEnv::run(&scenario, |_, commit| assert_fits(&commit.decision.record));
    }

    #[test]
    fn chain_verifies_after_every_commit(scenario in any_scenario()) {
        LedgerEnv::run(&scenario, |env, commit| {
            let Run { record, chain, .. } = &env.runs[commit.run];
            verify(&record.key, chain, record.events, &record.head).unwrap();
        });
    }

    #[test]
    fn only_calls_are_leased(scenario in any_scenario()) {
        LedgerEnv::run(&scenario, |env, commit| {
            let Run { record, plan, .. } = &env.runs[commit.run];
            let work = &plan.step(record.at).unwrap().work;
            let is_call = matches!(work, domain::plan::Work::Call(_));
            assert!(is_call || !matches!(record.step_state, StepState::Running(_)), "{work:?}");
        });
    }

    #[test]
    fn signal_is_used_at_most_once(scenario in any_scenario()) {
        LedgerEnv::run(&scenario, |env, commit| {
            let Run { record, signals, .. } = &env.runs[commit.run];
            let kept = signals.values().filter(|signal| signal.buffered).count();
            assert_eq!(kept, record.buffered_signals.len());
            assert!(record.buffered_signals.iter().all(|entry| signals[&entry.signal].buffered));
        });
    }
}

/// The lease before the commit.
fn lease(commit: &Commit) -> Option<&Lease> {
    match &commit.before.as_ref()?.step_state {
        StepState::Running(lease) => Some(lease),
        _ => None,
    }
}

/// A repeated request succeeds and writes nothing visible.
fn assert_unchanged(before: &RunRecord, commit: &Commit) {
    let decision = &commit.decision;
    let after = &decision.record;
    assert_eq!(RunRecord { version: after.version, op: after.op.clone(), ..before.clone() }, *after);
    assert!(decision.events.is_empty() && decision.steps.is_empty() && decision.outgoing.is_empty());
    assert!(decision.receipts.is_empty() && decision.signals.is_empty() && decision.approvals.is_empty());
}

/// During a rollback, a run whose steps have all succeeded does not end as succeeded.
fn assert_succeeded_together(run: &Run) {
    let statuses: Vec<_> =
        (0..run.record.steps).map(|seq| step_status(&run.record, &run.steps, StepSeq(seq))).collect();
    let all = statuses.iter().all(|status| *status == StepStatus::Succeeded);
    let succeeded = run.record.status == RunStatus::Succeeded;
    assert_eq!(succeeded, all && !run.record.is_rolling_back(), "{} {statuses:?}", run.record.status);
}

fn assert_message(env: &LedgerEnv, commit: &Commit) {
    let record = &commit.decision.record;
    let advances = commit.decision.outgoing.iter().filter(|message| message.job == Job::Advance);
    let sent: Vec<_> = advances.collect();
    match &record.step_state {
        _ if record.status.is_terminal() || record.status == RunStatus::Paused => assert!(sent.is_empty()),
        StepState::Ready { .. } => {
            assert_eq!(sent.iter().map(|message| message.delay.0).collect::<Vec<_>>(), [0]);
        }
        StepState::Retrying { not_before, .. } => {
            let message_at = sent.iter().map(|message| env.now + message.delay).min();
            let woken_at = message_at.or(record.due_at).unwrap();
            assert!(woken_at <= (*not_before).max(env.now), "{woken_at} {not_before}");
        }
        _ => {}
    }
    assert!(commit.decision.outgoing.iter().all(|message| message.run == record.key));
}

fn assert_queues(decision: &Decision) {
    let outcome = |event: &Event| match event.body {
        EventBody::ApprovalVoted { .. } | EventBody::RunResumed { .. } => true,
        EventBody::RollbackStarted { .. } => event.by.cause == Cause::User,
        _ => false,
    };
    let outcome = decision.events.iter().any(|chained| outcome(&chained.event));
    let advance = if outcome { QueueName::Decisions } else { QueueName::Steps };
    for message in &decision.outgoing {
        let queue = match message.job {
            Job::Advance => advance,
            Job::NotifyApproval { .. } | Job::PageOnCall { .. } => QueueName::Decisions,
            Job::BuildEvidence => QueueName::Steps,
            Job::Start => QueueName::Ingest,
        };
        assert_eq!(message.queue, queue, "{message:?}");
    }
}

fn assert_fits(record: &RunRecord) {
    let undoing = record.is_rolling_back();
    let fits = match (record.status, &record.step_state) {
        (RunStatus::Queued, StepState::Ready { .. }) => !undoing && record.at == StepSeq(0),
        (RunStatus::Running, StepState::Ready { .. } | StepState::Running(_))
        | (RunStatus::WaitingEvent, StepState::WaitingEvent { .. })
        | (RunStatus::FailedRetryable, StepState::Retrying { .. }) => !undoing,
        (
            RunStatus::RollingBack,
            StepState::Ready { .. } | StepState::Running(_) | StepState::Retrying { .. },
        ) => undoing,
        (
            RunStatus::Paused,
            StepState::Ready { .. } | StepState::Retrying { .. } | StepState::Unresolved { .. },
        )
        | (RunStatus::WaitingApproval, StepState::WaitingApproval { .. })
        | (RunStatus::Succeeded | RunStatus::FailedTerminal | RunStatus::Canceled, StepState::Ended { .. }) => {
            true
        }
        _ => false,
    };
    assert!(fits, "{} {:?}", record.status, record.step_state);
    assert!(u32::from(record.at.0) < u32::from(record.steps));
}
