//! The tool `model.converse`.

use std::collections::BTreeMap;

use async_trait::async_trait;
use domain::{Action, EffectClass, Failure, IdempotencyKey, Reversibility, ToolName, Usage, json as strict};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::absent::NOT_CONFIGURED;
use crate::api::{Api, Fault, REPLY_INVALID};
use crate::tool::{self, Ask, Call, Done, Outcome, Tool};

use super::price::{Price, Tokens};
use super::prompt::Prompt;
use super::shape::{Said, Shape};

pub(super) const NAME: &str = "model.converse";

/// Grows when the fields change their meaning.
const CONTRACT: u32 = 1;

/// How often an answer that must be JSON is asked for.
const ANSWERS_MAX: u32 = 2;

/// The tool `model.converse`.
#[derive(Debug)]
pub(super) struct Converse {
    pub(super) seats: BTreeMap<String, Seat>,
}

/// A provider, ready to be asked.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) api: Api,
    pub(super) shape: Shape,
    pub(super) prices: BTreeMap<String, Price>,
}

impl Seat {
    async fn ask(&self, prompt: &Prompt, until: Instant) -> Result<Said, Fault> {
        let answer = self.api.ask(self.shape.question(prompt), until).await?;
        let host = self.api.host();
        self.shape.said(&answer.value).ok_or_else(|| {
            Fault::Never(Failure::new(REPLY_INVALID, format!("the reply from {host} holds no answer")))
        })
    }

    /// Asks until the answer is what it must be, or no further answer is worth its money.
    async fn converse(&self, prompt: &Prompt, until: Instant) -> Result<Done, Fault> {
        let mut tokens = Tokens::default();
        let mut asked = 0;
        loop {
            let said = self.ask(prompt, until).await?;
            tokens = tokens.and(said.tokens);
            asked += 1;
            match output(prompt, &said) {
                Ok(output) => return Ok(self.done(prompt, &said, tokens, output)),
                Err(failure) if asked == ANSWERS_MAX => return Err(Fault::Never(failure)),
                Err(_) => {}
            }
        }
    }

    fn done(&self, prompt: &Prompt, said: &Said, tokens: Tokens, output: Value) -> Done {
        let cost = tokens.cost(&self.prices, &prompt.model);
        let mut response = json!({
            "provider": prompt.provider,
            "model": prompt.model,
            "input_tokens": tokens.input,
            "output_tokens": tokens.output,
            "stop_reason": said.stop_reason,
        });
        if cost.is_none() {
            response["cost"] = "unknown: no price is set for this model".into();
        }
        let usage = Some(Usage {
            provider: prompt.provider.clone(),
            model: prompt.model.clone(),
            input_tokens: tokens.input,
            output_tokens: tokens.output,
        });
        Done { output, response, inverse: None, cost_microusd: cost.unwrap_or_default(), usage }
    }
}

/// At most; an answer that must be JSON may be asked for twice.
fn estimate(prompt: &Prompt) -> Tokens {
    let once = Tokens::estimate(prompt.chars(), prompt.max_tokens);
    if prompt.json { once.and(once) } else { once }
}

fn output(prompt: &Prompt, said: &Said) -> Result<Value, Failure> {
    if !prompt.json {
        return Ok(json!({ "text": said.text }));
    }
    let value = strict::parse(said.text.trim().as_bytes()).map_err(|error| {
        Failure::new("MODEL_JSON", format!("{} did not answer in JSON: {error}", prompt.model))
    })?;
    Ok(json!({ "text": said.text, "json": value }))
}

impl Converse {
    fn seat(&self, prompt: &Prompt) -> Result<&Seat, Failure> {
        self.seats.get(&prompt.provider).ok_or_else(|| {
            let known: Vec<&str> = self.seats.keys().map(String::as_str).collect();
            let known = known.join("`, `");
            Failure::new(
                NOT_CONFIGURED,
                format!("the setting `model.providers` does not have this provider; it has `{known}`"),
            )
        })
    }
}

#[async_trait]
impl Tool for Converse {
    fn name(&self) -> ToolName {
        tool::name(NAME)
    }

    fn declares(&self, _: &Value) -> Option<EffectClass> {
        Some(EffectClass::ReadOnly)
    }

    fn propose(&self, ask: Ask<'_>) -> Result<Action, Failure> {
        let prompt = Prompt::of(ask.fields)?;
        let seat = self.seat(&prompt)?;
        let key = IdempotencyKey::for_step(&self.name(), &ask.run.run, ask.step);
        Ok(Action {
            tool: self.name(),
            contract: CONTRACT,
            class: EffectClass::ReadOnly,
            reversibility: Reversibility::NoEffect,
            target: format!("{}/{}", seat.api.host(), prompt.model),
            key: if ask.undo { key.undo() } else { key },
            key_retention: None,
            changes: Vec::new(),
            destructive: false,
            estimate_microusd: estimate(&prompt).cost(&seat.prices, &prompt.model),
            fields: prompt.to_fields(),
        })
    }

    async fn perform(&self, call: Call<'_>) -> Outcome {
        let prompt = Prompt::of(call.action.fields.clone());
        let asked = match prompt.and_then(|prompt| Ok((self.seat(&prompt)?, prompt))) {
            Ok((seat, prompt)) => seat.converse(&prompt, Instant::now() + call.time_left).await,
            Err(failure) => return Outcome::Terminal(failure),
        };
        asked.map_or_else(Outcome::from, Outcome::Done)
    }
}
