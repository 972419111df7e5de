//! The Web API: posting and updating messages, opening modals.

use axum::body::{Body, Bytes};
use axum::extract::{Path, State as Extracted};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Json, Response};
use serde_json::{Value, json};

use super::state::State;
use super::{FakeMessage, FakeSlackFault, Shared, limits};

pub(super) async fn call(
    Extracted(state): Extracted<Shared>,
    Path(method): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let fault = next_fault(&state);
    match fault {
        Some(FakeSlackFault::RateLimited { retry_after_secs }) => {
            let after = [(header::RETRY_AFTER, retry_after_secs.to_string())];
            return (StatusCode::TOO_MANY_REQUESTS, after, answer(Err("ratelimited"))).into_response();
        }
        Some(FakeSlackFault::ServerError) => return StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        Some(FakeSlackFault::Slow(time)) => tokio::time::sleep(time).await,
        Some(FakeSlackFault::LostReply) | None => {}
    }
    let reply = answer(state.lock().perform(&method, &headers, &body));
    if fault == Some(FakeSlackFault::LostReply) { cut_off() } else { reply.into_response() }
}

fn next_fault(state: &Shared) -> Option<FakeSlackFault> {
    let mut state = state.lock();
    state.calls += 1;
    state.faults.pop_front()
}

fn answer(result: Result<Value, &'static str>) -> Json<Value> {
    Json(match result {
        Ok(mut reply) => {
            reply["ok"] = json!(true);
            reply
        }
        Err(code) => json!({ "ok": false, "error": code }),
    })
}

/// A reply that is cut off before its first byte.
fn cut_off() -> Response {
    let lost = std::io::Error::other("the reply is lost");
    Body::from_stream(futures_util::stream::once(async { Err::<Bytes, _>(lost) })).into_response()
}

/// Receives an app's reply to an interaction.
pub(super) async fn response(Extracted(state): Extracted<Shared>, body: Bytes) -> Response {
    match serde_json::from_slice(&body) {
        Ok(answer) => {
            state.lock().answers.push(answer);
            "ok".into_response()
        }
        Err(_) => StatusCode::BAD_REQUEST.into_response(),
    }
}

impl State {
    fn perform(&mut self, method: &str, headers: &HeaderMap, body: &[u8]) -> Result<Value, &'static str> {
        let bearer = headers.get(header::AUTHORIZATION).ok_or("not_authed")?;
        if bearer.as_bytes() != format!("Bearer {}", self.settings.token).as_bytes() {
            return Err("invalid_auth");
        }
        let body: Value = serde_json::from_slice(body).map_err(|_| "invalid_json")?;
        match method {
            "chat.postMessage" => self.post(&body),
            "chat.update" => self.update(&body),
            "views.open" => {
                limits::check_view(&body["view"])?;
                let id = self.open(body["trigger_id"].as_str().unwrap_or_default(), body["view"].clone())?;
                Ok(json!({ "view": { "id": id } }))
            }
            _ => Err("unknown_method"),
        }
    }

    fn post(&mut self, body: &Value) -> Result<Value, &'static str> {
        let channel = self.channel(body)?;
        // `blocks` is optional.
        body.get("blocks").map_or(Ok(()), limits::check)?;
        let thread = body["thread_ts"].as_str().map(str::to_owned);
        let known = |ts: &String| self.message(&format!("{channel}/{ts}")).is_some();
        if thread.as_ref().is_some_and(|ts| !known(ts)) {
            return Err("thread_not_found");
        }
        let ts = self.next_ts();
        let message = FakeMessage {
            channel: channel.clone(),
            ts: ts.clone(),
            thread,
            text: text_of(body)?,
            blocks: body["blocks"].clone(),
            metadata: body["metadata"].clone(),
            edits: 0,
        };
        self.messages.push(message);
        Ok(json!({ "channel": channel, "ts": ts }))
    }

    fn update(&mut self, body: &Value) -> Result<Value, &'static str> {
        let channel = self.channel(body)?;
        limits::check(&body["blocks"])?;
        let place = format!("{channel}/{}", body["ts"].as_str().unwrap_or_default());
        let message = self.messages.iter_mut().find(|message| message.place() == place);
        let message = message.ok_or("message_not_found")?;
        message.text = text_of(body)?;
        message.blocks = body["blocks"].clone();
        message.edits += 1;
        Ok(json!({ "channel": channel, "ts": message.ts }))
    }

    fn channel(&self, body: &Value) -> Result<String, &'static str> {
        let channel = body["channel"].as_str().ok_or("channel_not_found")?;
        // A user id as channel means a direct message.
        let users = self.settings.users.iter().map(|user| &user.id);
        let known = self.settings.channels.iter().chain(users).any(|known| known == channel);
        known.then(|| channel.to_owned()).ok_or("channel_not_found")
    }
}

fn text_of(body: &Value) -> Result<String, &'static str> {
    body["text"].as_str().map(str::to_owned).ok_or("no_text")
}
