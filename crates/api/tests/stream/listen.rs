//! Listeners over WebSocket and server-sent events, and raw responses.

use futures_util::StreamExt as _;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::env::{StreamEnv, TIMEOUT, key_of};

/// The smallest buffer that the kernel allows.
const RECEIVE_BYTES: u32 = 4 * 1024;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Received {
    Envelope(Value),
    Heartbeat,
    /// The end of the stream, with its close code.
    End(Option<u16>),
}

/// A listener over a WebSocket.
pub(crate) struct Socket(WebSocketStream<TcpStream>);

impl Socket {
    pub(crate) async fn open(env: &StreamEnv, path: &str) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(RECEIVE_BYTES).unwrap();
        let stream = socket.connect(env.at).await.unwrap();
        let mut request = format!("ws://{}/api/v1{path}", env.at).into_client_request().unwrap();
        let credential = format!("Bearer {}", key_of("acme")).parse().unwrap();
        request.headers_mut().insert("authorization", credential);
        let (socket, _) = timeout(TIMEOUT, client_async(request, stream)).await.unwrap().unwrap();
        Self(socket)
    }

    pub(crate) async fn receive(&mut self) -> Received {
        match timeout(TIMEOUT, self.0.next()).await.unwrap() {
            Some(Ok(Message::Text(text))) => Received::Envelope(serde_json::from_str(&text).unwrap()),
            Some(Ok(Message::Ping(_))) => Received::Heartbeat,
            Some(Ok(Message::Close(frame))) => Received::End(frame.map(|frame| frame.code.into())),
            Some(Ok(other)) => panic!("{other}"),
            Some(Err(_)) | None => Received::End(None),
        }
    }

    /// The next envelope, after any heartbeats.
    pub(crate) async fn envelope(&mut self) -> Value {
        loop {
            match self.receive().await {
                Received::Envelope(envelope) => return envelope,
                Received::Heartbeat => {}
                end @ Received::End(_) => panic!("{end:?}"),
            }
        }
    }

    /// Every envelope up to one of this type.
    pub(crate) async fn until(&mut self, event: &str) -> Vec<Value> {
        let mut received = Vec::new();
        loop {
            received.push(self.envelope().await);
            if received.last().unwrap()["event"] == event {
                return received;
            }
        }
    }
}

/// A listener to server-sent events.
pub(crate) struct Events(Lines<BufReader<TcpStream>>);

impl Events {
    pub(crate) async fn open(env: &StreamEnv, path: &str) -> Self {
        Self::open_with(env, path, "").await
    }

    /// Opens with another header, like a browser that reconnects.
    pub(crate) async fn open_with(env: &StreamEnv, path: &str, header: &str) -> Self {
        let mut stream = TcpStream::connect(env.at).await.unwrap();
        // HTTP/1.0 has no chunked encoding.
        let request = format!(
            "GET /api/v1{path} HTTP/1.0\r\nAccept: text/event-stream\r\nAuthorization: Bearer {}\r\n{header}\r\n",
            key_of("acme")
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut lines = BufReader::new(stream).lines();
        let mut head = Vec::new();
        while let Some(line) = lines.next_line().await.unwrap().filter(|line| !line.is_empty()) {
            head.push(line);
        }
        assert!(head[0].ends_with("200 OK"), "{head:?}");
        assert!(head.iter().any(|line| line == "content-type: text/event-stream"), "{head:?}");
        Self(lines)
    }

    pub(crate) async fn receive(&mut self) -> Received {
        let mut id = None;
        while let Some(line) = timeout(TIMEOUT, self.0.next_line()).await.unwrap().unwrap() {
            match line.split_once(':') {
                Some(("", _)) => return Received::Heartbeat,
                Some(("id", text)) => id = Some(text.trim().to_owned()),
                Some(("data", text)) => {
                    let envelope: Value = serde_json::from_str(text.trim()).unwrap();
                    assert_eq!(envelope["id"].as_str(), id.as_deref(), "a browser reconnects with this id");
                    return Received::Envelope(envelope);
                }
                _ => assert!(line.is_empty(), "{line}"),
            }
        }
        Received::End(None)
    }

    /// Every envelope up to one of this type.
    pub(crate) async fn until(&mut self, event: &str) -> Vec<Value> {
        let mut received = Vec::new();
        loop {
            match self.receive().await {
                Received::Envelope(envelope) => received.push(envelope),
                Received::Heartbeat => continue,
                end @ Received::End(_) => panic!("{end:?}"),
            }
            if received.last().unwrap()["event"] == event {
                return received;
            }
        }
    }
}

/// The head of a response without its date, and its body.
pub(crate) async fn response(env: &StreamEnv, path: &str, headers: &[(&str, &str)]) -> (Vec<String>, String) {
    let mut stream = TcpStream::connect(env.at).await.unwrap();
    let headers: Vec<String> = headers.iter().map(|(name, text)| format!("{name}: {text}\r\n")).collect();
    let request = format!("GET /api/v1{path} HTTP/1.1\r\nHost: {}\r\n{}\r\n", env.at, headers.concat());
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut reader = BufReader::new(stream);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        timeout(TIMEOUT, reader.read_line(&mut line)).await.unwrap().unwrap();
        match line.trim_end() {
            "" => break,
            line if line.starts_with("date:") => {}
            line => head.push(line.to_owned()),
        }
    }
    let length = head.iter().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    reader.read_exact(&mut body).await.unwrap();
    (head, String::from_utf8(body).unwrap())
}

pub(crate) fn ids(envelopes: &[Value]) -> Vec<&str> {
    envelopes.iter().map(|envelope| envelope["id"].as_str().unwrap()).collect()
}

pub(crate) fn types(envelopes: &[Value]) -> Vec<&str> {
    envelopes.iter().map(|envelope| envelope["event"].as_str().unwrap()).collect()
}
