//! A small world: a ledger that keeps the same conditions as a store, two runs in it, a clock that
//! anybody may move, and whoever wishes something of the runs.

use std::collections::BTreeMap;

use domain::chain::StoredEvent;
use domain::command::{
    Admit, Answer, Cancel, Certainty, Claim, Claimed, Command as _, DeliverSignal, Fail, Finish, Governed,
    Grant, Mode, Nudge, OpenGate, OpenWait, Pause, Postpone, Renew, Resume, Retry, RollBack, TakeOver,
    TimeOut, Wake, admit,
};
use domain::next::{Next, next};
use domain::payload::Fingerprint;
use domain::record::{Intent, Signal};
use domain::{
    Approval, ApprovalId, Cause, Channel, Decision, Draft, Failure, Fence, IdempotencyKey, Initiator, Live,
    Millis, OpId, Payload, PersonId, Plan, Receipt, Refusal, RunRecord, SignalChange, SignalId, Stamp,
    StepRecord, TenantId, Timestamp, WorkerId, WorkspaceId,
};
use serde_json::{Value, json};

use crate::plans;
use crate::story::{Binding, Holder, Story, Wish, Wished};

const LEASE: Millis = Millis::secs(30);

/// A ledger, two runs in it, and a clock.
pub(crate) struct World {
    pub(crate) now: Timestamp,
    pub(crate) runs: Vec<Run>,
    pub(crate) receipts: BTreeMap<IdempotencyKey, Receipt>,
    writes: u32,
}

/// All that the ledger keeps of a run, and who was granted work on it.
pub(crate) struct Run {
    pub(crate) plan: Plan,
    pub(crate) record: RunRecord,
    /// The record before its last write.
    earlier: RunRecord,
    pub(crate) chain: Vec<StoredEvent>,
    pub(crate) steps: Vec<StepRecord>,
    pub(crate) signals: BTreeMap<SignalId, Signal>,
    pub(crate) approvals: BTreeMap<ApprovalId, Approval>,
    /// The requests for approval in the order they were made.
    pub(crate) asked: Vec<ApprovalId>,
    grants: Vec<Grant>,
}

/// A commit, and what it was made from.
pub(crate) struct Turn {
    pub(crate) run: usize,
    pub(crate) before: Option<RunRecord>,
    /// The fence that whoever wished it claims to hold, if that is why they may.
    pub(crate) holds: Option<Fence>,
    /// What stood under the key of each receipt that was written.
    pub(crate) replaced: Vec<Option<Receipt>>,
    pub(crate) decision: Decision,
    pub(crate) said: Said,
}

/// What a commit says about the world outside.
pub(crate) enum Said {
    /// Somebody may act now.
    Granted(Box<Grant>),
    /// The effect of this key did not happen.
    DidNotHappen(IdempotencyKey),
    /// A person said that this effect may be done again.
    MayHappenAgain(IdempotencyKey),
    /// Nothing.
    Nothing,
}

impl World {
    /// Both runs of `story` have been admitted; `seen` has seen it.
    pub(crate) fn new(story: &Story, mut seen: impl FnMut(&World, &Turn)) -> Self {
        let mut world = Self {
            now: Timestamp(1_750_000_000_000),
            runs: Vec::new(),
            receipts: BTreeMap::new(),
            writes: 0,
        };
        for plan in &story.plans {
            let turn = world.admit(plan);
            seen(&world, &turn);
        }
        world
    }

    /// The whole of `story` happens, and `seen` sees every commit.
    pub(crate) fn tell(story: &Story, mut seen: impl FnMut(&World, &Turn)) -> Self {
        let mut world = Self::new(story, &mut seen);
        for wished in &story.wishes {
            if let Some(turn) = world.happen(wished) {
                seen(&world, &turn);
            }
        }
        world
    }

