//! From a signed webhook to evidence in a bucket, on a local AWS, while a worker dies in the middle.
#![expect(clippy::unwrap_used, reason = "a journey fails by panicking")]

use std::time::Duration;

use countersign_e2e::{Account, LED_HERE, PATIENCE, TENANT, WorkerProcess, until};
use domain::{
    Digest, Event, EventBody, InboxStatus, Job, Live, Millis, Outgoing, QueueName, RunKey, RunRecord,
    RunStatus, WorkerId,
};
use fakes::server::Fault;
use fakes::servicenow::INCIDENT;
use fakes::slack::Message;
use serde_json::{Value, json};
use store::{
    Archive as _, BlobKind, Blobs as _, Clock as _, Inbox as _, Ledger as _, Queue as _, RECEIVES_MAX,
    SystemClock, WorkerRegistry as _,
};

const TRIAGE: &str = r#"
workflow: triage
version: 1
environment: prod
trigger: { servicenow: { table: incident, when: '${ trigger.record.priority == "1" }' } }
steps:
  - id: incident
    tool: servicenow.get
    with: { table: incident, sys_id: "${ trigger.record.sys_id }", fields: [number, assignment_group] }
  - id: assign
    tool: servicenow.update
    with: { table: incident, sys_id: "${ trigger.record.sys_id }", fields: { assignment_group: db-oncall } }
    blast_radius: medium
    rollback: auto
  - { id: done, tool: transform, with: { value: { number: "${ steps.incident.number }" } } }
"#;

/// One change outside, which policy allows without asking anybody.
const CHANGE: &str = r#"
workflow: change
version: 1
environment: dev
trigger: { servicenow: { table: incident } }
steps:
  - id: assign
    tool: servicenow.update
    with: { table: incident, sys_id: "${ trigger.record.sys_id }", fields: { assignment_group: db-oncall } }
    blast_radius: low
"#;

/// Nothing asks a person, nothing is outside.
const PLAIN: &str = r#"
workflow: plain
version: 1
environment: dev
trigger: { servicenow: { table: incident } }
steps:
  - { id: a, tool: transform, with: { value: "${ trigger.record.sys_id }" } }
  - { id: b, tool: transform, with: { value: "${ steps.a }" } }
"#;

/// Started by the year, so that no second slot can come while somebody looks.
const YEARLY: &str = r#"
workflow: yearly
version: 1
environment: dev
trigger: { schedule: { cron: "0 0 1 1 *", time_zone: UTC } }
steps:
  - { id: a, tool: transform, with: { value: "${ trigger.slot }" } }
"#;

/// There is a first of January in it, whichever year it is.
const LAST_YEAR: Millis = Millis::hours(366 * 24);

/// Longer than a run is left alone without a sign of life.
const AN_HOUR: Millis = Millis::hours(1);

/// Longer than anybody waits for this reply: whoever does is dead by then.
const HELD: Duration = Duration::from_mins(2);

/// A worker that dies is replaced within this time.
const TAKEN_OVER_WITHIN: Millis = Millis::secs(30);

fn run_named(reply: &str) -> RunKey {
    let reply: Value = serde_json::from_str(reply).unwrap();
    RunKey { tenant: TENANT.parse().unwrap(), run: reply["run"].as_str().unwrap().parse().unwrap() }
}

async fn over(account: &Account, run: &RunKey) -> RunRecord {
    let store = account.store().await;
    until("the run's end", PATIENCE, async || {
        store.load(run).await.unwrap().filter(|record| record.status.is_terminal())
    })
    .await
}

/// What the program says to whoever types `line` with the account's names, and nothing else.
fn types(account: &Account, line: &str) -> Value {
    let told = account.countersign().args(line.split(' ')).env("USER", "ada").output().unwrap();
    assert!(told.status.success(), "{line}: {}", String::from_utf8_lossy(&told.stderr));
    serde_json::from_slice(&told.stdout).unwrap()
}

async fn card(account: &Account) -> Message {
    let open = |message: &Message| message.button(slack::card::APPROVE).is_some();
    until("a card in Slack", PATIENCE, async || account.outside.slack.messages().into_iter().find(open)).await
}

async fn events(account: &Account, run: &RunKey) -> Vec<Event> {
    let entries = account.store().await.events(run, 0, 1_000).await.unwrap();
    entries.iter().map(|entry| serde_json::from_slice(&entry.canonical).unwrap()).collect()
}

