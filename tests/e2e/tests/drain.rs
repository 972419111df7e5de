//! A worker that is asked to leave while it works: it keeps what it holds, finishes it, begins nothing, and goes.
#![expect(clippy::unwrap_used, reason = "a journey fails by panicking")]

use std::time::Duration;

use countersign_e2e::{Account, PATIENCE, TENANT, until};
use domain::{Event, EventBody, InboxStatus, Lease, Live, RunKey, RunRecord, RunStatus, StepSeq};
use fakes::server::Fault;
use fakes::servicenow::{INCIDENT, PRINTER};
use serde_json::{Value, json};
use store::{Inbox as _, Ledger as _};

/// Two changes of one record, so that there is a step to leave behind.
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

/// Longer than two heartbeats, so that one falls behind the signal; shorter than the tool waits for a reply.
const HELD: Duration = Duration::from_secs(14);

/// What ECS gives a container that is asked to stop: `stop_timeout` in `infra/`.
const STOP_WITHIN: Duration = Duration::from_mins(1);

async fn arrives(account: &Account, sys_id: &str) -> RunKey {
    let reply = account.incident(sys_id, 1, json!({})).await;
    assert_eq!(reply.status, 202, "{reply:?}");
    let body: Value = serde_json::from_str(&reply.body).unwrap();
    RunKey { tenant: TENANT.parse().unwrap(), run: body["run"].as_str().unwrap().parse().unwrap() }
}

fn lease(record: &RunRecord) -> Option<&Lease> {
    match &record.live {
        Live::Running(lease) => Some(lease),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_is_asked_to_leave_finishes_its_step_under_its_lease_and_begins_nothing() {
    let account = Account::open("drain").await;
    account.apply(TWICE).await;
    let store = account.store().await;
    let servicenow = &account.outside.servicenow;
    servicenow.faults().on_write(Fault::Held(HELD));
    let mut first = account.worker();
    let run = arrives(&account, INCIDENT).await;
    until("the change", PATIENCE, async || (servicenow.writes(INCIDENT) > 0).then_some(())).await;
    let before = store.load(&run).await.unwrap().unwrap();
    let held = lease(&before).unwrap().clone();

    first.request_drain();
    let other = arrives(&account, PRINTER).await;

    // It is still alive to everybody who looks: the same lease, under the same fence, held for longer.
    until("a heartbeat", STOP_WITHIN, async || {
        let now = store.load(&run).await.unwrap().unwrap();
        let now = lease(&now).unwrap();
        assert_eq!((&now.owner, now.fence), (&held.owner, held.fence));
        assert!(first.ended().is_none(), "it does not go while it holds a step");
        (now.until > held.until).then_some(())
    })
    .await;
    let ended = until("its leaving", STOP_WITHIN, async || first.ended()).await;
    assert!(ended.success(), "{ended}");

    // The step is done. The next one is ready, and nobody has begun it, nor what came in meanwhile.
    let left = store.load(&run).await.unwrap().unwrap();
    assert_eq!((left.at, left.fence, left.status), (StepSeq(1), held.fence, RunStatus::Running));
    assert!(matches!(left.live, Live::Ready { attempt: 0, .. }), "{:?}", left.live);
    assert_eq!(servicenow.writes(INCIDENT), 1);
    assert_eq!(store.entry(&other).await.unwrap().unwrap().status, InboxStatus::Pending);
    assert!(store.load(&other).await.unwrap().is_none());

    let _second = account.worker();
    for run in [&run, &other] {
        let over = until("the end", PATIENCE, async || {
            store.load(run).await.unwrap().filter(|record| record.status.is_terminal())
        })
        .await;
        assert_eq!(
            (over.status, over.resumes),
            (RunStatus::Succeeded, 0),
            "nobody had to be taken over from"
        );
    }
    assert_eq!((servicenow.writes(INCIDENT), servicenow.writes(PRINTER)), (2, 2));
    assert_eq!(servicenow.accepted().values().sum::<u32>(), 4, "nothing was asked for twice");
    let entries = store.events(&run, 0, 1_000).await.unwrap();
    let events = entries.iter().map(|entry| serde_json::from_slice::<Event>(&entry.canonical).unwrap());
    let lost = events.filter(|event| matches!(event.body, EventBody::LeaseExpired { .. })).count();
    assert_eq!(lost, 0);
}