    fn admit(&mut self, plan: &Plan) -> Turn {
        let number = self.runs.len();
        let wish = Admit {
            tenant: TenantId::new("acme").unwrap(),
            workspace: WorkspaceId::new("main").unwrap(),
            trigger_kind: "api".to_owned(),
            record: None,
            trace: None,
            key: IdempotencyKey::new(&format!("api:test:{number}")).unwrap(),
            input: Fingerprint::of(&Value::Null),
        };
        let mut stamp = self.stamp("person-0");
        stamp.by.cause = Cause::User;
        let decision = admit(wish, plan, stamp);
        self.runs.push(Run {
            plan: plan.clone(),
            record: decision.record.clone(),
            earlier: decision.record.clone(),
            chain: stored(&decision).collect(),
            steps: Vec::new(),
            signals: BTreeMap::new(),
            approvals: BTreeMap::new(),
            asked: Vec::new(),
            grants: Vec::new(),
        });
        Turn { run: number, before: None, holds: None, replaced: Vec::new(), decision, said: Said::Nothing }
    }

    fn stamp(&mut self, by: &str) -> Stamp {
        self.writes += 1;
        let op = OpId::new(&format!("op-{}", self.writes)).unwrap();
        Stamp { op, now: self.now, by: Initiator::new(Cause::System, by) }
    }

    /// Somebody who sees the run as it stands wishes something of it.
    pub(crate) fn wish(&mut self, run: usize, wish: Wish) -> Option<Turn> {
        self.happen(&Wished { run, stale: false, wish })
    }

    /// Somebody's wish is decided and committed, or nothing happens.
    pub(crate) fn happen(&mut self, wished: &Wished) -> Option<Turn> {
        let run = wished.run;
        match &wished.wish {
            Wish::Pass { ms } => self.now = Timestamp(self.now.0 + ms),
            Wish::PassUntilDue => self.pass_until_due(run),
            wish => {
                let holds = self.runs[run].fence_of(wish);
                let (decision, said) = self.decide(run, wished.stale, wish)?;
                return self.commit(run, decision, said).map(|turn| Turn { holds, ..turn });
            }
        }
        None
    }

    fn pass_until_due(&mut self, run: usize) {
        let record = &self.runs[run].record;
        let held_until = match &record.live {
            Live::Running(lease) => Some(lease.until),
            Live::Retrying { not_before, .. } => Some(*not_before),
            _ => record.due_at,
        };
        self.now = held_until.map_or(self.now, |until| until.max(self.now));
    }

    /// What the rules say to a wish; nothing if they say no.
    fn decide(&mut self, number: usize, stale: bool, wish: &Wish) -> Option<(Decision, Said)> {
        let stamp = self.stamp("somebody");
        let run = &self.runs[number];
        let record = if stale { &run.earlier } else { &run.record };
        let asked = record.live.approval().and_then(|id| run.approvals.get(id)).cloned();
        let mut draft = Draft::new(record.clone(), &run.plan, stamp).knowing(asked);
        let said = self.grant_wish(run, wish, &mut draft).ok()?;
        Some((draft.close(), said))
    }

