//! Requests to a server that is slow, away, or not our server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use domain::RunId;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

use super::*;
use crate::{Client, Transport};

/// The number of requests, and their idempotency keys.
#[derive(Default)]
struct Requests {
    count: AtomicUsize,
    keys: std::sync::Mutex<Vec<String>>,
}

/// A server whose store responds from the third request on.
async fn busy(State(requests): State<Arc<Requests>>, headers: HeaderMap) -> Response {
    let key = headers.get("idempotency-key").map(|key| key.to_str().unwrap().to_owned());
    requests.keys.lock().unwrap().extend(key);
    if requests.count.fetch_add(1, Ordering::SeqCst) < 2 {
        let problem = r#"{"status":503,"code":"UNAVAILABLE","detail":"the store did not respond"}"#;
        return (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "0")], problem).into_response();
    }
    (StatusCode::CREATED, r#"{"run":"run-1"}"#).into_response()
}

async fn serve(app: Router) -> Url {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    format!("http://{address}").parse().unwrap()
}

fn client(server: &Url) -> Client {
    Client::new(Transport::Server(Remote::new(server, "csk_a_b_c".into()).unwrap()))
}

fn run() -> RunId {
    "run-1".parse().unwrap()
}

#[tokio::test]
async fn start_is_retried_with_the_same_key() {
    let requests = Arc::new(Requests::default());
    let server = serve(Router::new().fallback(busy).with_state(Arc::clone(&requests))).await;
    let workflow = "w".parse().unwrap();
    let request =
        api_types::StartRun { workflow, workspace: None, input: serde_json::json!({}), record: None };
    let started = client(&server).start(&request, "k".to_owned()).await.unwrap();
    assert!(started.new);
    assert_eq!(*requests.keys.lock().unwrap(), ["k", "k", "k"]);
}

#[tokio::test]
async fn unrepeatable_request_is_sent_once() {
    let requests = Arc::new(Requests::default());
    let server = serve(Router::new().fallback(busy).with_state(Arc::clone(&requests))).await;
    let error = client(&server).retry(&run(), "").await.unwrap_err();
    assert!(error.is("UNAVAILABLE"), "{error:?}");
    assert_eq!(requests.count.load(Ordering::SeqCst), 1);
}

/// A load balancer during a deployment of the server.
async fn load_balancer(State(requests): State<Arc<Requests>>) -> Response {
    if requests.count.fetch_add(1, Ordering::SeqCst) < 2 {
        return (StatusCode::BAD_GATEWAY, "<html>502</html>").into_response();
    }
    (StatusCode::CREATED, r#"{"run":"run-1"}"#).into_response()
}

#[tokio::test]
async fn proxy_error_leaves_the_outcome_open() {
    let requests = Arc::new(Requests::default());
    let server = serve(Router::new().fallback(load_balancer).with_state(Arc::clone(&requests))).await;
    let error = client(&server).retry(&run(), "").await.unwrap_err();
    assert!(error.is_unreachable() && error.is_outcome_unknown(), "{error:?}");
    assert!(error.to_string().contains("502") && error.to_string().contains("unknown"), "{error}");
    assert_eq!(requests.count.load(Ordering::SeqCst), 1, "an unrepeatable request is sent once");
    let request = api_types::StartRun {
        workflow: "w".parse().unwrap(),
        workspace: None,
        input: serde_json::json!({}),
        record: None,
    };
    assert!(client(&server).start(&request, "k".to_owned()).await.unwrap().new);
    assert_eq!(requests.count.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn later_unreachable_attempt_keeps_the_outcome_open() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        drop(listener);
        let gone = b"HTTP/1.1 504 Gateway Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        stream.write_all(gone).await.unwrap();
    });
    let request = api_types::StartRun {
        workflow: "w".parse().unwrap(),
        workspace: None,
        input: serde_json::json!({}),
        record: None,
    };
    let error = client(&server).start(&request, "k".to_owned()).await.unwrap_err();
    assert!(error.is_outcome_unknown(), "{error:?}");
}

#[tokio::test]
async fn key_is_not_sent_along_a_redirect() {
    let requests = Arc::new(Requests::default());
    let elsewhere = serve(Router::new().fallback(busy).with_state(Arc::clone(&requests))).await;
    let location = elsewhere.to_string();
    let app = Router::new().fallback(|| async move { (StatusCode::FOUND, [("location", location)]) });
    let error = client(&serve(app).await).me().await.unwrap_err();
    assert!(matches!(error, ClientError::InvalidResponse(_)), "{error:?}");
    assert_eq!(requests.count.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn unreachable_error_names_the_server_and_hides_the_key() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = client(&format!("http://{address}").parse().unwrap()).me().await.unwrap_err();
    assert_eq!(error.to_string(), format!("http://{address}/ cannot be reached"));
    assert!(!format!("{error:?}").contains("csk_"), "{error:?}");
}

#[test]
fn key_needs_https_or_this_machine() {
    let remote = |text: &str| Remote::new(&text.parse().unwrap(), "k".into());
    for good in ["https://a.example", "http://localhost:1", "http://127.0.0.1:1", "http://[::1]:1"] {
        assert!(remote(good).is_ok(), "{good}");
    }
    for bad in
        ["http://a.example", "http://localhost.example", "http://10.0.0.1", "ftp://a", "https://u:p@a/"]
    {
        assert!(remote(bad).is_err(), "{bad}");
    }
    let shown = format!("{:?}", remote("https://a.example").unwrap());
    assert!(!shown.contains("\"k\""), "{shown}");
}
