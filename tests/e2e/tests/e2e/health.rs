//! The health and metrics endpoints of a worker, as ECS and Prometheus use them.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::Path;

use countersign_e2e::{DeployedEnv, TENANT, TIMEOUT, WorkerProcess, wait_until};
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

/// No server listens on this port: it is assigned to the obsolete discard service.
const UNUSED_ENDPOINT: &str = "http://127.0.0.1:9";

/// Starts a worker with additional variables; returns it and its health address.
async fn worker(env: &DeployedEnv, more: &[(&str, &str)], log: &Path) -> (WorkerProcess, String) {
    let process = env.worker_with(more, File::create(log).unwrap());
    let address = wait_until("the health address", TIMEOUT, async || {
        let lines = fs::read_to_string(log).unwrap();
        let mut lines = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.find_map(|line| Some(line["fields"]["health"].as_str()?.to_owned()))
    })
    .await;
    (process, format!("http://{address}"))
}

/// An unused address.
fn free() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

async fn get(url: &str) -> (u16, String) {
    let response = reqwest::get(url).await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_serves_health_and_metrics() {
    let env = DeployedEnv::open("healthy").await;
    env.apply(PLAIN).await;
    let directory = tempfile::tempdir().unwrap();
    let address = free();
    let (process, url) =
        worker(&env, &[("COUNTERSIGN_METRICS", &address)], &directory.path().join("log")).await;
    let metrics = format!("http://{address}/metrics");
    assert_eq!(get(&format!("{url}/metrics")).await.0, 404, "the health endpoint exposes no metrics");
    let health = format!("{url}/health");
    assert_eq!(get(&health).await, (200, r#"{"status":"healthy"}"#.to_owned()));
    assert_eq!(env.worker_health(&health), (Some(0), String::new()));

    let reply: Value = serde_json::from_str(&env.incident(INCIDENT, 1, json!({})).await.body).unwrap();
    let run =
        RunKey { tenant: TENANT.parse().unwrap(), run: reply["run"].as_str().unwrap().parse().unwrap() };
    let store = env.store().await;
    wait_until("the run to end", TIMEOUT, async || {
        store.load(&run).await.unwrap().filter(|record| record.status.is_terminal())
    })
    .await;
    // The worker updates its metrics and finishes the message shortly after the run ends in the ledger.
    let counted = [
        r#"countersign_run_transitions_total{tenant="acme",from="",to="queued"} 1"#,
        r#"countersign_run_transitions_total{tenant="acme",from="running",to="succeeded"} 1"#,
        r#"countersign_run_duration_seconds_bucket{tenant="acme",status="succeeded",le="+Inf"} 1"#,
        r#"countersign_messages_in_progress{queue="steps"} 0"#,
    ];
    wait_until("the metrics", TIMEOUT, async || {
        let (status, body) = get(&metrics).await;
        let is_present = |line: &&str| body.lines().any(|body| body == *line);
        (status == 200 && counted.iter().all(is_present)).then_some(())
    })
    .await;

    process.kill();
    let (code, body) = env.worker_health(&health);
    assert_eq!(code, Some(1), "{body}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_without_queues_is_unhealthy() {
    let env = DeployedEnv::open("unhealthy").await;
    let directory = tempfile::tempdir().unwrap();
    let unreachable = [("AWS_ENDPOINT_URL_SQS", UNUSED_ENDPOINT)];
    let (mut process, url) = worker(&env, &unreachable, &directory.path().join("log")).await;
    let health = format!("{url}/health");
    let body = wait_until("an unhealthy status", TIMEOUT, async || {
        let (status, body) = get(&health).await;
        (status == 503).then_some(body)
    })
    .await;
    let why = "the store does not respond";
    assert_eq!(
        serde_json::from_str::<Value>(&body).unwrap(),
        json!({ "status": "unhealthy", "reason": why })
    );
    let (code, body) = env.worker_health(&health);
    assert!(code == Some(1) && body.contains(why), "{code:?} {body}");
    assert!(process.ended().is_none(), "an unhealthy worker keeps running");
}
