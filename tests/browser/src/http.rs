//! A minimal HTTP client for the local `WebDriver`: one connection per request.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// A page can take long to load on a small machine.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Sends a request and parses the reply as JSON.
pub fn request(address: &str, method: &str, path: &str, body: Option<&Value>) -> Result<Value, String> {
    request_with(address, method, path, &[], body)
}

pub fn request_with(
    address: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Option<&Value>,
) -> Result<Value, String> {
    let failed = |error: std::io::Error| format!("{method} {path}: {error}");
    let mut stream = TcpStream::connect(address).map_err(failed)?;
    stream.set_read_timeout(Some(TIMEOUT)).map_err(failed)?;
    let body = body.map(Value::to_string).unwrap_or_default();
    let headers: Vec<String> = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n{}\r\n",
        body.len(),
        headers.concat()
    );
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).map_err(failed)?;
    let mut reply = Vec::new();
    // The driver may ignore `Connection: close`, so the content length ends the reply.
    while !is_complete(&reply) {
        let mut chunk = [0; 16 * 1024];
        match stream.read(&mut chunk).map_err(failed)? {
            0 => break,
            count => reply.extend_from_slice(&chunk[..count]),
        }
    }
    let (head, body) = parts(&reply).ok_or_else(|| format!("{method} {path}: no reply"))?;
    serde_json::from_slice(body).map_err(|error| format!("{method} {path}: {error} in {head}"))
}

fn parts(reply: &[u8]) -> Option<(String, &[u8])> {
    let end = reply.windows(4).position(|four| four == b"\r\n\r\n")?;
    Some((String::from_utf8_lossy(&reply[..end]).to_lowercase(), &reply[end + 4..]))
}

fn is_complete(reply: &[u8]) -> bool {
    let Some((head, body)) = parts(reply) else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    length.and_then(|length| length.trim().parse::<usize>().ok()).is_some_and(|length| body.len() >= length)
}
