//! `slack.post`: posts a message to a channel or a thread.
//!
//! ```yaml
//! tool: slack.post
//! with: { channel: C024BE91L, text: The primary answers again., thread_ts: "1700000000.000100" }
//! ```
//!
//! The text is posted as plain text: it is escaped and goes into a plain-text block, so it cannot mention a channel,
//! make a link or load a preview. The tool is opaque, with a mark in the message's metadata: see [`marked_post`]. To
//! find the mark, the app needs permission to read the channel's history, and the channel must be given by its id.
//! Otherwise an operator decides after a lost reply. A post is irreversible: `chat.delete` cannot undo that it was
//! read.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use domain::command::EffectOutcome::{DidNotHappen, MayHaveHappened};
use domain::{
    Action, ConnectionKind, EffectClass, Failure, FieldChange, IdempotencyKey, Reversibility, ToolName,
};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::api::{Api, ApiError, ApiRequest, ApiResponse, RATE_LIMITED};
use crate::connection::Unconnected;
use crate::fields::{Fields, invalid};
use crate::marked_post::{self, MarkedPost};
use crate::tool::{
    self, LookUpResult, ProposalRequest, Tool, ToolCall, ToolOutcome, ToolRegistry, ToolResult,
};

const NAME: &str = "slack.post";

/// Increase it when the meaning of the fields changes.
const CONTRACT: u32 = 1;

/// Slack rejects a block with more characters.
const TEXT_CHARS_MAX: usize = 3_000;

/// Longer than any channel id.
const CHANNEL_BYTES_MAX: usize = 80;

/// The newest messages that are searched for the mark.
const HISTORY_LIMIT: &str = "100";

/// Slack answers within two seconds, if at all.
const TIMEOUT: Duration = Duration::from_secs(15);

/// The metadata type of this tool's messages.
const EVENT_TYPE: &str = "countersign_post";

const IRREVERSIBLE: &str = "deleting a message does not undo that users have read it";

/// Registers `slack.post`.
pub(crate) fn register(registry: ToolRegistry) -> ToolRegistry {
    registry.with(Unconnected {
        name: NAME,
        kind: ConnectionKind::Slack,
        class: EffectClass::Opaque,
        connect: |on| Arc::new(Post(Arc::new(Api::new(on, TIMEOUT)))),
    })
}

#[derive(Debug)]
struct Post(Arc<Api>);

struct Message {
    channel: String,
    thread: Option<String>,
    /// Escaped.
    text: String,
}

impl Message {
    fn parse(with: Value) -> Result<Self, Failure> {
        let mut fields = Fields::parse(with, &["channel", "text", "thread_ts"])?;
        let channel = fields.required("channel")?;
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if !(1..=CHANNEL_BYTES_MAX).contains(&channel.len()) || !channel.bytes().all(allowed) {
            return Err(invalid("`channel` must be a channel id such as C024BE91L"));
        }
        let thread = fields.string("thread_ts")?;
        if thread.as_deref().is_some_and(|ts| !is_ts(ts)) {
            return Err(invalid("`thread_ts` must be a message timestamp such as 1700000000.000100"));
        }
        let text = fields.required_text("text", 4 * TEXT_CHARS_MAX)?;
        Ok(Self { channel, thread, text })
    }

    fn body(&self, mark: &str) -> Value {
        let mut body = json!({
            "channel": self.channel,
            // Shown in notifications.
            "text": self.text,
            "mrkdwn": false,
            "parse": "none",
            "link_names": false,
            "unfurl_links": false,
            "unfurl_media": false,
            "blocks": [{
                "type": "section",
                "text": { "type": "plain_text", "text": self.text, "emoji": false },
            }],
            "metadata": { "event_type": EVENT_TYPE, "event_payload": { "mark": mark } },
        });
        if let Some(thread) = &self.thread {
            body["thread_ts"] = thread.clone().into();
        }
        body
    }

    /// The newest messages of the channel or thread.
    fn history(&self) -> ApiRequest {
        let request = match &self.thread {
            Some(thread) => ApiRequest::get(&["conversations.replies"]).with_query("ts", thread),
            None => ApiRequest::get(&["conversations.history"]),
        };
        let request = request.with_query("channel", &self.channel).with_query("limit", HISTORY_LIMIT);
        request.with_query("include_all_metadata", "true")
    }

    fn done(&self, posted: &Value, how: &str) -> ToolResult {
        let channel = posted["channel"].as_str().unwrap_or(&self.channel);
        let output = json!({ "channel": channel, "ts": posted["ts"] });
        ToolResult { response: json!({ "how": how, "ts": posted["ts"] }), output, ..ToolResult::default() }
    }
}