    fn grant_wish(&self, run: &Run, wish: &Wish, draft: &mut Draft<'_>) -> Result<Said, Refusal> {
        let reason = || "because".to_owned();
        let nothing = Ok(Said::Nothing);
        match wish {
            Wish::Serve => self.serve(run, draft),
            Wish::Claim(binding) => self.claim(draft, *binding).decide(draft).map(granted),
            Wish::TakeOver(binding) => TakeOver(self.claim(draft, *binding)).decide(draft).map(granted),
            Wish::Finish { who, hand_on } => self.finish(run.holder(*who)?, *hand_on, draft),
            Wish::Retry { who, certainty, retry_after } => {
                retry(run.holder(*who)?, *certainty, *retry_after, draft)
            }
            Wish::Fail(who) => fail(run.holder(*who)?, draft),
            Wish::FailUnclaimed => {
                Fail { fence: None, failure: failure(), receipt: None }.decide(draft).and(nothing)
            }
            Wish::Renew(who) => {
                Renew { fence: run.holder(*who)?.fence, lease: LEASE }.decide(draft).and(nothing)
            }
            Wish::OpenWait => OpenWait { early: run.early(draft) }.decide(draft).and(nothing),
            Wish::OpenGate => OpenGate { message: "Go on?".to_owned() }.decide(draft).and(nothing),
            Wish::Signal { event, delivery } => {
                self.signal(run, *event, *delivery).decide(draft).and(nothing)
            }
            Wish::Answer { back, approve, person } => {
                run.answer(*back, *approve, *person)?.decide(draft).and(nothing)
            }
            Wish::TimeOut => TimeOut.decide(draft).and(nothing),
            Wish::Nudge => Nudge.decide(draft).and(nothing),
            Wish::Postpone => Postpone { failure: failure(), retry_after: None }.decide(draft).and(nothing),
            Wish::Cancel => Cancel { reason: reason() }.decide(draft).and(nothing),
            Wish::Pause => Pause { reason: reason() }.decide(draft).and(nothing),
            Wish::Resume => resume(reason(), draft),
            Wish::RollBack => RollBack { reason: reason() }.decide(draft).and(nothing),
            Wish::Wake => Wake.decide(draft).and(nothing),
            Wish::Pass { .. } | Wish::PassUntilDue => nothing,
        }
    }

    /// What a worker does with a run whose message it got.
    fn serve(&self, run: &Run, draft: &mut Draft<'_>) -> Result<Said, Refusal> {
        match next(&draft.record, draft.plan, self.now) {
            Next::Nothing | Next::NotBefore(_) => Err(Refusal::WrongWork { expected: "something to do" }),
            Next::Claim => self.grant_wish(run, &Wish::Claim(Binding::Same), draft),
            Next::TakeOver => self.grant_wish(run, &Wish::TakeOver(Binding::Same), draft),
            Next::OpenWait => self.grant_wish(run, &Wish::OpenWait, draft),
            Next::OpenGate => self.grant_wish(run, &Wish::OpenGate, draft),
            Next::TimeOut => self.grant_wish(run, &Wish::TimeOut, draft),
            Next::Nudge => self.grant_wish(run, &Wish::Nudge, draft),
        }
    }

    fn claim(&self, draft: &Draft<'_>, binding: Binding) -> Claim {
        let record = &draft.record;
        let mut action = plans::action(draft.plan, &record.key.run, record.at, record.is_undoing());
        match binding {
            Binding::Same | Binding::Unaware | Binding::OtherPolicy => {}
            Binding::OtherAction => action.contract += 1,
            Binding::OtherKey => action.key = IdempotencyKey::new("shared:1").unwrap(),
        }
        // What the run itself has written under a key cannot be overlooked, only what others have.
        let aware = !matches!(binding, Binding::Unaware) || open_intent(&record.live).is_some();
        let receipt = self.receipts.get(&action.key).filter(|_| aware).cloned();
        let policy = u8::from(matches!(binding, Binding::OtherPolicy));
        let verdict = plans::verdict(draft.step().unwrap(), policy);
        let governed = action.class.has_effect().then_some(Governed { verdict, found: None });
        let over = |receipt: &Receipt| {
            let owner = self.runs.iter().find(|run| run.record.key.run == receipt.run);
            owner.is_some_and(|owner| owner.record.status.is_terminal())
        };
        let abandoned = receipt.as_ref().is_some_and(over);
        Claim { owner: WorkerId::new("worker").unwrap(), lease: LEASE, action, receipt, abandoned, governed }
    }

