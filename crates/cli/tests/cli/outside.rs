//! The outside world: a service on this machine that writes down what it is asked.
//!
//! Anything under `/missing` is not found; anything under `/slow` is answered only after it was released.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Everything that is waited for takes well under a second; a busy machine gets more.
const PATIENCE: Duration = Duration::from_secs(30);

/// A request that came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) what: String,
    pub(crate) key: Option<String>,
}

#[derive(Default)]
struct Book {
    asked: Vec<Asked>,
    released: bool,
}

#[derive(Clone)]
pub(crate) struct Outside {
    address: SocketAddr,
    book: Arc<(Mutex<Book>, Condvar)>,
}

impl Outside {
    pub(crate) fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let outside = Self { address: listener.local_addr().unwrap(), book: Arc::default() };
        let serving = outside.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let serving = serving.clone();
                std::thread::spawn(move || serving.attend(stream));
            }
        });
        outside
    }

    /// `127.0.0.1:port`.
    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.book.0.lock().unwrap().asked.clone()
    }

    /// Waits until `count` requests have come.
    pub(crate) fn until_asked(&self, count: usize) {
        let book = self.book.0.lock().unwrap();
        let waited = self.book.1.wait_timeout_while(book, PATIENCE, |book| book.asked.len() < count).unwrap();
        assert!(!waited.1.timed_out(), "asked only {:?}", waited.0.asked);
    }

    /// Answers what is slow.
    pub(crate) fn release(&self) {
        self.book.0.lock().unwrap().released = true;
        self.book.1.notify_all();
    }

    fn attend(&self, mut stream: TcpStream) {
        let Some(asked) = read(&mut stream) else { return };
        let slow = asked.what.contains("/slow");
        let status = if asked.what.contains("/missing") { "404 Not Found" } else { "200 OK" };
        let mut book = self.book.0.lock().unwrap();
        book.asked.push(asked);
        self.book.1.notify_all();
        if slow {
            book = self.book.1.wait_while(book, |book| !book.released).unwrap();
        }
        drop(book);
        let head = "content-type: application/json\r\ncontent-length: 11\r\nconnection: close";
        // Whoever asked may be gone.
        let _ = write!(stream, "HTTP/1.1 {status}\r\n{head}\r\n\r\n{{\"ok\":true}}");
    }
}

fn read(stream: &mut TcpStream) -> Option<Asked> {
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
    let what = head.lines().next()?.trim_end_matches(" HTTP/1.1").to_owned();
    Some(Asked { what, key: header("idempotency-key") })
}
