//! The commands of people and workers, carried out by the domain.

use std::sync::Arc;

use domain::approval::Subject;
use domain::command::{
    Admit, Cancel, CancelResult, Certainty, Claim, ClaimResult, Command as _, DeliverSignal, Fail, Finish,
    OpenWait, Pause, RecordVote, Resume, Retry, RollBack, TakeOver, VoteResult, admit,
};
use domain::next::{Next, next};
use domain::payload::Fingerprint;
use domain::plan::{Call, Work};
use domain::record::Signal;
use domain::{
    Approval, Cause, Channel, Decision, Draft, EventBody, Failure, Fence, IdempotencyKey, Initiator, Live,
    Participants, Payload, PersonId, Plan, PlannedStep, RunStatus, SignalId, Stamp, StepId, StepSeq,
    TenantId, WorkspaceId,
};
use serde_json::{Value, json};

use super::config::{Mutant, Rollback, Second, Step};
use super::oracle::People;
use super::world::{
    Bound, Governance, GovernedRun, Held, NOW, TENANT, World, attempted_twice, event, initiator, op, output,
    spelled, tenant, voter,
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
pub(crate) fn possible(model: &Governance, world: &World, commands: &mut Vec<Command>) {
    let people = || 0..model.config.people;
    let left = world.left;
    if world.oracle.broken != 0 {
        return;
    }
    if world.applied_by.is_none() {
        return commands.extend(people().map(Command::Apply));
    }
    match (world.runs.len(), model.config.second) {
        (0, _) | (1, Second::SameKeys) => commands.extend(people().map(Command::Start)),
        (1, Second::Undo) if world.runs[0].record.status.is_terminal() => {
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
    for (number, run) in world.runs.iter().enumerate() {
        if !run.record.status.is_terminal() {
            possible_in(model, world, (number, run), commands);
        }
    }
}

fn possible_in(
    model: &Governance,
    world: &World,
    (number, run): (usize, &GovernedRun),
    commands: &mut Vec<Command>,
) {
    let people = || 0..model.config.people;
    let left = world.left;
    let paused = run.record.status == RunStatus::Paused;
    let each = |may: bool, command: fn(usize, u8) -> Command, commands: &mut Vec<Command>| {
        if may {
            commands.extend(people().map(|person| command(number, person)));
        }
    };
    let waits = matches!(run.record.live, Live::WaitingApproval { .. });
    each(waits, Command::Approve, commands);
    each(waits && left.rejections > 0, Command::Reject, commands);
    each(left.signals > 0, Command::Signal, commands);
    each(paused && left.resumes > 0, Command::Resume, commands);
    each(left.rollbacks > 0, Command::RollBack, commands);
    each(left.cancels > 0, Command::Cancel, commands);
    let mut worker = |may: bool, command| {
        if may {
            commands.push(command);
        }
    };
    let leased = matches!(run.record.live, Live::Running(_));
    worker(!leased, Command::Serve(number));
    worker(leased && left.crashes > 0, Command::Crash(number));
    worker(!paused && left.pauses > 0, Command::Pause(number));
    let Some(held) = &run.held else { return };
    worker(true, Command::Finish(number));
    worker(held.fresh && left.failures > 0, Command::Fail(number));
    worker(held.receipt.is_some() && left.lost_replies > 0, Command::LoseReply(number));
}

/// Carries out a command; `None` if it is refused or changes nothing.
pub(crate) fn apply(model: &Governance, world: &mut World, command: Command) -> Option<()> {
    match command {
        Command::Apply(person) => world.applied_by = Some(person),
        Command::Start(person) => start(model, world, person)?,
        Command::Undo(person) => undo(model, world, person)?,
        Command::Serve(number) => serve(model, world, number)?,
        Command::Crash(number) => {
            world.left.crashes -= 1;
            claim(model, world, number, true)?;
        }
        Command::Finish(number) => finish(model, world, number)?,
        Command::Fail(number) => fail(model, world, number)?,
        Command::LoseReply(number) => lose_reply(model, world, number)?,
        Command::Signal(number, person) => signal(model, world, number, person)?,
        Command::Approve(number, person) => vote(model, world, number, (person, true))?,
        Command::Reject(number, person) => vote(model, world, number, (person, false))?,
        Command::Pause(number) => {
            world.left.pauses -= 1;
            let (decision, _) =
                decide(model, world, number, 0, |draft| Pause { reason: String::new() }.decide(draft).ok())?;
            world.commit(model, number, decision);
        }
        Command::Resume(number, person) => resume(model, world, number, person)?,
        Command::RollBack(number, person) => roll_back(model, world, number, person)?,
        Command::Cancel(number, person) => cancel(model, world, number, person)?,
        Command::ChangeDirectory(person) => {
            world.left.directory -= 1;
            world.directory.toggle(person);
        }
        Command::ChangePolicy => {
            world.left.policies -= 1;
            world.policy = 1 - world.policy;
        }
        Command::ChangeExternalState => {
            world.left.external -= 1;
            world.external = 1 - world.external;
        }
    }
    Some(())
}

/// The decision about a command of a person; `None` if it is refused or changes nothing.
fn decide<T>(
    model: &Governance,
    world: &World,
    number: usize,
    person: u8,
    command: impl FnOnce(&mut Draft<'_>) -> Option<T>,
) -> Option<(Decision, T)> {
    let run = &world.runs[number];
    decide_by(run, initiator(&model.config, person), run.approval.clone(), command)
}

fn decide_by<T>(
    run: &GovernedRun,
    by: Initiator,
    approval: Option<Approval>,
    command: impl FnOnce(&mut Draft<'_>) -> Option<T>,
) -> Option<(Decision, T)> {
    let stamp = Stamp { op: op()?, now: NOW, by };
    let mut draft = Draft::new(run.record.clone(), &run.plan, stamp).with_approval(approval);
    let output = command(&mut draft)?;
    let decision = draft.close();
    decision.changes(&run.record).then_some((decision, output))
}

fn worker() -> Initiator {
    Initiator::new(Cause::System, "worker")
}

fn start(model: &Governance, world: &mut World, person: u8) -> Option<()> {
    let key = IdempotencyKey::new(&format!("start:{}", world.runs.len())).ok()?;
    let steps = (0..model.config.steps.len()).collect();
    let mut shaped = People::default();
    shaped.add(0);
    shaped.add(world.applied_by?);
    shaped.add(person);
    let shaped = (shaped, Participants::default());
    admit_run(model, world, (key, "api", person), (Arc::clone(&model.plan), steps), shaped)
}

fn admit_run(
    model: &Governance,
    world: &mut World,
    (key, kind, person): (IdempotencyKey, &str, u8),
    (plan, steps): (Arc<Plan>, Vec<usize>),
    (shaped, shaped_by): (People, Participants),
) -> Option<()> {
    let applied_by = PersonId::new(&spelled(&model.config, world.applied_by?)).ok()?;
    let command = Admit {
        tenant: TenantId::new(TENANT).ok()?,
        workspace: WorkspaceId::default(),
        trigger_kind: kind.to_owned(),
        key,
        record: None,
        trace: None,
        input: Fingerprint::of(&Value::Null),
        applied_by: Some(applied_by).filter(|_| !model.config.has(Mutant::ApplierMayApprove)),
        shaped_by,
    };
    let stamp = Stamp { op: op()?, now: NOW, by: initiator(&model.config, person) };
    let decision = admit(command, &plan, stamp);
    let number = world.runs.len();
    world.runs.push(GovernedRun {
        plan,
        steps,
        record: decision.record.clone(),
        approval: None,
        held: None,
        signals: Vec::new(),
        signaled: People::default(),
        payload: None,
    });
    world.commit(model, number, decision);
    if model.config.has(Mutant::RequesterMayApprove) {
        world.runs[number].record.trigger.requester = None;
    }
    world.oracle.runs[number].shaped = shaped;
    Some(())
}

/// A run that undoes the effects of the first run, newest first, as the engine makes it.
fn undo(model: &Governance, world: &mut World, person: u8) -> Option<()> {
    let first = &world.runs[0];
    let undone = |index: &usize| match model.config.steps[*index] {
        Step::Act(act) => {
            let seq = StepSeq(u16::try_from(*index).unwrap_or(u16::MAX));
            act.rollback != Rollback::None && first.record.acted.has(seq)
        }
        Step::Wait => false,
    };
    let steps: Vec<_> = (0..model.config.steps.len()).rev().filter(undone).collect();
    if steps.is_empty() || first.record.is_undoing() {
        return None;
    }
    let planned = |index: &usize| {
        let id = StepId::new(&format!("step-{index}")).ok()?;
        let call = Call { tool: "undo".parse().ok()?, with: json!({}) };
        Some(attempted_twice(&model.config, PlannedStep::new(id, Work::Call(call))))
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
    let mut shaped = world.oracle.runs[0].shaped;
    shaped.add(person);
    let shaped = (shaped, shaped_by);
    admit_run(model, world, (key, "undo", person), (Arc::new(plan), steps), shaped)
}

fn serve(model: &Governance, world: &mut World, number: usize) -> Option<()> {
    let run = &world.runs[number];
    match next(&run.record, &run.plan, NOW) {
        Next::Claim => claim(model, world, number, false),
        Next::OpenWait => {
            let buffered = run.signals.first().cloned();
            let (decision, _) =
                decide_by(run, worker(), None, |draft| OpenWait { buffered }.decide(draft).ok())?;
            world.commit(model, number, decision);
            Some(())
        }
        Next::Nothing
        | Next::NotBefore(_)
        | Next::TakeOver
        | Next::OpenGate
        | Next::TimeOut
        | Next::Nudge => None,
    }
}

fn claim(model: &Governance, world: &mut World, number: usize, takes_over: bool) -> Option<()> {
    let bound = world.bind(model, number)?;
    let command = world.claim(model, number, &bound)?;
    let run = &world.runs[number];
    let approval = run.approval.clone().map(|approval| seen_by_claim(model, approval, &command));
    let (decision, result) = decide_by(run, worker(), approval, |draft| {
        if takes_over { TakeOver(command).decide(draft).ok() } else { command.decide(draft).ok() }
    })?;
    account(world, number, &bound, &decision, &result);
    world.commit(model, number, decision);
    if let ClaimResult::Granted(grant) = result {
        world.runs[number].held = Some(Held::new(grant.mode, grant.receipt));
    }
    Some(())
}

/// The approval as the claim sees it. One mutant makes every approval look like one of the claimed action.
fn seen_by_claim(model: &Governance, approval: Approval, claim: &Claim) -> Approval {
    let Subject::Action { verdict, rollback, .. } = &approval.subject else { return approval };
    if !model.config.has(Mutant::OtherActionAccepted) {
        return approval;
    }
    let (action, verdict, rollback) = (Box::new(claim.action.clone()), verdict.clone(), rollback.clone());
    Approval { subject: Subject::Action { action, verdict, rollback }, ..approval }
}

/// Tells the oracle what the claim led to.
fn account(world: &mut World, number: usize, bound: &Bound, decision: &Decision, result: &ClaimResult) {
    let proposed = world.proposed(number, bound);
    let has =
        |wanted: fn(&EventBody) -> bool| decision.events.iter().any(|sealed| wanted(&sealed.event.body));
    if has(|body| matches!(body, EventBody::ApprovalRequested { .. })) {
        let request = decision.approvals.last();
        let names = |named: fn(&Approval) -> bool| request.is_some_and(named);
        let shown =
            (names(|request| request.rejected.is_some()), names(|request| request.attempted_at.is_some()));
        world.oracle.requested(&proposed, shown);
    }
    let ClaimResult::Granted(grant) = result else { return };
    match &grant.receipt {
        None => {}
        Some(_) if has(|body| matches!(body, EventBody::EffectIntended { .. })) => {
            world.oracle.effect(&proposed, world.directory);
            world.oracle.seen.undo = number == 1 && world.runs[1].record.undoes().is_some();
        }
        Some(_) => world.oracle.continued(&proposed, world.directory),
    }
}

fn finish(model: &Governance, world: &mut World, number: usize) -> Option<()> {
    let run = &world.runs[number];
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
    world.commit(model, number, decision);
    world.oracle.happened(&key?);
    Some(())
}

fn fail(model: &Governance, world: &mut World, number: usize) -> Option<()> {
    world.left.failures -= 1;
    let run = &world.runs[number];
    let receipt = run.held.as_ref()?.receipt.clone();
    let key = receipt.as_ref().map(|receipt| receipt.key.clone());
    let command = Fail { fence: Some(FENCE), failure: failure(), receipt };
    let (decision, _) = decide_by(run, worker(), run.approval.clone(), |draft| command.decide(draft).ok())?;
    world.commit(model, number, decision);
    world.oracle.did_not_happen(number, &key?);
    Some(())
}

fn lose_reply(model: &Governance, world: &mut World, number: usize) -> Option<()> {
    world.left.lost_replies -= 1;
    let run = &world.runs[number];
    let command = Retry {
        fence: FENCE,
        failure: failure(),
        certainty: Certainty::MayHaveHappened,
        retry_after: None,
        receipt: run.held.as_ref()?.receipt.clone(),
    };
    let (decision, _) = decide_by(run, worker(), run.approval.clone(), |draft| command.decide(draft).ok())?;
    world.commit(model, number, decision);
    Some(())
}

fn failure() -> Failure {
    Failure::new("TEST", "it did not work")
}

fn signal(model: &Governance, world: &mut World, number: usize, person: u8) -> Option<()> {
    world.left.signals -= 1;
    if world.runs[number].signaled.has(person) {
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
    shape(model, world, number, (person, Mutant::SignalerMayApprove), |draft| {
        DeliverSignal { signal, known: None }.decide(draft).ok()
    })?;
    world.runs[number].signaled.add(person);
    world.oracle.runs[number].shaped.add(person);
    Some(())
}

fn vote(model: &Governance, world: &mut World, number: usize, (person, approve): (u8, bool)) -> Option<()> {
    let run = &world.runs[number];
    let at = (run.record.at, run.record.is_undoing());
    let removed_count = model.config.has(Mutant::RemovedUsersCount);
    let directory = if removed_count { People::first(model.config.people) } else { world.directory };
    let command = RecordVote {
        approval: run.approval.clone()?,
        person: voter(person)?,
        approve,
        reason: String::new(),
        through: Channel::CommandLine,
        tenant: tenant(directory)?,
    };
    let by = Initiator::new(Cause::Approval, voter(person)?.as_str());
    let (decision, result) = decide_by(run, by, run.approval.clone(), |draft| command.decide(draft).ok())?;
    if result == VoteResult::Duplicate {
        return None;
    }
    world.commit(model, number, decision);
    if approve {
        world.oracle.approved(number, person, world.directory);
    } else {
        world.left.rejections -= 1;
        world.oracle.rejected(number, at);
    }
    Some(())
}

/// A command that shapes what the run does. A mutant forgets who gave it.
fn shape<T>(
    model: &Governance,
    world: &mut World,
    number: usize,
    (person, forgotten_by): (u8, Mutant),
    command: impl FnOnce(&mut Draft<'_>) -> Option<T>,
) -> Option<T> {
    let before: Participants = world.runs[number].record.participants.clone();
    let (decision, output) = decide(model, world, number, person, command)?;
    world.commit(model, number, decision);
    if model.config.has(forgotten_by) {
        world.runs[number].record.participants = before;
    }
    Some(output)
}

fn resume(model: &Governance, world: &mut World, number: usize, person: u8) -> Option<()> {
    world.left.resumes -= 1;
    let retries = world.runs[number].record.live.open().is_some();
    let forgotten_by = if retries { Mutant::RetrierMayApprove } else { Mutant::ResumerMayApprove };
    shape(model, world, number, (person, forgotten_by), |draft| {
        Resume { reason: String::new() }.decide(draft).ok()
    })?;
    world.oracle.runs[number].shaped.add(person);
    Some(())
}

fn roll_back(model: &Governance, world: &mut World, number: usize, person: u8) -> Option<()> {
    world.left.rollbacks -= 1;
    shape(model, world, number, (person, Mutant::RollbackOrdererMayApprove), |draft| {
        RollBack { reason: String::new(), down_to: None }.decide(draft).ok()
    })?;
    world.oracle.runs[number].shaped.add(person);
    Some(())
}

/// A cancel that the run must act on orders a rollback.
fn cancel(model: &Governance, world: &mut World, number: usize, person: u8) -> Option<()> {
    world.left.cancels -= 1;
    let result = shape(model, world, number, (person, Mutant::RollbackOrdererMayApprove), |draft| {
        Cancel { reason: String::new() }.decide(draft).ok()
    })?;
    if result == CancelResult::Requested {
        world.oracle.runs[number].shaped.add(person);
    }
    Some(())
}
