//! Scenarios that once failed.

use domain::command::{AttemptMode, Certainty};
use domain::plan::{OnReject, OnTimeout, Undo, Work};
use domain::receipt::ReceiptState;
use domain::retry_policy::RetryPolicy;
use domain::{ApprovalRequirement, BlastRadius, IdempotencyKey, Live, Millis, PlannedStep, RunStatus};

use crate::plans::{call, event_name, person, plan, step};
use crate::scenario::{Binding, Op, PlannedOp, Scenario, WorkerRef};
use crate::test_env::{Commit, Outcome, TestEnv};

const APPROVE: Op = Op::Vote { back: 0, approve: true, person: 1 };
pub(crate) const FINISH: Op = Op::Finish { who: WorkerRef::Current, hand_off: false };

#[test]
fn first_step_reuses_effect_of_another_run() {
    let mut env = env_with([vec![shared("native")], vec![shared("native")]]);
    env.apply(1, Op::Serve);
    env.apply(1, FINISH);

    env.apply(0, Op::Serve).unwrap();

    assert_eq!(env.runs[0].record.status, RunStatus::Succeeded);
    assert_eq!(env.runs[0].record.effects.done, 0);
}

#[test]
fn approval_of_a_removed_user_does_not_count() {
    let two = PlannedStep { blast_radius: BlastRadius::High, ..shared("native") };
    let mut env = env_with([vec![two], vec![shared("read")]]);
    env.apply(0, Op::Serve).unwrap();
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
    env.apply(0, Op::Serve).unwrap();
    env.apply(0, Op::Vote { back: 0, approve: true, person: 1 }).unwrap();
    env.apply(0, Op::Directory { person: 1, present: false });

    env.apply(0, Op::Serve).unwrap();

    assert_eq!(env.runs[0].record.status, RunStatus::WaitingApproval);
    assert_eq!(env.runs[0].requested.len(), 2);
    assert!(env.receipts.is_empty());
}

#[test]
fn interrupted_effect_needs_approvers_who_are_still_in_the_directory() {
    let approved = PlannedStep { blast_radius: BlastRadius::Medium, ..own("native") };
    let mut env = env_with([vec![approved], vec![own("read")]]);
    env.apply(0, Op::Serve).unwrap();
    env.apply(0, Op::Vote { back: 0, approve: true, person: 1 }).unwrap();
    env.apply(0, Op::Serve).unwrap();
    env.apply(0, failed(Certainty::MayHaveHappened)).unwrap();
    env.apply(0, Op::Directory { person: 1, present: false });
    env.apply(0, Op::PassUntilDue);

    let commit = env.apply(0, Op::Serve).unwrap();

    assert_eq!((mode(&commit), env.runs[0].record.status), (None, RunStatus::Paused));
}

