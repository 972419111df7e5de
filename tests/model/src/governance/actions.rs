//! The commands of people and workers, carried out by the domain.

use std::sync::Arc;

use domain::approval::Subject;
use domain::command::{
    Admit, Cancel, CancelResult, Claim, ClaimResult, Command as _, DeliverSignal, EffectOutcome, Fail,
    Finish, Inherited, OpenWait, Pause, RecordVote, Resume, Retry, RollBack, TakeOver, VoteResult, admit,
};
use domain::next::{Next, next};
use domain::payload::Fingerprint;
use domain::plan::{Call, Work};
use domain::record::Signal;
use domain::{
    Approval, Cause, Channel, Decision, DecisionContext, Draft, EventBody, Failure, Fence, IdempotencyKey,
    Initiator, Participants, Payload, PersonId, Plan, PlannedStep, RunStatus, SignalId, StepId, StepSeq,
    StepState, TenantId, WorkspaceId,
};
use serde_json::{Value, json};

use super::config::{Mutant, Rollback, Second, Step};
use super::oracle::People;
use super::state::{
    BoundAction, Governance, GovernedRun, LeasedWork, NOW, State, TENANT, command_name, event, initiator,
    op_id, output, tenant, voter_id, with_one_retry,
};

/// Every lease has this fence, because a state does not count the leases before it.
const FENCE: Fence = Fence(1);

/// A command: of a person, by number; of a worker; or a change of the world. The first number is the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Apply(u8),
    Start(u8),
    Undo(u8),
    /// A worker does what comes next.
    Serve(usize),
    Finish(usize),
    Fail(usize),
    Retry(usize),
    LoseReply(usize),
    Crash(usize),
    Signal(usize, u8),
    Approve(usize, u8),
    Reject(usize, u8),
    Pause(usize),
    Resume(usize, u8),
    RollBack(usize, u8),
    Cancel(usize, u8),
    /// A person leaves the directory or comes back.
    ChangeDirectory(u8),
    ChangePolicy,
    ChangeExternalState,
}

/// The commands that may change something. The domain refuses more of them.
pub(crate) fn possible_commands(model: &Governance, state: &State, commands: &mut Vec<Command>) {
    let people = || 0..model.config.people;
    let left = state.left;
    if state.oracle.broken != 0 {
        return;
    }
    if state.applied_by.is_none() {
        return commands.extend(people().map(Command::Apply));
    }
    match (state.runs.len(), model.config.second) {
        (0, _) | (1, Second::SameKeys) => commands.extend(people().map(Command::Start)),
        (1, Second::Undo) if state.runs[0].record.status.is_terminal() => {
            commands.extend(people().map(Command::Undo));
        }
        _ => {}
    }
    if left.directory > 0 {
        commands.extend(people().map(Command::ChangeDirectory));
    }
    if left.policies > 0 {
        commands.push(Command::ChangePolicy);
    }
    if left.external > 0 {
        commands.push(Command::ChangeExternalState);
    }
    for (number, run) in state.runs.iter().enumerate() {
        if !run.record.status.is_terminal() {
            possible_run_commands(model, state, (number, run), commands);
        }
    }
}

fn possible_run_commands(
    model: &Governance,
    state: &State,
    (number, run): (usize, &GovernedRun),
    commands: &mut Vec<Command>,
) {
    let people = || 0..model.config.people;
    let left = state.left;
    let paused = run.record.status == RunStatus::Paused;
    let add_for_each_person = |may: bool, command: fn(usize, u8) -> Command, commands: &mut Vec<Command>| {
        if may {
            commands.extend(people().map(|person| command(number, person)));
        }
    };
    let waits = matches!(run.record.step_state, StepState::WaitingApproval { .. });
    add_for_each_person(waits, Command::Approve, commands);
    add_for_each_person(waits && left.rejections > 0, Command::Reject, commands);
    add_for_each_person(left.signals > 0, Command::Signal, commands);
    add_for_each_person(paused && left.resumes > 0, Command::Resume, commands);
    add_for_each_person(left.rollbacks > 0, Command::RollBack, commands);
    add_for_each_person(left.cancels > 0, Command::Cancel, commands);
    let mut add_if = |may: bool, command| {
        if may {
            commands.push(command);
        }
    };
    let leased = matches!(run.record.step_state, StepState::Running(_));
    add_if(!leased, Command::Serve(number));
    add_if(leased && left.crashes > 0, Command::Crash(number));
    add_if(!paused && left.pauses > 0, Command::Pause(number));
    let Some(held) = &run.held else { return };
    add_if(true, Command::Finish(number));
    add_if(held.fresh && left.failures > 0, Command::Fail(number));
    add_if(held.fresh && held.receipt.is_some() && left.retries > 0, Command::Retry(number));
    add_if(held.receipt.is_some() && left.lost_replies > 0, Command::LoseReply(number));
}

