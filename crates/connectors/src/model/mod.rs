//! `model.converse`: one question to a language model, and its answer.
//!
//! ```yaml
//! tool: model.converse
//! with:
//!   provider: bedrock               # a provider that the operator has configured
//!   model: eu.amazon.nova-lite-v1:0
//!   system: You sort incidents.
//!   prompt: 'Which team is this for? Answer as {"team": …}.'
//!   data: ${ steps.read.output.description }   # what others wrote; fenced off from the prompt
//!   max_tokens: 400                 # default 1024
//!   temperature: "0.2"
//!   json: true                      # the answer must be JSON, and is read
//! ```
//!
//! Nothing outside changes, so the class is read-only; asking again is safe and costs again. What an answer
//! costs is counted from the tokens that the provider reports, at the operator's prices. Where no price is
//! known, the response says so, and the cost is 0.
//!
//! An answer that should be JSON and is not is asked for once more within the same attempt, because a model
//! that is asked twice often answers better; both answers are paid for and counted. A second failure is
//! final: a third answer is not worth its money.
//!
//! The fence around `data` carries a digest of what it encloses, so that no text can close its own fence.
//! It is a hint to the model and no wall: whatever a model says must be judged by policy before it acts.

mod converse;
mod price;
mod prompt;
mod shape;

use std::collections::BTreeMap;
use std::time::Duration;

use domain::EffectClass;

use crate::absent::Absent;
use crate::api::{Api, Base, Credential};
use crate::tool::Toolbox;

pub use price::Price;
pub use shape::Shape;

/// A long answer of a large model takes a minute or two.
const TIMEOUT: Duration = Duration::from_mins(2);

/// The providers there are.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// By the name that workflows call them.
    pub providers: BTreeMap<String, Provider>,
}

/// Somebody who runs models.
#[derive(Debug, Clone)]
pub struct Provider {
    /// `https://bedrock-runtime.eu-central-1.amazonaws.com`, `https://llm.internal/v1`.
    pub base: Base,
    /// The way it is asked.
    pub shape: Shape,
    /// Its key.
    pub credential: Credential,
    /// What its models cost, by their ids.
    pub prices: BTreeMap<String, Price>,
}

/// `toolbox` with the tool for models.
pub(crate) fn add(toolbox: Toolbox, settings: Option<Settings>) -> Toolbox {
    let Some(Settings { providers }) = settings else {
        let class = EffectClass::ReadOnly;
        return toolbox.with(Absent { name: converse::NAME, class, setting: "model" });
    };
    let provider = |(name, provider): (String, Provider)| {
        let Provider { base, shape, credential, prices } = provider;
        (name, converse::Seat { api: Api::new(base, credential, TIMEOUT), shape, prices })
    };
    toolbox.with(converse::Converse { seats: providers.into_iter().map(provider).collect() })
}
