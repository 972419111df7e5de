//! The world outside: a service for each effect class, which keeps count of what was done to it.
//!
//! A request that was sent arrives even if its sender has died meanwhile, and may arrive after somebody
//! else has taken over. What the service promises — a key, a precondition, a look-up, nothing — is all
//! that stands between that and a second effect.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use connectors::{Ask, Call, Done, LookUp, Outcome, Survey, Tool};
use domain::command::Certainty;
use domain::{
    Action, Approval, ApprovalId, ApprovalStatus, Card, EffectClass, Failure, Fence, FieldChange,
    IdempotencyKey, Millis, Reversibility, ToolName,
};
use engine::{Again, NotShown, Shows};
use serde_json::{Value, json};
use tokio::sync::{Notify, oneshot};
use tokio::time::sleep;

use crate::fault::{Node, Turned};

/// How long a request is on its way, and again how long it is being worked on.
const ON_ITS_WAY: Duration = Duration::from_millis(20);

/// What was done to the world.
#[derive(Debug, Default)]
pub(crate) struct World {
    state: Mutex<State>,
    moved: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// How often each effect happened.
    effects: BTreeMap<IdempotencyKey, u32>,
    /// How often each effect was asked for.
    requests: BTreeMap<IdempotencyKey, u32>,
    /// Credentials below this fence are revoked.
    revoked_below: BTreeMap<IdempotencyKey, Fence>,
    /// Requests that were accepted and not yet carried out.
    accepted: BTreeMap<IdempotencyKey, u32>,
    /// How each request for approval was last shown to people.
    cards: BTreeMap<ApprovalId, ApprovalStatus>,
}

/// A request on its way.
#[derive(Debug, Clone)]
struct Request {
    key: IdempotencyKey,
    class: EffectClass,
    fence: Fence,
    takes: Duration,
    fails: u64,
}

/// What the service says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reply {
    Done,
    /// Not now; nothing was done.
    Unavailable,
    /// The credential was revoked; nothing was done.
    Revoked,
    /// The precondition does not hold, and what stands there is what the request wanted.
    AlreadySo,
}

impl World {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often each effect happened.
    pub(crate) fn effects(&self) -> BTreeMap<IdempotencyKey, u32> {
        self.lock().effects.clone()
    }

    /// How each request for approval was last shown to people.
    pub(crate) fn cards(&self) -> BTreeMap<ApprovalId, ApprovalStatus> {
        self.lock().cards.clone()
    }

    /// Sends a request. It arrives whatever becomes of the sender.
    fn send(self: &Arc<Self>, request: Request) -> oneshot::Receiver<Reply> {
        let (reply, answer) = oneshot::channel();
        let world = Arc::clone(self);
        tokio::spawn(async move {
            sleep(ON_ITS_WAY).await;
            let replied = match world.accept(&request) {
                Ok(()) => {
                    sleep(request.takes).await;
                    world.carry_out(&request)
                }
                Err(refused) => refused,
            };
            // The sender may be gone.
            let _ = reply.send(replied);
        });
        answer
    }

    fn accept(&self, request: &Request) -> Result<(), Reply> {
        let mut state = self.lock();
        let asked = state.requests.entry(request.key.clone()).or_default();
        *asked += 1;
        if u64::from(*asked) <= request.fails {
            return Err(Reply::Unavailable);
        }
        let revoked = state.revoked_below.get(&request.key).is_some_and(|below| request.fence < *below);
        if request.class == EffectClass::LookUp && revoked {
            return Err(Reply::Revoked);
        }
        *state.accepted.entry(request.key.clone()).or_default() += 1;
        Ok(())
    }

