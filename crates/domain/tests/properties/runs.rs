//! What holds for a run's record after every commit.

use domain::chain::verify;
use domain::view::step_status;
use domain::{
    Cause, Decision, Event, EventBody, Job, Lease, Live, QueueName, RunRecord, RunStatus, StepSeq, StepStatus,
};
use proptest::prelude::*;

use crate::cases;
use crate::story::any_story;
use crate::world::{Run, Said, Turn, World};

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_version_grows_by_one_with_every_write(story in any_story()) {
        World::tell(&story, |_, turn| {
            let before = turn.before.as_ref().map(|before| before.version);
            assert_eq!(turn.decision.replaces, before);
            assert_eq!(turn.decision.record.version.0, before.map_or(1, |version| version.0 + 1));
        });
    }

    #[test]
    fn a_fence_never_falls_and_a_grant_has_a_larger_one_than_any_before(story in any_story()) {
        World::tell(&story, |_, turn| {
            let Some(before) = &turn.before else { return };
            let after = &turn.decision.record;
            match &turn.said {
                Said::Granted(grant) => assert!(grant.fence > before.fence && grant.fence == after.fence),
                _ => assert!(after.fence >= before.fence),
            }
        });
    }

    #[test]
    fn nobody_is_heard_under_an_old_fence(story in any_story()) {
        World::tell(&story, |_, turn| {
            if let Some(fence) = turn.holds {
                assert_eq!(lease(turn).map(|lease| lease.fence), Some(fence));
            }
        });
    }

    #[test]
    fn a_lease_is_taken_over_only_when_it_has_run_out(story in any_story()) {
        World::tell(&story, |world, turn| {
            let granted = matches!(turn.said, Said::Granted(_));
            if let Some(lease) = lease(turn).filter(|_| granted && turn.holds.is_none()) {
                assert!(lease.until <= world.now);
            }
        });
    }

    #[test]
    fn nothing_changes_a_run_that_is_over(story in any_story()) {
        World::tell(&story, |_, turn| {
            if let Some(before) = turn.before.as_ref().filter(|before| before.status.is_terminal()) {
                assert_unchanged(before, turn);
            }
        });
    }

    #[test]
    fn a_run_has_succeeded_if_and_only_if_all_its_steps_have(story in any_story()) {
        World::tell(&story, |world, turn| assert_succeeded_together(&world.runs[turn.run]));
    }

    #[test]
    fn a_run_has_an_end_if_and_only_if_it_is_over(story in any_story()) {
        World::tell(&story, |_, turn| {
            let record = &turn.decision.record;
            assert_eq!(record.completed_at.is_some(), record.status.is_terminal());
        });
    }

    #[test]
    fn somebody_will_look_at_every_run_that_can_move_by_itself(story in any_story()) {
        World::tell(&story, |_, turn| {
            let record = &turn.decision.record;
            let rests = record.status.is_terminal() || record.status == RunStatus::Paused;
            assert_eq!(record.due_at.is_none(), rests, "{record:?}");
        });
    }

    #[test]
    fn whatever_is_left_to_be_done_has_a_message_and_what_rests_has_none(story in any_story()) {
        World::tell(&story, assert_message);
    }

    #[test]
    fn what_people_said_waits_behind_no_step(story in any_story()) {
        World::tell(&story, |_, turn| assert_lanes(&turn.decision));
    }

    #[test]
    fn the_commit_that_ends_a_run_asks_for_its_evidence_and_no_other_does(story in any_story()) {
        World::tell(&story, |_, turn| {
            let over = |record: &RunRecord| record.status.is_terminal();
            let ends = over(&turn.decision.record) && !turn.before.as_ref().is_some_and(over);
            let seals = turn.decision.outgoing.iter().filter(|message| message.job == Job::BuildEvidence).count();
            assert_eq!(seals, usize::from(ends));
        });
    }

    #[test]
    fn the_live_state_fits_the_status(story in any_story()) {
        World::tell(&story, |_, turn| assert_fits(&turn.decision.record));
    }

    #[test]
    fn the_chain_verifies_at_every_point(story in any_story()) {
        World::tell(&story, |world, turn| {
            let Run { record, chain, .. } = &world.runs[turn.run];
            verify(&record.key, chain, record.events, &record.head).unwrap();
        });
    }

    #[test]
    fn only_a_call_is_ever_held(story in any_story()) {
        World::tell(&story, |world, turn| {
            let Run { record, plan, .. } = &world.runs[turn.run];
            let work = &plan.step(record.at).unwrap().work;
            let is_call = matches!(work, domain::plan::Work::Call(_));
            assert!(is_call || !matches!(record.live, Live::Running(_)), "{work:?}");
        });
    }

    #[test]
    fn a_delivery_is_used_at_most_once(story in any_story()) {
        World::tell(&story, |world, turn| {
            let Run { record, signals, .. } = &world.runs[turn.run];
            let kept = signals.values().filter(|signal| signal.kept).count();
            assert_eq!(kept, record.early.len());
            assert!(record.early.iter().all(|early| signals[&early.signal].kept));
        });
    }
}

