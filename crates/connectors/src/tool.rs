//! The [`Tool`] trait: an operation that a workflow step can call. Read its documentation to add a tool.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use domain::command::EffectOutcome;
use domain::{
    Action, ConnectionKind, EffectClass, Failure, Fence, Millis, ModelUsage, RunKey, StepId, ToolName,
};
use serde_json::Value;

use crate::connection::ToolConnection;
use crate::reference::PAGES;

/// The input of [`Tool::observe`] and [`Tool::propose`]: one step's call, before anything is done.
#[derive(Debug, Clone, PartialEq)]
pub struct ProposalRequest<'a> {
    /// The run that the step belongs to.
    pub run: &'a RunKey,
    /// The step.
    pub step: &'a StepId,
    /// Whether the call rolls back the step. A rollback must have its own idempotency key
    /// ([`IdempotencyKey::reverse`](domain::IdempotencyKey::reverse)).
    pub reverts: bool,
    /// Whether the workflow declares a call that rolls back the step.
    pub has_rollback: bool,
    /// The step's `with`, with every expression evaluated.
    pub fields: Value,
    /// The state that [`Tool::observe`] returned, now or when the action was first proposed.
    pub observed: Option<&'a Value>,
}

/// The result of [`Tool::observe`].
#[derive(Debug, Clone, PartialEq)]
pub enum Observed {
    /// The tool proposes without reading the external system.
    NotNeeded,
    /// The current state, as far as the proposal needs it. It is stored with the receipt, so keep it small.
    Found(Value),
    /// The external system did not answer. The engine tries again later.
    Retryable {
        /// The cause.
        failure: Failure,
        /// The delay that the external system asked for.
        retry_after: Option<Millis>,
    },
    /// The target does not exist or the credential cannot read it. The step fails.
    Terminal(Failure),
}

/// The input of [`Tool::perform`], [`Tool::fence_out`] and [`Tool::look_up`]: one attempt at an action.
#[derive(Debug, Clone)]
pub struct ToolCall<'a> {
    /// The run that the step belongs to.
    pub run: &'a RunKey,
    /// The step.
    pub step: &'a StepId,
    /// Exactly the action that [`Tool::propose`] returned and that policy and approvers accepted.
    pub action: &'a Action,
    /// The fence under which this worker holds the step. A credential that is issued for the call carries it.
    pub fence: Fence,
    /// The time within which the call must return. The engine renews the lease meanwhile.
    pub time_left: Duration,
    /// An earlier attempt at this action may have taken effect; its outcome is unknown.
    pub again: bool,
}

/// The result of [`Tool::perform`].
#[derive(Debug, Clone, PartialEq)]
pub enum ToolOutcome {
    /// The effect happened.
    Done(ToolResult),
    /// The attempt failed; another attempt may succeed.
    Retryable {
        /// The cause.
        failure: Failure,
        /// Whether the effect may have happened.
        certainty: EffectOutcome,
        /// The delay that the external system asked for.
        retry_after: Option<Millis>,
    },
    /// The action cannot succeed, and nothing changed in the external system.
    Terminal(Failure),
}

impl ToolOutcome {
    /// Adjusts the outcome of an attempt that follows one with an unknown outcome ([`ToolCall::again`]).
    ///
    /// A failure of this attempt does not prove that the earlier one had no effect, so every failure becomes
    /// retryable with [`EffectOutcome::MayHaveHappened`]. Only success is certain.
    #[must_use]
    pub fn after_open_attempt(self) -> Self {
        let certainty = EffectOutcome::MayHaveHappened;
        match self {
            Self::Done(_) => self,
            Self::Retryable { failure, retry_after, .. } => {
                Self::Retryable { failure, certainty, retry_after }
            }
            Self::Terminal(failure) => Self::Retryable { failure, certainty, retry_after: None },
        }
    }
}

