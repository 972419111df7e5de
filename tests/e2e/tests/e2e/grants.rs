//! Each program requests only AWS actions that its role allows. A local AWS refuses nothing, so a proxy records the
//! requests of each program, and the test compares them with terraform.

use std::collections::BTreeMap;
use std::process::Command;

use countersign_e2e::{
    DeployedEnv, Grant, RecordingProxy, ServerProcess, TENANT, TIMEOUT, TestConfig, allows, granted,
    wait_until,
};
use domain::{Millis, RunKey};
use fakes::servicenow::INCIDENT;
use fakes::slack::FakeMessage;
use serde_json::{Value, json};
use store::{Archive as _, Ledger as _};
use tempfile::TempDir;

const PROGRAMS: [&str; 5] = ["webhook", "slack", "sweep", "worker", "server"];

/// An approval, a change, and a payload that is too large for an item.
const TRIAGE: &str = r#"
workflow: triage
version: 1
environment: prod
trigger: { servicenow: { table: incident } }
steps:
  - { id: large, tool: transform, with: { value: "${ trigger.record }" } }
  - id: assign
    tool: servicenow.update
    with: { table: incident, sys_id: "${ trigger.record.sys_id }", fields: { assignment_group: db-oncall } }
    blast_radius: medium
    rollback: auto
"#;

const YEARLY: &str = r#"
workflow: yearly
version: 1
environment: dev
trigger: { schedule: { cron: "0 0 1 1 *", time_zone: UTC } }
steps:
  - { id: a, tool: transform, with: { value: "${ trigger.scheduled_at }" } }
"#;

/// More than the inline limit of a payload.
const LETTERS: usize = 100_000;

async fn proxies(config: &TestConfig) -> BTreeMap<&'static str, RecordingProxy> {
    let mut proxies = BTreeMap::new();
    for program in PROGRAMS {
        proxies.insert(program, RecordingProxy::start(&config.aws).await);
    }
    proxies
}

/// A large incident arrives, a user approves its change in Slack, and its evidence is recorded.
async fn governed(env: &DeployedEnv) -> RunKey {
    env.apply(TRIAGE).await;
    let reply = env.incident(INCIDENT, 1, json!({ "description": "x".repeat(LETTERS) })).await;
    assert_eq!(reply.status, 202, "{reply:?}");
    let body: Value = serde_json::from_str(&reply.body).unwrap();
    let run = RunKey { tenant: TENANT.parse().unwrap(), run: body["run"].as_str().unwrap().parse().unwrap() };
    let open = |message: &FakeMessage| message.button(slack::card::APPROVE).is_some();
    let messages = || env.external.slack.messages();
    let card = wait_until("a card", TIMEOUT, async || messages().into_iter().find(open)).await;
    let pressed = env.press(&card.place(), slack::card::APPROVE, "U0GRACE").await;
    assert_eq!(pressed.status, 200, "{pressed:?}");
    let store = env.store().await;
    wait_until("the evidence", TIMEOUT, async || store.evidence(&run).await.unwrap()).await;
    run
}

/// Calls a server of the operator for lists, a run, its evidence, and a start.
fn served(env: &DeployedEnv, server: &RecordingProxy, run: &RunKey) {
    let home = TempDir::new().unwrap();
    std::fs::write(home.path().join("countersign.yaml"), "server: {}\n").unwrap();
    let command_line = |line: &str| -> Command {
        let mut command = env.countersign();
        command.current_dir(home.path()).env("XDG_CONFIG_HOME", home.path()).env("USER", "ada");
        command.args(line.split(' ')).arg("--json");
        command
    };
    let made =
        command_line(&format!("key create ada --role admin --tenant {TENANT} --aws")).output().unwrap();
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();
    let mut serve = command_line("serve --aws --config countersign.yaml --listen 127.0.0.1:0");
    let running = ServerProcess::start(serve.envs(server.environment()));
    for line in [
        "run list".to_owned(),
        "run list --status succeeded".to_owned(),
        format!("run list --record servicenow:incident:{INCIDENT}"),
        format!("run show {}", run.run),
        format!("bundle get {} --out evidence.bundle", run.run),
        "approval list".to_owned(),
        "worker list".to_owned(),
        "dispatch status".to_owned(),
        "workflow list".to_owned(),
        "run start yearly".to_owned(),
    ] {
        let mut command = command_line(&format!("--server {} {line}", running.output("url")));
        let output = command.env("COUNTERSIGN_API_KEY", made["secret"].as_str().unwrap()).output().unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_stay_within_their_iam_roles() {
    let config = TestConfig::from_environment();
    let proxies = proxies(&config).await;
    let extra_env = proxies.iter().map(|(program, proxy)| ((*program).to_owned(), proxy.environment()));
    let env = DeployedEnv::open_at(TestConfig { extra_env: extra_env.collect(), ..config }, "grants").await;

    env.apply_earlier(YEARLY, Millis::hours(366 * 24)).await;
    let plan = env.apply(&YEARLY.replace("yearly", "orphan")).await;
    let orphan =
        env.start_earlier(&plan, "orphan", json!({ "scheduled_at": "then" }), Millis::hours(1)).await;
    assert_eq!(env.sweep().await.unwrap()["scheduled"], 1);
    let worker = env.worker();
    let run = governed(&env).await;
    let store = env.store().await;
    wait_until("the orphaned run to end", TIMEOUT, async || {
        store.load(&orphan).await.unwrap().filter(|record| record.status.is_terminal())
    })
    .await;
    served(&env, &proxies["server"], &run);
    worker.kill();

    for (program, proxy) in &proxies {
        let (recorded, may) = (proxy.recorded(), granted(program));
        let refused: Vec<&Grant> = recorded.grants.iter().filter(|asked| !allows(&may, asked)).collect();
        assert!(refused.is_empty(), "the role of {program} does not allow {refused:?}");
        let services = |of: &str| recorded.grants.iter().any(|(action, _)| action.starts_with(of));
        assert!(services("dynamodb:") && services("sqs:"), "{program} sent no request: {recorded:?}");
    }
    // The webhook's role is limited to its tenants by the partition keys.
    let fenced = proxies["webhook"].recorded().partitions;
    let others: Vec<_> = fenced.iter().filter(|key| !key.starts_with(&format!("{TENANT}#"))).collect();
    assert!(!fenced.is_empty() && others.is_empty(), "{others:?} among {fenced:?}");
    // Each program used the services it needs beyond the table and a queue.
    for (program, grant) in [
        ("webhook", ("s3:PutObject", "payloads/*")),
        ("slack", ("secretsmanager:GetSecretValue", "secret")),
        ("sweep", ("dynamodb:Query", "index due")),
        ("worker", ("s3:PutObject", "evidence/*")),
        ("server", ("dynamodb:Query", "index open_approvals")),
    ] {
        let grant = (grant.0.to_owned(), grant.1.to_owned());
        assert!(proxies[program].recorded().grants.contains(&grant), "{program}: {grant:?}");
    }
}

#[test]
fn missing_grants_are_detected() {
    let may = granted("webhook");
    let grant = |action: &str, on: &str| (action.to_owned(), on.to_owned());
    assert!(allows(&may, &grant("sqs:SendMessage", "ingest")));
    for more in [
        grant("sqs:SendMessage", "steps"),
        grant("s3:GetObject", "payloads/*"),
        grant("dynamodb:Query", "table"),
        grant("dynamodb:Query", "index due"),
    ] {
        assert!(!allows(&may, &more), "{more:?}");
    }
    assert!(allows(&granted("server"), &grant("dynamodb:Query", "index runs_by_record")));
}
