//! Asking a server how it is.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Child;
use std::time::{Duration, Instant};

use super::stand_in::{StandIn, endpoint};
use super::trouble::Trouble;

/// How long one answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// How long a server may take to start. The slowest needs ten seconds on an idle machine, and CI is not idle.
const START_WITHIN: Duration = Duration::from_mins(2);

/// How often it is asked meanwhile.
const ASK_EVERY: Duration = Duration::from_millis(250);

/// How often whoever waits is told so.
const TELL_EVERY: Duration = Duration::from_secs(5);

/// How much of an answer is read. All that is looked for stands far before this.
const ANSWER_MAX: u64 = 64 * 1024;

/// What a server said.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

/// Whether the stand-in at `port` can be used.
pub(crate) fn is_well(stand_in: StandIn, port: u16) -> bool {
    ask(port, stand_in.health_path()).is_some_and(|answer| stand_in.is_well(&answer))
}

/// Waits until the stand-in can be used. `server` is its process.
pub(crate) fn wait(stand_in: StandIn, port: u16, server: &mut Child) -> Result<Duration, Trouble> {
    let (name, began) = (stand_in.name(), Instant::now());
    let mut told = began;
    while began.elapsed() < START_WITHIN {
        if is_well(stand_in, port) {
            return Ok(began.elapsed());
        }
        if let Ok(Some(status)) = server.try_wait() {
            return Err(Trouble::new(format!("{name} ended instead of starting: {status}")));
        }
        if told.elapsed() >= TELL_EVERY {
            told = Instant::now();
            eprintln!("{name}: waiting for {} ({} s)", endpoint(port), began.elapsed().as_secs());
        }
        std::thread::sleep(ASK_EVERY);
    }
    Err(Trouble::new(format!("{name} was not ready within {} s", START_WITHIN.as_secs())))
}

/// A port for the stand-in: the one that was chosen, the usual one, or any that is free.
pub(crate) fn port_for(stand_in: StandIn, chosen: Option<u16>) -> Result<u16, Trouble> {
    match chosen {
        Some(port) if is_free(port) => Ok(port),
        Some(port) => Err(Trouble::new(format!("port {port} is taken; {} needs another", stand_in.name()))),
        None if is_free(stand_in.usual_port()) => Ok(stand_in.usual_port()),
        None => any_port(),
    }
}

/// A port that nobody listens on. Somebody could take it before the server does, which it would then say.
pub(crate) fn any_port() -> Result<u16, Trouble> {
    let port = listen(0).and_then(|listener| Ok(listener.local_addr()?.port()));
    port.map_err(|error| Trouble::new(format!("no port is free: {error}")))
}

fn is_free(port: u16) -> bool {
    listen(port).is_ok()
}

/// On every interface, as DynamoDB Local will: it has no setting for that.
fn listen(port: u16) -> std::io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))
}

fn ask(port: u16, path: &str) -> Option<Answer> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, ANSWER_WITHIN).ok()?;
    stream.set_read_timeout(Some(ANSWER_WITHIN)).ok()?;
    stream.set_write_timeout(Some(ANSWER_WITHIN)).ok()?;
    // HTTP/1.0, so that the answer comes in one piece and ends with the connection.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n\r\n").ok()?;
    let mut bytes = Vec::new();
    stream.take(ANSWER_MAX).read_to_end(&mut bytes).ok()?;
    parse(&String::from_utf8_lossy(&bytes))
}

fn parse(answer: &str) -> Option<Answer> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.trim().parse().ok()?;
    Some(Answer { status, body: body.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_with_or_without_words_behind_it() {
        let answer = parse("HTTP/1.1 200 \r\ncontent-type: x\r\n\r\nwell\r\n\r\nand alive");
        assert_eq!(answer, Some(Answer { status: 200, body: "well\r\n\r\nand alive".to_owned() }));
        assert_eq!(parse("HTTP/1.0 400 Bad Request\r\n\r\n").map(|answer| answer.status), Some(400));
        for broken in ["", "HTTP/1.1 200", "SSH-2.0-x\r\n\r\n", "HTTP/1.1 ok\r\n\r\n"] {
            assert_eq!(parse(broken), None, "{broken}");
        }
    }

    #[test]
    fn a_chosen_port_that_is_taken_is_refused_and_the_usual_one_is_left_to_its_owner() {
        let taken = listen(0).unwrap();
        let port = taken.local_addr().unwrap().port();
        assert!(port_for(StandIn::DynamoDb, Some(port)).is_err());
        assert_ne!(any_port().ok(), Some(port));
    }

    #[test]
    fn nobody_answers_where_nobody_listens() {
        let port = any_port().ok().unwrap();
        assert!(!is_well(StandIn::MiniStack, port));
    }
}
