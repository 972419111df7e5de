//! What a tool is.
//!
//! A tool looks at what it would change ([`Tool::survey`], reads only), says what a call would do before
//! anything is done ([`Tool::propose`], pure), does it
//! ([`Tool::perform`]), and, if it promises that, finds out afterwards whether it was done
//! ([`Tool::shut_out`], then [`Tool::look_up`]). What it declares in the [`Action`] — class, key,
//! reversibility — is what the runtime acts on when a worker dies; a tool that cannot keep a promise must
//! declare a weaker class.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use domain::command::Certainty;
use domain::{Action, EffectClass, Failure, Fence, Millis, RunKey, StepId, ToolName, Usage};
use serde_json::Value;

/// A call that is to be described.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask<'a> {
    /// The run it belongs to.
    pub run: &'a RunKey,
    /// The step it belongs to.
    pub step: &'a StepId,
    /// Whether it takes back what the step did.
    pub undo: bool,
    /// Its fields, every expression bound.
    pub fields: Value,
    /// What [`Tool::survey`] found, now or when the action was first proposed.
    pub found: Option<&'a Value>,
}

/// How things stand outside, as far as a tool must know before it can say what it would do.
#[derive(Debug, Clone, PartialEq)]
pub enum Survey {
    /// There was nothing to look at.
    NotNeeded,
    /// This was found. It is kept with the receipt, so it holds no more than the proposal needs.
    Found(Value),
    /// The outside did not answer; ask again.
    Later {
        /// Why.
        failure: Failure,
        /// How long it asked us to stay away.
        retry_after: Option<Millis>,
    },
    /// There is no such thing outside, or we may not see it.
    Never(Failure),
}

/// A call that is to be made.
#[derive(Debug, Clone)]
pub struct Call<'a> {
    /// The run it belongs to.
    pub run: &'a RunKey,
    /// The step it belongs to.
    pub step: &'a StepId,
    /// Exactly what was proposed.
    pub action: &'a Action,
    /// The fence the caller holds the step under; a credential made for the call carries it.
    pub fence: Fence,
    /// The call must be over by then: nobody works on one attempt for longer.
    pub time_left: Duration,
    /// An earlier attempt at this very action may have acted, and nobody knows whether it did.
    pub again: bool,
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// It was done.
    Done(Done),
    /// It failed in a way that another attempt may mend.
    Retryable {
        /// Why.
        failure: Failure,
        /// What is known about its effect.
        certainty: Certainty,
        /// How long the other side asked us to stay away.
        retry_after: Option<Millis>,
    },
    /// It cannot succeed, and nothing happened outside.
    Terminal(Failure),
}

impl Outcome {
    /// The outcome as knowledge about the effect, where an earlier attempt may have caused it: that this
    /// attempt did nothing does not say that nothing happened. Only success is certain.
    #[must_use]
    pub fn after_open_attempt(self) -> Self {
        let certainty = Certainty::MayHaveHappened;
        match self {
            Self::Done(_) => self,
            Self::Retryable { failure, retry_after, .. } => {
                Self::Retryable { failure, certainty, retry_after }
            }
            Self::Terminal(failure) => Self::Retryable { failure, certainty, retry_after: None },
        }
    }
}

/// A call that was done.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Done {
    /// What later steps can read.
    pub output: Value,
    /// What the other side said, in metadata.
    pub response: Value,
    /// The call that would restore what was there before: `{"tool": …, "with": …}`.
    pub inverse: Option<Value>,
    /// What it cost, in millionths of a US dollar.
    pub cost_microusd: u64,
    /// What that was for.
    pub usage: Option<Usage>,
}

/// What was found when looking for an effect.
#[derive(Debug, Clone, PartialEq)]
pub enum LookUp {
    /// It happened; this is what it gave.
    Found(Done),
    /// It did not happen.
    Absent,
    /// It could not be found out; ask again later.
    Unclear(Failure),
}

/// Something a step can call.
#[async_trait]
pub trait Tool: Send + Sync {
    /// The name workflows call it by.
    fn name(&self) -> ToolName;

    /// The class that a call with these fields would declare, as far as the file says it: texts may still
    /// hold expressions, and what depends on them is not known before they are bound.
    fn declares(&self, _with: &Value) -> Option<EffectClass> {
        None
    }

    /// Looks at what the call would change, without changing anything. Whatever is found goes into the
    /// action, so that people see it and an approval is bound to it.
    async fn survey(&self, _ask: &Ask<'_>) -> Survey {
        Survey::NotNeeded
    }

    /// What the call would do, exactly. Pure: the same call always gives the same action.
    fn propose(&self, ask: Ask<'_>) -> Result<Action, Failure>;

    /// Does it.
    async fn perform(&self, call: Call<'_>) -> Outcome;

    /// Makes sure that no request of a holder before `call.fence` can take effect any more, and that those
    /// under way have ended. Only tools of the look-up class have this.
    async fn shut_out(&self, call: Call<'_>) -> Result<(), Failure> {
        Err(not_offered(call.action, "shutting an old holder out"))
    }

    /// Finds out whether the effect happened. Only tools of the look-up class have this.
    async fn look_up(&self, call: Call<'_>) -> LookUp {
        LookUp::Unclear(not_offered(call.action, "looking an effect up"))
    }
}

fn not_offered(action: &Action, what: &str) -> Failure {
    Failure::new("TOOL_CONTRACT", format!("{} does not offer {what}", action.tool))
}

/// An action that was proposed without a look at what it would change may be explained, and is never made.
pub(crate) fn not_surveyed(action: &Action) -> Failure {
    let Action { target, .. } = action;
    Failure::new("TOOL_CONTRACT", format!("{target} was not looked at before the change was proposed"))
}

/// The name of a tool of ours.
#[expect(clippy::expect_used, reason = "every name of ours is a literal, and a test proposes each tool")]
pub(crate) fn name(literal: &'static str) -> ToolName {
    ToolName::new(literal).expect("a tool name")
}

/// The tools a worker has.
#[derive(Clone, Default)]
pub struct Toolbox {
    tools: BTreeMap<ToolName, Arc<dyn Tool>>,
}

impl Toolbox {
    /// The same box with one tool more.
    #[must_use]
    pub fn with(mut self, tool: impl Tool + 'static) -> Self {
        self.tools.insert(tool.name(), Arc::new(tool));
        self
    }

    /// The tool called `name`.
    pub fn get(&self, name: &ToolName) -> Option<&Arc<dyn Tool>> {
        self.tools.get(name)
    }

    /// The names of all tools.
    pub fn names(&self) -> impl Iterator<Item = &ToolName> {
        self.tools.keys()
    }
}

impl std::fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.tools.keys()).finish()
    }
}
