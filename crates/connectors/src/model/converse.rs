use std::collections::BTreeMap;

use async_trait::async_trait;
use domain::connection::{ModelApi, ModelPrice};
use domain::{
    Action, Charge, ConnectionName, EffectClass, Failure, IdempotencyKey, ModelUsage, Reversibility,
    ToolName, json as strict,
};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::api::{Api, ApiError, REPLY_INVALID};
use crate::tool::{self, ProposalRequest, Tool, ToolCall, ToolOutcome, ToolResult};

use super::format::{self, ModelReply};
use super::price::Tokens;
use super::prompt::Prompt;

pub(super) const NAME: &str = "model.converse";

/// Increase it when the meaning of the fields changes.
const CONTRACT: u32 = 1;

/// Requests for one answer that must be JSON.
const ANSWERS_MAX: u32 = 2;

/// A model on one connection.
#[derive(Debug)]
pub(super) struct Converse {
    /// The name of the connection, which costs are reported under.
    pub(super) provider: ConnectionName,
    pub(super) api: Api,
    pub(super) format: ModelApi,
    pub(super) prices: BTreeMap<String, ModelPrice>,
}

impl Converse {
    async fn send(&self, prompt: &Prompt, until: Instant) -> Result<ModelReply, ApiError> {
        let response = self.api.send(format::request(self.format, prompt), until).await?;
        let host = self.api.host();
        format::parse_reply(self.format, &response.value).ok_or_else(|| {
            ApiError::Terminal(Failure::new(
                REPLY_INVALID,
                format!("the reply from {host} contains no answer"),
            ))
        })
    }

    /// Asks until the answer is valid, at most [`ANSWERS_MAX`] times.
    async fn converse(&self, prompt: &Prompt, until: Instant) -> Result<ToolResult, ApiError> {
        let mut tokens = Tokens::default();
        let mut requests = 0;
        loop {
            let sent = self.send(prompt, until).await;
            // The earlier replies were billed.
            let with_charge = |error: ApiError| {
                if requests == 0 { error } else { error.charged(self.charge(prompt, tokens)) }
            };
            let reply = sent.map_err(with_charge)?;
            tokens = tokens.plus(reply.tokens);
            requests += 1;
            match output(prompt, &reply) {
                Ok(output) => return Ok(self.done(prompt, &reply, tokens, output)),
                Err(failure) if requests == ANSWERS_MAX => {
                    return Err(ApiError::Terminal(failure).charged(self.charge(prompt, tokens)));
                }
                Err(_) => {}
            }
        }
    }

    fn done(&self, prompt: &Prompt, reply: &ModelReply, tokens: Tokens, output: Value) -> ToolResult {
        let cost = tokens.cost(&self.prices, &prompt.model);
        let mut response = json!({
            "provider": self.provider,
            "model": prompt.model,
            "input_tokens": tokens.input,
            "output_tokens": tokens.output,
            "stop_reason": reply.stop_reason,
        });
        if cost.is_none() {
            response["cost"] = "unknown: no price is set for this model".into();
        }
        let Charge { cost_microusd, usage } = self.charge(prompt, tokens);
        ToolResult { output, response, inverse: None, cost_microusd, usage }
    }

    fn charge(&self, prompt: &Prompt, tokens: Tokens) -> Charge {
        let usage = ModelUsage {
            provider: self.provider.as_str().to_owned(),
            model: prompt.model.clone(),
            input_tokens: tokens.input,
            output_tokens: tokens.output,
        };
        let cost_microusd = tokens.cost(&self.prices, &prompt.model).unwrap_or_default();
        Charge { cost_microusd, usage: Some(usage) }
    }
}

/// An upper bound: an answer that must be JSON may be requested twice.
fn estimate(prompt: &Prompt) -> Tokens {
    let once = Tokens::estimate(prompt.chars(), prompt.max_tokens);
    if prompt.json { once.plus(once) } else { once }
}

fn output(prompt: &Prompt, reply: &ModelReply) -> Result<Value, Failure> {
    if !prompt.json {
        return Ok(json!({ "text": reply.text }));
    }
    let value = strict::parse(reply.text.trim().as_bytes()).map_err(|error| {
        Failure::new("MODEL_JSON", format!("the answer of {} is not JSON: {error}", prompt.model))
    })?;
    Ok(json!({ "text": reply.text, "json": value }))
}

#[async_trait]
impl Tool for Converse {
    fn name(&self) -> ToolName {
        tool::name(NAME)
    }

    fn effect_class(&self, _: &Value) -> Option<EffectClass> {
        Some(EffectClass::ReadOnly)
    }

    fn propose(&self, request: ProposalRequest<'_>) -> Result<Action, Failure> {
        let prompt = Prompt::parse(request.fields)?;
        let key = IdempotencyKey::for_step(&self.name(), &request.run.run, request.step);
        Ok(Action {
            tool: self.name(),
            contract: CONTRACT,
            class: EffectClass::ReadOnly,
            reversibility: Reversibility::NoEffect,
            target: format!("{}/{}", self.api.host(), prompt.model),
            key: if request.reverts { key.reverse() } else { key },
            key_retention: None,
            changes: Vec::new(),
            destructive: false,
            estimate_microusd: estimate(&prompt).cost(&self.prices, &prompt.model),
            connection: None,
            fields: prompt.to_fields(),
        })
    }

    async fn perform(&self, call: ToolCall<'_>) -> ToolOutcome {
        let result = match Prompt::parse(call.action.fields.clone()) {
            Ok(prompt) => self.converse(&prompt, Instant::now() + call.time_left).await,
            Err(failure) => return ToolOutcome::Terminal(failure),
        };
        result.map_or_else(ToolOutcome::from, ToolOutcome::Done)
    }
}
