use super::*;
use axum::http::HeaderName;
use axum::http::header::{CONNECTION, UPGRADE};
use axum::routing::{get, post};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const SHORT: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_hours(1);

/// A deadline is checked once a second.
const WAIT_MAX: Duration = Duration::from_secs(20);

const LIMITS: ConnectionLimits =
    ConnectionLimits { connections: 3, idle: LONG, head: LONG, body: LONG, write: LONG };

const COMPLETE_REQUEST: &str = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
const HALF_HEAD: &str = "GET / HTTP/1.1\r\nHost: a\r\n";
const HALF_BODY: &str = "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf";
const KEEP_ALIVE_REQUEST: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const SLOW_REQUEST: &str = "GET /slow HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
const LARGE_RESPONSE_REQUEST: &str = "GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

async fn server(limits: ConnectionLimits) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let slow = || async {
        sleep(2 * CHECK_EVERY).await;
        "slow"
    };
    let large = || async { "x".repeat(64 * 1024 * 1024) };
    let router = Router::new()
        .route("/", get(|| async { StatusCode::OK }))
        .route("/slow", get(slow))
        .route("/large", get(large))
        .route("/body", post(|body: String| async move { body }))
        .route("/echo", get(echo));
    tokio::spawn(serve(listener, router, limits, CancellationToken::new()));
    address
}

/// Leaves HTTP, and sends back the next four bytes.
async fn echo(mut request: Request<Body>) -> (StatusCode, [(HeaderName, &'static str); 2]) {
    tokio::spawn(async move {
        let mut upgraded = TokioIo::new(hyper::upgrade::on(&mut request).await.unwrap());
        let mut bytes = [0; 4];
        upgraded.read_exact(&mut bytes).await.unwrap();
        upgraded.write_all(&bytes).await.unwrap();
    });
    (StatusCode::SWITCHING_PROTOCOLS, [(CONNECTION, "upgrade"), (UPGRADE, "echo")])
}

async fn open(address: SocketAddr, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// Reads until the server closes the connection.
async fn reply(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    // A connection that is closed with unread bytes is reset.
    let _ = timeout(WAIT_MAX, stream.read_to_end(&mut bytes)).await.expect("the connection stays open");
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn deadline_closes_a_half_request() {
    for (limits, request, replies) in [
        (ConnectionLimits { head: SHORT, ..LIMITS }, HALF_HEAD, false),
        (ConnectionLimits { body: SHORT, ..LIMITS }, HALF_BODY, false),
        (ConnectionLimits { idle: SHORT, ..LIMITS }, KEEP_ALIVE_REQUEST, true),
        (ConnectionLimits { idle: SHORT, ..LIMITS }, "", false),
    ] {
        let address = server(limits).await;
        let reply = reply(open(address, request).await).await;
        assert_eq!(reply.starts_with("HTTP/1.1 200"), replies, "{request}: {reply}");
    }
}

#[tokio::test]
async fn deadlines_do_not_close_a_request_in_progress() {
    let all = ConnectionLimits { head: SHORT, body: SHORT, idle: SHORT, write: SHORT, ..LIMITS };
    let reply = reply(open(server(all).await, SLOW_REQUEST).await).await;
    assert!(reply.ends_with("slow"), "{reply}");
}

#[tokio::test]
async fn client_that_does_not_read_is_closed() {
    let address = server(ConnectionLimits { write: SHORT, connections: 1, ..LIMITS }).await;
    let _unread = open(address, LARGE_RESPONSE_REQUEST).await;
    sleep(SHORT).await;
    assert!(reply(open(address, COMPLETE_REQUEST).await).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn full_server_closes_the_slowest_client() {
    for half in [HALF_HEAD, HALF_BODY, ""] {
        let address = server(LIMITS).await;
        let work = open(address, SLOW_REQUEST).await;
        let mut waiting = Vec::new();
        for _ in 0..20 {
            waiting.push(open(address, half).await);
        }
        assert!(reply(open(address, COMPLETE_REQUEST).await).await.starts_with("HTTP/1.1 200"), "{half}");
        assert!(reply(work).await.ends_with("slow"), "{half}");
    }
}

/// A second request in the same segment, or while the first one is served, must not escape the checks.
#[tokio::test]
async fn pipelined_requests_pass_the_same_checks() {
    let smuggled = "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n\
                    GET /slow HTTP/1.1\r\nHost: a\r\n\r\n";
    let bare_line_feeds = "GET /slow HTTP/1.1\nHost: a\n\n";
    let full_body = "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nfull";
    let chunked_body =
        "POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfull\r\n0\r\n\r\n";
    let slow = SLOW_REQUEST.replace("Connection: close\r\n", "");
    for first in [KEEP_ALIVE_REQUEST, full_body, chunked_body, &slow] {
        for second in [smuggled, bare_line_feeds] {
            let address = server(LIMITS).await;
            let at_once = reply(open(address, &format!("{first}{second}")).await).await;
            assert!(at_once.starts_with("HTTP/1.1 400"), "{at_once}");

            let mut stream = open(address, first).await;
            sleep(SHORT).await;
            stream.write_all(second.as_bytes()).await.unwrap();
            let later = reply(stream).await;
            assert!(later.starts_with("HTTP/1.1 200"), "{later}");
            assert_eq!(later.matches("HTTP/1.1 400").count(), 1, "{first:?} {second:?}: {later}");
            assert_eq!(later.matches("HTTP/1.1").count(), 2, "{later}");
        }
        let both = reply(open(server(LIMITS).await, &format!("{first}{COMPLETE_REQUEST}")).await).await;
        assert_eq!(both.matches("HTTP/1.1 200").count(), 2, "unambiguous requests may be pipelined: {both}");
    }
}

#[tokio::test]
async fn upgraded_connection_is_not_scanned() {
    let upgrade = "GET /echo HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n";
    let mut stream = open(server(LIMITS).await, upgrade).await;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    assert!(head.starts_with(b"HTTP/1.1 101"), "{head:?}");
    stream.write_all(b"a\n\0\r").await.unwrap();
    assert_eq!(reply(stream).await, "a\n\0\r");
}

#[test]
fn connections_leave_descriptors_for_the_store() {
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let connections = u64::try_from(ConnectionLimits::for_process().connections).unwrap();
    assert!(connections <= CONNECTIONS_MAX && connections < descriptors, "{connections} of {descriptors}");
}
