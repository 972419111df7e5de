//! `model.converse`: sends one prompt to a language model and returns its answer.
//!
//! ```yaml
//! tool: model.converse
//! connection: bedrock               # may be omitted if there is only one of kind `model`
//! with:
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
//! tokens that the provider reports, at the prices of the connection. Without a price for the model, the cost is 0 and the
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

use std::sync::Arc;
use std::time::Duration;

use domain::connection::ModelApi;
use domain::{ConnectionKind, EffectClass};

use crate::api::Api;
use crate::connection::Unconnected;
use crate::tool::ToolRegistry;

/// A long answer from a large model takes a minute or two.
const TIMEOUT: Duration = Duration::from_mins(2);

/// Registers `model.converse`.
pub(crate) fn register(registry: ToolRegistry) -> ToolRegistry {
    registry.with(Unconnected {
        name: converse::NAME,
        kind: ConnectionKind::Model,
        class: EffectClass::ReadOnly,
        connect: |on| {
            Arc::new(converse::Converse {
                provider: on.name.clone(),
                api: Api::new(on, TIMEOUT),
                format: on.options.model_api.unwrap_or(ModelApi::Completions),
                prices: on.options.prices.clone(),
            })
        },
    })
}