#[test]
fn interrupted_effect_needs_the_approval_that_policy_now_requires() {
    for (blast_radius, approved) in [(BlastRadius::Low, false), (BlastRadius::Medium, true)] {
        let mut env = env_with([vec![PlannedStep { blast_radius, ..own("native") }], vec![own("read")]]);
        env.apply(0, Op::Serve).unwrap();
        if approved {
            env.apply(0, APPROVE).unwrap();
            env.apply(0, Op::Serve).unwrap();
        }
        env.apply(0, failed(Certainty::MayHaveHappened)).unwrap();
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
    env.apply(0, Op::Serve).unwrap();
    env.apply(0, APPROVE).unwrap();
    env.apply(0, Op::Serve).unwrap();
    env.apply(0, FINISH).unwrap();
    env.apply(0, Op::RollBack).unwrap();
    env.apply(0, Op::Serve).unwrap();
    env.apply(0, Op::Vote { back: 0, approve: false, person: 2 }).unwrap();
    assert_eq!(env.runs[0].record.status, RunStatus::Paused);

    env.apply(0, Op::Resume).unwrap();
    env.apply(0, Op::Serve).unwrap();

    let request = &env.runs[0].approvals[env.runs[0].requested.last().unwrap()];
    assert_eq!(request.rejected.as_ref().map(|rejection| &rejection.by), Some(&person(2)));
}

#[test]
fn user_who_signals_during_an_approval_cannot_approve() {
    let wait = Work::Wait { event: event_name(0), timeout: Millis::hours(1), on_timeout: OnTimeout::Fail };
    let approved = PlannedStep { blast_radius: BlastRadius::Medium, ..own("native") };
    let mut env = env_with([vec![approved, step(wait)], vec![own("read")]]);
    env.apply(0, Op::Serve).unwrap();
    let signal = Op::Signal { event: 0, delivery: 0 };
    env.apply_planned(&PlannedOp { run: 0, stale: false, user: Some(1), op: signal }).unwrap();

    assert!(env.apply(0, APPROVE).is_none());
    assert!(env.apply(0, Op::Vote { back: 0, approve: true, person: 2 }).is_some());
}

#[test]
fn opaque_action_is_attempted_once_by_default() {
    for (tool, status) in [("shell", RunStatus::FailedTerminal), ("native", RunStatus::FailedRetryable)] {
        let mut env = env_with([vec![own(tool)], vec![own("read")]]);
        env.apply(0, Op::Serve).unwrap();
        env.apply(0, failed(Certainty::DidNotHappen)).unwrap();
        assert_eq!(env.runs[0].record.status, status, "{tool}");
    }
}

#[test]
fn waiting_run_reuses_result_of_the_other_run() {
    let mut env = env_with([vec![shared("native")], vec![shared("native")]]);
    env.apply(1, Op::Serve);
    env.apply(0, Op::Serve);
    env.apply(1, FINISH);

    env.apply(0, Op::PassUntilDue);
    env.apply(0, Op::Serve).unwrap();

    assert_eq!(env.runs[0].record.status, RunStatus::Succeeded);
}

#[test]
fn abandoned_effect_repeats_after_operator_resumes() {
    let mut env = env_with([vec![shared("shell")], vec![shared("shell")]]);
    env.apply(1, Op::Serve);
    env.apply(1, failed(Certainty::MayHaveHappened));
    env.apply(1, Op::Cancel);
    assert_eq!(env.runs[1].record.status, RunStatus::Canceled);
    let left = env.receipts.values().next().unwrap().clone();

    env.apply(0, Op::Serve).unwrap();
    assert_eq!(env.runs[0].record.status, RunStatus::Paused);

    env.apply(0, Op::Resume).unwrap();
    let commit = env.apply(0, Op::Serve).unwrap();
    assert_eq!(mode(&commit), Some(AttemptMode::Repeat));
    assert_eq!(commit.decision.receipts[0].displaces.as_ref(), Some(&left));
    env.apply(0, FINISH).unwrap();
    assert_eq!(env.runs[0].record.status, RunStatus::Succeeded);
    assert_eq!(env.runs[0].record.effects.unknown, 0);
}

#[test]
fn postponed_authorized_retry_returns_to_operator() {
    let mut env = env_with([vec![shared("shell")], vec![shared("shell")]]);
    env.apply(1, Op::Serve);
    env.apply(1, failed(Certainty::MayHaveHappened));
    env.apply(1, Op::Cancel);
    env.apply(0, Op::Serve).unwrap();
    env.apply(0, Op::Resume).unwrap();

    env.apply(0, Op::Postpone).unwrap();
    assert_eq!(env.runs[0].record.status, RunStatus::Paused);

    env.apply(0, Op::Resume).unwrap();
    let commit = env.apply(0, Op::Serve).unwrap();
    assert_eq!(mode(&commit), Some(AttemptMode::Repeat));
}

#[test]
fn canceled_run_does_not_count_foreign_unknown() {
    let mut env = env_with([vec![shared("shell")], vec![shared("shell")]]);
    env.apply(1, Op::Serve);
    env.apply(1, failed(Certainty::MayHaveHappened));
    env.apply(1, Op::Cancel);
    env.apply(0, Op::Serve).unwrap();

    env.apply(0, Op::Cancel).unwrap();

    assert_eq!(env.runs[0].record.status, RunStatus::Canceled);
    assert_eq!([0, 1].map(|run: usize| env.runs[run].record.effects.unknown), [0, 1]);
}

#[test]
fn paused_retry_continues_in_the_same_mode() {
    let mut env = env_with([vec![own("native")], vec![own("read")]]);
    env.apply(0, Op::Serve);
    env.apply(0, failed(Certainty::MayHaveHappened));
    env.apply(0, Op::Pause);
    env.apply(0, Op::Resume);

    let commit = env.apply(0, Op::Serve).unwrap();

    assert_eq!(mode(&commit), Some(AttemptMode::Repeat));
}

#[test]
fn authorization_survives_a_pause() {
    let mut env = env_with([vec![own("shell")], vec![own("read")]]);
    env.apply(0, Op::Serve);
    env.apply(0, failed(Certainty::MayHaveHappened));
    env.apply(0, Op::Resume);
    env.apply(0, Op::Pause);
    env.apply(0, Op::Resume);

    let commit = env.apply(0, Op::Serve).unwrap();

    assert_eq!(mode(&commit), Some(AttemptMode::Repeat));
}

#[test]
fn unknown_outcome_can_be_canceled_twice() {
    let mut env = env_with([vec![own("shell")], vec![own("read")]]);
    env.apply(0, Op::Serve);
    env.apply(0, Op::Cancel);
    env.apply(0, failed(Certainty::MayHaveHappened));
    assert_eq!(env.runs[0].record.status, RunStatus::Paused);

    env.apply(0, Op::Cancel).unwrap();

    assert_eq!(env.runs[0].record.status, RunStatus::Canceled);
    assert_eq!(env.runs[0].record.effects.unknown, 1);
}

#[test]
fn rollback_counts_open_effect_as_unknown() {
    let mut env = env_with([vec![undoable("set"), own("native")], vec![own("read")]]);
    env.apply(0, Op::Serve);
    env.apply(0, FINISH);
    env.apply(0, Op::Serve);
    env.apply(0, failed(Certainty::MayHaveHappened));

    env.apply(0, Op::RollBack).unwrap();

    assert_eq!(env.runs[0].record.effects.unknown, 1);
}

#[test]
fn unbindable_step_keeps_its_open_intent() {
    let mut env = env_with([vec![own("native")], vec![own("read")]]);
    env.apply(0, Op::Serve);
    env.apply(0, failed(Certainty::MayHaveHappened));

    env.apply(0, Op::FailUnclaimed).unwrap();

    let record = &env.runs[0].record;
    assert_eq!(record.status, RunStatus::Paused);
    assert!(matches!(&record.live, Live::Unresolved { open: Some(_), .. }));
}

#[test]
fn failed_undo_is_not_counted_unknown() {
    let mut env = env_with([vec![undoable("set"), own("read")], vec![own("read")]]);
    env.apply(0, Op::Serve);
    env.apply(0, FINISH);
    env.apply(0, Op::RollBack);
    env.apply(0, Op::Serve);

    env.apply(0, Op::Fail(WorkerRef::Current)).unwrap();

    let record = &env.runs[0].record;
    assert_eq!(record.status, RunStatus::Paused);
    assert!(matches!(&record.live, Live::Unresolved { open: None, .. }));
}

#[test]
fn authorization_does_not_repeat_another_effect() {
    let mut env = env_with([vec![own("shell")], vec![named("native", "shared:1")]]);
    env.apply(1, Op::Serve);
    env.apply(1, FINISH);
    env.apply(0, Op::Serve);
    env.apply(0, failed(Certainty::MayHaveHappened));
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
    env.apply(0, Op::Serve);
    env.apply(0, failed(Certainty::MayHaveHappened));
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
        env.apply(run, Op::Serve);
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
    env.apply(0, Op::Serve);
    env.apply(0, failed(Certainty::MayHaveHappened));
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
    env.apply(0, Op::Serve);
    env.apply(0, APPROVE);
    env.apply(0, Op::Serve);
    env.apply(0, failed(Certainty::MayHaveHappened));
    env.apply(0, Op::Resume);

    env.apply(0, Op::Serve).unwrap();

    let record = &env.runs[0].record;
    assert!(matches!(&record.live, Live::WaitingApproval { open: Some(_), .. }), "{:?}", record.live);
    env.apply(0, APPROVE).unwrap();
    let commit = env.apply(0, Op::Serve).unwrap();
    assert_eq!(mode(&commit), Some(AttemptMode::Repeat));
}

#[test]
fn key_of_another_action_is_a_conflict() {
    let mut env = env_with([vec![shared("native")], vec![shared("native")]]);
    env.apply(1, Op::Serve);
    env.apply(1, FINISH);

    env.apply(0, Op::Claim(Binding::OtherAction)).unwrap();

    let run = &env.runs[0];
    assert_eq!((run.record.status, run.record.effects.done), (RunStatus::FailedTerminal, 0));
}

#[test]
fn pause_does_not_authorize_retry() {
    let mut env = env_with([vec![own("native.forgetful")], vec![own("read")]]);
    env.apply(0, Op::Serve);
    env.apply(0, failed(Certainty::MayHaveHappened));
    env.apply(0, Op::Pause);
    env.apply(0, Op::Pass { ms: 3_600_000 });
    env.apply(0, Op::Resume);

    let commit = env.apply(0, Op::Serve).unwrap();

    assert_eq!(mode(&commit), None, "the other side has forgotten the key by now");
    assert_eq!(env.runs[0].record.status, RunStatus::Paused);
}

#[test]
fn paused_wait_buffers_its_event() {
    let wait = Work::Wait { event: event_name(0), timeout: Millis::secs(60), on_timeout: OnTimeout::Fail };
    let mut env = env_with([vec![step(wait), own("read")], vec![own("read")]]);
    env.apply(0, Op::Serve);
    assert_eq!(env.runs[0].record.status, RunStatus::WaitingEvent);
    env.apply(0, Op::Pause).unwrap();
    assert_eq!(env.runs[0].record.due_at, None, "its time does not run out while it is held");

    env.apply(0, Op::Pass { ms: 3_600_000 });
    env.apply(0, Op::Signal { event: 0, delivery: 0 }).unwrap();
    assert_eq!(env.runs[0].record.status, RunStatus::Paused);
    assert!(env.apply(0, Op::Signal { event: 1, delivery: 0 }).is_none(), "one id, one event");
    env.apply(0, Op::Resume);
    env.apply(0, Op::Serve).unwrap();

    assert_eq!((env.runs[0].record.at.0, env.runs[0].record.status), (1, RunStatus::Running));
}

#[test]
fn rollback_waiting_for_approval_is_not_canceled() {
    let undo = PlannedStep { blast_radius: BlastRadius::Medium, ..undoable("set") };
    let mut env = env_with([vec![undo, own("read")], vec![own("read")]]);
    env.apply(0, Op::Serve);
    env.apply(0, APPROVE);
    env.apply(0, Op::Serve);
    env.apply(0, FINISH);
    env.apply(0, Op::RollBack);
    env.apply(0, Op::Serve);
    assert_eq!(env.runs[0].record.status, RunStatus::WaitingApproval);

    env.apply(0, Op::Cancel);

    assert_eq!(env.runs[0].record.status, RunStatus::WaitingApproval);
}

pub(crate) fn env_with(steps: [Vec<PlannedStep>; 2]) -> TestEnv {
    TestEnv::new(&Scenario { plans: steps.map(plan), ops: Vec::new() }, |_, _| {})
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
pub(crate) fn undoable(tool: &str) -> PlannedStep {
    let retry = RetryPolicy { attempts: 1, ..RetryPolicy::default() };
    PlannedStep { rollback: Some(Undo::Call(call(tool, None))), retry, ..own(tool) }
}

pub(crate) fn failed(certainty: Certainty) -> Op {
    Op::Retry { who: WorkerRef::Current, certainty, retry_after: None }
}

/// The mode of the attempt that the commit granted.
pub(crate) fn mode(commit: &Commit) -> Option<AttemptMode> {
    match &commit.outcome {
        Outcome::Granted(grant) => Some(grant.mode),
        _ => None,
    }
}
