//! The simulated systems, asked the way a stranger would: with bytes on a socket.
#![expect(clippy::unwrap_used, reason = "tests and their helpers may")]

extern crate countersign_fakes as fakes;

use fakes::github::{self, GitHub};
use fakes::model::{self, Model, Recording};
use fakes::server::Fault;
use fakes::servicenow::{self, INCIDENT, ServiceNow};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Sends a request and gives back all that comes, which may be nothing.
async fn ask(url: &str, head: &str, token: &str, body: &str) -> String {
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
async fn servicenow_refuses_in_its_own_words() {
    let instance = ServiceNow::start().await.unwrap();
    let stranger = ask(&instance.url(), &format!("GET {}", record()), "wrong", "").await;
    assert_eq!(status(&stranger), "401");
    assert!(stranger.contains(r#""message":"User is not authenticated""#), "{stranger}");
    assert!(stranger.contains(r#""status":"failure""#), "{stranger}");
    let absent = ask(&instance.url(), "GET /api/now/table/incident/0", servicenow::TOKEN, "").await;
    assert_eq!(status(&absent), "404");
    assert!(absent.contains(r#""message":"No Record found""#), "{absent}");
}

#[tokio::test]
async fn a_change_under_an_old_count_is_refused_unless_the_instance_is_stock() {
    let instance = ServiceNow::start().await.unwrap();
    let patch = format!("PATCH {}?sysparm_query=sys_mod_count%3D0", record());
    let change = |state: &'static str| {
        let (url, patch, body) = (instance.url(), patch.clone(), format!(r#"{{"state":"{state}"}}"#));
        async move { ask(&url, &patch, servicenow::TOKEN, &body).await }
    };
    assert_eq!(status(&change("2").await), "200");
    assert_eq!(status(&change("3").await), "412");
    assert_eq!(instance.value("incident", INCIDENT, "state"), "2");
    instance.be_stock();
    assert_eq!(status(&change("3").await), "200");
    assert_eq!((instance.writes(INCIDENT), instance.requests()), (2, 3));
    assert_eq!(instance.value("incident", INCIDENT, "sys_mod_count"), "2");
    assert_eq!(instance.value("incident", INCIDENT, "sys_updated_on"), "2026-01-01 00:00:02");
}

#[tokio::test]
async fn a_note_is_found_in_the_journal_and_not_in_the_record() {
    let instance = ServiceNow::start().await.unwrap();
    let patch = format!("PATCH {}", record());
    ask(&instance.url(), &patch, servicenow::TOKEN, r#"{"work_notes":"Restarted."}"#).await;
    assert_eq!(instance.value("incident", INCIDENT, "work_notes"), "");
    assert_eq!(instance.work_notes(INCIDENT), ["Restarted."]);
    let query = format!("GET /api/now/table/sys_journal_field?sysparm_query=element_id%3D{INCIDENT}");
    assert!(ask(&instance.url(), &query, servicenow::TOKEN, "").await.contains("Restarted."));
}

#[tokio::test]
async fn a_fault_befalls_one_request_and_says_whether_it_was_worked_on() {
    for (fault, replied, writes) in [
        (Fault::TurnedAway { retry_after: "7".to_owned() }, "429", 0),
        (Fault::Status(503), "503", 0),
        (Fault::BrokenAfterwards, "500", 1),
        (Fault::ReplyLost, "", 1),
        (Fault::Slow(std::time::Duration::from_millis(1)), "200", 1),
    ] {
        let instance = ServiceNow::start().await.unwrap();
        instance.faults().on_write(fault.clone());
        let read = ask(&instance.url(), &format!("GET {}", record()), servicenow::TOKEN, "").await;
        assert_eq!(status(&read), "200", "a read is not meant");
        let patch = format!("PATCH {}", record());
        let reply = ask(&instance.url(), &patch, servicenow::TOKEN, r#"{"state":"2"}"#).await;
        assert_eq!((status(&reply), instance.writes(INCIDENT)), (replied, writes), "{fault:?}");
        let reply = ask(&instance.url(), &patch, servicenow::TOKEN, r#"{"state":"2"}"#).await;
        assert_eq!((status(&reply), instance.writes(INCIDENT)), ("200", 1), "after {fault:?}");
    }
}

#[tokio::test]
async fn github_keeps_labels_as_a_set_and_hides_what_one_may_not_see() {
    let github = GitHub::start().await.unwrap();
    let issue = format!("/repos/{}/issues/{}", github::REPO, github::ISSUE);
    let labels = format!("POST {issue}/labels");
    for _ in 0..2 {
        ask(&github.url(), &labels, github::TOKEN, r#"{"labels":["p1","bug"]}"#).await;
    }
    assert_eq!(github.writes(), 1);
    let delete = format!("DELETE {issue}/labels/p1");
    assert_eq!(status(&ask(&github.url(), &delete, github::TOKEN, "").await), "200");
    assert_eq!(status(&ask(&github.url(), &delete, github::TOKEN, "").await), "404");
    assert_eq!(status(&ask(&github.url(), &format!("GET {issue}"), "wrong", "").await), "401");
    assert_eq!(status(&ask(&github.url(), "GET /repos/acme/secret", github::TOKEN, "").await), "404");
}

#[tokio::test]
async fn a_model_says_what_was_recorded_and_makes_nothing_up() {
    let model = Model::start(vec![Recording::new("team", "Database.")]).await.unwrap();
    let asked =
        |prompt: &str| format!(r#"{{"model":"m","messages":[{{"role":"user","content":"{prompt}"}}]}}"#);
    let ask = |body: String| {
        let url = model.url();
        async move { ask(&url, "POST /chat/completions", model::KEY, &body).await }
    };
    assert!(ask(asked("Which team?")).await.contains("Database."));
    assert_eq!(status(&ask(asked("Who?")).await), "400");
    assert_eq!(model.asked().len(), 2);
}
