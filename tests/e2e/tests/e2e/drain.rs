//! A worker that is drained during a step: it keeps its lease, finishes the step, starts nothing new, and exits.

use std::time::Duration;

use countersign_e2e::{DeployedEnv, TENANT, TIMEOUT, wait_until};
use domain::{Event, EventBody, InboxStatus, Lease, RunKey, RunRecord, RunStatus, StepSeq, StepState};
use fakes::server::FakeFault;
use fakes::servicenow::{INCIDENT, PRINTER};
use serde_json::{Value, json};
use store::{Inbox as _, Ledger as _};

/// Two changes of one record, so that one step is left for the next worker.
const TWICE: &str = r#"
workflow: twice
version: 1
environment: dev
trigger: { servicenow: { table: incident } }
steps:
  - id: assign
    tool: servicenow.update
    with: { table: incident, sys_id: "${ trigger.record.sys_id }", fields: { assignment_group: db-oncall } }
    blast_radius: low
  - id: raise
    tool: servicenow.update
    with: { table: incident, sys_id: "${ trigger.record.sys_id }", fields: { urgency: "1" } }
    blast_radius: low
"#;

/// Longer than two heartbeats, so that one follows the signal; shorter than the tool's timeout.
const HELD: Duration = Duration::from_secs(14);

/// The time that ECS gives a container to stop: `stop_timeout` in `infra/`.
const STOP_TIMEOUT: Duration = Duration::from_mins(1);

async fn deliver_incident(env: &DeployedEnv, sys_id: &str) -> RunKey {
    let reply = env.incident(sys_id, 1, json!({})).await;
    assert_eq!(reply.status, 202, "{reply:?}");
    let body: Value = serde_json::from_str(&reply.body).unwrap();
    RunKey { tenant: TENANT.parse().unwrap(), run: body["run"].as_str().unwrap().parse().unwrap() }
}

fn lease(record: &RunRecord) -> Option<&Lease> {
    match &record.step_state {
        StepState::Running(lease) => Some(lease),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn draining_worker_finishes_its_step_and_starts_nothing() {
    let env = DeployedEnv::open("drain").await;
    env.apply(TWICE).await;
    let store = env.store().await;
    let servicenow = &env.external.servicenow;
    servicenow.faults().on_write(FakeFault::DelayedReply(HELD));
    let mut first = env.worker();
    let run = deliver_incident(&env, INCIDENT).await;
    wait_until("the change", TIMEOUT, async || (servicenow.writes(INCIDENT) > 0).then_some(())).await;
    let before = store.load(&run).await.unwrap().unwrap();
    let held = lease(&before).unwrap().clone();

    first.request_drain();
    let other = deliver_incident(&env, PRINTER).await;

    // The worker still extends its lease, under the same fence.
    wait_until("a heartbeat", STOP_TIMEOUT, async || {
        let now = store.load(&run).await.unwrap().unwrap();
        let now = lease(&now).unwrap();
        assert_eq!((&now.owner, now.fence), (&held.owner, held.fence));
        assert!(first.ended().is_none(), "the worker exits only after its step");
        (now.until > held.until).then_some(())
    })
    .await;
    let ended = wait_until("the exit", STOP_TIMEOUT, async || first.ended()).await;
    assert!(ended.success(), "{ended}");

    // The step is done. The next step is ready, and no worker has started it or the new entry.
    let left = store.load(&run).await.unwrap().unwrap();
    assert_eq!((left.at, left.fence, left.status), (StepSeq(1), held.fence, RunStatus::Running));
    assert!(matches!(left.step_state, StepState::Ready { attempt: 0, .. }), "{:?}", left.step_state);
    assert_eq!(servicenow.writes(INCIDENT), 1);
    assert_eq!(store.entry(&other).await.unwrap().unwrap().status, InboxStatus::Pending);
    assert!(store.load(&other).await.unwrap().is_none());

    let _second = env.worker();
    for run in [&run, &other] {
        let record = wait_until("the run to end", TIMEOUT, async || {
            store.load(run).await.unwrap().filter(|record| record.status.is_terminal())
        })
        .await;
        assert_eq!((record.status, record.resumes), (RunStatus::Succeeded, 0), "no take-over was needed");
    }
    assert_eq!((servicenow.writes(INCIDENT), servicenow.writes(PRINTER)), (2, 2));
    assert_eq!(servicenow.accepted().values().sum::<u32>(), 4, "no request was sent twice");
    let entries = store.events(&run, 0, 1_000).await.unwrap();
    let events = entries.iter().map(|entry| serde_json::from_slice::<Event>(&entry.canonical).unwrap());
    let lost = events.filter(|event| matches!(event.body, EventBody::LeaseExpired { .. })).count();
    assert_eq!(lost, 0);
}
