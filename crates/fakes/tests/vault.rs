//! The fake Vault's HTTP API, in the form that Vault documents. The client of the product is tested against the fake in
//! its own crate; these tests cover what it does not use.
#![expect(clippy::unwrap_used, reason = "tests and their helpers may")]

extern crate countersign_fakes as fakes;

use std::time::Duration;

use fakes::vault::{LeaseEnd, TokenRole, Vault};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Sends a request and returns the status and the JSON of the reply.
async fn send(vault: &Vault, head: &str, token: &str, namespace: &str, body: &Value) -> (u16, Value) {
    let url = vault.url();
    let host = url.strip_prefix("http://").unwrap();
    let body = body.to_string();
    let request = format!(
        "{head} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\nx-vault-token: {token}\r\n\
         x-vault-namespace: {namespace}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(host).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await.unwrap();
    let status = reply.split(' ').nth(1).unwrap().parse().unwrap();
    let body = reply.split_once("\r\n\r\n").unwrap().1;
    (status, serde_json::from_str(body).unwrap_or_default())
}

async fn log_in(vault: &Vault, namespace: &str) -> String {
    let body = json!({ "role_id": "r", "secret_id": "s" });
    let (status, reply) = send(vault, "POST /v1/auth/approle/login", "", namespace, &body).await;
    assert_eq!(status, 200, "{reply}");
    reply["auth"]["client_token"].as_str().unwrap().to_owned()
}

async fn vault() -> (Vault, String) {
    let vault = Vault::start().await.unwrap();
    vault.add_approle("", "r", "s", TokenRole::reading(&["kv/data/*", "database/creds/*"]));
    vault.add_dynamic_role("", "database/creds/writer", Duration::from_mins(1));
    let token = log_in(&vault, "").await;
    (vault, token)
}

#[tokio::test]
async fn kv_read_has_the_documented_form() {
    let (vault, token) = vault().await;
    vault.put("", "kv/a", json!({ "password": "one" }));
    vault.put("", "kv/a", json!({ "password": "two" }));
    let (status, reply) = send(&vault, "GET /v1/kv/data/a", &token, "", &Value::Null).await;
    assert_eq!((status, &reply["data"]["data"]), (200, &json!({ "password": "two" })));
    assert_eq!((&reply["data"]["metadata"]["version"], &reply["lease_id"]), (&json!(2), &json!("")));
    vault.delete("", "kv/a");
    let (status, reply) = send(&vault, "GET /v1/kv/data/a", &token, "", &Value::Null).await;
    assert_eq!((status, &reply["data"]["data"]), (404, &Value::Null));
    assert_ne!(reply["data"]["metadata"]["deletion_time"], "");
    assert_eq!(
        send(&vault, "GET /v1/kv/data/b", &token, "", &Value::Null).await,
        (404, json!({ "errors": [] }))
    );
}

#[tokio::test]
async fn renewed_lease_lives_longer_up_to_its_maximum() {
    let (vault, token) = vault().await;
    let (_, created) = send(&vault, "GET /v1/database/creds/writer", &token, "", &Value::Null).await;
    let lease = json!({ "lease_id": created["lease_id"] });
    vault.advance(Duration::from_secs(50));
    let (status, renewed) = send(&vault, "PUT /v1/sys/leases/renew", &token, "", &lease).await;
    assert_eq!((status, &renewed["lease_duration"]), (200, &json!(60)));
    let (_, found) = send(&vault, "PUT /v1/sys/leases/lookup", &token, "", &lease).await;
    assert_eq!(found["data"]["ttl"], 60);
    let long = json!({ "lease_id": created["lease_id"], "increment": 86_400 });
    let (_, renewed) = send(&vault, "PUT /v1/sys/leases/renew", &token, "", &long).await;
    assert_eq!(renewed["lease_duration"], 550);
    vault.advance(Duration::from_secs(550));
    assert_eq!(vault.leases()[0].1, Some(LeaseEnd::Expired));
    assert_eq!(send(&vault, "PUT /v1/sys/leases/renew", &token, "", &lease).await.0, 400);
}

#[tokio::test]
async fn token_is_valid_in_its_namespace_and_below() {
    let (vault, _) = vault().await;
    for namespace in ["org/", "org/team/", "other/"] {
        vault.add_namespace(namespace);
        vault.put(namespace, "kv/a", json!({ "b": namespace }));
    }
    vault.add_approle("org/", "r", "s", TokenRole::reading(&["kv/data/*", "team/kv/data/*"]));
    let token = log_in(&vault, "org").await;
    for (namespace, status) in [("org", 200), ("org/team", 200), ("other", 403), ("", 403), ("absent", 404)] {
        let answer = send(&vault, "GET /v1/kv/data/a", &token, namespace, &Value::Null).await;
        assert_eq!(answer.0, status, "{namespace}");
    }
}

#[tokio::test]
async fn revoked_token_takes_its_leases_with_it() {
    let (vault, token) = vault().await;
    send(&vault, "GET /v1/database/creds/writer", &token, "", &Value::Null).await;
    assert_eq!(send(&vault, "POST /v1/auth/token/revoke-self", &token, "", &Value::Null).await.0, 204);
    assert_eq!(vault.leases()[0].1, Some(LeaseEnd::WithToken));
    let (status, reply) = send(&vault, "GET /v1/auth/token/lookup-self", &token, "", &Value::Null).await;
    assert!(status == 403 && reply["errors"][0].as_str().unwrap().contains("invalid token"), "{reply}");
}

#[tokio::test]
async fn health_shows_the_state_of_the_node() {
    let (vault, token) = vault().await;
    let health = async || send(&vault, "GET /v1/sys/health", "", "", &Value::Null).await.0;
    assert_eq!(health().await, 200);
    vault.answer_with(Some(473));
    assert_eq!(health().await, 473);
    vault.seal();
    assert_eq!(health().await, 503);
    let sealed = send(&vault, "GET /v1/kv/data/a", &token, "", &Value::Null).await;
    assert_eq!(sealed, (503, json!({ "errors": ["Vault is sealed"] })));
}
