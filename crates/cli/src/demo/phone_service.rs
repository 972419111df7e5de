//! The phone service of the second part: it knows who is on call, and it rings a phone.
//!
//! It counts requests and phone calls separately. It has no idempotency keys: every request rings.
//!
//! It can withhold a response until its caller is dead. The phone rings, and the caller gets no response.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use views::table::table;

use super::http::{self, Request};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Endpoint {
    OnCall,
    PhoneCalls,
}

/// Counts for one path and idempotency key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) requests: u32,
    pub(super) calls: u32,
}

#[derive(Default)]
struct State {
    /// By path and key.
    counts: BTreeMap<(String, String), Count>,
    /// The number of phone calls in total; each call gets it as its number.
    calls: u32,
    hold: Option<(String, oneshot::Sender<()>)>,
}

pub(super) struct PhoneService {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    listener: tokio::task::AbortHandle,
}

impl Drop for PhoneService {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

impl PhoneService {
    /// Listens on a free port of 127.0.0.1.
    pub(super) async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let state = Arc::default();
        let serving = tokio::spawn(serve(listener, Arc::clone(&state)));
        Ok(Self { address, state, listener: serving.abort_handle() })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Executes the next request to `path` and withholds the response. The receiver fires when that has happened.
    pub(super) fn withhold_response(&self, path: &str) -> oneshot::Receiver<()> {
        let (reached, receiver) = oneshot::channel();
        self.state.lock().hold = Some((path.to_owned(), reached));
        receiver
    }

    /// The counts of `path` for each idempotency key.
    pub(super) fn counts(&self, path: &str) -> Vec<(String, Count)> {
        let state = self.state.lock();
        let of_path = state.counts.iter().filter(|((counted, _), _)| counted == path);
        of_path.map(|((_, key), count)| (key.clone(), *count)).collect()
    }

    /// The counts of `path` as a table.
    pub(super) fn table(&self, path: &str) -> String {
        let row = |(key, count): (String, Count)| {
            [path.to_owned(), key, count.requests.to_string(), count.calls.to_string()]
        };
        let rows: Vec<_> = self.counts(path).into_iter().map(row).collect();
        table(["ENDPOINT", "IDEMPOTENCY-KEY", "REQUESTS", "CALLS"], &rows)
    }
}

async fn serve(listener: TcpListener, state: Arc<Mutex<State>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let state = Arc::clone(&state);
        tokio::spawn(async move {
            // The demo kills its callers, so a broken connection is expected.
            let _ = handle(stream, &state).await;
        });
    }
}

async fn handle(mut stream: TcpStream, state: &Mutex<State>) -> io::Result<()> {
    let request = http::read(&mut stream).await?;
    let (response, hold) = state.lock().execute(&request);
    if let Some(reached) = hold {
        let _ = reached.send(());
        http::closed(&mut stream).await;
        return Ok(());
    }
    match response {
        Some(body) => http::reply(&mut stream, "200 OK", &body).await,
        None => http::reply(&mut stream, "404 Not Found", &json!({ "error": "not found" })).await,
    }
}

impl State {
    /// Executes and counts the request. Returns the response, and a sender if the response is to be withheld.
    fn execute(&mut self, request: &Request) -> (Option<Value>, Option<oneshot::Sender<()>>) {
        let Some(endpoint) = endpoint(request) else { return (None, None) };
        let Request { path, key, .. } = request;
        let entry = (path.clone(), key.clone().unwrap_or_default());
        let count = self.counts.entry(entry).or_default();
        count.requests += 1;
        let response = match endpoint {
            Endpoint::OnCall => json!({ "team": "db-oncall", "phone": "555-0100" }),
            Endpoint::PhoneCalls => {
                count.calls += 1;
                self.calls += 1;
                json!({ "number": self.calls })
            }
        };
        let hold = self.hold.take_if(|(held, _)| held == path);
        (Some(response), hold.map(|(_, reached)| reached))
    }
}

fn endpoint(request: &Request) -> Option<Endpoint> {
    match (request.method.as_str(), request.path.as_str()) {
        ("GET", "/on-call") => Some(Endpoint::OnCall),
        ("POST", "/phone-calls") => Some(Endpoint::PhoneCalls),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn post(path: &str, key: &str) -> Request {
        Request { method: "POST".into(), path: path.into(), key: Some(key.into()) }
    }

    #[test]
    fn every_request_rings() {
        let mut state = State::default();
        state.execute(&post("/phone-calls", "a"));
        state.execute(&post("/phone-calls", "a"));
        let count = state.counts[&("/phone-calls".to_owned(), "a".to_owned())];
        assert_eq!(count, Count { requests: 2, calls: 2 });
    }

    #[test]
    fn only_the_first_response_is_withheld() {
        let mut state =
            State { hold: Some(("/phone-calls".into(), oneshot::channel().0)), ..State::default() };
        assert!(state.execute(&post("/phone-calls", "a")).1.is_some());
        assert!(state.execute(&post("/phone-calls", "a")).1.is_none());
    }

    #[test]
    fn unknown_path_is_not_counted() {
        let mut state = State::default();
        assert!(state.execute(&post("/pizza", "a")).0.is_none());
        assert!(state.counts.is_empty());
    }
}
