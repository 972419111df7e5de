//! A service that honours idempotency keys and counts what it was asked to do and what it did.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What was asked and done, by key.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// Requests.
    pub asked: BTreeMap<String, u32>,
    /// Effects. Under one key there is never more than one; whoever acts a second time under another shows here.
    pub done: BTreeSet<String>,
}

/// The service. It serves until the process ends.
#[derive(Debug, Clone)]
pub struct Counting {
    address: SocketAddr,
    counts: Arc<Mutex<Counts>>,
}

impl Counting {
    /// Serves on a free port of this machine.
    pub fn serve() -> std::io::Result<Self> {
        Self::serve_and(|_| ())
    }

    /// The same, and before each answer, when the effect has happened, `meanwhile` is told how many requests
    /// there were with its key.
    pub fn serve_and(meanwhile: impl Fn(u32) + Send + 'static) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let service = Self { address: listener.local_addr()?, counts: Arc::default() };
        let counts = Arc::clone(&service.counts);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A client that was killed in the middle of a request is the point of the exercise.
                let _ = answer(&stream, &counts, &meanwhile);
            }
        });
        Ok(service)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What was asked and done so far.
    pub fn counts(&self) -> Counts {
        lock(&self.counts).clone()
    }
}

fn lock(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

fn answer(mut stream: &TcpStream, counts: &Mutex<Counts>, meanwhile: &impl Fn(u32)) -> std::io::Result<()> {
    let key = read_request(stream)?;
    let mut state = lock(counts);
    let asked = state.asked.entry(key.clone()).or_default();
    *asked += 1;
    let asked = *asked;
    // A key that is known is answered as it was the first time.
    state.done.insert(key);
    drop(state);
    meanwhile(asked);
    let body = "{\"ok\":true}";
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// Reads a whole request; gives back its idempotency key.
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
