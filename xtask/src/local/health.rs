//! Health checks and ports of the emulators.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Child;
use std::time::{Duration, Instant};

use super::emulator::{Emulator, endpoint};
use super::error::LocalError;

const RESPONSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The slowest emulator starts in ten seconds on an idle machine; a CI machine is not idle.
const START_TIMEOUT: Duration = Duration::from_mins(2);

const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// The interval of progress messages.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// The maximum length of a response. The fields that are checked come far earlier.
const RESPONSE_MAX: u64 = 64 * 1024;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) body: String,
}

pub(crate) fn is_healthy(emulator: Emulator, port: u16) -> bool {
    get(port, emulator.health_path()).is_some_and(|response| emulator.is_healthy(&response))
}

/// Waits until the emulator is ready. `server` is its process.
pub(crate) fn wait(emulator: Emulator, port: u16, server: &mut Child) -> Result<Duration, LocalError> {
    let (name, started) = (emulator.name(), Instant::now());
    let mut last_message = started;
    while started.elapsed() < START_TIMEOUT {
        if is_healthy(emulator, port) {
            return Ok(started.elapsed());
        }
        if let Ok(Some(status)) = server.try_wait() {
            return Err(LocalError::new(format!("{name} exited during its start: {status}")));
        }
        if last_message.elapsed() >= PROGRESS_INTERVAL {
            last_message = Instant::now();
            eprintln!("{name}: waiting for {} ({}s)", endpoint(port), started.elapsed().as_secs());
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    Err(LocalError::new(format!("{name} was not ready within {}s", START_TIMEOUT.as_secs())))
}

/// The requested port, the default port, or any free port.
pub(crate) fn port_for(emulator: Emulator, requested: Option<u16>) -> Result<u16, LocalError> {
    match requested {
        Some(port) if is_free(port) => Ok(port),
        Some(port) => {
            Err(LocalError::new(format!("port {port} is in use; choose another one for {}", emulator.name())))
        }
        None if is_free(emulator.default_port()) => Ok(emulator.default_port()),
        None => free_port(),
    }
}

/// A free port. If another process takes it first, the server reports that.
pub(crate) fn free_port() -> Result<u16, LocalError> {
    let port = listen(0).and_then(|listener| Ok(listener.local_addr()?.port()));
    port.map_err(|error| LocalError::new(format!("no port is free: {error}")))
}

fn is_free(port: u16) -> bool {
    listen(port).is_ok()
}

/// Binds every interface, because DynamoDB Local does so and cannot be configured otherwise.
fn listen(port: u16) -> std::io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))
}

fn get(port: u16, path: &str) -> Option<Response> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, RESPONSE_TIMEOUT).ok()?;
    stream.set_read_timeout(Some(RESPONSE_TIMEOUT)).ok()?;
    stream.set_write_timeout(Some(RESPONSE_TIMEOUT)).ok()?;
    // HTTP/1.0, so that the response is not chunked and ends with the connection.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n\r\n").ok()?;
    let mut bytes = Vec::new();
    stream.take(RESPONSE_MAX).read_to_end(&mut bytes).ok()?;
    parse(&String::from_utf8_lossy(&bytes))
}

fn parse(response: &str) -> Option<Response> {
    let (head, body) = response.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.trim().parse().ok()?;
    Some(Response { status, body: body.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_is_parsed_with_and_without_a_reason_phrase() {
        let response = parse("HTTP/1.1 200 \r\ncontent-type: x\r\n\r\none\r\n\r\ntwo");
        assert_eq!(response, Some(Response { status: 200, body: "one\r\n\r\ntwo".to_owned() }));
        assert_eq!(parse("HTTP/1.0 400 Bad Request\r\n\r\n").map(|response| response.status), Some(400));
        for broken in ["", "HTTP/1.1 200", "SSH-2.0-x\r\n\r\n", "HTTP/1.1 ok\r\n\r\n"] {
            assert_eq!(parse(broken), None, "{broken}");
        }
    }

    #[test]
    fn used_port_is_rejected() {
        let listener = listen(0).unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(port_for(Emulator::DynamoDb, Some(port)).is_err());
        assert_ne!(free_port().ok(), Some(port));
    }

    #[test]
    fn unused_port_is_not_healthy() {
        let port = free_port().ok().unwrap();
        assert!(!is_healthy(Emulator::MiniStack, port));
    }
}
