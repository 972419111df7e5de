//! A fake language model that returns recorded answers, with the APIs of Amazon Bedrock Converse and chat completions.
//!
//! A prompt without a recorded answer gets status 400, so a test cannot pass with an invented answer.

use std::io;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::server::{ErrorReply, FakeFaults, Server};

/// The valid API key.
pub const KEY: &str = "model-key-1";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recording {
    /// The recording answers prompts that contain this text.
    pub prompt_contains: String,
    /// The answer.
    pub text: String,
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// Used once only; a later recording for the same prompt follows.
    pub once: bool,
}

impl Recording {
    /// The answer `text` to every prompt that contains `prompt_contains`.
    pub fn new(prompt_contains: &str, text: &str) -> Self {
        let (prompt_contains, text) = (prompt_contains.to_owned(), text.to_owned());
        Self { prompt_contains, text, input_tokens: 120, output_tokens: 30, once: false }
    }

    /// Uses the recording once only.
    #[must_use]
    pub fn once(mut self) -> Self {
        self.once = true;
        self
    }
}

#[derive(Debug)]
pub struct Model {
    server: Server,
    state: Arc<Mutex<ModelState>>,
    faults: FakeFaults,
}

#[derive(Debug)]
struct ModelState {
    recordings: Vec<Recording>,
    requests: Vec<Value>,
}

impl Model {
    pub async fn start(recordings: Vec<Recording>) -> io::Result<Self> {
        Self::start_on(TcpListener::bind(("127.0.0.1", 0)).await?, recordings)
    }

    pub fn start_on(listener: TcpListener, recordings: Vec<Recording>) -> io::Result<Self> {
        let state = Arc::new(Mutex::new(ModelState { recordings, requests: Vec::new() }));
        let router = Router::new()
            .route("/model/{id}/converse", post(converse))
            .route("/chat/completions", post(complete))
            .with_state(Arc::clone(&state));
        let faults = FakeFaults::default();
        Ok(Self { server: Server::start_on(listener, router, &faults)?, state, faults })
    }

    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Faults to inject into the next requests.
    pub fn faults(&self) -> &FakeFaults {
        &self.faults
    }

    /// The bodies of all requests.
    pub fn requests(&self) -> Vec<Value> {
        self.state.lock().requests.clone()
    }
}

impl ModelState {
    fn answer(&mut self, headers: &HeaderMap, body: Value, prompt: &str) -> Result<Recording, ErrorReply> {
        self.requests.push(body);
        let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        if given != Some(&format!("Bearer {KEY}")) {
            return Err(ErrorReply(StatusCode::FORBIDDEN, "The key is not valid"));
        }
        let found = self.recordings.iter().position(|recording| prompt.contains(&recording.prompt_contains));
        let found = found.ok_or(ErrorReply(StatusCode::BAD_REQUEST, "No recorded answer for this prompt"))?;
        let recording = self.recordings[found].clone();
        if recording.once {
            self.recordings.remove(found);
        }
        Ok(recording)
    }
}

type Shared = State<Arc<Mutex<ModelState>>>;

async fn converse(
    State(state): Shared,
    Path(_): Path<String>,
    headers: HeaderMap,
    axum::Json(body): axum::Json<Value>,
) -> Result<Response, ErrorReply> {
    let prompt = body["messages"][0]["content"][0]["text"].as_str().unwrap_or_default().to_owned();
    let recording = state.lock().answer(&headers, body, &prompt)?;
    Ok(axum::Json(json!({
        "output": { "message": { "role": "assistant", "content": [{ "text": recording.text }] } },
        "stopReason": "end_turn",
        "usage": {
            "inputTokens": recording.input_tokens,
            "outputTokens": recording.output_tokens,
            "totalTokens": recording.input_tokens + recording.output_tokens,
        },
        "metrics": { "latencyMs": 1 },
    }))
    .into_response())
}

async fn complete(
    State(state): Shared,
    headers: HeaderMap,
    axum::Json(body): axum::Json<Value>,
) -> Result<Response, ErrorReply> {
    let messages = body["messages"].as_array().cloned().unwrap_or_default();
    let prompt =
        messages.last().and_then(|message| message["content"].as_str()).unwrap_or_default().to_owned();
    let recording = state.lock().answer(&headers, body.clone(), &prompt)?;
    Ok(axum::Json(json!({
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": body["model"],
        "choices": [{
            "index": 0,
            "message": { "role": "assistant", "content": recording.text },
            "finish_reason": "stop",
        }],
        "usage": {
            "prompt_tokens": recording.input_tokens,
            "completion_tokens": recording.output_tokens,
            "total_tokens": recording.input_tokens + recording.output_tokens,
        },
    }))
    .into_response())
}
