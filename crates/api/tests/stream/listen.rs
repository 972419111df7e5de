//! Two ways to listen, and one to see the bytes of an answer.

use futures_util::StreamExt as _;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::scene::{PATIENCE, Scene, key_of};

/// As little as the kernel takes.
const RECEIVE_BYTES: u32 = 4 * 1024;

/// What a listener heard.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Heard {
    Envelope(Value),
    Beat,
    /// The stream ended; with this code, if it said one.
    End(Option<u16>),
}

/// A listener over a WebSocket.
pub(crate) struct Socket(WebSocketStream<TcpStream>);

impl Socket {
    pub(crate) async fn open(scene: &Scene, path: &str) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(RECEIVE_BYTES).unwrap();
        let stream = socket.connect(scene.at).await.unwrap();
        let mut request = format!("ws://{}/api/v1{path}", scene.at).into_client_request().unwrap();
        let credential = format!("Bearer {}", key_of("acme")).parse().unwrap();
        request.headers_mut().insert("authorization", credential);
        let (socket, _) = timeout(PATIENCE, client_async(request, stream)).await.unwrap().unwrap();
        Self(socket)
    }

    pub(crate) async fn hear(&mut self) -> Heard {
        match timeout(PATIENCE, self.0.next()).await.unwrap() {
            Some(Ok(Message::Text(text))) => Heard::Envelope(serde_json::from_str(&text).unwrap()),
            Some(Ok(Message::Ping(_))) => Heard::Beat,
            Some(Ok(Message::Close(frame))) => Heard::End(frame.map(|frame| frame.code.into())),
            Some(Ok(other)) => panic!("{other}"),
            Some(Err(_)) | None => Heard::End(None),
        }
    }

    /// The next envelope, whatever is heard before it.
    pub(crate) async fn envelope(&mut self) -> Value {
        loop {
            match self.hear().await {
                Heard::Envelope(envelope) => return envelope,
                Heard::Beat => {}
                end @ Heard::End(_) => panic!("{end:?}"),
            }
        }
    }

    /// Every envelope up to one of this type.
    pub(crate) async fn until(&mut self, event: &str) -> Vec<Value> {
        let mut heard = Vec::new();
        loop {
            heard.push(self.envelope().await);
            if heard.last().unwrap()["event"] == event {
                return heard;
            }
        }
    }
}

/// A listener to server-sent events.
pub(crate) struct Events(Lines<BufReader<TcpStream>>);

impl Events {
    pub(crate) async fn open(scene: &Scene, path: &str) -> Self {
        Self::open_with(scene, path, "").await
    }

    /// Opens with another header, as a browser does that comes back.
    pub(crate) async fn open_with(scene: &Scene, path: &str, header: &str) -> Self {
        let mut stream = TcpStream::connect(scene.at).await.unwrap();
        // In HTTP/1.0 the body is what it is, without chunks.
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

    pub(crate) async fn hear(&mut self) -> Heard {
        let mut id = None;
        while let Some(line) = timeout(PATIENCE, self.0.next_line()).await.unwrap().unwrap() {
            match line.split_once(':') {
                Some(("", _)) => return Heard::Beat,
                Some(("id", text)) => id = Some(text.trim().to_owned()),
                Some(("data", text)) => {
                    let envelope: Value = serde_json::from_str(text.trim()).unwrap();
                    assert_eq!(envelope["id"].as_str(), id.as_deref(), "a browser comes back with this id");
                    return Heard::Envelope(envelope);
                }
                _ => assert!(line.is_empty(), "{line}"),
            }
        }
        Heard::End(None)
    }

    /// Every envelope up to one of this type.
    pub(crate) async fn until(&mut self, event: &str) -> Vec<Value> {
        let mut heard = Vec::new();
        loop {
            match self.hear().await {
                Heard::Envelope(envelope) => heard.push(envelope),
                Heard::Beat => continue,
                end @ Heard::End(_) => panic!("{end:?}"),
            }
            if heard.last().unwrap()["event"] == event {
                return heard;
            }
        }
    }
}

/// The head of an answer without its date, and its body, byte for byte.
pub(crate) async fn answer(scene: &Scene, path: &str, headers: &[(&str, &str)]) -> (Vec<String>, String) {
    let mut stream = TcpStream::connect(scene.at).await.unwrap();
    let headers: Vec<String> = headers.iter().map(|(name, text)| format!("{name}: {text}\r\n")).collect();
    let request = format!("GET /api/v1{path} HTTP/1.1\r\nHost: {}\r\n{}\r\n", scene.at, headers.concat());
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut reader = BufReader::new(stream);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        timeout(PATIENCE, reader.read_line(&mut line)).await.unwrap().unwrap();
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
