//! The fake external service: one behavior for each effect class, with a counter for each effect.
//!
//! A request arrives even if its sender has crashed, and may arrive after another worker has taken over the
//! step. Only the guarantee of the effect class (a key, a precondition, a look-up, or none) prevents a
//! second effect.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use connectors::{LookUpResult, Observed, ProposalRequest, Tool, ToolCall, ToolOutcome, ToolResult};
use domain::command::EffectOutcome;
use domain::{
    Action, Approval, ApprovalId, ApprovalStatus, Card, EffectClass, Failure, Fence, FieldChange,
    IdempotencyKey, Millis, Reversibility, ToolName,
};
use engine::{ApprovalNotifier, NotifyContext, NotifyFailure, RetryHint};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{Notify, oneshot};
use tokio::time::sleep;

use crate::fault::{CallFailed, Node};

/// How long a request takes to arrive.
const NETWORK_DELAY: Duration = Duration::from_millis(20);

#[derive(Debug, Default)]
pub(crate) struct FakeService {
    state: Mutex<State>,
    executed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// How often each effect happened.
    effects: BTreeMap<IdempotencyKey, u32>,
    /// How often each effect was requested.
    requests: BTreeMap<IdempotencyKey, u32>,
    /// Credentials below this fence are revoked.
    revoked_below: BTreeMap<IdempotencyKey, Fence>,
    /// Requests that are accepted but not yet carried out.
    accepted: BTreeMap<IdempotencyKey, u32>,
    /// The status on the last card posted for each approval.
    cards: BTreeMap<ApprovalId, ApprovalStatus>,
}

/// A request in transit.
#[derive(Debug, Clone)]
struct Request {
    key: IdempotencyKey,
    class: EffectClass,
    fence: Fence,
    duration: Duration,
    fails: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reply {
    Done,
    /// Temporarily unavailable; no effect.
    Unavailable,
    /// The credential is revoked; no effect.
    Revoked,
    /// The precondition does not hold because the state already is the requested one.
    AlreadyApplied,
}

impl FakeService {
    pub(crate) fn effects(&self) -> BTreeMap<IdempotencyKey, u32> {
        self.state.lock().effects.clone()
    }

    pub(crate) fn cards(&self) -> BTreeMap<ApprovalId, ApprovalStatus> {
        self.state.lock().cards.clone()
    }

    /// Sends a request. It arrives even if the sender crashes.
    fn send(self: &Arc<Self>, request: Request) -> oneshot::Receiver<Reply> {
        let (reply, answer) = oneshot::channel();
        let service = Arc::clone(self);
        tokio::spawn(async move {
            sleep(NETWORK_DELAY).await;
            let result = match service.accept(&request) {
                Ok(()) => {
                    sleep(request.duration).await;
                    service.execute(&request)
                }
                Err(refused) => refused,
            };
            // The sender may have crashed.
            let _ = reply.send(result);
        });
        answer
    }

    fn accept(&self, request: &Request) -> Result<(), Reply> {
        let mut state = self.state.lock();
        let requests = state.requests.entry(request.key.clone()).or_default();
        *requests += 1;
        if u64::from(*requests) <= request.fails {
            return Err(Reply::Unavailable);
        }
        let revoked = state.revoked_below.get(&request.key).is_some_and(|below| request.fence < *below);
        if request.class == EffectClass::LookUp && revoked {
            return Err(Reply::Revoked);
        }
        *state.accepted.entry(request.key.clone()).or_default() += 1;
        Ok(())
    }

    fn execute(&self, request: &Request) -> Reply {
        let mut state = self.state.lock();
        if let Some(accepted) = state.accepted.get_mut(&request.key) {
            *accepted -= 1;
        }
        let done = state.effects.entry(request.key.clone()).or_default();
        let reply = match request.class {
            EffectClass::NativeKey if *done > 0 => Reply::Done,
            EffectClass::CompareAndSet if *done > 0 => Reply::AlreadyApplied,
            EffectClass::Pure | EffectClass::ReadOnly => Reply::Done,
            EffectClass::NativeKey
            | EffectClass::CompareAndSet
            | EffectClass::LookUp
            | EffectClass::Opaque => {
                *done += 1;
                Reply::Done
            }
        };
        drop(state);
        self.executed.notify_waiters();
        reply
    }

