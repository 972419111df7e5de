//! `slack.post`: a message in a channel or a thread.
//!
//! ```yaml
//! tool: slack.post
//! with: { channel: C024BE91L, text: The primary answers again., thread_ts: "1700000000.000100" }
//! ```
//!
//! The text is shown as it is: it goes into a plain-text block, escaped, so that nothing in it mentions a
//! channel, makes a link or pulls in a preview. What it promises is said in [`saying`]: it is
//! opaque, with a mark in the message's metadata. To find the mark, the app must be allowed to read the
//! channel's history, and the channel must be given by its id; where that is not so, a lost reply is left to
//! a person. A post is irreversible: `chat.delete` removes it, but not from the heads of those who read it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use domain::command::Certainty::{DidNotHappen, MayHaveHappened};
use domain::{Action, EffectClass, Failure, FieldChange, IdempotencyKey, Reversibility, ToolName};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::absent::Absent;
use crate::api::{Answer, Api, Base, Credential, Fault, Question, RATE_LIMITED};
use crate::fields::{Fields, invalid};
use crate::saying::{self, Saying};
use crate::tool::{self, Ask, Call, Done, LookUp, Outcome, Tool, Toolbox};

const NAME: &str = "slack.post";

/// Grows when the fields change their meaning.
const CONTRACT: u32 = 1;

/// Slack cuts no block: one with more characters is refused.
const TEXT_CHARS_MAX: usize = 3_000;

/// Slack's names for channels are shorter than this.
const CHANNEL_BYTES_MAX: usize = 80;

/// The newest messages, among which ours is looked for.
const HISTORY: &str = "100";

/// Slack answers within a second or two, or not at all.
const TIMEOUT: Duration = Duration::from_secs(15);

/// How our messages are told from others in a channel.
const EVENT_TYPE: &str = "countersign_post";

const IRREVERSIBLE: &str = "whoever has read a message has read it; deleting it does not change that";

/// Where Slack is, and who we are there.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `https://slack.com/api`.
    pub base: Base,
    /// A bot token with `chat:write`, and the history scopes if lost replies are to be looked up.
    pub credential: Credential,
}

/// `toolbox` with the tool for Slack.
pub(crate) fn add(toolbox: Toolbox, settings: Option<Settings>) -> Toolbox {
    match settings {
        Some(Settings { base, credential }) => {
            toolbox.with(Post(Arc::new(Api::new(base, credential, TIMEOUT))))
        }
        None => toolbox.with(Absent { name: NAME, class: EffectClass::Opaque, setting: "slack" }),
    }
}

/// The tool `slack.post`.
#[derive(Debug)]
struct Post(Arc<Api>);

/// What is posted, and where.
struct Message {
    channel: String,
    thread: Option<String>,
    /// Escaped.
    text: String,
}

impl Message {
    fn of(with: Value) -> Result<Self, Failure> {
        let mut fields = Fields::of(with, &["channel", "text", "thread_ts"])?;
        let channel = fields.required("channel")?;
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if !(1..=CHANNEL_BYTES_MAX).contains(&channel.len()) || !channel.bytes().all(allowed) {
            return Err(invalid("`channel` must be the id of a channel, such as C024BE91L"));
        }
        let thread = fields.text("thread_ts")?;
        if thread.as_deref().is_some_and(|ts| !is_ts(ts)) {
            return Err(invalid("`thread_ts` must be the time of a message, such as 1700000000.000100"));
        }
        let text = fields.said("text", 4 * TEXT_CHARS_MAX)?;
        Ok(Self { channel, thread, text })
    }

