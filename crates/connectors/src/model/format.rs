//! The two request and response formats of model providers.

use domain::connection::ModelApi;
use serde_json::{Map, Value, json};

use crate::api::ApiRequest;
use crate::http::reply::clean;

use super::price::Tokens;
use super::prompt::Prompt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ModelReply {
    pub(super) text: String,
    pub(super) stop_reason: Option<String>,
    pub(super) tokens: Tokens,
}

/// Bedrock: `POST {base}/model/{id}/converse`. Completions: `POST {base}/chat/completions`.
pub(super) fn request(api: ModelApi, prompt: &Prompt) -> ApiRequest {
    match api {
        ModelApi::Bedrock => ApiRequest::post(&["model", &prompt.model, "converse"], bedrock_body(prompt)),
        ModelApi::Completions => ApiRequest::post(&["chat", "completions"], completions_body(prompt)),
    }
    .read_only()
}

/// `None` if the reply has no text in the expected place.
pub(super) fn parse_reply(api: ModelApi, reply: &Value) -> Option<ModelReply> {
    match api {
        ModelApi::Bedrock => parse_bedrock(reply),
        ModelApi::Completions => parse_completions(reply),
    }
}

fn bedrock_body(prompt: &Prompt) -> Value {
    let mut inference = Map::from_iter([("maxTokens".to_owned(), json!(prompt.max_tokens))]);
    inference.extend(temperature_field(prompt));
    let mut body = json!({
        "messages": [{ "role": "user", "content": [{ "text": prompt.message() }] }],
        "inferenceConfig": inference,
    });
    if let Some(system) = &prompt.system {
        body["system"] = json!([{ "text": system }]);
    }
    body
}

fn completions_body(prompt: &Prompt) -> Value {
    let system = prompt.system.iter().map(|text| json!({ "role": "system", "content": text }));
    let messages: Value = system.chain([json!({ "role": "user", "content": prompt.message() })]).collect();
    let mut body = Map::from_iter([
        ("model".to_owned(), json!(prompt.model)),
        ("messages".to_owned(), messages),
        ("max_tokens".to_owned(), json!(prompt.max_tokens)),
    ]);
    body.extend(temperature_field(prompt));
    Value::Object(body)
}

fn temperature_field(prompt: &Prompt) -> Option<(String, Value)> {
    let temperature: f64 = prompt.temperature.as_ref()?.parse().ok()?;
    Some(("temperature".to_owned(), json!(temperature)))
}

fn parse_bedrock(reply: &Value) -> Option<ModelReply> {
    let content = reply["output"]["message"]["content"].as_array()?;
    let text: String = content.iter().filter_map(|part| part["text"].as_str()).collect();
    let usage = &reply["usage"];
    let tokens = Tokens { input: count(&usage["inputTokens"]), output: count(&usage["outputTokens"]) };
    Some(ModelReply { text: clean(&text), stop_reason: reply["stopReason"].as_str().map(clean), tokens })
}

fn parse_completions(reply: &Value) -> Option<ModelReply> {
    let choice = &reply["choices"][0];
    let text = choice["message"]["content"].as_str()?;
    let usage = &reply["usage"];
    let tokens = Tokens { input: count(&usage["prompt_tokens"]), output: count(&usage["completion_tokens"]) };
    Some(ModelReply { text: clean(text), stop_reason: choice["finish_reason"].as_str().map(clean), tokens })
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}