    /// Revokes the credentials issued below `fence`.
    fn revoke(&self, key: &IdempotencyKey, fence: Fence) {
        let mut state = self.state.lock();
        let below = state.revoked_below.entry(key.clone()).or_default();
        *below = fence.max(*below);
    }

    /// Returns when every accepted request has been carried out.
    async fn wait_until_drained(&self, key: &IdempotencyKey) {
        loop {
            let executed = self.executed.notified();
            if self.state.lock().accepted.get(key).is_none_or(|accepted| *accepted == 0) {
                return;
            }
            executed.await;
        }
    }

    fn happened(&self, key: &IdempotencyKey) -> bool {
        self.state.lock().effects.get(key).is_some_and(|count| *count > 0)
    }
}

/// A tool of one effect class, as one node calls it.
pub(crate) struct SimTool {
    pub(crate) name: &'static str,
    /// The effect class that the tool declares.
    pub(crate) class: EffectClass,
    /// The effect class that the service implements.
    pub(crate) actual_class: EffectClass,
    pub(crate) node: Node,
    pub(crate) service: Arc<FakeService>,
}

/// Every tool: its name, the effect class it declares, and the effect class the service implements.
pub(crate) const TOOLS: [(&str, EffectClass, EffectClass); 6] = [
    ("sim.read", EffectClass::ReadOnly, EffectClass::ReadOnly),
    ("sim.keyed", EffectClass::NativeKey, EffectClass::NativeKey),
    ("sim.cas", EffectClass::CompareAndSet, EffectClass::CompareAndSet),
    ("sim.lookup", EffectClass::LookUp, EffectClass::LookUp),
    ("sim.opaque", EffectClass::Opaque, EffectClass::Opaque),
    // Declares a class that its service does not implement. A test checks that the oracle detects it.
    ("sim.liar", EffectClass::NativeKey, EffectClass::Opaque),
];

#[async_trait]
impl Tool for SimTool {
    #[expect(clippy::expect_used, reason = "the names are literals")]
    fn name(&self) -> ToolName {
        ToolName::new(self.name).expect("a tool name")
    }

    fn propose(&self, request: ProposalRequest<'_>) -> Result<Action, Failure> {
        let key = IdempotencyKey::for_step(&self.name(), &request.run.run, request.step);
        let changes = request.observed.map(|found| FieldChange {
            field: "state".to_owned(),
            before: Some(found.clone()),
            after: request.fields["value"].clone(),
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
            target: format!("fake service, {}", request.step),
            key: if request.reverts { key.reverse() } else { key },
            key_retention: None,
            changes: changes.into_iter().collect(),
            destructive: false,
            estimate_microusd: None,
            connection: None,
            fields: request.fields,
        })
    }

    /// Only a compare-and-set needs the current state to propose its change.
    fn observes(&self) -> bool {
        self.class == EffectClass::CompareAndSet
    }

    async fn observe(&self, _request: &ProposalRequest<'_>) -> Observed {
        let lost_reply = |_| Observed::Retryable {
            failure: Failure::new("NO_REPLY", "the reply was lost"),
            retry_after: Some(Millis::secs(1)),
        };
        let pending = match self.node.begin_call("tool.observe", None).await {
            Ok(pending) => pending,
            Err(failed) => return lost_reply(failed),
        };
        let effects: u32 = self.service.effects().values().sum();
        match self.node.end_call(pending).await {
            Ok(()) => Observed::Found(json!({ "effects": effects })),
            Err(failed) => lost_reply(failed),
        }
    }

