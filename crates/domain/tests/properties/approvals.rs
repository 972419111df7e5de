//! Properties of verdicts and approvals: no effect is attempted without the verdict and the approvals it needs.

use std::collections::{BTreeMap, BTreeSet};

use domain::command::AttemptMode;
use domain::{
    Approval, ApprovalId, ApprovalStatus, Digest, EventBody, Job, Ruling, StepSeq, StepState, Subject,
    Verdict,
};
use proptest::prelude::*;

use crate::cases;
use crate::env::{Commit, LedgerEnv, Outcome, Run};
use crate::plans;
use crate::scenario::{any_scenario, governed_scenario};

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn first_attempt_needs_an_allowing_verdict_in_the_chain(scenario in any_scenario()) {
        LedgerEnv::run(&scenario, |env, commit| {
            let Outcome::Granted(grant) = &commit.outcome else { return };
            let Some(receipt) = grant.receipt.as_ref().filter(|_| grant.mode == AttemptMode::Fresh) else { return };
            let intended = intents(commit).last().unwrap();
            assert_eq!((intended.action, intended.verdict.hash()), (receipt.action, receipt.verdict));
            assert_eq!(intended.approval, receipt.approval.as_ref());
            assert_allowed(&env.runs[commit.run], &intended);
        });
    }

    #[test]
    fn approval_covers_one_action_of_one_step(scenario in any_scenario()) {
        let mut covered: BTreeMap<ApprovalId, (Digest, StepSeq)> = BTreeMap::new();
        LedgerEnv::run(&scenario, |_, commit| {
            for intent in intents(commit) {
                let Some(approval) = intent.approval else { continue };
                let now = (intent.action, intent.seq);
                assert_eq!(*covered.entry(approval.clone()).or_insert(now), now);
            }
        });
    }

    #[test]
    fn decided_approval_stays_decided(scenario in any_scenario()) {
        let mut known: BTreeMap<ApprovalId, Approval> = BTreeMap::new();
        LedgerEnv::run(&scenario, |_, commit| {
            for approval in &commit.decision.approvals {
                if let Some(before) = known.insert(approval.id.clone(), approval.clone()) {
                    assert_stays_decided(&before, approval);
                }
            }
        });
    }

    #[test]
    fn approval_is_open_iff_its_step_waits(scenario in any_scenario()) {
        LedgerEnv::run(&scenario, |env, commit| {
            let run = &env.runs[commit.run];
            let waits = match &run.record.step_state {
                StepState::WaitingApproval { approval, .. } => Some(approval),
                _ => None,
            };
            let open: Vec<_> = run.approvals.values().filter(|approval| approval.is_open()).collect();
            assert_eq!(open.iter().map(|approval| &approval.id).collect::<Vec<_>>(), waits.into_iter().collect::<Vec<_>>());
        });
    }

    #[test]
    fn every_change_except_use_notifies_approvers(scenario in any_scenario()) {
        LedgerEnv::run(&scenario, |_, commit| {
            for approval in &commit.decision.approvals {
                let job = Job::NotifyApproval { approval: approval.id.clone(), revision: approval.revision };
                let shown = commit.decision.outgoing.iter().any(|message| message.job == job);
                assert!(shown || approval.consumed.is_some(), "{approval:?}");
            }
        });
    }

    #[test]
    fn on_call_is_paged_only_about_overdue_approvals(scenario in any_scenario()) {
        LedgerEnv::run(&scenario, |_, commit| {
            for approval in &commit.decision.approvals {
                let job = Job::PageOnCall { approval: approval.id.clone(), revision: approval.revision };
                let pages = commit.decision.outgoing.iter().filter(|message| message.job == job).count();
                let expected = approval.escalated_at.is_some() && approval.consumed.is_none();
                assert_eq!(pages, usize::from(expected), "{approval:?}");
            }
        });
    }

    #[test]
    fn only_eligible_users_approve(scenario in any_scenario()) {
        LedgerEnv::run(&scenario, |_, commit| {
            for approval in &commit.decision.approvals {
                for person in approval.approvers() {
                    assert_eq!(approval.excluded.role_of(person), None);
                    assert!(plans::tenant().belongs(person, &approval.requirement.groups));
                }
            }
        });
    }

    /// The commands themselves say who shaped a run, independent of the events that record it.
    #[test]
    fn approvers_of_an_effect_did_not_shape_it(scenario in governed_scenario()) {
        let first = || BTreeSet::from([0, 3, 4].map(plans::person));
        let mut shaped = [first(), first(), first()];
        LedgerEnv::run(&scenario, |env, commit| {
            for intent in intents(commit) {
                let Some(approval) = intent.approval else { continue };
                let approval = &env.runs[commit.run].approvals[approval];
                let people: BTreeSet<_> = approval.approvers().collect();
                let valid = people.into_iter().filter(|person| !shaped[commit.run].contains(*person));
                assert!(valid.count() >= approval.requirement.people.count(), "{approval:?}");
            }
            // It shapes what follows. A repeated command changes nothing and has no event.
            let effective = !commit.decision.events.is_empty();
            if commit.run == 2 && commit.before.is_none() {
                let original = shaped[0].clone();
                shaped[2].extend(original);
            }
            shaped[commit.run].extend(commit.shaped_by.clone().filter(|_| effective));
        });
    }

    #[test]
    fn decision_counts_users_of_the_directory_only(scenario in governed_scenario()) {
        LedgerEnv::run(&scenario, |env, commit| {
            let decided = commit.decision.events.iter().any(|chained| matches!(
                chained.event.body, EventBody::ApprovalVoted { status: ApprovalStatus::Approved, .. }
            ));
            for approval in commit.decision.approvals.iter().filter(|_| decided) {
                let approvers: BTreeSet<_> = approval.approvers().collect();
                let present = approvers.iter().filter(|person| env.tenant.people.contains_key(**person));
                assert!(present.count() >= approval.requirement.people.count(), "{approval:?}");
            }
        });
    }

    #[test]
    fn repeated_request_names_the_rejection_and_the_attempt(scenario in governed_scenario()) {
        let mut rejected = [None; 3];
        LedgerEnv::run(&scenario, |env, commit| {
            let run = &env.runs[commit.run];
            for chained in &commit.decision.events {
                match &chained.event.body {
                    EventBody::ApprovalVoted { status: ApprovalStatus::Rejected, .. } => {
                        rejected[commit.run] = Some((chained.event.seq, chained.event.rollback));
                    }
                    EventBody::ApprovalRequested { approval, .. } => {
                        let approval = &run.approvals[approval];
                        if rejected[commit.run] == Some((approval.seq, approval.rollback)) {
                            assert!(approval.rejected.is_some(), "{approval:?}");
                        }
                        if run.record.step_state.leaves_unknown() {
                            assert!(approval.attempted_at.is_some(), "{approval:?}");
                        }
                    }
                    _ => {}
                }
            }
        });
    }
}

