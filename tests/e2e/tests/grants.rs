//! Each program asks AWS for what its role allows, and for nothing else. A local AWS refuses nobody anything, so what
//! programs ask for is written down on the way and held against terraform.
#![expect(clippy::unwrap_used, reason = "a journey fails by panicking")]

use std::collections::BTreeMap;
use std::process::Command;

use countersign_e2e::{Account, Grant, PATIENCE, Running, Site, TENANT, Witness, allows, granted, until};
use domain::{Millis, RunKey};
use fakes::servicenow::INCIDENT;
use fakes::slack::Message;
use serde_json::{Value, json};
use store::{Archive as _, Ledger as _};
use tempfile::TempDir;

const PROGRAMS: [&str; 5] = ["webhook", "slack", "sweep", "worker", "server"];

/// A question, a change, and an answer that is too large for an item.
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
  - { id: a, tool: transform, with: { value: "${ trigger.slot }" } }
"#;

/// More than an item is given of one payload.
const LETTERS: usize = 100_000;

async fn witnesses(site: &Site) -> BTreeMap<&'static str, Witness> {
    let mut witnesses = BTreeMap::new();
    for program in PROGRAMS {
        witnesses.insert(program, Witness::before(&site.aws).await);
    }
    witnesses
}

/// A large incident comes in, somebody approves its change in Slack, and its evidence is put together.
async fn governed(account: &Account) -> RunKey {
    account.apply(TRIAGE).await;
    let reply = account.incident(INCIDENT, 1, json!({ "description": "x".repeat(LETTERS) })).await;
    assert_eq!(reply.status, 202, "{reply:?}");
    let told: Value = serde_json::from_str(&reply.body).unwrap();
    let run = RunKey { tenant: TENANT.parse().unwrap(), run: told["run"].as_str().unwrap().parse().unwrap() };
    let open = |message: &Message| message.button(slack::card::APPROVE).is_some();
    let messages = || account.outside.slack.messages();
    let card = until("a card", PATIENCE, async || messages().into_iter().find(open)).await;
    let pressed = account.press(&card.place(), slack::card::APPROVE, "U0GRACE").await;
    assert_eq!(pressed.status, 200, "{pressed:?}");
    let store = account.store().await;
    until("the evidence", PATIENCE, async || store.evidence(&run).await.unwrap()).await;
    run
}

/// An operator's server is asked for lists, a run, its evidence, and a start.
fn served(account: &Account, server: &Witness, run: &RunKey) {
    let home = TempDir::new().unwrap();
    std::fs::write(home.path().join("countersign.yaml"), "server: {}\n").unwrap();
    let typed = |line: &str| -> Command {
        let mut command = account.countersign();
        command.current_dir(home.path()).env("XDG_CONFIG_HOME", home.path()).env("USER", "ada");
        command.args(line.split(' ')).arg("--json");
        command
    };
    let made = typed(&format!("key create ada --role admin --tenant {TENANT} --aws")).output().unwrap();
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();
    let mut serve = typed("serve --aws --config countersign.yaml --listen 127.0.0.1:0");
    let running = Running::start(serve.envs(server.environment()));
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
        let mut command = typed(&format!("--server {} {line}", running.told("url")));
        let told = command.env("COUNTERSIGN_API_KEY", made["text"].as_str().unwrap()).output().unwrap();
        assert!(told.status.success(), "{line}: {}", String::from_utf8_lossy(&told.stderr));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_program_asks_for_more_than_its_role_allows() {
    let site = Site::from_environment();
    let witnesses = witnesses(&site).await;
    let through = witnesses.iter().map(|(program, witness)| ((*program).to_owned(), witness.environment()));
    let account = Account::open_at(Site { through: through.collect(), ..site }, "grants").await;

    account.apply_earlier(YEARLY, Millis::hours(366 * 24)).await;
    let plan = account.apply(&YEARLY.replace("yearly", "orphan")).await;
    let orphan = account.start_earlier(&plan, "orphan", json!({ "slot": "then" }), Millis::hours(1)).await;
    assert_eq!(account.sweep().await.unwrap()["scheduled"], 1);
    let worker = account.worker();
    let run = governed(&account).await;
    let store = account.store().await;
    until("the orphan's end", PATIENCE, async || {
        store.load(&orphan).await.unwrap().filter(|record| record.status.is_terminal())
    })
    .await;
    served(&account, &witnesses["server"], &run);
    worker.kill();

    for (program, witness) in &witnesses {
        let (asked, may) = (witness.asked(), granted(program));
        let refused: Vec<&Grant> = asked.grants.iter().filter(|asked| !allows(&may, asked)).collect();
        assert!(refused.is_empty(), "{program} would be refused {refused:?}");
        let services = |of: &str| asked.grants.iter().any(|(action, _)| action.starts_with(of));
        assert!(services("dynamodb:") && services("sqs:"), "{program} was not seen: {asked:?}");
    }
    // The webhook's role is fenced to its tenants by the keys of items.
    let fenced = witnesses["webhook"].asked().partitions;
    let others: Vec<_> = fenced.iter().filter(|key| !key.starts_with(&format!("{TENANT}#"))).collect();
    assert!(!fenced.is_empty() && others.is_empty(), "{others:?} among {fenced:?}");
    // Each of the ways was taken on which more is needed than the table and a queue.
    for (program, grant) in [
        ("webhook", ("s3:PutObject", "payloads/*")),
        ("slack", ("secretsmanager:GetSecretValue", "secret")),
        ("sweep", ("dynamodb:Query", "index due")),
        ("worker", ("s3:PutObject", "evidence/*")),
        ("server", ("dynamodb:Query", "index open_approvals")),
    ] {
        let grant = (grant.0.to_owned(), grant.1.to_owned());
        assert!(witnesses[program].asked().grants.contains(&grant), "{program}: {grant:?}");
    }
}

#[test]
fn what_a_role_does_not_allow_is_found() {
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