/// The result of an action whose effect happened.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolResult {
    /// The value that later steps read as `steps.ID`.
    pub output: Value,
    /// Metadata of the external system's response, for the receipt.
    pub response: Value,
    /// The call that restores the previous state: `{"tool": …, "with": …}`.
    pub inverse: Option<Value>,
    /// The cost in millionths of a US dollar.
    pub cost_microusd: u64,
    /// The tokens that the cost covers.
    pub usage: Option<ModelUsage>,
}

/// The result of [`Tool::look_up`].
#[derive(Debug, Clone, PartialEq)]
pub enum LookUpResult {
    /// The effect happened, with this result.
    Found(ToolResult),
    /// The effect did not happen.
    Absent,
    /// The external system gave no clear answer. The engine tries again later.
    Unclear(Failure),
}

/// Which connection a tool works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionUse {
    /// None.
    Unused,
    /// One of this kind, if the step names it.
    Optional(ConnectionKind),
    /// One of this kind: the one that the step names, or the only one.
    Required(ConnectionKind),
    /// The one that the step names, of any kind.
    AnyKind,
}

/// An operation that a workflow step can call.
///
/// # When the engine calls each method
/// 1. [`name`](Self::name) and [`effect_class`](Self::effect_class), when a workflow is checked or applied. No run
///    exists yet.
/// 2. [`observe`](Self::observe), when a run reaches the step, if the tool [`observes`](Self::observes). It reads the
///    external system and changes nothing. Policy is evaluated on the action without observed state first: a
///    denied step sends no request.
/// 3. [`propose`](Self::propose). It turns the step's fields and the observed state into an [`Action`]. The
///    engine evaluates policy on the action, approvers see it, and an approval is bound to its hash.
/// 4. [`perform`](Self::perform), once the action is allowed and this worker holds the step's lease. This is the
///    only method that changes the external system.
/// 5. [`fence_out`](Self::fence_out) and [`look_up`](Self::look_up), only for the look-up class, when an earlier
///    attempt left an unknown outcome.
///
/// # Choose the effect class
/// The class in the [`Action`] decides what the engine does when a worker dies between effect and commit. Declare
/// the strongest class that is true for every call; when in doubt, a weaker one.
///
/// | class | declare it if | after an unknown outcome the engine |
/// |---|---|---|
/// | [`Pure`](EffectClass::Pure) | the call contacts no external system | calls `perform` again; policy is not evaluated |
/// | [`ReadOnly`](EffectClass::ReadOnly) | the call changes nothing | evaluates policy, then calls `perform` again |
/// | [`NativeKey`](EffectClass::NativeKey) | the external system ignores a second request with the same key | calls `perform` again |
/// | [`CompareAndSet`](EffectClass::CompareAndSet) | the request has a precondition that its own effect makes false | calls `perform` again |
/// | [`LookUp`](EffectClass::LookUp) | the tool can exclude older workers and then find out whether the effect happened | calls `fence_out`, then `look_up` |
/// | [`Opaque`](EffectClass::Opaque) | none of the above holds | pauses the run until an operator decides |
///
/// # Add a tool
/// 1. Implement this trait in a module of its own. Copy a small one: [`transform`](crate::transform) for a tool
///    without an effect, `servicenow/update.rs` for compare-and-set, `slack.rs` for opaque. A tool for an HTTP API
///    sends its requests through [`api`](crate::api).
/// 2. Register it in [`standard_tools`](crate::standard_tools). A tool of an external system is registered without a
///    connection, with the function that connects it.
/// 3. Describe its fields in [`reference`](crate::reference); a unit test compares the page with the tool.
/// 4. If it has an effect, add it to `TOOLS` in `tests/tools/subject.rs`. The tests there run it twice, fail it,
///    lose its reply and undo it, and count what really happened.
#[async_trait]
pub trait Tool: Send + Sync {
    /// The name that workflows use in `tool:`.
    fn name(&self) -> ToolName;

    /// The effect class of a call with these fields, for checks before a run exists.
    ///
    /// Expressions in `with` are not evaluated yet. Return `None` if the class depends on one.
    fn effect_class(&self, _with: &Value) -> Option<EffectClass> {
        None
    }

