//! The two ways in which models are asked, and answer.

use serde_json::{Map, Value, json};

use crate::api::Question;
use crate::http::reply::clean;

use super::price::Tokens;
use super::prompt::Prompt;

/// The way a provider is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Amazon Bedrock's Converse: `POST {base}/model/{id}/converse`.
    Bedrock,
    /// Chat completions, as many servers speak them: `POST {base}/chat/completions`.
    Completions,
}

/// What a model said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) text: String,
    pub(super) stop_reason: Option<String>,
    pub(super) tokens: Tokens,
}

impl Shape {
    pub(super) fn question(self, prompt: &Prompt) -> Question {
        match self {
            Self::Bedrock => Question::post(&["model", &prompt.model, "converse"], converse(prompt)),
            Self::Completions => Question::post(&["chat", "completions"], completion(prompt)),
        }
        .reading()
    }

    /// What a reply says; none if it has no text where one belongs.
    pub(super) fn said(self, reply: &Value) -> Option<Said> {
        match self {
            Self::Bedrock => conversed(reply),
            Self::Completions => completed(reply),
        }
    }
}

fn converse(prompt: &Prompt) -> Value {
    let mut inference = Map::from_iter([("maxTokens".to_owned(), json!(prompt.max_tokens))]);
    inference.extend(temperature(prompt));
    let mut body = json!({
        "messages": [{ "role": "user", "content": [{ "text": prompt.message() }] }],
        "inferenceConfig": inference,
    });
    if let Some(system) = &prompt.system {
        body["system"] = json!([{ "text": system }]);
    }
    body
}

fn completion(prompt: &Prompt) -> Value {
    let system = prompt.system.iter().map(|text| json!({ "role": "system", "content": text }));
    let messages: Value = system.chain([json!({ "role": "user", "content": prompt.message() })]).collect();
    let mut body = Map::from_iter([
        ("model".to_owned(), json!(prompt.model)),
        ("messages".to_owned(), messages),
        ("max_tokens".to_owned(), json!(prompt.max_tokens)),
    ]);
    body.extend(temperature(prompt));
    Value::Object(body)
}

fn temperature(prompt: &Prompt) -> Option<(String, Value)> {
    let degrees: f64 = prompt.temperature.as_ref()?.parse().ok()?;
    Some(("temperature".to_owned(), json!(degrees)))
}

fn conversed(reply: &Value) -> Option<Said> {
    let content = reply["output"]["message"]["content"].as_array()?;
    let text: String = content.iter().filter_map(|part| part["text"].as_str()).collect();
    let usage = &reply["usage"];
    let tokens = Tokens { input: count(&usage["inputTokens"]), output: count(&usage["outputTokens"]) };
    Some(Said { text: clean(&text), stop_reason: reply["stopReason"].as_str().map(clean), tokens })
}

fn completed(reply: &Value) -> Option<Said> {
    let choice = &reply["choices"][0];
    let text = choice["message"]["content"].as_str()?;
    let usage = &reply["usage"];
    let tokens = Tokens { input: count(&usage["prompt_tokens"]), output: count(&usage["completion_tokens"]) };
    Some(Said { text: clean(text), stop_reason: choice["finish_reason"].as_str().map(clean), tokens })
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}
