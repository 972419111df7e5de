//! Ways in which a server can reply, or fail to.

use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// Sends a complete reply.
pub(crate) async fn reply(mut stream: TcpStream, status: u16, headers: &str, body: &str) {
    let length = body.len();
    let text = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n{headers}\r\n{body}");
    let _ = stream.write_all(text.as_bytes()).await;
}

/// Sends the head of a reply whose body never completes.
pub(crate) async fn head(stream: &mut TcpStream, status: u16) {
    let _ =
        stream.write_all(format!("HTTP/1.1 {status} X\r\ncontent-length: 9999999\r\n\r\n").as_bytes()).await;
}

/// Closes the connection with a reset.
pub(crate) fn reset(stream: TcpStream) {
    stream.set_zero_linger().unwrap();
    drop(stream);
}

/// Holds the connection and sends nothing.
pub(crate) async fn stall(stream: TcpStream) {
    tokio::time::sleep(Duration::from_mins(10)).await;
    drop(stream);
}

/// Sends one byte at a time without end.
pub(crate) async fn drip(mut stream: TcpStream) {
    while stream.write_all(b".").await.is_ok() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Sends as much as the client reads.
pub(crate) async fn pour(mut stream: TcpStream) {
    while stream.write_all(&[b'.'; 16_384]).await.is_ok() {}
}
