//! What a worker says of itself where ECS and Prometheus ask: how it is, and what it has counted.
#![expect(clippy::unwrap_used, reason = "a journey fails by panicking")]

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::Path;

use countersign_e2e::{Account, PATIENCE, TENANT, WorkerProcess, until};
use domain::RunKey;
use fakes::servicenow::INCIDENT;
use serde_json::{Value, json};
use store::Ledger as _;

const PLAIN: &str = "
workflow: plain
version: 1
environment: dev
trigger: { servicenow: { table: incident } }
steps:
  - { id: a, tool: transform, with: { value: 1 } }
";

/// Nobody listens there: it is kept for a service that nobody runs any more.
const NOBODY: &str = "http://127.0.0.1:9";

/// A worker with these variables beside the usual ones, and where it is asked how it is.
async fn worker(account: &Account, more: &[(&str, &str)], log: &Path) -> (WorkerProcess, String) {
    let process = account.worker_with(more, File::create(log).unwrap());
    let address = until("its address", PATIENCE, async || {
        let lines = fs::read_to_string(log).unwrap();
        let mut lines = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.find_map(|line| Some(line["fields"]["health"].as_str()?.to_owned()))
    })
    .await;
    (process, format!("http://{address}"))
}

/// An address that nobody has.
fn free() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

async fn get(url: &str) -> (u16, String) {
    let response = reqwest::get(url).await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_says_that_it_is_well_and_what_it_has_done_and_one_that_is_gone_says_nothing() {
    let account = Account::open("well").await;
    account.apply(PLAIN).await;
    let directory = tempfile::tempdir().unwrap();
    let address = free();
    let (process, url) =
        worker(&account, &[("COUNTERSIGN_METRICS", &address)], &directory.path().join("log")).await;
    let metrics = format!("http://{address}/metrics");
    assert_eq!(get(&format!("{url}/metrics")).await.0, 404, "whoever asks how it is learns no tenant's name");
    let health = format!("{url}/health");
    assert_eq!(get(&health).await, (200, r#"{"status":"well"}"#.to_owned()));
    assert_eq!(account.worker_health(&health), (Some(0), String::new()));

    let reply: Value = serde_json::from_str(&account.incident(INCIDENT, 1, json!({})).await.body).unwrap();
    let run =
        RunKey { tenant: TENANT.parse().unwrap(), run: reply["run"].as_str().unwrap().parse().unwrap() };
    let store = account.store().await;
    until("the end", PATIENCE, async || {
        store.load(&run).await.unwrap().filter(|record| record.status.is_terminal())
    })
    .await;
    // The ledger shows it a moment before the worker counts it, and the message is put down a moment later.
    let counted = [
        r#"run_transitions_total{tenant="acme",from="",to="queued"} 1"#,
        r#"run_transitions_total{tenant="acme",from="running",to="succeeded"} 1"#,
        r#"run_duration_seconds_bucket{tenant="acme",status="succeeded",le="+Inf"} 1"#,
        r#"run_active{queue="steps"} 0"#,
    ];
    until("what it has counted", PATIENCE, async || {
        let (status, told) = get(&metrics).await;
        let is_told = |line: &&str| told.lines().any(|told| told == *line);
        (status == 200 && counted.iter().all(is_told)).then_some(())
    })
    .await;

    process.kill();
    let (code, said) = account.worker_health(&health);
    assert_eq!(code, Some(1), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_cannot_reach_its_queues_says_so() {
    let account = Account::open("unwell").await;
    let directory = tempfile::tempdir().unwrap();
    let nowhere = [("AWS_ENDPOINT_URL_SQS", NOBODY)];
    let (mut process, url) = worker(&account, &nowhere, &directory.path().join("log")).await;
    let health = format!("{url}/health");
    let said = until("a bad word", PATIENCE, async || {
        let (status, said) = get(&health).await;
        (status == 503).then_some(said)
    })
    .await;
    let why = "the store does not answer";
    assert_eq!(serde_json::from_str::<Value>(&said).unwrap(), json!({ "status": "unwell", "why": why }));
    let (code, said) = account.worker_health(&health);
    assert!(code == Some(1) && said.contains(why), "{code:?} {said}");
    assert!(process.ended().is_none(), "to end it is for whoever asked");
}
