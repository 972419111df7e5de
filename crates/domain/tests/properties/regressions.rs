//! Scenarios that once failed.

use domain::command::{AttemptMode, EffectOutcome};
use domain::plan::{OnReject, OnTimeout, Undo, Work};
use domain::receipt::ReceiptState;
use domain::retry_policy::RetryPolicy;
use domain::tenant::Person;
use domain::{
    ApprovalRequirement, BlastRadius, Channel, IdempotencyKey, Millis, ParticipantRole, PlannedStep, Role,
    RunStatus, StepState,
};

use crate::env::{Commit, LedgerEnv, Outcome};
use crate::plans::{call, event_name, person, plan, step};
use crate::scenario::{Binding, Op, PlannedOp, Scenario, WorkerRef};

const APPROVE: Op = Op::Vote { back: 0, approve: true, person: 1 };
pub(crate) const FINISH: Op = Op::Finish { who: WorkerRef::Current, hand_off: false };

#[test]
fn first_step_reuses_effect_of_another_run() {
    let mut env = env_with([vec![shared("native")], vec![shared("native")]]);
    env.apply(1, Op::Advance);
    env.apply(1, FINISH);

    env.apply(0, Op::Advance).unwrap();

    assert_eq!(env.runs[0].record.status, RunStatus::Succeeded);
    assert_eq!(env.runs[0].record.effects.done, 0);
}

#[test]
fn approval_of_a_removed_user_does_not_count() {
    let two = PlannedStep { blast_radius: BlastRadius::High, ..shared("native") };
    let mut env = env_with([vec![two], vec![shared("read")]]);
    env.apply(0, Op::Advance).unwrap();
    env.apply(0, Op::Vote { back: 0, approve: true, person: 1 }).unwrap();
    env.apply(0, Op::Directory { person: 1, present: false });
    env.apply(0, Op::Vote { back: 0, approve: true, person: 2 }).unwrap();

    assert_eq!(env.runs[0].record.status, RunStatus::WaitingApproval);
    let approval = env.runs[0].approvals.values().next().unwrap();
    assert_eq!(approval.approvers().collect::<Vec<_>>(), [&person(2)]);
}

#[test]
fn approver_removed_before_the_claim_does_not_count() {
    let approved = PlannedStep { blast_radius: BlastRadius::Medium, ..shared("native") };
    let mut env = env_with([vec![approved], vec![shared("read")]]);
    env.apply(0, Op::Advance).unwrap();
    env.apply(0, Op::Vote { back: 0, approve: true, person: 1 }).unwrap();
    env.apply(0, Op::Directory { person: 1, present: false });

    env.apply(0, Op::Advance).unwrap();

    assert_eq!(env.runs[0].record.status, RunStatus::WaitingApproval);
    assert_eq!(env.runs[0].requested.len(), 2);
    assert!(env.receipts.is_empty());
}

#[test]
fn departed_approver_stops_an_interrupted_effect() {
    let approved = PlannedStep { blast_radius: BlastRadius::Medium, ..own("native") };
    let mut env = env_with([vec![approved], vec![own("read")]]);
    env.apply(0, Op::Advance).unwrap();
    env.apply(0, Op::Vote { back: 0, approve: true, person: 1 }).unwrap();
    env.apply(0, Op::Advance).unwrap();
    env.apply(0, failed(EffectOutcome::MayHaveHappened)).unwrap();
    env.apply(0, Op::Directory { person: 1, present: false });
    env.apply(0, Op::PassUntilDue);

    let commit = env.apply(0, Op::Advance).unwrap();

    assert_eq!((mode(&commit), env.runs[0].record.status), (None, RunStatus::Paused));
}

