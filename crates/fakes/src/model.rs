//! A simulated model: recorded answers, in the shapes of Amazon Bedrock's Converse and of the chat
//! completions that many servers speak.
//!
//! It says only what was recorded. A prompt that nobody recorded an answer for is refused with 400, so that
//! a test cannot pass on a made-up one.

use std::io;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Path, State};
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::server::{Faults, Refused, Server, locked};

/// The key that may ask.
pub const KEY: &str = "model-key-1";

/// An answer, and what it is the answer to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recording {
    /// It is given to the first prompt that holds this text.
    pub prompt_holds: String,
    /// What the model says.
    pub text: String,
    /// What the prompt counts.
    pub input_tokens: u64,
    /// What the answer counts.
    pub output_tokens: u64,
    /// Whether it is given once only, so that the next one with the same text comes after it.
    pub once: bool,
}

impl Recording {
    /// The answer `text` to every prompt that holds `prompt_holds`.
    pub fn new(prompt_holds: &str, text: &str) -> Self {
        let (prompt_holds, text) = (prompt_holds.to_owned(), text.to_owned());
        Self { prompt_holds, text, input_tokens: 120, output_tokens: 30, once: false }
    }

    /// The same answer, given once only.
    #[must_use]
    pub fn once(mut self) -> Self {
        self.once = true;
        self
    }
}

/// A running model.
#[derive(Debug)]
pub struct Model {
    server: Server,
    world: Arc<Mutex<World>>,
    faults: Faults,
}

#[derive(Debug)]
struct World {
    recordings: Vec<Recording>,
    asked: Vec<Value>,
}

impl Model {
    /// Starts a model that says what was recorded.
    pub async fn start(recordings: Vec<Recording>) -> io::Result<Self> {
        Self::start_on(TcpListener::bind(("127.0.0.1", 0)).await?, recordings)
    }

    /// Starts such a model that serves `listener`.
    pub fn start_on(listener: TcpListener, recordings: Vec<Recording>) -> io::Result<Self> {
        let world = Arc::new(Mutex::new(World { recordings, asked: Vec::new() }));
        let router = Router::new()
            .route("/model/{id}/converse", post(converse))
            .route("/chat/completions", post(complete))
            .with_state(Arc::clone(&world));
        let faults = Faults::default();
        Ok(Self { server: Server::start_on(listener, router, &faults)?, world, faults })
    }

    /// Where it is.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// What goes wrong with the next requests.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Every request body that reached it.
    pub fn asked(&self) -> Vec<Value> {
        locked(&self.world).asked.clone()
    }
}

impl World {
    fn answer(&mut self, headers: &HeaderMap, body: Value, prompt: &str) -> Result<Recording, Refused> {
        self.asked.push(body);
        let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        if given != Some(&format!("Bearer {KEY}")) {
            return Err(Refused(StatusCode::FORBIDDEN, "The key is not valid"));
        }
        let found = self.recordings.iter().position(|recording| prompt.contains(&recording.prompt_holds));
        let found = found.ok_or(Refused(StatusCode::BAD_REQUEST, "Nobody recorded an answer to this"))?;
        let recording = self.recordings[found].clone();
        if recording.once {
            self.recordings.remove(found);
        }
        Ok(recording)
    }
}

type Shared = State<Arc<Mutex<World>>>;

async fn converse(
    State(world): Shared,
    Path(_): Path<String>,
    headers: HeaderMap,
    axum::Json(body): axum::Json<Value>,
) -> Result<Response, Refused> {
    let prompt = body["messages"][0]["content"][0]["text"].as_str().unwrap_or_default().to_owned();
    let said = locked(&world).answer(&headers, body, &prompt)?;
    Ok(axum::Json(json!({
        "output": { "message": { "role": "assistant", "content": [{ "text": said.text }] } },
        "stopReason": "end_turn",
        "usage": {
            "inputTokens": said.input_tokens,
            "outputTokens": said.output_tokens,
            "totalTokens": said.input_tokens + said.output_tokens,
        },
        "metrics": { "latencyMs": 1 },
    }))
    .into_response())
}

async fn complete(
    State(world): Shared,
    headers: HeaderMap,
    axum::Json(body): axum::Json<Value>,
) -> Result<Response, Refused> {
    let messages = body["messages"].as_array().cloned().unwrap_or_default();
    let prompt =
        messages.last().and_then(|message| message["content"].as_str()).unwrap_or_default().to_owned();
    let said = locked(&world).answer(&headers, body.clone(), &prompt)?;
    Ok(axum::Json(json!({
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": body["model"],
        "choices": [{
            "index": 0,
            "message": { "role": "assistant", "content": said.text },
            "finish_reason": "stop",
        }],
        "usage": {
            "prompt_tokens": said.input_tokens,
            "completion_tokens": said.output_tokens,
            "total_tokens": said.input_tokens + said.output_tokens,
        },
    }))
    .into_response())
}
