//! What holds for verdicts and approvals: nothing outside is attempted without both, where both are needed.

use std::collections::{BTreeMap, BTreeSet};

use domain::command::Mode;
use domain::{
    Approval, ApprovalId, ApprovalStatus, Digest, EventBody, Job, Live, Ruling, StepSeq, Subject, Verdict,
};
use proptest::prelude::*;

use crate::cases;
use crate::plans;
use crate::story::any_story;
use crate::world::{Run, Said, Turn, World};

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn an_effect_is_attempted_first_only_under_a_verdict_in_the_chain_that_allows_it(story in any_story()) {
        World::tell(&story, |world, turn| {
            let Said::Granted(grant) = &turn.said else { return };
            let Some(receipt) = grant.receipt.as_ref().filter(|_| grant.mode == Mode::Fresh) else { return };
            let intended = intents(turn).last().unwrap();
            assert_eq!((intended.action, intended.verdict.hash()), (receipt.action, receipt.verdict));
            assert_eq!(intended.approval, receipt.approval.as_ref());
            assert_allowed(&world.runs[turn.run], &intended);
        });
    }

    #[test]
    fn an_approval_serves_one_action_of_one_step(story in any_story()) {
        let mut served: BTreeMap<ApprovalId, (Digest, StepSeq)> = BTreeMap::new();
        World::tell(&story, |_, turn| {
            for intent in intents(turn) {
                let Some(approval) = intent.approval else { continue };
                let now = (intent.action, intent.seq);
                assert_eq!(*served.entry(approval.clone()).or_insert(now), now);
            }
        });
    }

    #[test]
    fn an_answer_stands(story in any_story()) {
        let mut known: BTreeMap<ApprovalId, Approval> = BTreeMap::new();
        World::tell(&story, |_, turn| {
            for approval in &turn.decision.approvals {
                if let Some(before) = known.insert(approval.id.clone(), approval.clone()) {
                    assert_stands(&before, approval);
                }
            }
        });
    }

    #[test]
    fn a_question_is_open_exactly_as_long_as_its_step_waits(story in any_story()) {
        World::tell(&story, |world, turn| {
            let run = &world.runs[turn.run];
            let waits = match &run.record.live {
                Live::WaitingApproval { approval, .. } => Some(approval),
                _ => None,
            };
            let open: Vec<_> = run.approvals.values().filter(|approval| approval.is_open()).collect();
            assert_eq!(open.iter().map(|approval| &approval.id).collect::<Vec<_>>(), waits.into_iter().collect::<Vec<_>>());
        });
    }

    #[test]
    fn people_are_shown_every_change_but_that_their_answer_was_used(story in any_story()) {
        World::tell(&story, |_, turn| {
            for approval in &turn.decision.approvals {
                let shown = turn.decision.outgoing.iter().any(|m| m.job == Job::NotifyApproval(approval.id.clone()));
                assert!(shown || approval.consumed.is_some(), "{approval:?}");
            }
        });
    }

    #[test]
    fn nobody_approves_what_they_asked_for_or_wrote_or_are_not_asked_about(story in any_story()) {
        World::tell(&story, |_, turn| {
            for approval in &turn.decision.approvals {
                let excluded = approval.excluded();
                for person in approval.approvers() {
                    assert!(!excluded.contains(person));
                    assert!(plans::tenant().belongs(person, &approval.demand.groups));
                }
            }
        });
    }
}

/// An effect that is about to be attempted, as the chain tells it.
struct Intended<'t> {
    seq: StepSeq,
    action: Digest,
    verdict: &'t Verdict,
    approval: Option<&'t ApprovalId>,
}

fn intents(turn: &Turn) -> impl Iterator<Item = Intended<'_>> {
    turn.decision.events.iter().filter_map(|sealed| match &sealed.event.body {
        EventBody::EffectIntended { receipt, verdict, approval, .. } => Some(Intended {
            seq: sealed.event.seq,
            action: receipt.action,
            verdict,
            approval: approval.as_ref(),
        }),
        _ => None,
    })
}

fn assert_allowed(run: &Run, intended: &Intended<'_>) {
    match (&intended.verdict.ruling, intended.approval) {
        (Ruling::Allow, None) => {}
        (Ruling::NeedsApproval(demand), Some(id)) => {
            let approval = &run.approvals[id];
            let Subject::Action { action, verdict } = &approval.subject else { panic!("{approval:?}") };
            assert_eq!(action.hash(), intended.action);
            assert_eq!(verdict.policy, intended.verdict.policy);
            assert_eq!(approval.status, ApprovalStatus::Approved);
            assert!(approval.consumed.is_some());
            let people: BTreeSet<_> = approval.approvers().collect();
            assert!(people.len() >= demand.people.count(), "{people:?}");
        }
        (ruling, approval) => panic!("{ruling:?} with {approval:?}"),
    }
}

/// Whatever was answered stays answered; only an answer that nobody has used can be withdrawn.
fn assert_stands(before: &Approval, after: &Approval) {
    assert_eq!(after.revision, before.revision + 1);
    assert_eq!(after.votes[..before.votes.len()], before.votes);
    let withdrawn = after.status == ApprovalStatus::Canceled && before.consumed.is_none();
    let moved = match before.status {
        ApprovalStatus::Requested => true,
        ApprovalStatus::Approved => after.status == before.status || withdrawn,
        ApprovalStatus::Rejected | ApprovalStatus::Expired | ApprovalStatus::Canceled => false,
    };
    assert!(moved, "{before:?} {after:?}");
    assert!(before.consumed.is_none() || after.status == ApprovalStatus::Approved);
}
