//! A server that is slow, gone, or not what it says.

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

/// How often a server was asked, with which keys.
#[derive(Default)]
struct Heard {
    times: AtomicUsize,
    keys: std::sync::Mutex<Vec<String>>,
}

/// Answers as a server does whose store comes back after the second question.
async fn busy(State(heard): State<Arc<Heard>>, headers: HeaderMap) -> Response {
    let key = headers.get("idempotency-key").map(|key| key.to_str().unwrap().to_owned());
    heard.keys.lock().unwrap().extend(key);
    if heard.times.fetch_add(1, Ordering::SeqCst) < 2 {
        let problem = r#"{"status":503,"code":"UNAVAILABLE","detail":"the store did not answer"}"#;
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
async fn a_start_is_sent_again_under_the_same_key_until_the_store_is_back() {
    let heard = Arc::new(Heard::default());
    let server = serve(Router::new().fallback(busy).with_state(Arc::clone(&heard))).await;
    let workflow = "w".parse().unwrap();
    let wish = api_types::StartRun { workflow, input: serde_json::json!({}), record: None };
    let started = client(&server).start(&wish, "k".to_owned()).await.unwrap();
    assert!(started.new);
    assert_eq!(*heard.keys.lock().unwrap(), ["k", "k", "k"]);
}

#[tokio::test]
async fn what_must_not_be_said_twice_is_said_once() {
    let heard = Arc::new(Heard::default());
    let server = serve(Router::new().fallback(busy).with_state(Arc::clone(&heard))).await;
    let error = client(&server).retry(&run(), "").await.unwrap_err();
    assert!(error.is("UNAVAILABLE"), "{error:?}");
    assert_eq!(heard.times.load(Ordering::SeqCst), 1);
}

/// Answers as what stands before a server does while that is replaced.
async fn replaced(State(heard): State<Arc<Heard>>) -> Response {
    if heard.times.fetch_add(1, Ordering::SeqCst) < 2 {
        return (StatusCode::BAD_GATEWAY, "<html>502</html>").into_response();
    }
    (StatusCode::CREATED, r#"{"run":"run-1"}"#).into_response()
}

#[tokio::test]
async fn what_stands_before_a_server_is_not_taken_for_it() {
    let heard = Arc::new(Heard::default());
    let server = serve(Router::new().fallback(replaced).with_state(Arc::clone(&heard))).await;
    let error = client(&server).retry(&run(), "").await.unwrap_err();
    assert!(error.is_away() && error.leaves_open(), "{error:?}");
    assert!(error.to_string().contains("502") && error.to_string().contains("nobody knows"), "{error}");
    assert_eq!(heard.times.load(Ordering::SeqCst), 1, "what must not be said twice");
    let wish =
        api_types::StartRun { workflow: "w".parse().unwrap(), input: serde_json::json!({}), record: None };
    assert!(client(&server).start(&wish, "k".to_owned()).await.unwrap().new);
    assert_eq!(heard.times.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn what_one_try_left_open_is_not_settled_by_one_that_did_not_get_there() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        drop(listener);
        let gone = b"HTTP/1.1 504 Gateway Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        stream.write_all(gone).await.unwrap();
    });
    let wish =
        api_types::StartRun { workflow: "w".parse().unwrap(), input: serde_json::json!({}), record: None };
    let error = client(&server).start(&wish, "k".to_owned()).await.unwrap_err();
    assert!(error.leaves_open(), "{error:?}");
}

#[tokio::test]
async fn the_key_is_sent_along_no_redirect() {
    let heard = Arc::new(Heard::default());
    let elsewhere = serve(Router::new().fallback(busy).with_state(Arc::clone(&heard))).await;
    let location = elsewhere.to_string();
    let app = Router::new().fallback(|| async move { (StatusCode::FOUND, [("location", location)]) });
    let error = client(&serve(app).await).me().await.unwrap_err();
    assert!(matches!(error, ClientError::Unreadable(_)), "{error:?}");
    assert_eq!(heard.times.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named_and_the_key_is_not() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = client(&format!("http://{address}").parse().unwrap()).me().await.unwrap_err();
    assert_eq!(error.to_string(), format!("http://{address}/ cannot be reached"));
    assert!(!format!("{error:?}").contains("csk_"), "{error:?}");
}

#[test]
fn a_key_goes_over_https_or_stays_on_this_machine() {
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
