//! Slack's Web API, as much of it as approvals and shortcuts need.

mod show;

use secrecy::SecretString;
use serde_json::{Value, json};
use url::Url;

use crate::card;
use crate::escape::{self, Bound};
use crate::fault::Fault;
use crate::interaction::{Click, Hooks, Place, Shortcut, is_channel};
use crate::pager::Pager;
use crate::transport::{Transport, endpoint};

/// Where Slack's Web API is.
pub const SLACK: &str = "https://slack.com";

/// A code in Slack's replies is a word or two; what is longer is none.
const CODE_CHARS_MAX: usize = 64;

/// What is needed to speak to one workspace.
#[derive(Debug, Clone)]
pub struct Settings {
    /// [`SLACK`], or a stand-in on this machine.
    pub base_url: Url,
    /// The bot's token, with the scope `chat:write`.
    pub token: SecretString,
    /// The id of the channel that cards are posted in.
    pub channel: String,
}

/// Speaks to one workspace about its approvals. `Debug` does not show the token.
#[derive(Debug, Clone)]
pub struct Slack {
    settings: Settings,
    transport: Transport,
    pager: Option<Pager>,
}

impl Slack {
    /// A client for one workspace.
    pub fn new(settings: Settings) -> Result<Self, Fault> {
        if !is_channel(&settings.channel) {
            return Err(Fault::Settings("the channel is not an id such as C0123ABCD"));
        }
        endpoint(&settings.base_url, "/api/")?;
        Ok(Self { settings, transport: Transport::new()?, pager: None })
    }

    /// The same, and somebody is called when an answer is overdue.
    #[must_use]
    pub fn with_pager(mut self, pager: Pager) -> Self {
        self.pager = Some(pager);
        self
    }

    /// The hosts that answers to clicks may be sent to: Slack's own, or the stand-in's.
    pub fn hooks(&self) -> Hooks {
        match self.settings.base_url.host_str() {
            Some("slack.com") => Hooks::slack(),
            _ => Hooks::at(&self.settings.base_url),
        }
    }

    /// Asks whoever pressed Reject why. Slack gives us three seconds for it.
    pub async fn ask_reason(&self, click: &Click) -> Result<(), Fault> {
        let view = card::modal(&click.token(), &click.place);
        self.call("views.open", &json!({ "trigger_id": click.trigger_id, "view": view })).await.map(|_| ())
    }

    /// Opens `view` for whoever used a shortcut. Slack gives us three seconds for it.
    pub async fn open(&self, shortcut: &Shortcut, view: &Value) -> Result<(), Fault> {
        self.call("views.open", &json!({ "trigger_id": shortcut.trigger_id, "view": view })).await.map(|_| ())
    }

    /// Writes to `user`, where they alone read it. A window that closes has no place to say something in.
    /// Slack formats `text`, so nothing of a stranger's may stand in it.
    pub async fn write_to(&self, user: &str, text: &str) -> Result<(), Fault> {
        let mut body = quiet(json!({ "channel": user, "text": text }));
        body["unfurl_links"] = json!(false);
        self.call("chat.postMessage", &body).await.map(|_| ())
    }

    /// Tells whoever clicked, and nobody else, what came of it. Nothing is said if there is nowhere to say it.
    pub async fn tell(&self, click: &Click, text: &str) -> Result<(), Fault> {
        let Some(address) = &click.response_url else { return Ok(()) };
        let text = escape::mrkdwn(text, Bound::plain(card::block::SECTION_UNITS_MAX));
        let body = json!({ "response_type": "ephemeral", "replace_original": false, "text": text });
        // The address is its own credential; the token is none of its business.
        self.transport.post(address.url(), None, &body).await.map(|_| ())
    }

    /// Posts `message`, into the thread of `under` if there is one.
    async fn post(&self, message: Value, under: Option<&Place>) -> Result<Place, Fault> {
        let mut body = quiet(message);
        body["channel"] = json!(under.map_or(&self.settings.channel, |place| &place.channel));
        body["unfurl_links"] = json!(false);
        body["unfurl_media"] = json!(false);
        body["mrkdwn"] = json!(false);
        if let Some(place) = under {
            body["thread_ts"] = json!(place.ts);
        }
        posted_at(&self.call("chat.postMessage", &body).await?)
    }

    async fn update(&self, message: Value, place: &Place) -> Result<(), Fault> {
        let mut body = quiet(message);
        body["channel"] = json!(place.channel);
        body["ts"] = json!(place.ts);
        self.call("chat.update", &body).await.map(|_| ())
    }

    async fn call(&self, method: &'static str, body: &Value) -> Result<Value, Fault> {
        let url = endpoint(&self.settings.base_url, &format!("/api/{method}"))?;
        let reply = self.transport.post(&url, Some(&self.settings.token), body).await?;
        let reply: Value = serde_json::from_slice(&reply).map_err(|_| Fault::Unreadable)?;
        match (reply["ok"].as_bool(), reply["error"].as_str()) {
            (Some(true), _) => Ok(reply),
            (Some(false), Some(code)) => Err(Fault::Api(code_of(code))),
            (Some(false), None) | (None, _) => Err(Fault::Unreadable),
        }
    }
}

/// A message in which Slack looks for no links and no names.
fn quiet(mut message: Value) -> Value {
    message["parse"] = json!("none");
    message["link_names"] = json!(false);
    message
}

fn posted_at(reply: &Value) -> Result<Place, Fault> {
    let part = |name: &str| reply[name].as_str().map(str::to_owned).ok_or(Fault::Unreadable);
    let place = Place { channel: part("channel")?, ts: part("ts")? };
    place.check().map(|()| place).map_err(|_| Fault::Unreadable)
}

/// A code that may stand in a log.
fn code_of(code: &str) -> String {
    code.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').take(CODE_CHARS_MAX).collect()
}
