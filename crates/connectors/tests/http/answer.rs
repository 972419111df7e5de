//! The ways in which a server can answer, or not.

use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// A whole reply.
pub(crate) async fn reply(mut stream: TcpStream, status: u16, headers: &str, body: &str) {
    let length = body.len();
    let text = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n{headers}\r\n{body}");
    let _ = stream.write_all(text.as_bytes()).await;
}

/// The head of a reply whose body has no stated length.
pub(crate) async fn head(stream: &mut TcpStream, status: u16) {
    let _ =
        stream.write_all(format!("HTTP/1.1 {status} X\r\ncontent-length: 9999999\r\n\r\n").as_bytes()).await;
}

/// Hangs up with a reset.
pub(crate) fn reset(stream: TcpStream) {
    stream.set_zero_linger().unwrap();
    drop(stream);
}

/// Holds the connection and says nothing.
pub(crate) async fn stall(stream: TcpStream) {
    tokio::time::sleep(Duration::from_mins(10)).await;
    drop(stream);
}

/// Says one byte at a time, and never comes to an end.
pub(crate) async fn drip(mut stream: TcpStream) {
    while stream.write_all(b".").await.is_ok() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Says as much as the other side takes.
pub(crate) async fn pour(mut stream: TcpStream) {
    while stream.write_all(&[b'.'; 16_384]).await.is_ok() {}
}
