//! A fake Slack with one workspace, on the loopback.
//!
//! It stores messages and modals, rejects what Slack rejects (wrong tokens, unknown channels, long texts), injects faults,
//! and turns a button press or a shortcut into the signed request that Slack would send. `GET /` is a page on which a
//! developer can do both as any user.

mod api;
mod callback;
mod limits;
mod pane;
mod state;
#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::{get, post};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use state::State;

pub use callback::{ButtonPress, Callback, NotDelivered, ShortcutUse, Submission, deliver};

#[derive(Debug, Clone)]
pub struct FakeSlackSettings {
    /// The bot token that may post.
    pub token: String,
    pub signing_secret: String,
    /// The workspace id.
    pub team: String,
    pub channels: Vec<String>,
    /// The users that the page offers.
    pub users: Vec<User>,
    pub shortcuts: Vec<FakeShortcut>,
    /// The callback URL. Without it the page's buttons do nothing.
    pub callback: Option<String>,
}

impl Default for FakeSlackSettings {
    fn default() -> Self {
        let user = |id: &str, name: &str| User { id: id.to_owned(), name: name.to_owned() };
        Self {
            token: "xoxb-fake".to_owned(),
            signing_secret: "fake-signing-secret".to_owned(),
            team: "T0SIM".to_owned(),
            channels: vec!["C0APPROVALS".to_owned()],
            users: vec![user("U0ANNA", "Anna"), user("U0BEN", "Ben"), user("U0CARA", "Cara")],
            shortcuts: Vec::new(),
            callback: None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FakeShortcut {
    /// The label.
    pub name: String,
    pub callback_id: String,
    /// A message shortcut; otherwise a global one.
    pub on_message: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    pub id: String,
    pub name: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct FakeMessage {
    pub channel: String,
    /// Its timestamp, which identifies it in the channel.
    pub ts: String,
    /// The timestamp of the thread's first message.
    pub thread: Option<String>,
    /// Shown in notifications.
    pub text: String,
    /// Shown in the channel.
    pub blocks: Value,
    /// The app's own data, which users do not see.
    pub metadata: Value,
    pub edits: u32,
}

impl FakeMessage {
    /// `channel/ts`
    pub fn place(&self) -> String {
        format!("{}/{}", self.channel, self.ts)
    }

    /// The value of the button `action_id`.
    pub fn button(&self, action_id: &str) -> Option<&str> {
        let blocks = self.blocks.as_array()?.iter();
        let elements = blocks.filter_map(|block| block["elements"].as_array()).flatten();
        elements.into_iter().find(|element| element["action_id"] == action_id)?["value"].as_str()
    }
}

/// A modal that a user has open.
#[derive(Debug, Clone, PartialEq)]
pub struct View {
    pub id: String,
    pub user: String,
    pub view: Value,
}

/// A fault for the next API request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FakeSlackFault {
    RateLimited {
        retry_after_secs: u64,
    },
    ServerError,
    /// The request succeeds after this delay.
    Slow(Duration),
    /// The request succeeds, and the reply is cut off.
    LostReply,
}

/// A running fake Slack. Dropping it stops the server.
#[derive(Debug)]
pub struct FakeSlack {
    address: SocketAddr,
    state: Shared,
    server: JoinHandle<()>,
}

type Shared = Arc<Mutex<State>>;

impl FakeSlack {
    /// Starts a workspace with the default settings on a free port.
    pub async fn start() -> io::Result<Self> {
        Self::start_with(FakeSlackSettings::default()).await
    }

    pub async fn start_with(settings: FakeSlackSettings) -> io::Result<Self> {
        Self::start_on(TcpListener::bind(("127.0.0.1", 0)).await?, settings)
    }

    pub fn start_on(listener: TcpListener, settings: FakeSlackSettings) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let state = Arc::new(Mutex::new(State::new(settings, format!("http://{address}"))));
        let router = router(Arc::clone(&state));
        let server = tokio::spawn(async move {
            // A failure shows in the next request.
            let _ended = axum::serve(listener, router).await;
        });
        Ok(Self { address, state, server })
    }

    /// The base URL for clients and browsers.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sends the page's callbacks to `url` from now on.
    pub fn set_callback(&self, url: &str) {
        self.state.lock().settings.callback = Some(url.to_owned());
    }

    /// All messages, oldest first.
    pub fn messages(&self) -> Vec<FakeMessage> {
        self.state.lock().messages.clone()
    }

    pub fn message(&self, place: &str) -> Option<FakeMessage> {
        self.state.lock().message(place).cloned()
    }

    pub fn delete(&self, place: &str) {
        self.state.lock().messages.retain(|message| message.place() != place);
    }

    /// All open modals.
    pub fn views(&self) -> Vec<View> {
        self.state.lock().views.clone()
    }

    /// The bodies that were posted to response URLs.
    pub fn answers(&self) -> Vec<Value> {
        self.state.lock().answers.clone()
    }

    /// The number of API requests.
    pub fn calls(&self) -> usize {
        self.state.lock().calls
    }

    /// Queues a fault for the next API request without one.
    pub fn inject(&self, fault: FakeSlackFault) {
        self.state.lock().faults.push_back(fault);
    }

    /// The request that Slack sends when a user presses a button. `None` if the button does not exist.
    pub fn press(&self, press: &ButtonPress<'_>) -> Option<Callback> {
        self.state.lock().press(press)
    }

    /// The request that Slack sends when a user uses a shortcut. `None` if the message does not exist.
    pub fn use_shortcut(&self, used: &ShortcutUse<'_>) -> Option<Callback> {
        self.state.lock().use_shortcut(used)
    }

    /// The request that Slack sends when a user submits a modal. `None` if the user has no such modal.
    pub fn submit_view(&self, submission: &Submission<'_>) -> Option<Callback> {
        self.state.lock().submit(submission)
    }
}

impl Drop for FakeSlack {
    fn drop(&mut self) {
        self.server.abort();
    }
}

fn router(state: Shared) -> Router {
    Router::new()
        .route("/", get(pane::page))
        .route("/pane/press", post(pane::press))
        .route("/pane/submit", post(pane::submit))
        .route("/pane/shortcut", post(pane::shortcut))
        .route("/api/{method}", post(api::call))
        .route("/response/{number}", post(api::response))
        .with_state(state)
}
