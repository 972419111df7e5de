//! The service desk of the second act: it knows who is on call, and it has a phone.
//!
//! It counts two things apart: what it was *asked* to do, and what it really *did*. Its phone knows no keys: every
//! request rings.
//!
//! It can be told to hold an answer back until its caller is gone. That is the moment the act is about: the phone
//! has rung, and the one who asked for it will never know.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use views::table::table;

use super::http::{self, Request};

/// What the desk does for a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Service {
    /// Tells something.
    Read,
    /// Does something, every time.
    Phone,
}

/// How often the desk was asked for something, and how often it did it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Count {
    /// Requests received.
    pub(super) asked: u32,
    /// Effects carried out.
    pub(super) done: u32,
}

#[derive(Default)]
struct Books {
    /// By path and key.
    counts: BTreeMap<(String, String), Count>,
    /// How much was done in all; what is done gets this number.
    done: u32,
    hold: Option<(String, oneshot::Sender<()>)>,
}

/// The service desk.
pub(super) struct Desk {
    address: SocketAddr,
    books: Arc<Mutex<Books>>,
    listener: tokio::task::AbortHandle,
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

impl Desk {
    /// Opens on a free port of this machine.
    pub(super) async fn open() -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let books = Arc::default();
        let serving = tokio::spawn(serve(listener, Arc::clone(&books)));
        Ok(Self { address, books, listener: serving.abort_handle() })
    }

    /// Where it is.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The next request to `path` is carried out and not answered. Hears when that has happened.
    pub(super) fn hold(&self, path: &str) -> oneshot::Receiver<()> {
        let (reached, heard) = oneshot::channel();
        lock(&self.books).hold = Some((path.to_owned(), reached));
        heard
    }

    /// What was asked of `path` and done, for each key.
    pub(super) fn counts(&self, path: &str) -> Vec<(String, Count)> {
        let books = lock(&self.books);
        let of_path = books.counts.iter().filter(|((counted, _), _)| counted == path);
        of_path.map(|((_, key), count)| (key.clone(), *count)).collect()
    }

    /// The desk's own numbers for `paths`.
    pub(super) fn numbers(&self, paths: &[&str]) -> String {
        let row = |path: &str, (key, count): (String, Count)| {
            [path.to_owned(), key, count.asked.to_string(), count.done.to_string()]
        };
        let rows: Vec<_> = paths
            .iter()
            .flat_map(|path| self.counts(path).into_iter().map(|entry| row(path, entry)))
            .collect();
        table(["SERVICE", "IDEMPOTENCY-KEY", "ASKED", "DONE"], &rows)
    }
}

fn lock(books: &Mutex<Books>) -> MutexGuard<'_, Books> {
    books.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(listener: TcpListener, books: Arc<Mutex<Books>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let books = Arc::clone(&books);
        tokio::spawn(async move {
            // A caller that hangs up in the middle is what this demo is made of.
            let _ = attend(stream, &books).await;
        });
    }
}

async fn attend(mut stream: TcpStream, books: &Mutex<Books>) -> io::Result<()> {
    let request = http::read(&mut stream).await?;
    let (answer, hold) = lock(books).carry_out(&request);
    if let Some(reached) = hold {
        let _ = reached.send(());
        http::gone(&mut stream).await;
        return Ok(());
    }
    match answer {
        Some(body) => http::reply(&mut stream, "200 OK", &body).await,
        None => http::reply(&mut stream, "404 Not Found", &json!({ "error": "no such service" })).await,
    }
}

impl Books {
    /// Does what is asked, writes it down, and says whether the answer is to be held back.
    fn carry_out(&mut self, request: &Request) -> (Option<Value>, Option<oneshot::Sender<()>>) {
        let Some(service) = service(request) else { return (None, None) };
        let Request { path, key, .. } = request;
        let entry = (path.clone(), key.clone().unwrap_or_default());
        let counted = self.counts.entry(entry).or_default();
        counted.asked += 1;
        let answer = match service {
            Service::Read => json!({ "team": "db-oncall", "phone": "555-0100" }),
            Service::Phone => {
                counted.done += 1;
                self.done += 1;
                json!({ "number": self.done })
            }
        };
        let hold = self.hold.take_if(|(held, _)| held == path);
        (Some(answer), hold.map(|(_, reached)| reached))
    }
}

fn service(request: &Request) -> Option<Service> {
    match (request.method.as_str(), request.path.as_str()) {
        ("GET", "/on-call") => Some(Service::Read),
        ("POST", "/phone-calls") => Some(Service::Phone),
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
    fn a_phone_rings_every_time() {
        let mut books = Books::default();
        books.carry_out(&post("/phone-calls", "a"));
        books.carry_out(&post("/phone-calls", "a"));
        let count = books.counts[&("/phone-calls".to_owned(), "a".to_owned())];
        assert_eq!(count, Count { asked: 2, done: 2 });
    }

    #[test]
    fn only_the_first_request_is_held_back() {
        let mut books =
            Books { hold: Some(("/phone-calls".into(), oneshot::channel().0)), ..Books::default() };
        assert!(books.carry_out(&post("/phone-calls", "a")).1.is_some());
        assert!(books.carry_out(&post("/phone-calls", "a")).1.is_none());
    }

    #[test]
    fn what_the_desk_does_not_offer_is_not_counted() {
        let mut books = Books::default();
        assert!(books.carry_out(&post("/pizza", "a")).0.is_none());
        assert!(books.counts.is_empty());
    }
}
