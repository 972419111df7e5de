//! The external system that the runs of the fleet change, and the approvers. Both outlive the workers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use connectors::{ProposalRequest, Tool, ToolCall, ToolOutcome, ToolResult};
use domain::{
    Action, Approval, Card, EffectClass, Failure, IdempotencyKey, Millis, Reversibility, RunKey, ToolName,
};
use engine::{ApprovalNotifier, NotifyContext, NotifyFailure};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep};

/// How long a request takes to arrive.
const TRANSIT: Duration = Duration::from_millis(20);

/// When an effect began and ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effect {
    pub(crate) began: Instant,
    pub(crate) ended: Instant,
}

/// The effects of each run.
#[derive(Debug, Default)]
pub(crate) struct ExternalSystem {
    effects: Mutex<BTreeMap<RunKey, Vec<Effect>>>,
    keys: Mutex<BTreeSet<IdempotencyKey>>,
}

impl ExternalSystem {
    pub(crate) fn effects(&self) -> BTreeMap<RunKey, Vec<Effect>> {
        self.effects.lock().clone()
    }

    /// Carries out a request, which arrives even if its sender has died.
    fn send(self: &Arc<Self>, call: &ToolCall<'_>, class: EffectClass) -> oneshot::Receiver<()> {
        let (reply, replied) = oneshot::channel();
        let (system, run, key) = (Arc::clone(self), call.run.clone(), call.action.key.clone());
        let duration = Duration::from_millis(call.action.fields["takes_ms"].as_u64().unwrap_or(50));
        tokio::spawn(async move {
            sleep(TRANSIT).await;
            let repeated = class == EffectClass::NativeKey && !system.keys.lock().insert(key);
            if !repeated {
                let began = Instant::now();
                sleep(duration).await;
                let effect = Effect { began, ended: Instant::now() };
                system.effects.lock().entry(run).or_default().push(effect);
            }
            // The sender may have died.
            let _ = reply.send(());
        });
        replied
    }
}

/// A tool of one effect class.
pub(crate) struct ExternalTool {
    pub(crate) name: &'static str,
    pub(crate) class: EffectClass,
    pub(crate) system: Arc<ExternalSystem>,
}

#[async_trait]
impl Tool for ExternalTool {
    #[expect(clippy::expect_used, reason = "the names are literals")]
    fn name(&self) -> ToolName {
        ToolName::new(self.name).expect("a tool name")
    }

    fn propose(&self, request: ProposalRequest<'_>) -> Result<Action, Failure> {
        let action = testkit::action(self.name(), request);
        Ok(Action { class: self.class, reversibility: Reversibility::Compensable, ..action })
    }

    async fn perform(&self, call: ToolCall<'_>) -> ToolOutcome {
        match self.system.send(&call, self.class).await {
            Ok(()) => ToolOutcome::Done(ToolResult::default()),
            Err(_) => ToolOutcome::Retryable {
                failure: Failure::new("NO_REPLY", "the reply was lost"),
                certainty: domain::command::EffectOutcome::MayHaveHappened,
                retry_after: Some(Millis::secs(1)),
            },
        }
    }
}

/// Passes approval requests on to the approvers.
pub(crate) struct Approvers(pub(crate) mpsc::UnboundedSender<Approval>);

#[async_trait]
impl ApprovalNotifier for Approvers {
    async fn notify(
        &self,
        approval: &Approval,
        _card: Option<&Card>,
        _context: &NotifyContext<'_>,
    ) -> Result<Option<Card>, NotifyFailure> {
        sleep(TRANSIT).await;
        // At the end of the simulation there are no approvers.
        let _ = self.0.send(approval.clone());
        let Approval { revision, reminders, .. } = *approval;
        let escalated = approval.escalated_at.is_some();
        Ok(Some(Card { message: "card".to_owned(), connection: None, revision, reminders, escalated }))
    }
}