    /// A holder is done, and may take the next step in the same commit. Whoever hands on has looked the
    /// next receipt up before.
    fn finish(&self, grant: &Grant, hand_on: bool, draft: &mut Draft<'_>) -> Result<Said, Refusal> {
        let output = json!({ "done": true });
        let command = Finish {
            fence: grant.fence,
            fingerprint: Fingerprint::of(&output),
            output: Payload::Inline(output),
            response: Value::Null,
            inverse: None,
            cost_microusd: 7,
            usage: None,
            receipt: grant.receipt.clone(),
        };
        command.decide(draft)?;
        let ready = matches!(draft.record.live, Live::Ready { .. }) && !draft.record.is_undoing();
        if hand_on && ready && next(&draft.record, draft.plan, self.now) == Next::Claim {
            return self.claim(draft, Binding::Same).decide(draft).map(granted);
        }
        Ok(Said::Nothing)
    }

    fn signal(&self, run: &Run, event: u8, delivery: u8) -> DeliverSignal {
        let id = SignalId::new(&format!("delivery-{delivery}")).unwrap();
        let body = json!({ "delivery": delivery });
        let signal = Signal {
            event: plans::event_name(event),
            fingerprint: Fingerprint::of(&body),
            payload: Payload::Inline(body),
            at: self.now,
            kept: false,
            id: id.clone(),
        };
        DeliverSignal { signal, known: run.signals.get(&id).cloned() }
    }

    /// Keeps all of a decision if its conditions stand, and nothing of it otherwise.
    fn commit(&mut self, number: usize, decision: Decision, said: Said) -> Option<Turn> {
        if !self.stands(number, &decision) {
            return None;
        }
        let replaced = decision.receipts.iter().map(|c| self.receipts.get(&c.receipt.key).cloned()).collect();
        for change in &decision.receipts {
            self.receipts.insert(change.receipt.key.clone(), change.receipt.clone());
        }
        let before = self.runs[number].keep(&decision);
        if let Said::Granted(grant) = &said {
            self.runs[number].grants.push(*grant.clone());
        }
        Some(Turn { run: number, before: Some(before), holds: None, replaced, decision, said })
    }

    fn stands(&self, number: usize, decision: &Decision) -> bool {
        let run = &self.runs[number];
        let mut seen = Vec::new();
        let receipts = decision.receipts.iter().all(|change| {
            let key = &change.receipt.key;
            // Only the first change to a key names what the ledger must hold.
            let repeated = seen.contains(&key);
            seen.push(key);
            repeated || self.receipts.get(key).map(|receipt| receipt.revision) == change.replaces
        });
        let signals = decision.signals.iter().all(|change| match change {
            SignalChange::Record(signal) => !run.signals.contains_key(&signal.id),
            SignalChange::Use(id) => run.signals.contains_key(id),
        });
        decision.replaces == Some(run.record.version) && receipts && signals
    }
}

impl Run {
    /// Keeps a decision, and gives back the record it replaces.
    fn keep(&mut self, decision: &Decision) -> RunRecord {
        self.chain.extend(stored(decision));
        self.steps.extend(decision.steps.iter().cloned());
        for change in &decision.signals {
            match change {
                SignalChange::Record(signal) => {
                    self.signals.insert(signal.id.clone(), signal.as_ref().clone());
                }
                SignalChange::Use(id) => {
                    self.signals.get_mut(id).unwrap().kept = false;
                }
            }
        }
        for approval in &decision.approvals {
            if self.approvals.insert(approval.id.clone(), approval.clone()).is_none() {
                self.asked.push(approval.id.clone());
            }
        }
        let before = std::mem::replace(&mut self.record, decision.record.clone());
        self.earlier = before.clone();
        before
    }

    fn holder(&self, who: Holder) -> Result<&Grant, Refusal> {
        let grant = match who {
            Holder::Newest => self.grants.last(),
            Holder::Older(back) => self.grants.iter().rev().nth(usize::from(back % 4)),
        };
        grant.ok_or(Refusal::StaleFence { yours: Fence(0), held: Fence(0) })
    }

