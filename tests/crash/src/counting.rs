//! A service that honours idempotency keys and counts requests and effects.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use parking_lot::Mutex;

#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// Requests by key.
    pub requests: BTreeMap<String, u32>,
    /// Keys whose effect happened. A caller that repeats an effect under another key adds a second entry.
    pub effects: BTreeSet<String>,
}

/// The service. It serves until the process ends.
#[derive(Debug, Clone)]
pub struct CountingService {
    address: SocketAddr,
    counts: Arc<Mutex<Counts>>,
}

impl CountingService {
    /// Serves on a free port of the loopback interface.
    pub fn serve() -> std::io::Result<Self> {
        Self::serve_with(|_| ())
    }

    /// Like `serve`, but calls `on_request` with the number of requests for the key, after the effect and before the
    /// reply.
    pub fn serve_with(on_request: impl Fn(u32) + Send + 'static) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let service = Self { address: listener.local_addr()?, counts: Arc::default() };
        let counts = Arc::clone(&service.counts);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A killed client may close the connection in the middle of a request.
                let _ = answer(&stream, &counts, &on_request);
            }
        });
        Ok(service)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn counts(&self) -> Counts {
        self.counts.lock().clone()
    }
}

fn answer(mut stream: &TcpStream, counts: &Mutex<Counts>, on_request: &impl Fn(u32)) -> std::io::Result<()> {
    let key = read_request(stream)?;
    let mut state = counts.lock();
    let requests = state.requests.entry(key.clone()).or_default();
    *requests += 1;
    let requests = *requests;
    // A repeated key gets the same reply as the first request.
    state.effects.insert(key);
    drop(state);
    on_request(requests);
    let body = "{\"ok\":true}";
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// Reads a whole request and returns its idempotency key.
fn read_request(stream: &TcpStream) -> std::io::Result<String> {
    let mut reader = BufReader::new(stream);
    let (mut key, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        match name.to_ascii_lowercase().as_str() {
            "idempotency-key" => value.trim().clone_into(&mut key),
            "content-length" => length = value.trim().parse().unwrap_or(0),
            _ => {}
        }
    }
    std::io::copy(&mut reader.take(length), &mut std::io::sink())?;
    Ok(key)
}
