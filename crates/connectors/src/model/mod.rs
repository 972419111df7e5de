//! `model.converse`: sends one prompt to a language model and returns its answer.
//!
//! ```yaml
//! tool: model.converse
//! with:
//!   provider: bedrock               # a provider from the worker's configuration
//!   model: eu.amazon.nova-lite-v1:0
//!   system: You sort incidents.
//!   prompt: 'Which team is this for? Answer as {"team": …}.'
//!   data: ${ steps.read.description }          # untrusted text, delimited from the prompt
//!   max_tokens: 400                 # default 1024
//!   temperature: "0.2"
//!   json: true                      # the answer must be JSON and is parsed
//! ```
//!
//! The call changes no external system, so its class is read-only. A retry is safe and costs again. The cost is the
//! tokens that the provider reports, at the operator's prices. Without a price for the model, the cost is 0 and the
//! response says that it is unknown.
//!
//! If an answer that must be JSON is not JSON, the tool asks once more in the same attempt; the second answer is
//! often valid. Both answers are counted. A second invalid answer fails the step.
//!
//! The delimiters around `data` contain a digest of the data, so the data cannot close its own delimiters. They are a
//! hint to the model and not a security boundary: policy is evaluated on every action that follows from an answer.

mod converse;
mod format;
mod price;
mod prompt;

use std::collections::BTreeMap;
use std::time::Duration;

use domain::EffectClass;

use crate::api::{Api, BaseUrl, Credential};
use crate::not_configured::NotConfiguredTool;
use crate::tool::ToolRegistry;

pub use format::ApiFormat;
pub use price::Price;

/// A long answer from a large model takes a minute or two.
const TIMEOUT: Duration = Duration::from_mins(2);

#[derive(Debug, Clone, Default)]
pub struct ModelSettings {
    /// By the name that workflows use in `provider:`.
    pub providers: BTreeMap<String, Provider>,
}

#[derive(Debug, Clone)]
pub struct Provider {
    /// `https://bedrock-runtime.eu-central-1.amazonaws.com`, `https://llm.internal/v1`.
    pub base: BaseUrl,
    pub format: ApiFormat,
    pub credential: Credential,
    /// By model id.
    pub prices: BTreeMap<String, Price>,
}

/// Registers `model.converse`.
pub(crate) fn register(registry: ToolRegistry, settings: Option<ModelSettings>) -> ToolRegistry {
    let Some(ModelSettings { providers }) = settings else {
        let class = EffectClass::ReadOnly;
        return registry.with(NotConfiguredTool { name: converse::NAME, class, setting: "model" });
    };
    let provider = |(name, provider): (String, Provider)| {
        let Provider { base, format, credential, prices } = provider;
        (name, converse::ProviderClient { api: Api::new(base, credential, TIMEOUT), format, prices })
    };
    registry.with(converse::Converse { providers: providers.into_iter().map(provider).collect() })
}