    /// The fence under which `wish` is wished.
    fn fence_of(&self, wish: &Wish) -> Option<Fence> {
        match wish {
            Wish::Finish { who, .. } | Wish::Retry { who, .. } | Wish::Fail(who) | Wish::Renew(who) => {
                self.holder(*who).ok().map(|grant| grant.fence)
            }
            _ => None,
        }
    }

    /// The kept delivery that the current wait would use.
    fn early(&self, draft: &Draft<'_>) -> Option<Signal> {
        let step = draft.step().ok()?;
        let domain::plan::Work::Wait { event, .. } = &step.work else { return None };
        let early = draft.record.early.iter().find(|early| early.event == *event)?;
        self.signals.get(&early.signal).cloned()
    }

    fn answer(&self, back: u8, approve: bool, person: u8) -> Result<Answer, Refusal> {
        let asked = self.asked.iter().rev().nth(usize::from(back)).ok_or(Refusal::NothingToRollBack)?;
        Ok(Answer {
            approval: self.approvals[asked].clone(),
            person: PersonId::new(&format!("person-{person}")).unwrap(),
            approve,
            reason: "because".to_owned(),
            through: Channel::CommandLine,
            tenant: plans::tenant(),
        })
    }
}

fn stored(decision: &Decision) -> impl Iterator<Item = StoredEvent> + '_ {
    decision
        .events
        .iter()
        .map(|sealed| StoredEvent { canonical: sealed.canonical.clone(), hash: sealed.hash })
}

/// The effect that an earlier attempt left open.
pub(crate) fn open_intent(live: &Live) -> Option<&Intent> {
    match live {
        Live::Ready { authorised: open, .. }
        | Live::Retrying { open, .. }
        | Live::WaitingApproval { open, .. }
        | Live::Unresolved { open, .. } => open.as_ref(),
        Live::Running(lease) => lease.intent.as_ref(),
        Live::WaitingEvent { .. } | Live::Over { .. } => None,
    }
}

fn granted(claimed: Claimed) -> Said {
    match claimed {
        Claimed::Granted(grant) => Said::Granted(grant),
        Claimed::Settled(_) | Claimed::Later(_) | Claimed::Asked => Said::Nothing,
    }
}

/// A holder that acted after somebody else may have cannot say for sure that nothing happened.
fn retry(
    grant: &Grant,
    certainty: Certainty,
    retry_after: Option<Millis>,
    draft: &mut Draft<'_>,
) -> Result<Said, Refusal> {
    let certainty = if grant.mode == Mode::Fresh { certainty } else { Certainty::MayHaveHappened };
    let receipt = grant.receipt.clone();
    Retry { fence: grant.fence, failure: failure(), certainty, retry_after, receipt }.decide(draft)?;
    Ok(match (&grant.receipt, certainty) {
        (Some(receipt), Certainty::DidNotHappen) => Said::DidNotHappen(receipt.key.clone()),
        (Some(_) | None, _) => Said::Nothing,
    })
}

fn fail(grant: &Grant, draft: &mut Draft<'_>) -> Result<Said, Refusal> {
    let Some(receipt) = &grant.receipt else {
        return Fail { fence: Some(grant.fence), failure: failure(), receipt: None }
            .decide(draft)
            .map(|_| Said::Nothing);
    };
    if grant.mode != Mode::Fresh {
        return retry(grant, Certainty::MayHaveHappened, None, draft);
    }
    Fail { fence: Some(grant.fence), failure: failure(), receipt: Some(receipt.clone()) }.decide(draft)?;
    Ok(Said::DidNotHappen(receipt.key.clone()))
}

fn resume(reason: String, draft: &mut Draft<'_>) -> Result<Said, Refusal> {
    let open = open_intent(&draft.record.live).cloned();
    Resume { reason }.decide(draft)?;
    Ok(open.map_or(Said::Nothing, |open| Said::MayHappenAgain(open.key)))
}

pub(crate) fn failure() -> Failure {
    Failure::new("TEST", "it did not work")
}