#[test]
fn stricter_policy_stops_an_interrupted_effect() {
    for (blast_radius, approved) in [(BlastRadius::Low, false), (BlastRadius::Medium, true)] {
        let mut env = env_with([vec![PlannedStep { blast_radius, ..own("native") }], vec![own("read")]]);
        env.apply(0, Op::Advance).unwrap();
        if approved {
            env.apply(0, APPROVE).unwrap();
            env.apply(0, Op::Advance).unwrap();
        }
        env.apply(0, failed(EffectOutcome::MayHaveHappened)).unwrap();
        env.apply(0, Op::PassUntilDue);

        let commit = env.apply(0, Op::Claim(Binding::StricterPolicy)).unwrap();

        // The approval under the earlier policy names as many approvers of the same groups.
        let status = if approved { RunStatus::Running } else { RunStatus::Paused };
        assert_eq!(
            (mode(&commit).is_some(), env.runs[0].record.status),
            (approved, status),
            "{blast_radius:?}"
        );
    }
}

#[test]
fn rejected_rollback_names_the_rejection_when_asked_again() {
    let approved = PlannedStep { blast_radius: BlastRadius::Medium, ..undoable("native") };
    let mut env = env_with([vec![approved, own("read")], vec![own("read")]]);
    env.apply(0, Op::Advance).unwrap();
    env.apply(0, APPROVE).unwrap();
    env.apply(0, Op::Advance).unwrap();
    env.apply(0, FINISH).unwrap();
    env.apply(0, Op::RollBack).unwrap();
    env.apply(0, Op::Advance).unwrap();
    env.apply(0, Op::Vote { back: 0, approve: false, person: 2 }).unwrap();
    assert_eq!(env.runs[0].record.status, RunStatus::Paused);

    env.apply(0, Op::Resume).unwrap();
    env.apply(0, Op::Advance).unwrap();

    let request = &env.runs[0].approvals[env.runs[0].requested.last().unwrap()];
    assert_eq!(request.rejected.as_ref().map(|rejection| &rejection.by), Some(&person(2)));
}

#[test]
fn rejecter_cannot_approve_the_rollback() {
    let approved = PlannedStep { blast_radius: BlastRadius::Medium, ..undoable("native") };
    let rejected = PlannedStep { blast_radius: BlastRadius::Medium, ..own("native") };
    let mut env = env_with([vec![approved, rejected], vec![own("read")]]);
    env.apply(0, Op::Advance).unwrap();
    env.apply(0, APPROVE).unwrap();
    env.apply(0, Op::Advance).unwrap();
    env.apply(0, FINISH).unwrap();
    env.apply(0, Op::Advance).unwrap();
    env.apply(0, Op::Vote { back: 0, approve: false, person: 2 }).unwrap();
    assert!(env.runs[0].record.is_rolling_back());
    env.apply(0, Op::Advance).unwrap();

    let request = &env.runs[0].approvals[env.runs[0].requested.last().unwrap()];
    assert_eq!(request.excluded.role_of(&person(2)), Some(ParticipantRole::Rejecter));
    assert!(env.apply(0, Op::Vote { back: 0, approve: true, person: 2 }).is_none());
    assert!(env.receipts.values().all(|receipt| !receipt.rollback));
    assert!(env.apply(0, APPROVE).is_some(), "a user who approved the action may approve its rollback");
}

/// Another user approves in Slack, and then loses the role there. The vote is void, also after the decision.
#[test]
fn approval_in_slack_needs_the_role_until_it_is_used() {
    let approver = Person { slack_roles: [Role::Approver].into_iter().collect(), ..Person::default() };
    let slack = Channel::Slack { team: "T1".to_owned(), user: "U1".to_owned() };
    let api = Channel::Api { credential: "key:00".to_owned() };
    for (channel, role_is_removed, counts) in
        [(&slack, true, false), (&slack, false, true), (&api, true, true)]
    {
        let mut env = env_with([
            vec![PlannedStep { blast_radius: BlastRadius::Medium, ..own("native") }],
            vec![own("read")],
        ]);
        env.tenant.people.insert(person(1), approver.clone());
        env.apply(0, Op::Advance).unwrap();
        env.apply(0, APPROVE).unwrap();
        for approval in env.runs[0].approvals.values_mut() {
            approval.votes[0].through = channel.clone();
        }
        if role_is_removed {
            env.tenant.people.insert(person(1), Person::default());
        }

        env.apply(0, Op::Advance).unwrap();

        assert_eq!(env.receipts.len(), usize::from(counts), "{channel:?}, removed: {role_is_removed}");
    }
}