    /// The connection that the tool needs.
    fn connection_use(&self) -> ConnectionUse {
        ConnectionUse::Unused
    }

    /// The tool on this connection, for one step; `None` if the tool needs no connection, or one of another kind. The
    /// engine calls the methods below on the connected tool. For [`propose`](Self::propose) the connection has no
    /// credential.
    fn connect(&self, _connection: &ToolConnection) -> Option<Arc<dyn Tool>> {
        None
    }

    /// Whether the tool reads the external system before it proposes. [`observe`](Self::observe) is called only if it
    /// does, and only after policy did not deny the action that the tool proposes without observed state.
    fn observes(&self) -> bool {
        false
    }

    /// Reads the state that the call would change, without changing anything.
    ///
    /// The result becomes part of the action, so that approvers see it and an approval is bound to it.
    async fn observe(&self, _request: &ProposalRequest<'_>) -> Observed {
        Observed::NotNeeded
    }

    /// Returns exactly what the call would do. It must be pure: the same request always gives the same action.
    fn propose(&self, request: ProposalRequest<'_>) -> Result<Action, Failure>;

    /// Executes the action once.
    async fn perform(&self, call: ToolCall<'_>) -> ToolOutcome;

    /// Ensures that no request by a worker with a fence below `call.fence` can take effect any more, and that
    /// requests in progress have ended. Only for the look-up class.
    async fn fence_out(&self, call: ToolCall<'_>) -> Result<(), Failure> {
        Err(unsupported(call.action, "fencing out an earlier worker"))
    }

    /// Finds out whether the effect of an earlier attempt happened. Only for the look-up class.
    async fn look_up(&self, call: ToolCall<'_>) -> LookUpResult {
        LookUpResult::Unclear(unsupported(call.action, "looking up an effect"))
    }
}

fn unsupported(action: &Action, operation: &str) -> Failure {
    Failure::new("TOOL_CONTRACT", format!("{} does not support {operation}", action.tool))
}

/// The failure of an action that was proposed without observed state. Such an action serves for explanations only.
pub(crate) fn not_observed(action: &Action) -> Failure {
    let Action { target, .. } = action;
    Failure::new(
        "TOOL_CONTRACT",
        format!("the current state of {target} was not read before the change was proposed"),
    )
}

#[expect(clippy::expect_used, reason = "every built-in name is a literal, and a test proposes each tool")]
pub(crate) fn name(literal: &'static str) -> ToolName {
    ToolName::new(literal).expect("a tool name")
}

/// The tools of a worker, by name.
#[derive(Clone, Default)]
pub struct ToolRegistry {
    tools: BTreeMap<ToolName, Arc<dyn Tool>>,
}

impl ToolRegistry {
    /// Registers `tool` under its name. It replaces a tool of the same name.
    #[must_use]
    pub fn with(mut self, tool: impl Tool + 'static) -> Self {
        self.tools.insert(tool.name(), Arc::new(tool));
        self
    }

    /// The registry with every tool of this kind on `connection`.
    #[must_use]
    pub fn connected(mut self, connection: &ToolConnection) -> Self {
        for tool in self.tools.values_mut() {
            if let Some(connected) = tool.connect(connection) {
                *tool = connected;
            }
        }
        self
    }

    /// The tool called `name`.
    pub fn get(&self, name: &ToolName) -> Option<&Arc<dyn Tool>> {
        self.tools.get(name)
    }

    /// The fields of the `with` of each tool; `None` for a tool without a reference page.
    pub fn fields(&self) -> BTreeMap<ToolName, Option<Vec<&'static str>>> {
        let page = |name: &ToolName| PAGES.iter().find(|page| page.tool == name.as_str());
        let fields = |name| page(name).map(|page| page.fields.iter().map(|field| field.name).collect());
        self.tools.keys().map(|name| (name.clone(), fields(name))).collect()
    }

    /// The names of all tools, sorted.
    pub fn names(&self) -> impl Iterator<Item = &ToolName> {
        self.tools.keys()
    }
}

impl std::fmt::Debug for ToolRegistry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.tools.keys()).finish()
    }
}
