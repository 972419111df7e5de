//! A simulated Slack: one workspace on the loopback.
//!
//! It keeps messages and windows, refuses what Slack refuses (tokens, channels, texts that are too long),
//! fails on demand, and turns the press of a button or the use of a shortcut into the signed request that Slack
//! would send. `GET /` is a page on which a person can do both, as whichever user they choose.

mod api;
mod callback;
mod limits;
mod pane;
mod state;
#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::routing::{get, post};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use state::State;

pub use callback::{Callback, NotDelivered, Press, Submission, Use, deliver};

/// What the workspace is like.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The token of the bot that may post.
    pub token: String,
    /// What callbacks are signed with.
    pub signing_secret: String,
    /// The workspace.
    pub team: String,
    /// Its channels.
    pub channels: Vec<String>,
    /// Its users, who can be chosen on the page.
    pub users: Vec<User>,
    /// What the app offers beside its buttons.
    pub shortcuts: Vec<Shortcut>,
    /// Where callbacks go; without it the page has no buttons that work.
    pub callback: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        let user = |id: &str, name: &str| User { id: id.to_owned(), name: name.to_owned() };
        Self {
            token: "xoxb-simulated".to_owned(),
            signing_secret: "simulated-signing-secret".to_owned(),
            team: "T0SIM".to_owned(),
            channels: vec!["C0APPROVALS".to_owned()],
            users: vec![user("U0ANNA", "Anna"), user("U0BEN", "Ben"), user("U0CARA", "Cara")],
            shortcuts: Vec::new(),
            callback: None,
        }
    }
}

/// A shortcut of the app's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortcut {
    /// What people see.
    pub name: String,
    /// What the app knows it by.
    pub callback_id: String,
    /// Whether it is used on a message; otherwise it is found everywhere.
    pub on_message: bool,
}

/// Somebody in the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Slack's id.
    pub id: String,
    /// What others call them.
    pub name: String,
}

/// A message, as it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// In which channel.
    pub channel: String,
    /// Its name in it.
    pub ts: String,
    /// The message under which it stands, if it does.
    pub thread: Option<String>,
    /// What a notification shows.
    pub text: String,
    /// What the channel shows.
    pub blocks: Value,
    /// How often it was changed.
    pub edits: u32,
}

impl Message {
    /// Where it stands: `channel/ts`.
    pub fn place(&self) -> String {
        format!("{}/{}", self.channel, self.ts)
    }

    /// The value of the button called `action_id`, if the message has it.
    pub fn button(&self, action_id: &str) -> Option<&str> {
        let blocks = self.blocks.as_array()?.iter();
        let elements = blocks.filter_map(|block| block["elements"].as_array()).flatten();
        elements.into_iter().find(|element| element["action_id"] == action_id)?["value"].as_str()
    }
}

/// A window that somebody has open.
#[derive(Debug, Clone, PartialEq)]
pub struct View {
    /// Its name.
    pub id: String,
    /// Who has it open.
    pub user: String,
    /// What it shows and carries.
    pub view: Value,
}

/// What goes wrong with the next request to the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// It is one too many.
    RateLimited {
        /// When the next one is welcome.
        retry_after_secs: u64,
    },
    /// Slack is down.
    ServerError,
    /// It takes its time, and then succeeds.
    Slow(Duration),
    /// It is done, but the connection breaks before anybody is told.
    LostReply,
}

/// A simulated Slack. It ends when this is dropped.
#[derive(Debug)]
pub struct SimulatedSlack {
    address: SocketAddr,
    state: Shared,
    server: JoinHandle<()>,
}

/// The workspace, as the server and the handle share it.
type Shared = Arc<Mutex<State>>;

/// Whoever panicked while holding the lock has left the workspace as it was between two requests.
fn lock(state: &Shared) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SimulatedSlack {
    /// Starts a workspace with the default settings on a free port of the loopback.
    pub async fn start() -> io::Result<Self> {
        Self::start_with(Settings::default()).await
    }

    /// Starts a workspace like `settings`.
    pub async fn start_with(settings: Settings) -> io::Result<Self> {
        Self::start_on(TcpListener::bind(("127.0.0.1", 0)).await?, settings)
    }

    /// Starts a workspace that serves `listener`.
    pub fn start_on(listener: TcpListener, settings: Settings) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let state = Arc::new(Mutex::new(State::new(settings, format!("http://{address}"))));
        let router = router(Arc::clone(&state));
        let server = tokio::spawn(async move {
            // The listener only fails for good when the process is short of files; the next request tells.
            let _ended = axum::serve(listener, router).await;
        });
        Ok(Self { address, state, server })
    }

    /// Where it stands, for a client's base URL and for a browser.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sends callbacks of the page to `url` from now on.
    pub fn call_back(&self, url: &str) {
        lock(&self.state).settings.callback = Some(url.to_owned());
    }

    /// Every message, in the order they were posted.
    pub fn messages(&self) -> Vec<Message> {
        lock(&self.state).messages.clone()
    }

    /// The message at `place`.
    pub fn message(&self, place: &str) -> Option<Message> {
        lock(&self.state).message(place).cloned()
    }

    /// Somebody deletes the message at `place`.
    pub fn delete(&self, place: &str) {
        lock(&self.state).messages.retain(|message| message.place() != place);
    }

    /// Every window that is open.
    pub fn views(&self) -> Vec<View> {
        lock(&self.state).views.clone()
    }

    /// What was sent to the addresses that callbacks named for answers.
    pub fn answers(&self) -> Vec<Value> {
        lock(&self.state).answers.clone()
    }

    /// How many requests have reached the API.
    pub fn calls(&self) -> usize {
        lock(&self.state).calls
    }

    /// Something goes wrong with the next request to the API; with the one after that, if told twice.
    pub fn trouble(&self, trouble: Trouble) {
        lock(&self.state).troubles.push_back(trouble);
    }

    /// Somebody presses a button: the request that Slack would send. Nothing if there is no such button.
    pub fn press(&self, press: &Press<'_>) -> Option<Callback> {
        lock(&self.state).press(press)
    }

    /// Somebody uses a shortcut: the request that Slack would send. Nothing if there is no such message.
    pub fn use_shortcut(&self, used: &Use<'_>) -> Option<Callback> {
        lock(&self.state).use_shortcut(used)
    }

    /// Somebody sends a window off: the request that Slack would send. Nothing if they have no such window.
    pub fn submit_view(&self, submission: &Submission<'_>) -> Option<Callback> {
        lock(&self.state).submit(submission)
    }
}

impl Drop for SimulatedSlack {
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