#[test]
fn user_without_the_role_in_slack_can_approve_again() {
    let two = PlannedStep { blast_radius: BlastRadius::High, ..own("native") };
    let mut env = env_with([vec![two], vec![own("read")]]);
    env.apply(0, Op::Advance).unwrap();
    env.apply(0, APPROVE).unwrap();
    let commit = env.apply(0, APPROVE);
    assert!(commit.is_none_or(|commit| commit.decision.events.is_empty()), "the same vote twice");
    for approval in env.runs[0].approvals.values_mut() {
        approval.votes[0].through = Channel::Slack { team: "T1".to_owned(), user: "U1".to_owned() };
    }

    let commit = env.apply(0, APPROVE).unwrap();
    assert!(!commit.decision.events.is_empty(), "the directory gives no role in Slack");
    assert_eq!(env.runs[0].record.status, RunStatus::WaitingApproval);
    env.apply(0, Op::Vote { back: 0, approve: true, person: 2 }).unwrap();
    assert_ne!(env.runs[0].record.status, RunStatus::WaitingApproval);
}

#[test]
fn user_who_signals_during_an_approval_cannot_approve() {
    let wait = Work::Wait { event: event_name(0), timeout: Millis::hours(1), on_timeout: OnTimeout::Fail };
    let approved = PlannedStep { blast_radius: BlastRadius::Medium, ..own("native") };
    let mut env = env_with([vec![approved, step(wait)], vec![own("read")]]);
    env.apply(0, Op::Advance).unwrap();
    let signal = Op::Signal { event: 0, delivery: 0 };
    env.apply_planned(&PlannedOp { run: 0, stale: false, user: Some(1), op: signal }).unwrap();

    assert!(env.apply(0, APPROVE).is_none());
    assert!(env.apply(0, Op::Vote { back: 0, approve: true, person: 2 }).is_some());
}

#[test]
fn opaque_action_is_attempted_once_by_default() {
    for (tool, status) in [("shell", RunStatus::FailedTerminal), ("native", RunStatus::FailedRetryable)] {
        let mut env = env_with([vec![own(tool)], vec![own("read")]]);
        env.apply(0, Op::Advance).unwrap();
        env.apply(0, failed(EffectOutcome::DidNotHappen)).unwrap();
        assert_eq!(env.runs[0].record.status, status, "{tool}");
    }
}

#[test]
fn waiting_run_reuses_result_of_the_other_run() {
    let mut env = env_with([vec![shared("native")], vec![shared("native")]]);
    env.apply(1, Op::Advance);
    env.apply(0, Op::Advance);
    env.apply(1, FINISH);

    env.apply(0, Op::PassUntilDue);
    env.apply(0, Op::Advance).unwrap();

    assert_eq!(env.runs[0].record.status, RunStatus::Succeeded);
}

#[test]
fn abandoned_effect_repeats_after_operator_resumes() {
    let mut env = env_with([vec![shared("shell")], vec![shared("shell")]]);
    env.apply(1, Op::Advance);
    env.apply(1, failed(EffectOutcome::MayHaveHappened));
    env.apply(1, Op::Cancel);
    assert_eq!(env.runs[1].record.status, RunStatus::Canceled);
    let left = env.receipts.values().next().unwrap().clone();

    env.apply(0, Op::Advance).unwrap();
    assert_eq!(env.runs[0].record.status, RunStatus::Paused);

    env.apply(0, Op::Resume).unwrap();
    let commit = env.apply(0, Op::Advance).unwrap();
    assert_eq!(mode(&commit), Some(AttemptMode::Repeat));
    assert_eq!(commit.decision.receipts[0].displaces.as_ref(), Some(&left));
    env.apply(0, FINISH).unwrap();
    assert_eq!(env.runs[0].record.status, RunStatus::Succeeded);
    assert_eq!(env.runs[0].record.effects.unknown, 0);
}