    fn carry_out(&self, request: &Request) -> Reply {
        let mut state = self.lock();
        if let Some(accepted) = state.accepted.get_mut(&request.key) {
            *accepted -= 1;
        }
        let done = state.effects.entry(request.key.clone()).or_default();
        let reply = match request.class {
            EffectClass::NativeKey if *done > 0 => Reply::Done,
            EffectClass::CompareAndSet if *done > 0 => Reply::AlreadySo,
            EffectClass::ReadOnly => Reply::Done,
            EffectClass::NativeKey
            | EffectClass::CompareAndSet
            | EffectClass::LookUp
            | EffectClass::Opaque => {
                *done += 1;
                Reply::Done
            }
        };
        drop(state);
        self.moved.notify_waiters();
        reply
    }

    /// Credentials before `fence` are worth nothing from now on.
    fn revoke(&self, key: &IdempotencyKey, fence: Fence) {
        let mut state = self.lock();
        let below = state.revoked_below.entry(key.clone()).or_default();
        *below = fence.max(*below);
    }

    /// Returns when every request that was accepted has been carried out.
    async fn drained(&self, key: &IdempotencyKey) {
        loop {
            let moved = self.moved.notified();
            if self.lock().accepted.get(key).is_none_or(|accepted| *accepted == 0) {
                return;
            }
            moved.await;
        }
    }

    fn happened(&self, key: &IdempotencyKey) -> bool {
        self.lock().effects.get(key).is_some_and(|count| *count > 0)
    }
}

/// A tool of one effect class, in the hands of one node.
pub(crate) struct SimTool {
    pub(crate) name: &'static str,
    /// What it promises.
    pub(crate) class: EffectClass,
    /// What the service behind it does.
    pub(crate) service: EffectClass,
    pub(crate) node: Node,
    pub(crate) world: Arc<World>,
}

/// The tools of the simulated world: what each promises, and what the service behind it does.
pub(crate) const TOOLS: [(&str, EffectClass, EffectClass); 6] = [
    ("sim.read", EffectClass::ReadOnly, EffectClass::ReadOnly),
    ("sim.keyed", EffectClass::NativeKey, EffectClass::NativeKey),
    ("sim.cas", EffectClass::CompareAndSet, EffectClass::CompareAndSet),
    ("sim.lookup", EffectClass::LookUp, EffectClass::LookUp),
    ("sim.opaque", EffectClass::Opaque, EffectClass::Opaque),
    // No flow has this one. It is there to show that the oracle would notice.
    ("sim.liar", EffectClass::NativeKey, EffectClass::Opaque),
];

#[async_trait]
impl Tool for SimTool {
    #[expect(clippy::expect_used, reason = "the names are written above")]
    fn name(&self) -> ToolName {
        ToolName::new(self.name).expect("a tool name")
    }

    fn propose(&self, ask: Ask<'_>) -> Result<Action, Failure> {
        let key = IdempotencyKey::for_step(&self.name(), &ask.run.run, ask.step);
        let changes = ask.found.map(|found| FieldChange {
            field: "state".to_owned(),
            before: Some(found.clone()),
            after: ask.fields["say"].clone(),
        });
        Ok(Action {
            tool: self.name(),
            contract: 1,
            class: self.class,
            reversibility: if self.class.has_effect() {
                Reversibility::Compensable
            } else {
                Reversibility::NoEffect
            },
            target: format!("the simulated world, {}", ask.step),
            key: if ask.undo { key.undo() } else { key },
            key_retention: None,
            changes: changes.into_iter().collect(),
            destructive: false,
            estimate_microusd: None,
            fields: ask.fields,
        })
    }

    /// What a compare-and-set would change depends on what is there, which somebody has to look at.
    async fn survey(&self, _ask: &Ask<'_>) -> Survey {
        if self.class != EffectClass::CompareAndSet {
            return Survey::NotNeeded;
        }
        let silent = |_| Survey::Later {
            failure: Failure::new("NO_REPLY", "nothing was found out"),
            retry_after: Some(Millis::secs(1)),
        };
        let pass = match self.node.enter("tool.survey", None).await {
            Ok(pass) => pass,
            Err(turned) => return silent(turned),
        };
        let effects: u32 = self.world.effects().values().sum();
        match self.node.leave(pass).await {
            Ok(()) => Survey::Found(json!({ "effects": effects })),
            Err(turned) => silent(turned),
        }
    }