/// Carries out a command; `None` if it is refused or changes nothing.
pub(crate) fn apply(model: &Governance, state: &mut State, command: Command) -> Option<()> {
    match command {
        Command::Apply(person) => state.applied_by = Some(person),
        Command::Start(person) => start(model, state, person)?,
        Command::Undo(person) => undo(model, state, person)?,
        Command::Serve(number) => serve(model, state, number)?,
        Command::Crash(number) => {
            state.left.crashes -= 1;
            claim(model, state, number, true)?;
        }
        Command::Finish(number) => finish(model, state, number)?,
        Command::Fail(number) => fail(model, state, number)?,
        Command::Retry(number) => retry(model, state, number)?,
        Command::LoseReply(number) => lose_reply(model, state, number)?,
        Command::Signal(number, person) => signal(model, state, number, person)?,
        Command::Approve(number, person) => vote(model, state, number, (person, true))?,
        Command::Reject(number, person) => vote(model, state, number, (person, false))?,
        Command::Pause(number) => {
            state.left.pauses -= 1;
            let (decision, _) =
                decide(model, state, number, 0, |draft| Pause { reason: String::new() }.decide(draft).ok())?;
            state.commit(model, number, decision);
        }
        Command::Resume(number, person) => resume(model, state, number, person)?,
        Command::RollBack(number, person) => roll_back(model, state, number, person)?,
        Command::Cancel(number, person) => cancel(model, state, number, person)?,
        Command::ChangeDirectory(person) => {
            state.left.directory -= 1;
            state.directory.toggle(person);
        }
        Command::ChangePolicy => {
            state.left.policies -= 1;
            state.policy = 1 - state.policy;
        }
        Command::ChangeExternalState => {
            state.left.external -= 1;
            state.external = 1 - state.external;
        }
    }
    Some(())
}