#[test]
fn postponed_authorized_retry_returns_to_operator() {
    let mut env = env_with([vec![shared("shell")], vec![shared("shell")]]);
    env.apply(1, Op::Advance);
    env.apply(1, failed(EffectOutcome::MayHaveHappened));
    env.apply(1, Op::Cancel);
    env.apply(0, Op::Advance).unwrap();
    env.apply(0, Op::Resume).unwrap();

    env.apply(0, Op::Postpone).unwrap();
    assert_eq!(env.runs[0].record.status, RunStatus::Paused);

    env.apply(0, Op::Resume).unwrap();
    let commit = env.apply(0, Op::Advance).unwrap();
    assert_eq!(mode(&commit), Some(AttemptMode::Repeat));
}

#[test]
fn canceled_run_does_not_count_foreign_unknown() {
    let mut env = env_with([vec![shared("shell")], vec![shared("shell")]]);
    env.apply(1, Op::Advance);
    env.apply(1, failed(EffectOutcome::MayHaveHappened));
    env.apply(1, Op::Cancel);
    env.apply(0, Op::Advance).unwrap();

    env.apply(0, Op::Cancel).unwrap();

    assert_eq!(env.runs[0].record.status, RunStatus::Canceled);
    assert_eq!([0, 1].map(|run: usize| env.runs[run].record.effects.unknown), [0, 1]);
}

#[test]
fn paused_retry_continues_in_the_same_mode() {
    let mut env = env_with([vec![own("native")], vec![own("read")]]);
    env.apply(0, Op::Advance);
    env.apply(0, failed(EffectOutcome::MayHaveHappened));
    env.apply(0, Op::Pause);
    env.apply(0, Op::Resume);

    let commit = env.apply(0, Op::Advance).unwrap();

    assert_eq!(mode(&commit), Some(AttemptMode::Repeat));
}

#[test]
fn authorization_survives_a_pause() {
    let mut env = env_with([vec![own("shell")], vec![own("read")]]);
    env.apply(0, Op::Advance);
    env.apply(0, failed(EffectOutcome::MayHaveHappened));
    env.apply(0, Op::Resume);
    env.apply(0, Op::Pause);
    env.apply(0, Op::Resume);

    let commit = env.apply(0, Op::Advance).unwrap();

    assert_eq!(mode(&commit), Some(AttemptMode::Repeat));
}

#[test]
fn unknown_outcome_can_be_canceled_twice() {
    let mut env = env_with([vec![own("shell")], vec![own("read")]]);
    env.apply(0, Op::Advance);
    env.apply(0, Op::Cancel);
    env.apply(0, failed(EffectOutcome::MayHaveHappened));
    assert_eq!(env.runs[0].record.status, RunStatus::Paused);

    env.apply(0, Op::Cancel).unwrap();

    assert_eq!(env.runs[0].record.status, RunStatus::Canceled);
    assert_eq!(env.runs[0].record.effects.unknown, 1);
}

#[test]
fn rollback_counts_open_effect_as_unknown() {
    let mut env = env_with([vec![undoable("set"), own("native")], vec![own("read")]]);
    env.apply(0, Op::Advance);
    env.apply(0, FINISH);
    env.apply(0, Op::Advance);
    env.apply(0, failed(EffectOutcome::MayHaveHappened));

    env.apply(0, Op::RollBack).unwrap();

    assert_eq!(env.runs[0].record.effects.unknown, 1);
}

#[test]
fn unbindable_step_keeps_its_open_intent() {
    let mut env = env_with([vec![own("native")], vec![own("read")]]);
    env.apply(0, Op::Advance);
    env.apply(0, failed(EffectOutcome::MayHaveHappened));

    env.apply(0, Op::FailUnclaimed).unwrap();

    let record = &env.runs[0].record;
    assert_eq!(record.status, RunStatus::Paused);
    assert!(matches!(&record.step_state, StepState::Unresolved { open: Some(_), .. }));
}

