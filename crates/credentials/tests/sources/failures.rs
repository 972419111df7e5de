//! Every answer that is not a secret, and that none of them puts a secret into an error.

use credentials::SecretError;
use domain::Millis;
use fakes::server::FakeFault;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::kit::{DATABASE, KV, fetch, outage, refusal, source, value, vault};

#[tokio::test]
async fn vault_sealed() {
    let (vault, source) = vault().await;
    vault.seal();
    assert!(outage(fetch(&source, KV).await).contains("sealed"), "at the login");
    vault.unseal();
    assert_eq!(value(&source, KV).await, "hunter2");
    vault.seal();
    assert!(outage(fetch(&source, KV).await).contains("sealed"), "with a token");
    vault.unseal();
    assert_eq!(value(&source, KV).await, "hunter2");
    assert_eq!(vault.leases(), []);
}

#[tokio::test]
async fn standby_or_failing_node_is_unavailable() {
    let (vault, source) = vault().await;
    for status in [307, 412, 429, 472, 473, 474, 500, 501, 502, 503, 504, 530] {
        vault.answer_with(Some(status));
        outage(fetch(&source, KV).await);
        outage(fetch(&source, DATABASE).await);
    }
    vault.answer_with(None);
    assert_eq!(value(&source, KV).await, "hunter2");
    for status in [307, 412, 429, 472, 473, 474, 500, 501, 502, 503, 504, 530] {
        vault.answer_with(Some(status));
        outage(fetch(&source, KV).await);
    }
    for status in [400, 404, 405] {
        vault.answer_with(Some(status));
        refusal(fetch(&source, KV).await);
    }
}

#[tokio::test]
async fn rate_limit_gives_the_delay() {
    let (vault, source) = vault().await;
    value(&source, KV).await;
    vault.faults().on_read(FakeFault::RateLimited { retry_after: "7".to_owned() });
    let error = fetch(&source, KV).await.unwrap_err();
    let SecretError::Unavailable { why, retry_after, .. } = error else { panic!("{error}") };
    assert_eq!((why.as_str(), retry_after), ("Vault limits the rate of requests", Some(Millis::secs(7))));
}

#[tokio::test]
async fn server_that_is_down_is_unavailable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    assert!(outage(fetch(&source(&address), KV).await).contains("cannot connect to Vault"));
}

/// Answers the login, and then every request with these bytes.
async fn scripted(login: String, answer: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = vec![0; 8 * 1024];
            let read = stream.read(&mut head).await.unwrap_or_default();
            let is_login = head[..read].windows(6).any(|bytes| bytes == b"/login");
            let _ = stream.write_all(if is_login { &login } else { &answer }.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    address
}

fn response(status: u16, body: &str) -> String {
    format!("HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

const LOGIN: &str = r#"{"auth": {"client_token": "hvs.hunter2", "lease_duration": 3600, "renewable": true}}"#;

#[tokio::test]
async fn no_error_contains_a_part_of_the_response() {
    let mut answers: Vec<String> = [
        "hunter2",
        r#"{"data": "hunter2"}"#,
        r#"{"data": {"data": {"password": ["hunter2"]}, "metadata": {"version": 1}}}"#,
        r#"{"data": {"data": {"hunter2": "hunter2"}, "metadata": {"version": 1}}}"#,
        r#"{"data": {"data": {"password": "hunter2"}, "metadata": {"version": "hunter2"}}}"#,
        r#"{"data": {"data": {"password": "hunter2"}"#,
    ]
    .map(|body| response(200, body))
    .into();
    for status in [204, 301, 400, 401, 403, 404, 405, 412, 418, 429, 472, 500, 503] {
        answers.push(response(status, r#"{"errors": ["hunter2"]}"#));
    }
    // Cut in the body, and in the head.
    answers.push("HTTP/1.1 200 X\r\ncontent-length: 99\r\n\r\n{\"data\": \"hunter2\"".to_owned());
    answers.push("HTTP/1.1 200 X\r\nhunter2".to_owned());
    for answer in answers {
        for login in [response(200, LOGIN), answer.clone()] {
            let address = scripted(login, answer.clone()).await;
            let error = fetch(&source(&address), KV).await.unwrap_err();
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains("hunter2"), "{answer}: {shown}");
        }
    }
}

#[tokio::test]
async fn response_size_is_bounded() {
    let long = "x".repeat(300 * 1024);
    let secret = format!(r#"{{"data": {{"data": {{"password": "{long}"}}, "metadata": {{"version": 1}}}}}}"#);
    let address = scripted(response(200, LOGIN), response(200, &secret)).await;
    let why = refusal(fetch(&source(&address), KV).await);
    assert!(why.contains("more than 262144 bytes"), "{why}");
}