fn is_ts(text: &str) -> bool {
    let is_number =
        |text: &str| (1..=16).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    text.split_once('.').is_some_and(|(secs, rest)| is_number(secs) && is_number(rest))
}

/// Escapes the three characters that Slack interprets.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Slack reports errors with status 200 and a code.
fn check_ok(response: ApiResponse, is_write: bool) -> Result<Value, ApiError> {
    let value = response.value;
    let error_code = match value["ok"].as_bool() {
        Some(true) => return Ok(value),
        Some(false) => value["error"].as_str().unwrap_or("no error code"),
        // Errors have status 200 too, so an unreadable reply proves nothing.
        None => return Err(ApiError::no_reply(is_write, "Slack", "the reply is unreadable")),
    };
    let failure = |code: &str| Failure::new(code, format!("Slack returned the error `{error_code}`"));
    let retryable =
        |code: &str, certainty| ApiError::Retryable { failure: failure(code), certainty, retry_after: None };
    Err(match error_code {
        "ratelimited" | "rate_limited" => retryable(RATE_LIMITED, DidNotHappen),
        "internal_error" | "fatal_error" | "service_unavailable" | "request_timeout" => {
            retryable("SLACK", if is_write { MayHaveHappened } else { DidNotHappen })
        }
        _ => ApiError::Terminal(failure("SLACK")),
    })
}

#[async_trait]
impl MarkedPost for Post {
    async fn post(&self, call: &ToolCall<'_>, until: Instant) -> Result<ToolResult, ApiError> {
        let message = Message::parse(call.action.fields.clone()).map_err(ApiError::Terminal)?;
        let body = message.body(&marked_post::mark(&call.action.key));
        let response = self.0.send(ApiRequest::post(&["chat.postMessage"], body), until).await?;
        Ok(message.done(&check_ok(response, true)?, "written"))
    }

    async fn find(&self, call: &ToolCall<'_>, until: Instant) -> Result<Option<ToolResult>, ApiError> {
        let message = Message::parse(call.action.fields.clone()).map_err(ApiError::Terminal)?;
        let mark = marked_post::mark(&call.action.key);
        let value = check_ok(self.0.send(message.history(), until).await?, false)?;
        let messages = value["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
        let has_mark = |other: &&Value| {
            let metadata = &other["metadata"];
            metadata["event_type"] == EVENT_TYPE && metadata["event_payload"]["mark"] == mark.as_str()
        };
        Ok(messages
            .iter()
            .find(has_mark)
            .map(|posted| message.done(posted, "an earlier attempt had done it")))
    }
}

#[async_trait]
impl Tool for Post {
    fn name(&self) -> ToolName {
        tool::name(NAME)
    }

    fn effect_class(&self, _: &Value) -> Option<EffectClass> {
        Some(EffectClass::Opaque)
    }

    fn propose(&self, request: ProposalRequest<'_>) -> Result<Action, Failure> {
        let mut message = Message::parse(request.fields.clone())?;
        message.text = escape(&message.text);
        if message.text.chars().count() > TEXT_CHARS_MAX {
            return Err(invalid(format!(
                "`text` has more than {TEXT_CHARS_MAX} characters, including escapes"
            )));
        }
        let Message { channel, thread, text } = message;
        let hash = marked_post::digest(&text, request.run, request.step);
        let thread_ts = thread.as_deref().unwrap_or_default();
        let key = IdempotencyKey::new(&format!("slack:post:{channel}:{thread_ts}:{hash}"));
        let key = key.map_err(|error| invalid(error.to_string()))?;
        let mut fields = json!({ "channel": channel, "text": text });
        if let Some(thread) = &thread {
            fields["thread_ts"] = thread.clone().into();
        }
        Ok(Action {
            tool: self.name(),
            contract: CONTRACT,
            class: EffectClass::Opaque,
            reversibility: Reversibility::Irreversible(IRREVERSIBLE.to_owned()),
            target: format!("{}/{channel}", self.0.host()),
            key: if request.reverts { key.reverse() } else { key },
            key_retention: None,
            changes: vec![FieldChange { field: "messages".to_owned(), before: None, after: text.into() }],
            destructive: false,
            estimate_microusd: None,
            connection: None,
            fields,
        })
    }

    async fn perform(&self, call: ToolCall<'_>) -> ToolOutcome {
        marked_post::perform(self, &call).await
    }

    async fn look_up(&self, call: ToolCall<'_>) -> LookUpResult {
        marked_post::look_up(self, &call).await
    }
}