#[test]
fn failed_undo_is_not_counted_unknown() {
    let mut env = env_with([vec![undoable("set"), own("read")], vec![own("read")]]);
    env.apply(0, Op::Advance);
    env.apply(0, FINISH);
    env.apply(0, Op::RollBack);
    env.apply(0, Op::Advance);

    env.apply(0, Op::Fail(WorkerRef::Current)).unwrap();

    let record = &env.runs[0].record;
    assert_eq!(record.status, RunStatus::Paused);
    assert!(matches!(&record.step_state, StepState::Unresolved { open: None, .. }));
}

#[test]
fn authorization_does_not_repeat_another_effect() {
    let mut env = env_with([vec![own("shell")], vec![named("native", "shared:1")]]);
    env.apply(1, Op::Advance);
    env.apply(1, FINISH);
    env.apply(0, Op::Advance);
    env.apply(0, failed(EffectOutcome::MayHaveHappened));
    env.apply(0, Op::Resume);

    let commit = env.apply(0, Op::Claim(Binding::OtherKey)).unwrap();

    assert_eq!(mode(&commit), None);
    let done = &env.receipts[&IdempotencyKey::new("shared:1").unwrap()];
    assert!(matches!(done.state, ReceiptState::Done { .. }));
    assert_eq!(done.run, env.runs[1].record.key.run);
}

#[test]
fn changed_action_counts_old_effect_as_unknown() {
    let mut env = env_with([vec![own("shell")], vec![own("read")]]);
    env.apply(0, Op::Advance);
    env.apply(0, failed(EffectOutcome::MayHaveHappened));
    env.apply(0, Op::Resume);

    env.apply(0, Op::Claim(Binding::OtherKey)).unwrap();
    env.apply(0, FINISH).unwrap();

    let record = &env.runs[0].record;
    assert_eq!(record.status, RunStatus::Succeeded);
    assert_eq!((record.effects.done, record.effects.unknown), (1, 1));
}

#[test]
fn effect_of_another_run_is_not_rolled_back() {
    let undoable = PlannedStep { rollback: Some(Undo::Call(call("set", None))), ..shared("set") };
    let steps = || vec![undoable.clone(), own("read")];
    let mut env = env_with([steps(), steps()]);
    for run in [1, 0] {
        env.apply(run, Op::Advance);
        env.apply(run, FINISH);
    }

    assert!(env.apply(0, Op::RollBack).is_none());
    env.apply(1, Op::RollBack).unwrap();
}

#[test]
fn gate_cannot_be_claimed() {
    let gate = Work::Gate {
        message: "Go on?".into(),
        expires_after: Millis::hours(1),
        on_reject: OnReject::Fail,
        requirement: ApprovalRequirement::default(),
    };
    let mut env = env_with([vec![step(gate)], vec![own("read")]]);
    assert!(env.apply(0, Op::Claim(Binding::Same)).is_none());
}

#[test]
fn authorization_covers_only_the_reviewed_action() {
    let mut env = env_with([vec![own("shell")], vec![own("read")]]);
    env.apply(0, Op::Advance);
    env.apply(0, failed(EffectOutcome::MayHaveHappened));
    env.apply(0, Op::Resume);

    let commit = env.apply(0, Op::Claim(Binding::OtherAction)).unwrap();

    assert_eq!(mode(&commit), None);
    assert_eq!(env.runs[0].record.status, RunStatus::Paused);
}

#[test]
fn repeating_an_opaque_action_needs_new_approval() {
    let mut env = env_with([
        vec![PlannedStep { blast_radius: BlastRadius::Medium, ..own("shell") }],
        vec![own("read")],
    ]);
    env.apply(0, Op::Advance);
    env.apply(0, APPROVE);
    env.apply(0, Op::Advance);
    env.apply(0, failed(EffectOutcome::MayHaveHappened));
    env.apply(0, Op::Resume);

    env.apply(0, Op::Advance).unwrap();

    let record = &env.runs[0].record;
    assert!(
        matches!(&record.step_state, StepState::WaitingApproval { open: Some(_), .. }),
        "{:?}",
        record.step_state
    );
    env.apply(0, APPROVE).unwrap();
    let commit = env.apply(0, Op::Advance).unwrap();
    assert_eq!(mode(&commit), Some(AttemptMode::Repeat));
}

