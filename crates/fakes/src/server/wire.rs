//! Connections that the server can cut before a reply is written.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

/// Accepting fails when file handles run out; wait until one is free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

pub(super) struct Wires(pub(super) TcpListener);

impl Listener for Wires {
    type Io = Wire;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Wire, SocketAddr) {
        loop {
            match self.0.accept().await {
                Ok((stream, address)) => return (Wire { stream, cut: Cut::default() }, address),
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

/// Cuts one connection: further writes fail.
#[derive(Debug, Clone, Default)]
pub(super) struct Cut(Arc<AtomicBool>);

impl Cut {
    pub(super) fn now(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    fn check(&self) -> io::Result<()> {
        if self.0.load(Ordering::SeqCst) { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
    }
}

impl Connected<IncomingStream<'_, Wires>> for Cut {
    fn connect_info(stream: IncomingStream<'_, Wires>) -> Self {
        stream.io().cut.clone()
    }
}

pub(super) struct Wire {
    stream: TcpStream,
    cut: Cut,
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.cut.check() {
            Ok(()) => Pin::new(&mut self.stream).poll_write(context, bytes),
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