/// Who holds the run's step.
fn owner(record: &RunRecord) -> Option<&WorkerId> {
    match &record.live {
        Live::Running(lease) => Some(&lease.owner),
        _ => None,
    }
}

/// Starts a worker; it, and the name that it signs the roll with beside those in `known`.
async fn named_worker(account: &Account, known: &[&WorkerId]) -> (WorkerId, WorkerProcess) {
    let process = account.worker();
    let store = account.store().await;
    let name = until("a name on the roll", PATIENCE, async || {
        let mut names =
            store.roll().await.unwrap().into_iter().map(|registered_worker| registered_worker.worker);
        names.find(|name| !known.contains(&name))
    })
    .await;
    (name, process)
}

/// The evidence of a run: recorded, in the bucket, whole, and good without the account.
async fn verified(account: &Account, run: &RunKey) -> usize {
    let store = account.store().await;
    let recorded = until("the evidence", PATIENCE, async || store.evidence(run).await.unwrap()).await;
    let tenant = &run.tenant;
    let bytes = store.blob(BlobKind::Evidence, tenant, &recorded.bundle).await.unwrap().unwrap();
    assert_eq!(Digest::of_bytes(&bytes), recorded.bundle.sha256);
    let verified = evidence::verify(&bytes, &account.key().public()).unwrap();
    verified.bundle().receipts.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signed_webhook_becomes_a_change_that_somebody_approved_and_evidence_in_a_bucket() {
    let account = Account::open("journey").await;
    account.apply(TRIAGE).await;
    let workers = [account.worker(), account.worker()];

    let urgent = json!({ "priority": "1" });
    let reply = account.incident(INCIDENT, 1, urgent.clone()).await;
    assert_eq!(reply.status, 202, "{reply:?}");
    let run = run_named(&reply.body);

    // Delivered again, it is the same run: 202 until a worker has started it, 200 from then on. With something else in
    // it, it is refused.
    until("a delivery that has been dealt with", PATIENCE, async || {
        let again = account.incident(INCIDENT, 1, urgent.clone()).await;
        assert_eq!(run_named(&again.body), run, "{again:?}");
        assert!(matches!(again.status, 200 | 202), "{again:?}");
        (again.status == 200).then_some(())
    })
    .await;
    let other = account.incident(INCIDENT, 1, json!({ "priority": "1", "extra": true })).await;
    assert_eq!(other.status, 409, "{other:?}");
    let forged =
        account.deliver(br#"{"table":"incident","record":{"sys_id":"x"}}"#, "somebody else's secret").await;
    assert_eq!(forged.status, 401, "{forged:?}");

    // Both workers die with the change made and its reply not there; whoever holds the step is one of them.
    let card = card(&account).await;
    let servicenow = &account.outside.servicenow;
    assert_eq!(servicenow.writes(INCIDENT), 0, "nothing is changed before somebody said yes");
    servicenow.faults().on_write(Fault::Held(HELD));
    let pressed = account.press(&card.place(), slack::card::APPROVE, "U0GRACE").await;
    assert_eq!(pressed.status, 200, "{pressed:?}");
    until("the change", PATIENCE, async || (servicenow.writes(INCIDENT) > 0).then_some(())).await;
    let killed_at = SystemClock.now();
    workers.into_iter().for_each(WorkerProcess::kill);
    let _successor = account.worker();

    let record = over(&account, &run).await;
    assert_eq!(record.status, RunStatus::Succeeded);
    assert!(record.story().is_in_story_of(&LED_HERE.parse().unwrap()), "{:?}", record.trace);
    assert_eq!(servicenow.writes(INCIDENT), 1, "the change was made once");
    assert_eq!(servicenow.value("incident", INCIDENT, "assignment_group"), "db-oncall");
    let since = events(&account, &run).await.into_iter().filter(|event| event.at >= killed_at);
    let taken_over = { since }.find(|event| matches!(event.body, EventBody::LeaseExpired { .. }));
    let silent = taken_over.unwrap().at - killed_at;
    assert!(silent <= TAKEN_OVER_WITHIN, "taken over after {silent}");

    assert_eq!(verified(&account, &run).await, 1);
    let decided = |message: &Message| message.button(slack::card::APPROVE).is_none();
    until("the outcome on the card", PATIENCE, async || {
        account.outside.slack.message(&card.place()).filter(decided)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_two_workers_dies_within_a_change_and_the_other_takes_over_in_time() {
    let account = Account::open("survivor").await;
    account.apply(CHANGE).await;
    let first = named_worker(&account, &[]).await;
    let second = named_worker(&account, &[&first.0]).await;
    let servicenow = &account.outside.servicenow;
    servicenow.faults().on_write(Fault::Held(HELD));
    let run = run_named(&account.incident(INCIDENT, 1, json!({})).await.body);
    until("the change", PATIENCE, async || (servicenow.writes(INCIDENT) > 0).then_some(())).await;

    // The change is made and its reply is not there. Only whoever waits for that dies.
    let held = account.store().await.load(&run).await.unwrap().unwrap();
    let owner = owner(&held).unwrap();
    let (dead, (survivor, mut alive)) = if *owner == first.0 { (first, second) } else { (second, first) };
    assert_eq!(*owner, dead.0, "one of the two holds it");
    let killed_at = SystemClock.now();
    dead.1.kill();

    let record = over(&account, &run).await;
    assert_eq!((record.status, record.resumes), (RunStatus::Succeeded, 1));
    assert_eq!(servicenow.writes(INCIDENT), 1, "the change was made once");
    assert_eq!(servicenow.accepted().values().sum::<u32>(), 1, "and nothing was written twice");
    assert!(alive.ended().is_none(), "the other one has been there all the time");

    let chain = events(&account, &run).await;
    let taken_over = chain.iter().find_map(|event| match &event.body {
        EventBody::LeaseExpired { silent, .. } => Some((silent, event)),
        _ => None,
    });
    let (silent, claim) = taken_over.unwrap();
    assert_eq!((silent, claim.by.id.as_str()), (owner, survivor.as_str()));
    let after = claim.at - killed_at;
    assert!(after <= TAKEN_OVER_WITHIN, "taken over after {after}");
    let finished = chain.iter().find_map(|event| match &event.body {
        EventBody::StepSucceeded { attempt: Some(attempt), .. } => Some(&attempt.worker),
        _ => None,
    });
    assert_eq!(finished, Some(&survivor));
    assert_eq!(verified(&account, &run).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_that_come_twice_or_out_of_order_change_nothing() {
    let account = Account::open("unruly").await;
    account.apply(CHANGE).await;
    let mut runs = Vec::new();
    for n in 0..8 {
        let sys_id = format!("{n:032x}");
        account.outside.servicenow.report(&sys_id, &format!("INC{n}"), "One of eight");
        let reply = account.incident(&sys_id, 1, json!({})).await;
        runs.push(run_named(&reply.body));
    }
    // Nobody has worked yet. Each message comes twice, the later ones first, and walks come before their runs.
    let store = account.store().await;
    for run in runs.iter().rev() {
        for (queue, job) in [(QueueName::Steps, Job::Advance), (QueueName::Ingest, Job::Start)] {
            let message = Outgoing { run: run.clone(), queue, job, delay: Millis(0) };
            store.send(&message).await.unwrap();
        }
    }
    let _worker = account.worker();
    for run in &runs {
        let record = over(&account, run).await;
        assert_eq!((record.status, record.resumes), (RunStatus::Succeeded, 0));
        assert_eq!(store.entry(run).await.unwrap().unwrap().status, InboxStatus::Started);
        assert_eq!(verified(&account, run).await, 1);
    }
    let accepted = account.outside.servicenow.accepted();
    assert_eq!(accepted.len(), runs.len(), "{accepted:?}");
    assert!(accepted.values().all(|times| *times == 1), "each change was made once: {accepted:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_read_is_put_aside_while_a_worker_works_and_what_was_given_up_is_redriven() {
    let account = Account::open("poison").await;
    account.apply(PLAIN).await;
    let reply = account.incident("incident1", 1, json!({})).await;
    let run = run_named(&reply.body);
    let store = account.store().await;
    // Nobody deletes the message: it is delivered until it is given up.
    until("a dead letter", PATIENCE, async || {
        for delivery in store.receive(QueueName::Ingest, 10, Millis(0), Duration::ZERO).await.unwrap() {
            store.extend(&delivery.handle, Millis(0)).await.unwrap();
        }
        let dead = store.dead_letters(10).await.unwrap();
        dead.into_iter().find(|dead| dead.run == run && dead.job == Job::Start)
    })
    .await;

    // What a worker receives is hidden for twenty seconds, so all deliveries of this together would take it minutes. We
    // take all but the last, and the worker gets that one.
    account.scribble("hello").await;
    for _ in 1..RECEIVES_MAX {
        let read = store.receive(QueueName::Steps, 10, Millis(0), Duration::ZERO).await.unwrap();
        assert!(read.is_empty(), "{read:?}");
    }
    assert_eq!(store.waiting(QueueName::Steps).await.unwrap(), 1, "nobody has given it up yet");
    let mut worker = account.worker();
    until("the worker's turn", PATIENCE, async || {
        (store.waiting(QueueName::Steps).await.unwrap() == 0).then_some(())
    })
    .await;

    // It cannot read that, and works on what it can.
    let good = run_named(&account.incident("incident2", 1, json!({})).await.body);
    assert_eq!(over(&account, &good).await.status, RunStatus::Succeeded);
    assert_eq!(verified(&account, &good).await, 0);
    until("what cannot be read, put aside", PATIENCE, async || {
        (account.given_up(QueueName::Steps).await == 1).then_some(())
    })
    .await;
    assert!(worker.ended().is_none(), "the worker is still there");

    // What was given up before is seen and put back by whoever has the account and the program; what cannot be read stays
    // for a person to look at.
    let seen = until("the dead letter in the program's list", PATIENCE, async || {
        let told = types(&account, "queue dead-letters --aws --json");
        told["dead_letters"].as_array().unwrap().iter().find(|dead| dead["run"] == run.run.as_str()).cloned()
    })
    .await;
    assert_eq!((&seen["tenant"], &seen["queue"]), (&json!(TENANT), &json!("ingest")), "{seen}");
    let redriven = until("the redrive", PATIENCE, async || {
        types(&account, "queue redrive --aws --json")["redriven"].as_u64().filter(|moved| *moved > 0)
    })
    .await;
    assert_eq!(redriven, 1);
    assert_eq!(store.redrive(10).await.unwrap(), 0, "nothing is put back twice");
    assert_eq!(over(&account, &run).await.status, RunStatus::Succeeded);
    assert!(store.dead_letters(10).await.unwrap().is_empty());
    assert_eq!((account.given_up(QueueName::Ingest).await, account.given_up(QueueName::Steps).await), (0, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sweep_takes_up_what_is_due_and_nobody_else_would_and_says_how_much_it_was() {
    let account = Account::open("swept").await;
    account.apply_earlier(YEARLY, LAST_YEAR).await;
    let plan = account.apply(PLAIN).await;
    let mut runs = Vec::new();
    for n in 0..2 {
        let input = json!({ "record": { "sys_id": format!("incident{n}") } });
        runs.push(account.start_earlier(&plan, &format!("orphan:{n}"), input, AN_HOUR).await);
    }
    // Their messages are lost, and no worker is there that would look for itself.
    let store = account.store().await;
    until("the loss", PATIENCE, async || {
        for delivery in store.receive(QueueName::Steps, 10, Millis::secs(60), Duration::ZERO).await.unwrap() {
            store.delete(&delivery.handle).await.unwrap();
        }
        (store.depth(QueueName::Steps).await.unwrap() == 0).then_some(())
    })
    .await;

    assert_eq!(account.sweep().await.unwrap(), json!({ "scheduled": 1, "sent": 0, "woken": 2 }));
    // Nobody has worked, and yet there is nothing left for the sweep of the next minute.
    assert_eq!(account.sweep().await.unwrap(), json!({ "scheduled": 0, "sent": 0, "woken": 0 }));
    assert_eq!(store.depth(QueueName::Steps).await.unwrap(), 2);
    let slot = until("the slot", PATIENCE, async || {
        let told = store.receive(QueueName::Ingest, 10, Millis(0), Duration::ZERO).await.unwrap();
        told.into_iter().next().map(|delivery| delivery.run)
    })
    .await;

    let _worker = account.worker();
    for run in &runs {
        assert_eq!(over(&account, run).await.status, RunStatus::Succeeded);
    }
    let scheduled = over(&account, &slot).await;
    assert_eq!((scheduled.status, scheduled.workflow.as_str()), (RunStatus::Succeeded, "yearly"));
    assert_eq!(scheduled.trigger.kind, "schedule");
}
