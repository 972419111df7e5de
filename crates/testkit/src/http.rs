//! A scripted HTTP server.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_blocking;

/// The text of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StubRequest {
    /// Request line and headers.
    pub head: String,
    pub body: String,
}

impl StubRequest {
    /// Method and path.
    pub fn line(&self) -> &str {
        self.head.lines().next().unwrap().trim_end_matches(" HTTP/1.1")
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let mut fields = self.head.lines().filter_map(|line| line.split_once(':'));
        fields.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }
}

/// What the server sends, and how the connection ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StubReply {
    bytes: Vec<u8>,
    ending: StubEnding,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StubEnding {
    Close,
    Reset,
    /// The connection stays open, and nothing is sent.
    Stall,
    /// This text is sent after a pause, and the connection closes.
    After(Duration, String),
    /// This text is sent again and again, at this interval.
    Repeat(String, Duration),
}

impl StubReply {
    /// A complete reply. Each header ends with a line break.
    pub fn new(status: u16, headers: &str, body: &str) -> Self {
        let length = body.len();
        let text = format!(
            "HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n{body}"
        );
        Self::raw(&text)
    }

    /// A complete JSON reply.
    pub fn json(status: u16, body: &str) -> Self {
        Self::new(status, "content-type: application/json\r\n", body)
    }

    /// This text, which may be any part of a reply.
    pub fn raw(text: &str) -> Self {
        Self { bytes: text.as_bytes().to_vec(), ending: StubEnding::Close }
    }

    /// Nothing.
    pub fn none() -> Self {
        Self::raw("")
    }

    /// The head of a reply whose body never completes.
    pub fn head(status: u16) -> Self {
        Self::raw(&format!("HTTP/1.1 {status} X\r\ncontent-length: 9999999\r\n\r\n"))
    }

    /// The reply without its last two bytes.
    #[must_use]
    pub fn cut(mut self) -> Self {
        self.bytes.truncate(self.bytes.len() - 2);
        self
    }

    #[must_use]
    pub fn then(self, ending: StubEnding) -> Self {
        Self { ending, ..self }
    }

    async fn send(self, mut stream: TcpStream) {
        // The client may have closed the connection.
        let _ = stream.write_all(&self.bytes).await;
        match self.ending {
            StubEnding::Close => {}
            StubEnding::Reset => stream.set_zero_linger().unwrap(),
            StubEnding::Stall => std::future::pending().await,
            StubEnding::After(pause, text) => {
                tokio::time::sleep(pause).await;
                let _ = stream.write_all(text.as_bytes()).await;
            }
            StubEnding::Repeat(text, interval) => {
                while stream.write_all(text.as_bytes()).await.is_ok() {
                    if !interval.is_zero() {
                        tokio::time::sleep(interval).await;
                    }
                }
            }
        }
    }
}

/// A server on the loopback interface that records its requests. It runs on a thread and a runtime of its own, so that it
/// also serves tests without a runtime or in virtual time.
#[derive(Debug, Clone)]
pub struct HttpStub {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<StubRequest>>>,
    /// Keeps the port open.
    #[expect(dead_code, reason = "held, not read")]
    silent: Option<Arc<std::net::TcpListener>>,
}

impl HttpStub {
    /// Starts a server. `answer` runs on a thread for each connection, so that it may block.
    pub fn start(answer: impl Fn(&StubRequest) -> StubReply + Send + Sync + 'static) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let stub = Self { address: listener.local_addr().unwrap(), requests: Arc::default(), silent: None };
        let (requests, answer) = (Arc::clone(&stub.requests), Arc::new(answer));
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).unwrap();
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(serve(stream, Arc::clone(&requests), Arc::clone(&answer)));
                }
            });
        });
        stub
    }

    /// An address at which connections are refused.
    pub fn refusing() -> Self {
        let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        Self { address, requests: Arc::default(), silent: None }
    }

    /// A server that accepts connections and neither reads nor replies, until this is dropped.
    pub fn silent() -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        Self { address, requests: Arc::default(), silent: Some(Arc::new(listener)) }
    }

    /// A server that always sends `reply`.
    pub fn answering(reply: StubReply) -> Self {
        Self::start(move |_| reply.clone())
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of `path`, which starts with a slash.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Waits until `count` requests have arrived. Blocks the thread.
    pub fn wait_for_requests(&self, count: usize) {
        for _ in 0..6_000 {
            if self.requests.lock().unwrap().len() >= count {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("received only {:?}", self.requests());
    }

    /// The requests, in the order of their arrival.
    pub fn requests(&self) -> Vec<StubRequest> {
        self.requests.lock().unwrap().clone()
    }
}

async fn serve(
    mut stream: TcpStream,
    requests: Arc<Mutex<Vec<StubRequest>>>,
    answer: Arc<impl Fn(&StubRequest) -> StubReply + Send + Sync + 'static>,
) {
    if let Some(request) = read(&mut stream).await {
        requests.lock().unwrap().push(request.clone());
        let reply = spawn_blocking(move || answer(&request)).await.unwrap();
        reply.send(stream).await;
    }
}

/// `None` if the bytes are not an HTTP request, for example a TLS handshake.
async fn read(stream: &mut TcpStream) -> Option<StubRequest> {
    let mut bytes = Vec::new();
    loop {
        let mut chunk = [0; 4096];
        let read = stream.read(&mut chunk).await.ok()?;
        bytes.extend_from_slice(&chunk[..read]);
        let text = std::str::from_utf8(&bytes).ok()?;
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let request = StubRequest { head: head.to_owned(), body: body.to_owned() };
            let length = request.header("content-length").map_or(0, |length| length.parse().unwrap());
            if request.body.len() >= length {
                return Some(request);
            }
        }
        if read == 0 || !bytes[0].is_ascii_alphabetic() {
            return None;
        }
    }
}