/// The lease that was held when the commit was decided.
fn lease(turn: &Turn) -> Option<&Lease> {
    match &turn.before.as_ref()?.live {
        Live::Running(lease) => Some(lease),
        _ => None,
    }
}

/// Asking again is answered, but writes nothing that anybody could see.
fn assert_unchanged(before: &RunRecord, turn: &Turn) {
    let decision = &turn.decision;
    let after = &decision.record;
    assert_eq!(RunRecord { version: after.version, op: after.op.clone(), ..before.clone() }, *after);
    assert!(decision.events.is_empty() && decision.steps.is_empty() && decision.outgoing.is_empty());
    assert!(decision.receipts.is_empty() && decision.signals.is_empty() && decision.approvals.is_empty());
}

/// While effects are taken back, a run whose steps have all succeeded is on its way to another end.
fn assert_succeeded_together(run: &Run) {
    let statuses: Vec<_> =
        (0..run.record.steps).map(|seq| step_status(&run.record, &run.steps, StepSeq(seq))).collect();
    let all = statuses.iter().all(|status| *status == StepStatus::Succeeded);
    let succeeded = run.record.status == RunStatus::Succeeded;
    assert_eq!(succeeded, all && !run.record.is_undoing(), "{} {statuses:?}", run.record.status);
}

fn assert_message(world: &World, turn: &Turn) {
    let record = &turn.decision.record;
    let walks = turn.decision.outgoing.iter().filter(|message| message.job == Job::Advance);
    let sent: Vec<_> = walks.collect();
    match &record.live {
        _ if record.status.is_terminal() || record.status == RunStatus::Paused => assert!(sent.is_empty()),
        Live::Ready { .. } => assert_eq!(sent.iter().map(|message| message.delay.0).collect::<Vec<_>>(), [0]),
        Live::Retrying { not_before, .. } => {
            let arrives = sent.iter().map(|message| world.now + message.delay).min();
            let looked_at = arrives.or(record.due_at).unwrap();
            assert!(looked_at <= (*not_before).max(world.now), "{looked_at} {not_before}");
        }
        _ => {}
    }
    assert!(turn.decision.outgoing.iter().all(|message| message.run == record.key));
}

fn assert_lanes(decision: &Decision) {
    let said = |event: &Event| match event.body {
        EventBody::ApprovalVoted { .. } | EventBody::RunResumed { .. } => true,
        EventBody::RollbackStarted { .. } => event.by.cause == Cause::User,
        _ => false,
    };
    let said = decision.events.iter().any(|sealed| said(&sealed.event));
    let walk = if said { QueueName::Decisions } else { QueueName::Steps };
    for message in &decision.outgoing {
        let queue = match message.job {
            Job::Advance => walk,
            Job::NotifyApproval(_) => QueueName::Decisions,
            Job::BuildEvidence => QueueName::Steps,
            Job::Start => QueueName::Ingest,
        };
        assert_eq!(message.queue, queue, "{message:?}");
    }
}

fn assert_fits(record: &RunRecord) {
    let undoing = record.is_undoing();
    let fits = match (record.status, &record.live) {
        (RunStatus::Queued, Live::Ready { .. }) => !undoing && record.at == StepSeq(0),
        (RunStatus::Running, Live::Ready { .. } | Live::Running(_))
        | (RunStatus::WaitingEvent, Live::WaitingEvent { .. })
        | (RunStatus::FailedRetryable, Live::Retrying { .. }) => !undoing,
        (RunStatus::RollingBack, Live::Ready { .. } | Live::Running(_) | Live::Retrying { .. }) => undoing,
        (RunStatus::Paused, Live::Ready { .. } | Live::Retrying { .. } | Live::Unresolved { .. })
        | (RunStatus::WaitingApproval, Live::WaitingApproval { .. })
        | (RunStatus::Succeeded | RunStatus::FailedTerminal | RunStatus::Canceled, Live::Over { .. }) => true,
        _ => false,
    };
    assert!(fits, "{} {:?}", record.status, record.live);
    assert!(u32::from(record.at.0) < u32::from(record.steps));
}
