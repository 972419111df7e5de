use super::*;
use axum::http::StatusCode;
use axum::routing::{get, post};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const SHORT: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_hours(1);

/// A deadline is checked once a second.
const WAIT_MAX: Duration = Duration::from_secs(20);

const LIMITS: ConnectionLimits =
    ConnectionLimits { connections: 3, idle: LONG, head: LONG, body: LONG, write: LONG };

const WHOLE: &str = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
const HALF_HEAD: &str = "GET / HTTP/1.1\r\nHost: a\r\n";
const HALF_BODY: &str = "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf";
const KEPT: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const SLOW: &str = "GET /slow HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
const LARGE: &str = "GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

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
        .route("/body", post(|body: String| async move { body }));
    tokio::spawn(serve(listener, router, limits, CancellationToken::new()));
    address
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
        (ConnectionLimits { idle: SHORT, ..LIMITS }, KEPT, true),
        (ConnectionLimits { idle: SHORT, ..LIMITS }, "", false),
    ] {
        let address = server(limits).await;
        let reply = reply(open(address, request).await).await;
        assert_eq!(reply.starts_with("HTTP/1.1 200"), replies, "{request}: {reply}");
    }
}

#[tokio::test]
async fn deadlines_spare_a_request_in_work() {
    let all = ConnectionLimits { head: SHORT, body: SHORT, idle: SHORT, write: SHORT, ..LIMITS };
    let reply = reply(open(server(all).await, SLOW).await).await;
    assert!(reply.ends_with("slow"), "{reply}");
}

#[tokio::test]
async fn client_that_does_not_read_is_closed() {
    let address = server(ConnectionLimits { write: SHORT, connections: 1, ..LIMITS }).await;
    let _unread = open(address, LARGE).await;
    sleep(SHORT).await;
    assert!(reply(open(address, WHOLE).await).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn full_server_closes_the_slowest_client() {
    for half in [HALF_HEAD, HALF_BODY, ""] {
        let address = server(LIMITS).await;
        let work = open(address, SLOW).await;
        let mut waiting = Vec::new();
        for _ in 0..20 {
            waiting.push(open(address, half).await);
        }
        assert!(reply(open(address, WHOLE).await).await.starts_with("HTTP/1.1 200"), "{half}");
        assert!(reply(work).await.ends_with("slow"), "{half}");
    }
}

#[test]
fn connections_leave_descriptors_for_the_store() {
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let connections = u64::try_from(ConnectionLimits::of_process().connections).unwrap();
    assert!(connections <= CONNECTIONS_MAX && connections < descriptors, "{connections} of {descriptors}");
}