/// The decision about a command of a person; `None` if it is refused or changes nothing.
fn decide<T>(
    model: &Governance,
    state: &State,
    number: usize,
    person: u8,
    command: impl FnOnce(&mut Draft<'_>) -> Option<T>,
) -> Option<(Decision, T)> {
    let run = &state.runs[number];
    decide_by(run, initiator(&model.config, person), run.approval.clone(), command)
}

fn decide_by<T>(
    run: &GovernedRun,
    by: Initiator,
    approval: Option<Approval>,
    command: impl FnOnce(&mut Draft<'_>) -> Option<T>,
) -> Option<(Decision, T)> {
    let context = DecisionContext { op: op_id()?, now: NOW, by };
    let mut draft = Draft::new(run.record.clone(), &run.plan, context).with_approval(approval);
    let output = command(&mut draft)?;
    let decision = draft.close();
    decision.changes(&run.record).then_some((decision, output))
}

fn worker() -> Initiator {
    Initiator::new(Cause::System, "worker")
}

fn start(model: &Governance, state: &mut State, person: u8) -> Option<()> {
    let key = IdempotencyKey::new(&format!("start:{}", state.runs.len())).ok()?;
    let steps = (0..model.config.steps.len()).collect();
    let mut shaped = People::default();
    shaped.add(0);
    shaped.add(state.applied_by?);
    shaped.add(person);
    let shaped = (shaped, Participants::default());
    admit_run(model, state, (key, "api", person), (Arc::clone(&model.plan), steps), shaped)
}

fn admit_run(
    model: &Governance,
    state: &mut State,
    (key, kind, person): (IdempotencyKey, &str, u8),
    (plan, steps): (Arc<Plan>, Vec<usize>),
    (shaped, participants): (People, Participants),
) -> Option<()> {
    let applied_by = PersonId::new(&command_name(&model.config, state.applied_by?)).ok()?;
    let command = Admit {
        tenant: TenantId::new(TENANT).ok()?,
        workspace: WorkspaceId::default(),
        trigger_kind: kind.to_owned(),
        key,
        record: None,
        trace: None,
        input: Fingerprint::of(&Value::Null),
        applied_by: Some(applied_by).filter(|_| !model.config.has(Mutant::ApplierMayApprove)),
        inherited: Inherited { participants, rejected: None },
    };
    let context = DecisionContext { op: op_id()?, now: NOW, by: initiator(&model.config, person) };
    let decision = admit(command, &plan, context);
    let number = state.runs.len();
    state.runs.push(GovernedRun {
        plan,
        steps,
        record: decision.record.clone(),
        approval: None,
        held: None,
        signals: Vec::new(),
        signaled: People::default(),
        payload: None,
    });
    state.commit(model, number, decision);
    if model.config.has(Mutant::RequesterMayApprove) {
        state.runs[number].record.trigger.requester = None;
    }
    state.oracle.runs[number].shaped = shaped;
    Some(())
}

/// A run that undoes the effects of the first run, newest first, as the engine makes it.
fn undo(model: &Governance, state: &mut State, person: u8) -> Option<()> {
    let first = &state.runs[0];
    let undone = |index: &usize| match model.config.steps[*index] {
        Step::Act(act) => {
            let seq = StepSeq(u16::try_from(*index).unwrap_or(u16::MAX));
            act.rollback != Rollback::None && first.record.acted.has(seq)
        }
        Step::Wait => false,
    };
    let steps: Vec<_> = (0..model.config.steps.len()).rev().filter(undone).collect();
    if steps.is_empty() || first.record.is_rolling_back() {
        return None;
    }
    let planned = |index: &usize| {
        let id = StepId::new(&format!("step-{index}")).ok()?;
        let call = Call { tool: "undo".parse().ok()?, connection: None, with: json!({}) };
        Some(with_one_retry(&model.config, PlannedStep::new(id, Work::Call(call))))
    };
    let plan = Plan {
        author: model.plan.author.clone(),
        ..Plan::new(
            "undo".parse().ok()?,
            model.plan.environment,
            steps.iter().map(planned).collect::<Option<_>>()?,
        )
    };
    let key = IdempotencyKey::new(&format!("undo:{}:0", first.record.key.run)).ok()?;
    let shaped_by = if model.config.has(Mutant::UndoForgetsParticipants) {
        Participants::default()
    } else {
        first.record.all_participants(model.plan.author.as_ref())
    };
    let mut shaped = state.oracle.runs[0].shaped;
    shaped.add(person);
    let shaped = (shaped, shaped_by);
    admit_run(model, state, (key, "undo", person), (Arc::new(plan), steps), shaped)
}

fn serve(model: &Governance, state: &mut State, number: usize) -> Option<()> {
    let run = &state.runs[number];
    match next(&run.record, &run.plan, NOW) {
        Next::Claim => claim(model, state, number, false),
        Next::OpenWait => {
            let buffered = run.signals.first().cloned();
            let (decision, _) =
                decide_by(run, worker(), None, |draft| OpenWait { buffered }.decide(draft).ok())?;
            state.commit(model, number, decision);
            Some(())
        }
        Next::Nothing
        | Next::NotBefore(_)
        | Next::TakeOver
        | Next::OpenGate
        | Next::TimeOut
        | Next::RemindApprovers => None,
    }
}

fn claim(model: &Governance, state: &mut State, number: usize, takes_over: bool) -> Option<()> {
    let bound = state.bind(model, number)?;
    let command = state.claim(model, number, &bound)?;
    let run = &state.runs[number];
    let approval = run.approval.clone().map(|approval| approval_for_claim(model, approval, &command));
    let (decision, result) = decide_by(run, worker(), approval, |draft| {
        if takes_over { TakeOver(command).decide(draft).ok() } else { command.decide(draft).ok() }
    })?;
    record_in_oracle(state, number, &bound, &decision, &result);
    state.commit(model, number, decision);
    if let ClaimResult::Granted(grant) = result {
        state.runs[number].held = Some(LeasedWork::new(grant.mode, grant.receipt));
    }
    Some(())
}

/// The approval as the claim sees it. One mutant makes every approval look like one of the claimed action.
fn approval_for_claim(model: &Governance, approval: Approval, claim: &Claim) -> Approval {
    let Subject::Action { verdict, rollback, .. } = &approval.subject else { return approval };
    if !model.config.has(Mutant::OtherActionAccepted) {
        return approval;
    }
    let (action, verdict, rollback) = (Box::new(claim.action.clone()), verdict.clone(), rollback.clone());
    Approval { subject: Subject::Action { action, verdict, rollback }, ..approval }
}

/// Tells the oracle what the claim led to.
fn record_in_oracle(
    state: &mut State,
    number: usize,
    bound: &BoundAction,
    decision: &Decision,
    result: &ClaimResult,
) {
    let proposed = state.proposed(number, bound);
    let has = |matches_body: fn(&EventBody) -> bool| {
        decision.events.iter().any(|chained| matches_body(&chained.event.body))
    };
    if has(|body| matches!(body, EventBody::ApprovalRequested { .. })) {
        let request = decision.approvals.last();
        let names = |named: fn(&Approval) -> bool| request.is_some_and(named);
        let shown =
            (names(|request| request.rejected.is_some()), names(|request| request.attempted_at.is_some()));
        state.oracle.record_request(&proposed, shown);
    }
    let ClaimResult::Granted(grant) = result else { return };
    match &grant.receipt {
        None => {}
        Some(_) if has(|body| matches!(body, EventBody::EffectIntended { .. })) => {
            state.oracle.record_effect(&proposed, state.directory);
            state.oracle.seen.undo = number == 1 && state.runs[1].record.undone_run().is_some();
        }
        Some(_) => state.oracle.record_continuation(&proposed, state.directory),
    }
}

fn finish(model: &Governance, state: &mut State, number: usize) -> Option<()> {
    let run = &state.runs[number];
    let receipt = run.held.as_ref()?.receipt.clone();
    let key = receipt.as_ref().map(|receipt| receipt.key.clone());
    let command = Finish {
        fence: FENCE,
        fingerprint: Fingerprint::of(&output()),
        output: Payload::Inline(output()),
        response: Value::Null,
        inverse: Some(json!({})),
        cost_microusd: 0,
        usage: None,
        receipt,
    };
    let (decision, _) = decide_by(run, worker(), run.approval.clone(), |draft| command.decide(draft).ok())?;
    state.commit(model, number, decision);
    state.oracle.record_success(&key?);
    Some(())
}

fn fail(model: &Governance, state: &mut State, number: usize) -> Option<()> {
    state.left.failures -= 1;
    let run = &state.runs[number];
    let receipt = run.held.as_ref()?.receipt.clone();
    let key = receipt.as_ref().map(|receipt| receipt.key.clone());
    let command = Fail { fence: Some(FENCE), failure: failure(), receipt };
    let (decision, _) = decide_by(run, worker(), run.approval.clone(), |draft| command.decide(draft).ok())?;
    state.commit(model, number, decision);
    state.oracle.record_no_effect(number, &key?);
    Some(())
}

/// An attempt fails without an effect, and is retried.
fn retry(model: &Governance, state: &mut State, number: usize) -> Option<()> {
    state.left.retries -= 1;
    let run = &state.runs[number];
    let receipt = run.held.as_ref()?.receipt.clone();
    let key = receipt.as_ref().map(|receipt| receipt.key.clone())?;
    let index = run.steps[run.record.at.index()];
    let is_risky = matches!(model.config.steps[index], Step::Act(act) if act.risky);
    // The rollback in a run of its own is a step of its own, with a low blast radius.
    let is_risky = is_risky && run.record.undone_run().is_none();
    let command = Retry {
        fence: FENCE,
        failure: failure(),
        certainty: EffectOutcome::DidNotHappen,
        retry_after: None,
        receipt,
    };
    let (decision, _) = decide_by(run, worker(), run.approval.clone(), |draft| command.decide(draft).ok())?;
    state.commit(model, number, decision);
    if is_risky {
        state.oracle.record_failed_attempt(&key);
    } else {
        state.oracle.record_no_effect(number, &key);
    }
    Some(())
}

fn lose_reply(model: &Governance, state: &mut State, number: usize) -> Option<()> {
    state.left.lost_replies -= 1;
    let run = &state.runs[number];
    let command = Retry {
        fence: FENCE,
        failure: failure(),
        certainty: EffectOutcome::MayHaveHappened,
        retry_after: None,
        receipt: run.held.as_ref()?.receipt.clone(),
    };
    let (decision, _) = decide_by(run, worker(), run.approval.clone(), |draft| command.decide(draft).ok())?;
    state.commit(model, number, decision);
    Some(())
}

fn failure() -> Failure {
    Failure::new("TEST", "it did not work")
}

fn signal(model: &Governance, state: &mut State, number: usize, person: u8) -> Option<()> {
    state.left.signals -= 1;
    if state.runs[number].signaled.has(person) {
        return None;
    }
    let body = json!({ "by": person });
    let signal = Signal {
        id: SignalId::new(&format!("signal-{person}")).ok()?,
        event: event()?,
        fingerprint: Fingerprint::of(&body),
        payload: Payload::Inline(body),
        at: NOW,
        buffered: false,
    };
    apply_shaping_command(model, state, number, (person, Mutant::SignalerMayApprove), |draft| {
        DeliverSignal { signal, known: None }.decide(draft).ok()
    })?;
    state.runs[number].signaled.add(person);
    state.oracle.runs[number].shaped.add(person);
    Some(())
}

fn vote(model: &Governance, state: &mut State, number: usize, (person, approve): (u8, bool)) -> Option<()> {
    let run = &state.runs[number];
    let at = (run.record.at, run.record.is_rolling_back());
    let removed_count = model.config.has(Mutant::RemovedUsersCount);
    let directory = if removed_count { People::first(model.config.people) } else { state.directory };
    let command = RecordVote {
        approval: run.approval.clone()?,
        person: voter_id(person)?,
        approve,
        reason: String::new(),
        through: Channel::CommandLine,
        tenant: tenant(directory)?,
    };
    let by = Initiator::new(Cause::Approval, voter_id(person)?.as_str());
    let (decision, result) = decide_by(run, by, run.approval.clone(), |draft| command.decide(draft).ok())?;
    if result == VoteResult::Duplicate {
        return None;
    }
    let before = run.record.participants.clone();
    state.commit(model, number, decision);
    // A rejection of an action can start the rollback of earlier ones.
    if !approve && !at.1 && state.runs[number].record.is_rolling_back() {
        if model.config.has(Mutant::RejecterMayApproveRollback) {
            state.runs[number].record.participants = before;
        }
        state.oracle.runs[number].shaped.add(person);
    }
    if approve {
        state.oracle.record_approval(number, person, state.directory);
    } else {
        state.left.rejections -= 1;
        state.oracle.record_rejection(number, at);
    }
    Some(())
}

/// A command that shapes what the run does. A mutant forgets who gave it.
fn apply_shaping_command<T>(
    model: &Governance,
    state: &mut State,
    number: usize,
    (person, forgotten_by): (u8, Mutant),
    command: impl FnOnce(&mut Draft<'_>) -> Option<T>,
) -> Option<T> {
    let before: Participants = state.runs[number].record.participants.clone();
    let (decision, output) = decide(model, state, number, person, command)?;
    state.commit(model, number, decision);
    if model.config.has(forgotten_by) {
        state.runs[number].record.participants = before;
    }
    Some(output)
}

fn resume(model: &Governance, state: &mut State, number: usize, person: u8) -> Option<()> {
    state.left.resumes -= 1;
    let retries = state.runs[number].record.step_state.open().is_some();
    let forgotten_by = if retries { Mutant::RetrierMayApprove } else { Mutant::ResumerMayApprove };
    apply_shaping_command(model, state, number, (person, forgotten_by), |draft| {
        Resume { reason: String::new() }.decide(draft).ok()
    })?;
    state.oracle.runs[number].shaped.add(person);
    Some(())
}

fn roll_back(model: &Governance, state: &mut State, number: usize, person: u8) -> Option<()> {
    state.left.rollbacks -= 1;
    apply_shaping_command(model, state, number, (person, Mutant::RollbackOrdererMayApprove), |draft| {
        RollBack { reason: String::new(), down_to: None }.decide(draft).ok()
    })?;
    state.oracle.runs[number].shaped.add(person);
    Some(())
}

/// A cancel that the run must act on orders a rollback.
fn cancel(model: &Governance, state: &mut State, number: usize, person: u8) -> Option<()> {
    state.left.cancels -= 1;
    let result =
        apply_shaping_command(model, state, number, (person, Mutant::RollbackOrdererMayApprove), |draft| {
            Cancel { reason: String::new() }.decide(draft).ok()
        })?;
    if result == CancelResult::Requested {
        state.oracle.runs[number].shaped.add(person);
    }
    Some(())
}