    async fn perform(&self, call: ToolCall<'_>) -> ToolOutcome {
        let Ok(pending) = self.node.begin_call("tool.perform", None).await else { return unavailable() };
        let fields = &call.action.fields;
        let request = Request {
            key: call.action.key.clone(),
            class: self.actual_class,
            fence: call.fence,
            duration: Duration::from_millis(fields["takes_ms"].as_u64().unwrap_or(20)),
            fails: fields["fails"].as_u64().unwrap_or(0),
        };
        let reply = self.service.send(request).await;
        match (self.node.end_call(pending).await, reply) {
            (Ok(()), Ok(Reply::Done | Reply::AlreadyApplied)) => {
                ToolOutcome::Done(tool_result(&self.name(), fields))
            }
            (Ok(()), Ok(Reply::Unavailable)) => unavailable(),
            // A revoked credential means that another worker has taken over; that worker resolves the intent.
            (Ok(()), Ok(Reply::Revoked) | Err(_))
            | (Err(CallFailed::ReplyLost | CallFailed::Rejected), _) => no_reply(),
        }
    }

    async fn fence_out(&self, call: ToolCall<'_>) -> Result<(), Failure> {
        let lost = |_| Failure::new("NO_REPLY", "the old credential may not be revoked");
        let pending = self.node.begin_call("tool.fence_out", None).await.map_err(lost)?;
        self.service.revoke(&call.action.key, call.fence);
        self.service.wait_until_drained(&call.action.key).await;
        self.node.end_call(pending).await.map_err(lost)
    }

    async fn look_up(&self, call: ToolCall<'_>) -> LookUpResult {
        let unclear = |_| LookUpResult::Unclear(Failure::new("NO_REPLY", "the reply was lost"));
        let pending = match self.node.begin_call("tool.look_up", None).await {
            Ok(pending) => pending,
            Err(failed) => return unclear(failed),
        };
        let found = self.service.happened(&call.action.key);
        match self.node.end_call(pending).await {
            Ok(()) if found => LookUpResult::Found(tool_result(&self.name(), &call.action.fields)),
            Ok(()) => LookUpResult::Absent,
            Err(failed) => unclear(failed),
        }
    }
}

fn tool_result(tool: &ToolName, fields: &Value) -> ToolResult {
    ToolResult {
        output: json!({ "value": fields["value"] }),
        response: json!({ "status": 200 }),
        inverse: Some(json!({ "tool": tool, "with": { "value": "back" } })),
        ..ToolResult::default()
    }
}

/// The fake approval channel, as one node calls it.
pub(crate) struct FakeNotifier {
    pub(crate) node: Node,
    pub(crate) service: Arc<FakeService>,
}

#[async_trait]
impl ApprovalNotifier for FakeNotifier {
    async fn notify(
        &self,
        approval: &Approval,
        _card: Option<&Card>,
        _context: &NotifyContext<'_>,
    ) -> Result<Option<Card>, NotifyFailure> {
        let lost = |_| NotifyFailure {
            approval: approval.id.clone(),
            why: "no reply".to_owned(),
            so_far: None,
            retry: RetryHint::After(None),
        };
        let pending = self.node.begin_call("notifier.notify", None).await.map_err(lost)?;
        self.service.state.lock().cards.insert(approval.id.clone(), approval.status);
        self.node.end_call(pending).await.map_err(lost)?;
        let Approval { revision, reminders, .. } = *approval;
        let escalated = approval.escalated_at.is_some();
        Ok(Some(Card { message: "wall".to_owned(), connection: None, revision, reminders, escalated }))
    }
}

fn unavailable() -> ToolOutcome {
    ToolOutcome::Retryable {
        failure: Failure::new("UNAVAILABLE", "not now"),
        certainty: EffectOutcome::DidNotHappen,
        retry_after: Some(Millis::secs(1)),
    }
}

fn no_reply() -> ToolOutcome {
    ToolOutcome::Retryable {
        failure: Failure::new("NO_REPLY", "the reply was lost"),
        certainty: EffectOutcome::MayHaveHappened,
        retry_after: None,
    }
}