    fn body(&self, mark: &str) -> Value {
        let mut body = json!({
            "channel": self.channel,
            // What notifications show.
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

    /// The newest messages where it would stand.
    fn history(&self) -> Question {
        let question = match &self.thread {
            Some(thread) => Question::get(&["conversations.replies"]).with("ts", thread),
            None => Question::get(&["conversations.history"]),
        };
        let question = question.with("channel", &self.channel).with("limit", HISTORY);
        question.with("include_all_metadata", "true")
    }

    fn done(&self, posted: &Value, how: &str) -> Done {
        let channel = posted["channel"].as_str().unwrap_or(&self.channel);
        let output = json!({ "channel": channel, "ts": posted["ts"] });
        Done { response: json!({ "how": how, "ts": posted["ts"] }), output, ..Done::default() }
    }
}

fn is_ts(text: &str) -> bool {
    let digits =
        |text: &str| (1..=16).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    text.split_once('.').is_some_and(|(secs, rest)| digits(secs) && digits(rest))
}

/// The three characters that mean something to Slack.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Slack says no with status 200, and a word.
fn heard(answer: Answer, is_write: bool) -> Result<Value, Fault> {
    let value = answer.value;
    let word = match value["ok"].as_bool() {
        Some(true) => return Ok(value),
        Some(false) => value["error"].as_str().unwrap_or("nothing more"),
        // Slack refuses with status 200 too, so that a reply which cannot be read says nothing.
        None => return Err(Fault::no_reply(is_write, "Slack", "what came cannot be read")),
    };
    let failure = |code: &str| Failure::new(code, format!("Slack said no: {word}"));
    let later = |code: &str, certainty| Fault::Later { failure: failure(code), certainty, retry_after: None };
    Err(match word {
        "ratelimited" | "rate_limited" => later(RATE_LIMITED, DidNotHappen),
        "internal_error" | "fatal_error" | "service_unavailable" | "request_timeout" => {
            later("SLACK", if is_write { MayHaveHappened } else { DidNotHappen })
        }
        _ => Fault::Never(failure("SLACK")),
    })
}

#[async_trait]
impl Saying for Post {
    async fn say(&self, call: &Call<'_>, until: Instant) -> Result<Done, Fault> {
        let message = Message::of(call.action.fields.clone()).map_err(Fault::Never)?;
        let body = message.body(&saying::mark(&call.action.key));
        let answer = self.0.ask(Question::post(&["chat.postMessage"], body), until).await?;
        Ok(message.done(&heard(answer, true)?, "written"))
    }

    async fn find(&self, call: &Call<'_>, until: Instant) -> Result<Option<Done>, Fault> {
        let message = Message::of(call.action.fields.clone()).map_err(Fault::Never)?;
        let mark = saying::mark(&call.action.key);
        let value = heard(self.0.ask(message.history(), until).await?, false)?;
        let messages = value["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
        let ours = |other: &&Value| {
            let metadata = &other["metadata"];
            metadata["event_type"] == EVENT_TYPE && metadata["event_payload"]["mark"] == mark.as_str()
        };
        Ok(messages.iter().find(ours).map(|posted| message.done(posted, "an earlier attempt had done it")))
    }
}

#[async_trait]
impl Tool for Post {
    fn name(&self) -> ToolName {
        tool::name(NAME)
    }

    fn declares(&self, _: &Value) -> Option<EffectClass> {
        Some(EffectClass::Opaque)
    }

    fn propose(&self, ask: Ask<'_>) -> Result<Action, Failure> {
        let mut message = Message::of(ask.fields.clone())?;
        message.text = escape(&message.text);
        if message.text.chars().count() > TEXT_CHARS_MAX {
            return Err(invalid(format!(
                "`text` has more than {TEXT_CHARS_MAX} characters, escapes included"
            )));
        }
        let Message { channel, thread, text } = message;
        let hash = saying::digest(&text, ask.run, ask.step);
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
            key: if ask.undo { key.undo() } else { key },
            key_retention: None,
            changes: vec![FieldChange { field: "messages".to_owned(), before: None, after: text.into() }],
            destructive: false,
            estimate_microusd: None,
            fields,
        })
    }

    async fn perform(&self, call: Call<'_>) -> Outcome {
        saying::perform(self, &call).await
    }

    async fn look_up(&self, call: Call<'_>) -> LookUp {
        saying::look_up(self, &call).await
    }
}
