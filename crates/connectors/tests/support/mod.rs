//! A scripted server on the loopback, and calls to it.

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use connectors::{HostAllowList, HttpRequest, ProposalRequest, Tool, ToolCall, ToolOutcome};
use domain::{Action, Failure, Fence, RunId, RunKey, StepId, TenantId};
use serde_json::Value;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};

/// A server that records every request as text.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Starts a server that reads a request and passes it to `answer`.
    pub(crate) async fn start<F, A>(answer: F) -> Self
    where
        F: Fn(String, TcpStream) -> A + Send + Sync + 'static,
        A: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                if let Some(request) = read_request(&mut stream).await {
                    log.lock().unwrap().push(request.clone());
                    tokio::spawn(answer(request, stream));
                }
            }
        });
        Self { address, seen }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

/// A tool that may call servers on the loopback. Shared, because it loads the system's certificates.
pub(crate) fn tool() -> &'static HttpRequest {
    static TOOL: LazyLock<HttpRequest> =
        LazyLock::new(|| HttpRequest::new(HostAllowList { hosts: vec!["127.0.0.1".parse().unwrap()] }));
    &TOOL
}

/// Reads head and body. `None` if the bytes are not an HTTP request, for example a TLS handshake.
async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let mut chunk = [0; 4096];
        let read = stream.read(&mut chunk).await.ok()?;
        bytes.extend_from_slice(&chunk[..read]);
        let text = std::str::from_utf8(&bytes).ok()?;
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = header(head, "content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
            if body.len() >= length {
                return Some(text.to_owned());
            }
        }
        if read == 0 || !bytes[0].is_ascii_alphabetic() {
            return None;
        }
    }
}

pub(crate) fn header(request: &str, name: &str) -> Option<String> {
    let head = request.split("\r\n\r\n").next()?;
    let mut fields = head.lines().filter_map(|line| line.split_once(": "));
    fields.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
}

pub(crate) fn propose(tool: &dyn Tool, with: Value) -> Result<Action, Failure> {
    tool.propose(ProposalRequest { run: &run(), step: &step(), undo: false, fields: with, observed: None })
}

/// A first attempt at `action`, with a minute left.
pub(crate) async fn perform(tool: &dyn Tool, action: &Action) -> ToolOutcome {
    attempt(tool, action, Duration::from_mins(1), false).await
}

/// An attempt at `action`.
pub(crate) async fn attempt(
    tool: &dyn Tool,
    action: &Action,
    time_left: Duration,
    again: bool,
) -> ToolOutcome {
    tool.perform(ToolCall { run: &run(), step: &step(), action, fence: Fence(1), time_left, again }).await
}

fn run() -> RunKey {
    RunKey { tenant: TenantId::new("acme").unwrap(), run: RunId::new("run-1").unwrap() }
}

fn step() -> StepId {
    StepId::new("call").unwrap()
}