    async fn perform(&self, call: Call<'_>) -> Outcome {
        let Ok(pass) = self.node.enter("tool.perform", None).await else { return unavailable() };
        let fields = &call.action.fields;
        let request = Request {
            key: call.action.key.clone(),
            class: self.service,
            fence: call.fence,
            takes: Duration::from_millis(fields["takes_ms"].as_u64().unwrap_or(20)),
            fails: fields["fails"].as_u64().unwrap_or(0),
        };
        let reply = self.world.send(request).await;
        match (self.node.leave(pass).await, reply) {
            (Ok(()), Ok(Reply::Done | Reply::AlreadySo)) => Outcome::Done(done(&self.name(), fields)),
            (Ok(()), Ok(Reply::Unavailable)) => unavailable(),
            // A revoked credential means that somebody has taken over: what this attempt wanted is foreign_intent
            // to settle.
            (Ok(()), Ok(Reply::Revoked) | Err(_)) | (Err(Turned::ReplyLost | Turned::Away), _) => no_reply(),
        }
    }

    async fn shut_out(&self, call: Call<'_>) -> Result<(), Failure> {
        let lost = |_| Failure::new("NO_REPLY", "the old credential may not be revoked");
        let pass = self.node.enter("tool.shut_out", None).await.map_err(lost)?;
        self.world.revoke(&call.action.key, call.fence);
        self.world.drained(&call.action.key).await;
        self.node.leave(pass).await.map_err(lost)
    }

    async fn look_up(&self, call: Call<'_>) -> LookUp {
        let unclear = |_| LookUp::Unclear(Failure::new("NO_REPLY", "nothing was found out"));
        let pass = match self.node.enter("tool.look_up", None).await {
            Ok(pass) => pass,
            Err(turned) => return unclear(turned),
        };
        let found = self.world.happened(&call.action.key);
        match self.node.leave(pass).await {
            Ok(()) if found => LookUp::Found(done(&self.name(), &call.action.fields)),
            Ok(()) => LookUp::Absent,
            Err(turned) => unclear(turned),
        }
    }
}

fn done(tool: &ToolName, fields: &Value) -> Done {
    Done {
        output: json!({ "said": fields["say"] }),
        response: json!({ "status": 200 }),
        inverse: Some(json!({ "tool": tool, "with": { "say": "back" } })),
        ..Done::default()
    }
}

/// Where people are shown what they are asked, as one node reaches it.
pub(crate) struct SimShows {
    pub(crate) node: Node,
    pub(crate) world: Arc<World>,
}

#[async_trait]
impl Shows for SimShows {
    async fn show(&self, approval: &Approval, _card: Option<&Card>) -> Result<Card, NotShown> {
        let lost = |_| NotShown {
            approval: approval.id.clone(),
            why: "no reply".to_owned(),
            so_far: None,
            again: Again::After(None),
        };
        let pass = self.node.enter("people.show", None).await.map_err(lost)?;
        self.world.lock().cards.insert(approval.id.clone(), approval.status);
        self.node.leave(pass).await.map_err(lost)?;
        let Approval { revision, reminders, .. } = *approval;
        let escalated = approval.escalated_at.is_some();
        Ok(Card { place: "wall".to_owned(), shown: revision, reminders, escalated })
    }
}

fn unavailable() -> Outcome {
    Outcome::Retryable {
        failure: Failure::new("UNAVAILABLE", "not now"),
        certainty: Certainty::DidNotHappen,
        retry_after: Some(Millis::secs(1)),
    }
}

fn no_reply() -> Outcome {
    Outcome::Retryable {
        failure: Failure::new("NO_REPLY", "the reply was lost"),
        certainty: Certainty::MayHaveHappened,
        retry_after: None,
    }
}
