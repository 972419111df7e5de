//! The fakes' HTTP behavior, tested with raw bytes on a socket.
#![expect(clippy::unwrap_used, reason = "tests and their helpers may")]

extern crate countersign_fakes as fakes;

use fakes::github::{self, GitHub};
use fakes::model::{self, Model, Recording};
use fakes::server::FakeFault;
use fakes::servicenow::{self, INCIDENT, ServiceNow};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Sends a request and returns all bytes of the reply, possibly none.
async fn send(url: &str, head: &str, token: &str, body: &str) -> String {
    let host = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(host).await.unwrap();
    let request = format!(
        "{head} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut reply = Vec::new();
    let _ = stream.read_to_end(&mut reply).await;
    String::from_utf8(reply).unwrap()
}

fn status(reply: &str) -> &str {
    reply.split(' ').nth(1).unwrap_or_default()
}

fn record() -> String {
    format!("/api/now/table/incident/{INCIDENT}")
}

#[tokio::test]
async fn servicenow_errors_match_the_real_api() {
    let instance = ServiceNow::start().await.unwrap();
    let unauthorized = send(&instance.url(), &format!("GET {}", record()), "wrong", "").await;
    assert_eq!(status(&unauthorized), "401");
    assert!(unauthorized.contains(r#""message":"User is not authenticated""#), "{unauthorized}");
    assert!(unauthorized.contains(r#""status":"failure""#), "{unauthorized}");
    let absent = send(&instance.url(), "GET /api/now/table/incident/0", servicenow::TOKEN, "").await;
    assert_eq!(status(&absent), "404");
    assert!(absent.contains(r#""message":"No Record found""#), "{absent}");
}

#[tokio::test]
async fn stale_count_is_rejected_unless_stock() {
    let instance = ServiceNow::start().await.unwrap();
    let patch = format!("PATCH {}?sysparm_query=sys_mod_count%3D0", record());
    let change = |state: &'static str| {
        let (url, patch, body) = (instance.url(), patch.clone(), format!(r#"{{"state":"{state}"}}"#));
        async move { send(&url, &patch, servicenow::TOKEN, &body).await }
    };
    assert_eq!(status(&change("2").await), "200");
    assert_eq!(status(&change("3").await), "412");
    assert_eq!(instance.value("incident", INCIDENT, "state"), "2");
    instance.ignore_preconditions();
    assert_eq!(status(&change("3").await), "200");
    assert_eq!((instance.writes(INCIDENT), instance.requests()), (2, 3));
    assert_eq!(instance.value("incident", INCIDENT, "sys_mod_count"), "2");
    assert_eq!(instance.value("incident", INCIDENT, "sys_updated_on"), "2026-01-01 00:00:02");
}

#[tokio::test]
async fn work_note_is_in_the_journal_only() {
    let instance = ServiceNow::start().await.unwrap();
    let patch = format!("PATCH {}", record());
    send(&instance.url(), &patch, servicenow::TOKEN, r#"{"work_notes":"Restarted."}"#).await;
    assert_eq!(instance.value("incident", INCIDENT, "work_notes"), "");
    assert_eq!(instance.work_notes(INCIDENT), ["Restarted."]);
    let query = format!("GET /api/now/table/sys_journal_field?sysparm_query=element_id%3D{INCIDENT}");
    assert!(send(&instance.url(), &query, servicenow::TOKEN, "").await.contains("Restarted."));
}

#[tokio::test]
async fn fault_affects_one_request() {
    for (fault, replied, writes) in [
        (FakeFault::RateLimited { retry_after: "7".to_owned() }, "429", 0),
        (FakeFault::Status(503), "503", 0),
        (FakeFault::ErrorAfterEffect, "500", 1),
        (FakeFault::LostReply, "", 1),
        (FakeFault::Slow(std::time::Duration::from_millis(1)), "200", 1),
    ] {
        let instance = ServiceNow::start().await.unwrap();
        instance.faults().on_write(fault.clone());
        let read = send(&instance.url(), &format!("GET {}", record()), servicenow::TOKEN, "").await;
        assert_eq!(status(&read), "200", "a write fault does not affect a read");
        let patch = format!("PATCH {}", record());
        let reply = send(&instance.url(), &patch, servicenow::TOKEN, r#"{"state":"2"}"#).await;
        assert_eq!((status(&reply), instance.writes(INCIDENT)), (replied, writes), "{fault:?}");
        let reply = send(&instance.url(), &patch, servicenow::TOKEN, r#"{"state":"2"}"#).await;
        assert_eq!((status(&reply), instance.writes(INCIDENT)), ("200", 1), "after {fault:?}");
    }
}

#[tokio::test]
async fn github_labels_are_a_set_and_repos_are_hidden() {
    let github = GitHub::start().await.unwrap();
    let issue = format!("/repos/{}/issues/{}", github::REPO, github::ISSUE);
    let labels = format!("POST {issue}/labels");
    for _ in 0..2 {
        send(&github.url(), &labels, github::TOKEN, r#"{"labels":["p1","bug"]}"#).await;
    }
    assert_eq!(github.writes(), 1);
    let delete = format!("DELETE {issue}/labels/p1");
    assert_eq!(status(&send(&github.url(), &delete, github::TOKEN, "").await), "200");
    assert_eq!(status(&send(&github.url(), &delete, github::TOKEN, "").await), "404");
    assert_eq!(status(&send(&github.url(), &format!("GET {issue}"), "wrong", "").await), "401");
    assert_eq!(status(&send(&github.url(), "GET /repos/acme/secret", github::TOKEN, "").await), "404");
}

#[tokio::test]
async fn model_returns_only_recorded_answers() {
    let model = Model::start(vec![Recording::new("team", "Database.")]).await.unwrap();
    let prompt_body =
        |prompt: &str| format!(r#"{{"model":"m","messages":[{{"role":"user","content":"{prompt}"}}]}}"#);
    let send_prompt = |body: String| {
        let url = model.url();
        async move { send(&url, "POST /chat/completions", model::KEY, &body).await }
    };
    assert!(send_prompt(prompt_body("Which team?")).await.contains("Database."));
    assert_eq!(status(&send_prompt(prompt_body("Who?")).await), "400");
    assert_eq!(model.requests().len(), 2);
}
