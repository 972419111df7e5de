//! A client for the parts of Slack's Web API that approvals and shortcuts need.

mod sync;

use connectors::ToolConnection;
use domain::connection::ConnectionOptions;
use domain::plan::Environment;
use domain::{Connection, ConnectionKind};
use secrecy::SecretString;
use serde_json::{Value, json};
use url::Url;

use crate::card;
use crate::error::SlackError;
use crate::escape::{self, TextLimit};
use crate::interaction::{Click, MessageRef, ResponseOrigin, Shortcut, is_channel};
use crate::transport::Transport;

pub use sync::is_current;

/// The base URL of Slack's Web API.
pub const SLACK: &str = "https://slack.com/api";

/// Slack's error codes are one or two words.
const CODE_CHARS_MAX: usize = 64;

#[derive(Debug, Clone)]
pub struct SlackClientSettings {
    /// [`SLACK`], or a fake on this machine.
    pub base_url: Url,
    /// The bot's token, with the scope `chat:write`.
    pub token: SecretString,
    /// The id of the channel for cards.
    pub channel: String,
}

/// A client for one workspace. `Debug` does not show the token.
#[derive(Debug, Clone)]
pub struct Slack {
    transport: Transport,
    /// The id of the channel for cards.
    channel: Option<String>,
    console: Option<Url>,
}

impl Slack {
    /// A client on a connection, with the bot's token as its credential.
    pub fn on(connection: &ToolConnection) -> Result<Self, SlackError> {
        Ok(Self { transport: Transport::new(connection)?, channel: None, console: None })
    }

    /// A client for these settings.
    pub fn new(settings: SlackClientSettings) -> Result<Self, SlackError> {
        let SlackClientSettings { base_url, token, channel } = settings;
        let connection = trusted_connection(&base_url)
            .ok_or(SlackError::Settings("the base URL must be a URL without a query"))?;
        let credential = connectors::Credential::Bearer(token);
        Self::on(&connection.trust_base().with_credential(credential))?.in_channel(&channel)
    }

    /// Posts cards to this channel.
    pub fn in_channel(self, channel: &str) -> Result<Self, SlackError> {
        if !is_channel(channel) {
            return Err(SlackError::Settings("`channel` must be a channel id such as C0123ABCD"));
        }
        Ok(Self { channel: Some(channel.to_owned()), ..self })
    }

    /// Cards link to the console at this address.
    #[must_use]
    pub fn with_console(mut self, console: Url) -> Self {
        self.console = Some(console);
        self
    }

    /// The address of the console.
    pub fn console(&self) -> Option<&Url> {
        self.console.as_ref()
    }

    /// The origin of valid response URLs: Slack's own, or the fake's.
    pub fn response_origin(&self) -> ResponseOrigin {
        let base_url = self.transport.base();
        match base_url.host_str() {
            Some("slack.com") => ResponseOrigin::slack(),
            _ => ResponseOrigin::at(base_url),
        }
    }

    /// Asks the user who pressed Reject for a reason. Slack accepts this for three seconds after the click.
    pub async fn open_reject_modal(&self, click: &Click) -> Result<(), SlackError> {
        let view = card::reject_modal(&click.token(), &click.place);
        self.call("views.open", &json!({ "trigger_id": click.trigger_id, "view": view })).await.map(|_| ())
    }

    /// Opens `view` for the user of a shortcut. Slack accepts this for three seconds.
    pub async fn open_modal(&self, shortcut: &Shortcut, view: &Value) -> Result<(), SlackError> {
        self.call("views.open", &json!({ "trigger_id": shortcut.trigger_id, "view": view })).await.map(|_| ())
    }

    /// Sends a direct message, for the result of a modal that has closed. Untrusted parts of `text` must be escaped.
    pub async fn send_direct_message(&self, user: &str, text: &str) -> Result<(), SlackError> {
        let blocks = card::block::lines(text);
        let mut body = without_parsing(json!({ "channel": user, "text": text, "blocks": blocks }));
        body["unfurl_links"] = json!(false);
        self.call("chat.postMessage", &body).await.map(|_| ())
    }

    /// Shows `text` only to the user who clicked. Does nothing if the click has no response URL.
    pub async fn reply_privately(&self, click: &Click, text: &str) -> Result<(), SlackError> {
        let Some(address) = &click.response_url else { return Ok(()) };
        let text = escape::text(text, TextLimit::plain(card::block::SECTION_UNITS_MAX));
        let mut body = json!({ "response_type": "ephemeral", "replace_original": false, "text": text });
        body["blocks"] = card::block::lines(&text).into();
        // The response URL is its own credential; the bot token is not sent.
        self.transport.post_to(address.url(), &body).await.map(|_| ())
    }

    /// Posts `message`, in the thread of `thread` if it is set.
    async fn post(&self, message: Value, thread: Option<&MessageRef>) -> Result<MessageRef, SlackError> {
        let mut body = without_parsing(message);
        let channel = thread.map(|place| &place.channel).or(self.channel.as_ref());
        let channel = channel.ok_or(SlackError::Settings("the connection has no `channel`"))?;
        body["channel"] = json!(channel);
        body["unfurl_links"] = json!(false);
        body["unfurl_media"] = json!(false);
        body["mrkdwn"] = json!(false);
        if let Some(place) = thread {
            body["thread_ts"] = json!(place.ts);
        }
        posted_at(&self.call("chat.postMessage", &body).await?)
    }

    async fn update(&self, message: Value, place: &MessageRef) -> Result<(), SlackError> {
        let mut body = without_parsing(message);
        body["channel"] = json!(place.channel);
        body["ts"] = json!(place.ts);
        self.call("chat.update", &body).await.map(|_| ())
    }

    async fn call(&self, method: &'static str, body: &Value) -> Result<Value, SlackError> {
        let reply = self.transport.post(&[method], body).await?;
        let reply: Value = serde_json::from_slice(&reply).map_err(|_| SlackError::Unreadable)?;
        match (reply["ok"].as_bool(), reply["error"].as_str()) {
            (Some(true), _) => Ok(reply),
            (Some(false), Some(code)) => Err(SlackError::Api(code_of(code))),
            (Some(false), None) | (None, _) => Err(SlackError::Unreadable),
        }
    }
}

/// A connection to `base_url`, whose host may be internal.
fn trusted_connection(base_url: &Url) -> Option<ToolConnection> {
    let connection = Connection {
        kind: ConnectionKind::Slack,
        base_url: base_url.to_string(),
        environment: Environment::default(),
        credential: None,
        workspace: None,
        options: ConnectionOptions::default(),
        version: 0,
    };
    ToolConnection::new(&"slack".parse().ok()?, &connection).ok()
}

/// Turns off Slack's detection of links and names.
fn without_parsing(mut message: Value) -> Value {
    message["parse"] = json!("none");
    message["link_names"] = json!(false);
    message
}

fn posted_at(reply: &Value) -> Result<MessageRef, SlackError> {
    let part = |name: &str| reply[name].as_str().map(str::to_owned).ok_or(SlackError::Unreadable);
    let place = MessageRef { channel: part("channel")?, ts: part("ts")? };
    place.check().map(|()| place).map_err(|_| SlackError::Unreadable)
}

/// Removes unexpected characters, so that the code can be logged.
fn code_of(code: &str) -> String {
    code.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').take(CODE_CHARS_MAX).collect()
}
