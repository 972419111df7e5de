//! A TCP proxy in front of the local AWS that delays or cuts connections.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

/// The delay of each part of a request or reply.
const DELAY: Duration = Duration::from_millis(400);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProxyMode {
    Open,
    Slow,
    /// Cuts connections, also in the middle of a reply.
    Unavailable,
}

pub(crate) struct Proxy {
    address: SocketAddr,
    mode: Arc<Mutex<ProxyMode>>,
}

impl Proxy {
    pub(crate) async fn start(upstream: String) -> io::Result<Arc<Self>> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let proxy =
            Arc::new(Self { address: listener.local_addr()?, mode: Arc::new(Mutex::new(ProxyMode::Open)) });
        let mode = Arc::clone(&proxy.mode);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(forward(client, upstream.clone(), Arc::clone(&mode)));
            }
        });
        Ok(proxy)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn set(&self, mode: ProxyMode) {
        *self.mode.lock() = mode;
    }
}

/// Copies both directions. Dropping the connection cuts it.
async fn forward(mut client: TcpStream, upstream: String, mode: Arc<Mutex<ProxyMode>>) {
    let Ok(mut server) = TcpStream::connect(upstream).await else { return };
    let ((client_read, client_write), (server_read, server_write)) = (client.split(), server.split());
    tokio::select! {
        _ = copy(client_read, server_write, &mode) => {}
        _ = copy(server_read, client_write, &mode) => {}
    }
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mode: &Mutex<ProxyMode>,
) -> io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let read = from.read(&mut buffer).await?;
        let current = *mode.lock();
        match current {
            _ if read == 0 => return Ok(()),
            ProxyMode::Unavailable => return Err(io::ErrorKind::ConnectionReset.into()),
            ProxyMode::Slow => sleep(DELAY).await,
            ProxyMode::Open => {}
        }
        to.write_all(&buffer[..read]).await?;
    }
}
