//! A TCP connection that reports its progress and holds its slot until it is closed.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;

use super::phase::Connection;
use super::scan::RequestScan;

pub(super) struct Socket {
    stream: TcpStream,
    connection: Arc<Connection>,
    scan: RequestScan,
    /// A WebSocket outlives the HTTP connection that it began as, so the slot is released with the socket.
    _slot: Option<OwnedSemaphorePermit>,
}

impl Socket {
    pub(super) fn new(
        stream: TcpStream,
        slot: Option<OwnedSemaphorePermit>,
        connection: Arc<Connection>,
    ) -> Self {
        Self { stream, connection, scan: RequestScan::default(), _slot: slot }
    }

    /// Makes an ambiguous request invalid, so that hyper answers it with 400 and closes the connection.
    fn check(&mut self, received: &mut [u8]) {
        if self.connection.on_read() && !self.scan.accepts(received) {
            received.fill(0);
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.check(&mut buffer.filled_mut()[before..]);
        }
        read
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.connection.on_write(written.is_pending());
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.connection.on_write(written.is_pending());
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
