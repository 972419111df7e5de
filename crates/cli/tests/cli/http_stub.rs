//! An HTTP server that records its requests.
//!
//! Paths with `/missing` return 404; paths with `/slow` return after `release`.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Every wait takes well under a second, more on a busy machine.
const WAIT_MAX: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecordedRequest {
    /// Method and path.
    pub(crate) line: String,
    pub(crate) key: Option<String>,
}

#[derive(Default)]
struct State {
    requests: Vec<RecordedRequest>,
    released: bool,
}

#[derive(Clone)]
pub(crate) struct HttpStub {
    address: SocketAddr,
    state: Arc<(Mutex<State>, Condvar)>,
}

impl HttpStub {
    pub(crate) fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stub = Self { address: listener.local_addr().unwrap(), state: Arc::default() };
        let serving = stub.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let serving = serving.clone();
                std::thread::spawn(move || serving.handle(stream));
            }
        });
        stub
    }

    /// `127.0.0.1:port`.
    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    pub(crate) fn requests(&self) -> Vec<RecordedRequest> {
        self.state.0.lock().unwrap().requests.clone()
    }

    /// Waits until `count` requests have arrived.
    pub(crate) fn wait_for_requests(&self, count: usize) {
        let state = self.state.0.lock().unwrap();
        let too_few = |state: &mut State| state.requests.len() < count;
        let waited = self.state.1.wait_timeout_while(state, WAIT_MAX, too_few).unwrap();
        assert!(!waited.1.timed_out(), "received only {:?}", waited.0.requests);
    }

    /// Lets the slow requests return.
    pub(crate) fn release(&self) {
        self.state.0.lock().unwrap().released = true;
        self.state.1.notify_all();
    }

    fn handle(&self, mut stream: TcpStream) {
        let Some(request) = read(&mut stream) else { return };
        let slow = request.line.contains("/slow");
        let status = if request.line.contains("/missing") { "404 Not Found" } else { "200 OK" };
        let mut state = self.state.0.lock().unwrap();
        state.requests.push(request);
        self.state.1.notify_all();
        if slow {
            state = self.state.1.wait_while(state, |state| !state.released).unwrap();
        }
        drop(state);
        let head = "content-type: application/json\r\ncontent-length: 11\r\nconnection: close";
        // The client may be dead.
        let _ = write!(stream, "HTTP/1.1 {status}\r\n{head}\r\n\r\n{{\"ok\":true}}");
    }
}

fn read(stream: &mut TcpStream) -> Option<RecordedRequest> {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        bytes.push(byte[0]);
    }
    let head = String::from_utf8(bytes).ok()?;
    let header = |name: &str| {
        let mut pairs = head.lines().filter_map(|line| line.split_once(": "));
        pairs.find(|(header, _)| header.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
    };
    let length: usize = header("content-length").map_or(0, |length| length.parse().unwrap());
    stream.read_exact(&mut vec![0; length]).ok()?;
    let line = head.lines().next()?.trim_end_matches(" HTTP/1.1").to_owned();
    Some(RecordedRequest { line, key: header("idempotency-key") })
}
