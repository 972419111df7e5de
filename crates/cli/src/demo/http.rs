//! The part of HTTP/1.1 that the phone service needs: one request per connection, with a size limit.

use std::io;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The only client is a worker of the demo, whose requests have a few hundred bytes.
const REQUEST_BYTES_MAX: usize = 64 * 1024;

/// A slower client is treated as dead.
const READ_MAX: Duration = Duration::from_secs(10);

/// The parts of a request that the service reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    /// The `Idempotency-Key` header.
    pub(super) key: Option<String>,
}

/// Reads one request with its body.
pub(super) async fn read(stream: &mut TcpStream) -> io::Result<Request> {
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    timeout(READ_MAX, read_whole(stream)).await.map_err(late)?
}

async fn read_whole(stream: &mut TcpStream) -> io::Result<Request> {
    let mut bytes = Vec::new();
    loop {
        if let Some((request, length)) = parse(&bytes)?
            && bytes.len() >= length
        {
            return Ok(request);
        }
        if bytes.len() > REQUEST_BYTES_MAX {
            return Err(invalid("the request is too large"));
        }
        if stream.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// The request and its length with the body; `None` while the head is incomplete.
fn parse(bytes: &[u8]) -> io::Result<Option<(Request, usize)>> {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
    let head = std::str::from_utf8(&bytes[..end]).map_err(|_| invalid("the head is not text"))?;
    let (first, headers) = head.split_once("\r\n").unwrap_or((head, ""));
    let mut words = first.split(' ');
    let (Some(method), Some(path)) = (words.next(), words.next()) else {
        return Err(invalid("the first line is not a request line"));
    };
    let body = match header(headers, "content-length") {
        None => 0,
        Some(length) => length.parse().map_err(|_| invalid("the length is not a number"))?,
    };
    let key = header(headers, "idempotency-key").map(str::to_owned);
    let request = Request { method: method.to_owned(), path: path.to_owned(), key };
    Ok(Some((request, (end + 4_usize).saturating_add(body))))
}

fn header<'h>(headers: &'h str, name: &str) -> Option<&'h str> {
    let mut pairs = headers.lines().filter_map(|line| line.split_once(':'));
    pairs.find(|(header, _)| header.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Responds with JSON and closes the connection.
pub(super) async fn reply(stream: &mut TcpStream, status: &str, body: &Value) -> io::Result<()> {
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await?;
    stream.shutdown().await
}

/// Returns when the client has closed the connection.
pub(super) async fn closed(stream: &mut TcpStream) {
    let mut rest = [0; 64];
    while matches!(stream.read(&mut rest).await, Ok(1..)) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_is_parsed_with_key_and_length() {
        let bytes = b"POST /notes HTTP/1.1\r\nIdempotency-Key: k-1\r\nContent-Length: 5\r\n\r\nhello";
        let (request, length) = parse(bytes).unwrap().unwrap();
        assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/notes"));
        assert_eq!(request.key.as_deref(), Some("k-1"));
        assert_eq!(length, bytes.len());
    }

    #[test]
    fn incomplete_head_is_not_a_request() {
        assert_eq!(parse(b"GET / HTTP/1.1\r\nHost: a\r\n").unwrap(), None);
    }

    #[test]
    fn invalid_request_is_refused() {
        for bytes in
            [&b"nonsense\r\n\r\n"[..], b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n", b"\xff\r\n\r\n"]
        {
            assert!(parse(bytes).is_err());
        }
    }
}