/// An approval covers one attempt at a risky action. The next one needs another, also if policy allows the action.
#[test]
fn failed_attempt_at_a_risky_action_needs_a_new_approval() {
    for (tool, blast_radius, asks_again) in [
        ("native", BlastRadius::Low, false),
        ("native", BlastRadius::Medium, true),
        ("set", BlastRadius::High, true),
        ("shell", BlastRadius::Medium, true),
    ] {
        let mut env = env_with([vec![retried(tool, blast_radius)], vec![own("read")]]);
        start_approved(&mut env);
        let asked = env.runs[0].requested.len();
        env.apply(0, failed(EffectOutcome::DidNotHappen)).unwrap();
        env.apply(0, Op::PassUntilDue);

        let commit = env.apply(0, Op::Advance).unwrap();

        assert_eq!(mode(&commit).is_none(), asks_again, "{tool}, {blast_radius:?}");
        assert_eq!(env.runs[0].requested.len(), asked + usize::from(asks_again), "{tool}, {blast_radius:?}");
        if asks_again {
            approve(&mut env);
            let commit = env.apply(0, Op::Advance).unwrap();
            assert_eq!(mode(&commit), Some(AttemptMode::Fresh), "{tool}, {blast_radius:?}");
        }
    }
}

/// A crash or a lost reply does not consume another approval: the effect is still the one that was approved.
#[test]
fn interrupted_effect_continues_under_its_approval() {
    for blast_radius in [BlastRadius::Low, BlastRadius::Medium, BlastRadius::High] {
        for is_crash in [false, true] {
            let mut env = env_with([vec![retried("native", blast_radius)], vec![own("read")]]);
            start_approved(&mut env);
            for _ in 0..2 {
                if !is_crash {
                    env.apply(0, failed(EffectOutcome::MayHaveHappened)).unwrap();
                }
                env.apply(0, Op::PassUntilDue);
                let commit = env.apply(0, Op::Advance).unwrap();
                assert_eq!(mode(&commit), Some(AttemptMode::Repeat), "{blast_radius:?}, crash: {is_crash}");
            }
        }
    }
}

/// The data may be destroyed already, so a person decides.
#[test]
fn unknown_outcome_of_a_destructive_action_is_not_repeated() {
    let mut env = env_with([vec![retried("native.destructive", BlastRadius::Low)], vec![own("read")]]);
    start_approved(&mut env);
    env.apply(0, failed(EffectOutcome::MayHaveHappened)).unwrap();
    assert_eq!(env.runs[0].record.status, RunStatus::Paused);

    env.apply(0, Op::Resume).unwrap();
    assert_eq!(mode(&env.apply(0, Op::Advance).unwrap()), Some(AttemptMode::Repeat));
}

#[test]
fn key_of_another_action_is_a_conflict() {
    let mut env = env_with([vec![shared("native")], vec![shared("native")]]);
    env.apply(1, Op::Advance);
    env.apply(1, FINISH);

    env.apply(0, Op::Claim(Binding::OtherAction)).unwrap();

    let run = &env.runs[0];
    assert_eq!((run.record.status, run.record.effects.done), (RunStatus::FailedTerminal, 0));
}

#[test]
fn pause_does_not_authorize_retry() {
    let mut env = env_with([vec![own("native.forgetful")], vec![own("read")]]);
    env.apply(0, Op::Advance);
    env.apply(0, failed(EffectOutcome::MayHaveHappened));
    env.apply(0, Op::Pause);
    env.apply(0, Op::Pass { ms: 3_600_000 });
    env.apply(0, Op::Resume);

    let commit = env.apply(0, Op::Advance).unwrap();

    assert_eq!(mode(&commit), None, "the other side has forgotten the key by now");
    assert_eq!(env.runs[0].record.status, RunStatus::Paused);
}