/// An effect that is about to be attempted, as recorded in the chain.
struct Intended<'t> {
    seq: StepSeq,
    action: Digest,
    verdict: &'t Verdict,
    approval: Option<&'t ApprovalId>,
}

fn intents(commit: &Commit) -> impl Iterator<Item = Intended<'_>> {
    commit.decision.events.iter().filter_map(|chained| match &chained.event.body {
        EventBody::EffectIntended { receipt, verdict, approval, .. } => Some(Intended {
            seq: chained.event.seq,
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
        (Ruling::NeedsApproval(requirement), Some(id)) => {
            let approval = &run.approvals[id];
            let Subject::Action { action, verdict, .. } = &approval.subject else { panic!("{approval:?}") };
            assert_eq!(action.hash(), intended.action);
            assert_eq!(verdict.policy, intended.verdict.policy);
            assert_eq!(approval.status, ApprovalStatus::Approved);
            assert!(approval.consumed.is_some());
            let people: BTreeSet<_> = approval.approvers().collect();
            assert!(people.len() >= requirement.people.count(), "{people:?}");
        }
        (ruling, approval) => panic!("{ruling:?} with {approval:?}"),
    }
}

/// A decided approval stays decided. Only an unused approval can be withdrawn.
fn assert_stays_decided(before: &Approval, after: &Approval) {
    assert_eq!(after.revision, before.revision + 1);
    // The approvals of users who left the directory may go.
    let kept: Vec<_> = before.votes.iter().filter(|vote| after.votes.contains(vote)).collect();
    assert!(after.votes.iter().take(kept.len()).eq(kept));
    let withdrawn = after.status == ApprovalStatus::Canceled && before.consumed.is_none();
    let moved = match before.status {
        ApprovalStatus::Requested => true,
        ApprovalStatus::Approved => after.status == before.status || withdrawn,
        ApprovalStatus::Rejected | ApprovalStatus::Expired | ApprovalStatus::Canceled => false,
    };
    assert!(moved, "{before:?} {after:?}");
    assert!(before.consumed.is_none() || after.status == ApprovalStatus::Approved);
}