#[test]
fn paused_wait_buffers_its_event() {
    let wait = Work::Wait { event: event_name(0), timeout: Millis::secs(60), on_timeout: OnTimeout::Fail };
    let mut env = env_with([vec![step(wait), own("read")], vec![own("read")]]);
    env.apply(0, Op::Advance);
    assert_eq!(env.runs[0].record.status, RunStatus::WaitingEvent);
    env.apply(0, Op::Pause).unwrap();
    assert_eq!(env.runs[0].record.due_at, None, "its time does not run out while it is held");

    env.apply(0, Op::Pass { ms: 3_600_000 });
    env.apply(0, Op::Signal { event: 0, delivery: 0 }).unwrap();
    assert_eq!(env.runs[0].record.status, RunStatus::Paused);
    assert!(env.apply(0, Op::Signal { event: 1, delivery: 0 }).is_none(), "one id, one event");
    env.apply(0, Op::Resume);
    env.apply(0, Op::Advance).unwrap();

    assert_eq!((env.runs[0].record.at.0, env.runs[0].record.status), (1, RunStatus::Running));
}

#[test]
fn rollback_waiting_for_approval_is_not_canceled() {
    let rollback = PlannedStep { blast_radius: BlastRadius::Medium, ..undoable("set") };
    let mut env = env_with([vec![rollback, own("read")], vec![own("read")]]);
    env.apply(0, Op::Advance);
    env.apply(0, APPROVE);
    env.apply(0, Op::Advance);
    env.apply(0, FINISH);
    env.apply(0, Op::RollBack);
    env.apply(0, Op::Advance);
    assert_eq!(env.runs[0].record.status, RunStatus::WaitingApproval);

    env.apply(0, Op::Cancel);

    assert_eq!(env.runs[0].record.status, RunStatus::WaitingApproval);
}

pub(crate) fn env_with(steps: [Vec<PlannedStep>; 2]) -> LedgerEnv {
    LedgerEnv::new(&Scenario { plans: steps.map(plan), ops: Vec::new() }, |_, _| {})
}

/// A call whose effect belongs to this step alone.
pub(crate) fn own(tool: &str) -> PlannedStep {
    step(Work::Call(call(tool, None)))
}

/// A call whose effect both runs propose.
fn shared(tool: &str) -> PlannedStep {
    named(tool, "shared:0")
}

fn named(tool: &str, key: &str) -> PlannedStep {
    step(Work::Call(call(tool, Some(key))))
}

/// A call with a rollback and one attempt.
fn retried(tool: &str, blast_radius: BlastRadius) -> PlannedStep {
    let retry = RetryPolicy { attempts: 5, once_if_risky: false, ..RetryPolicy::default() };
    PlannedStep { retry, blast_radius, ..own(tool) }
}

/// The first attempt starts, with the approvals that it needs.
fn start_approved(env: &mut LedgerEnv) {
    env.apply(0, Op::Advance).unwrap();
    if env.runs[0].record.status == RunStatus::WaitingApproval {
        approve(env);
        env.apply(0, Op::Advance).unwrap();
    }
    assert!(
        matches!(env.runs[0].record.step_state, StepState::Running(_)),
        "{:?}",
        env.runs[0].record.step_state
    );
}

fn approve(env: &mut LedgerEnv) {
    env.apply(0, APPROVE).unwrap();
    if env.runs[0].record.status == RunStatus::WaitingApproval {
        env.apply(0, Op::Vote { back: 0, approve: true, person: 2 }).unwrap();
    }
}

pub(crate) fn undoable(tool: &str) -> PlannedStep {
    let retry = RetryPolicy { attempts: 1, ..RetryPolicy::default() };
    PlannedStep { rollback: Some(Undo::Call(call(tool, None))), retry, ..own(tool) }
}

pub(crate) fn failed(certainty: EffectOutcome) -> Op {
    Op::Retry { who: WorkerRef::Current, certainty, retry_after: None }
}

/// The mode of the attempt that the commit granted.
pub(crate) fn mode(commit: &Commit) -> Option<AttemptMode> {
    match &commit.outcome {
        Outcome::Granted(grant) => Some(grant.mode),
        _ => None,
    }
}
