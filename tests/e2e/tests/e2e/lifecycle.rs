//! From a signed webhook to evidence in a bucket, on a local AWS, while workers are killed.

use std::time::Duration;

use countersign_e2e::{DeployedEnv, TENANT, TIMEOUT, TRACEPARENT, WorkerProcess, wait_until};
use domain::{
    Digest, Event, EventBody, InboxStatus, Job, Millis, Outgoing, QueueName, RunKey, RunRecord, RunStatus,
    StepState, WorkerId,
};
use fakes::server::FakeFault;
use fakes::servicenow::INCIDENT;
use fakes::slack::FakeMessage;
use serde_json::{Value, json};
use store::{
    Archive as _, Blobs as _, Clock as _, Inbox as _, Ledger as _, Queue as _, RECEIVES_MAX, SystemClock,
    WorkerRegistry as _,
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

/// One external change, which policy allows without an approval.
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

/// No approval and no external system.
const PLAIN: &str = r#"
workflow: plain
version: 1
environment: dev
trigger: { servicenow: { table: incident } }
steps:
  - { id: a, tool: transform, with: { value: "${ trigger.record.sys_id }" } }
  - { id: b, tool: transform, with: { value: "${ steps.a }" } }
"#;

/// Yearly, so that no second occurrence falls due during the test.
const YEARLY: &str = r#"
workflow: yearly
version: 1
environment: dev
trigger: { schedule: { cron: "0 0 1 1 *", time_zone: UTC } }
steps:
  - { id: a, tool: transform, with: { value: "${ trigger.scheduled_at }" } }
"#;

/// Any period of this length includes a first of January.
const LAST_YEAR: Millis = Millis::hours(366 * 24);

/// Longer than the sweep waits before it resumes an orphaned run.
const AN_HOUR: Millis = Millis::hours(1);

/// Longer than the test waits for the killed worker.
const HELD: Duration = Duration::from_mins(2);

/// A killed worker's step is taken over within this time.
const TAKE_OVER_MAX: Millis = Millis::secs(30);

fn run_named(reply: &str) -> RunKey {
    let reply: Value = serde_json::from_str(reply).unwrap();
    RunKey { tenant: TENANT.parse().unwrap(), run: reply["run"].as_str().unwrap().parse().unwrap() }
}

async fn ended_run(env: &DeployedEnv, run: &RunKey) -> RunRecord {
    let store = env.store().await;
    wait_until("the run's end", TIMEOUT, async || {
        store.load(run).await.unwrap().filter(|record| record.status.is_terminal())
    })
    .await
}

/// The JSON output of a command line of the operator.
fn run_cli(env: &DeployedEnv, line: &str) -> Value {
    let output = env.countersign().args(line.split(' ')).env("USER", "ada").output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

async fn card(env: &DeployedEnv) -> FakeMessage {
    let open = |message: &FakeMessage| message.button(slack::card::APPROVE).is_some();
    wait_until("a card in Slack", TIMEOUT, async || env.external.slack.messages().into_iter().find(open))
        .await
}

async fn events(env: &DeployedEnv, run: &RunKey) -> Vec<Event> {
    let entries = env.store().await.events(run, 0, 1_000).await.unwrap();
    entries.iter().map(|entry| serde_json::from_slice(&entry.canonical).unwrap()).collect()
}

/// The worker that holds the run's step.
fn owner(record: &RunRecord) -> Option<&WorkerId> {
    match &record.step_state {
        StepState::Running(lease) => Some(&lease.owner),
        _ => None,
    }
}

/// Starts a worker; returns it and its name in the worker registry, which is not in `known`.
async fn named_worker(env: &DeployedEnv, known: &[&WorkerId]) -> (WorkerId, WorkerProcess) {
    let process = env.worker();
    let store = env.store().await;
    let name = wait_until("a worker record", TIMEOUT, async || {
        let mut names = store.workers().await.unwrap().into_iter().map(|record| record.worker);
        names.find(|name| !known.contains(&name))
    })
    .await;
    (name, process)
}

/// Verifies the evidence of a run offline and returns the number of its receipts.
async fn verified(env: &DeployedEnv, run: &RunKey) -> usize {
    let store = env.store().await;
    let recorded = wait_until("the evidence", TIMEOUT, async || store.evidence(run).await.unwrap()).await;
    let bytes = store.bundle(&run.tenant, &recorded.name).await.unwrap().unwrap();
    assert_eq!(Digest::of_bytes(&bytes), recorded.bundle.sha256);
    let verified = evidence::verify(&bytes, &env.key().public()).unwrap();
    verified.bundle().receipts.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signed_webhook_becomes_approved_change_and_evidence() {
    let env = DeployedEnv::open("lifecycle").await;
    env.apply(TRIAGE).await;
    let workers = [env.worker(), env.worker()];

    let urgent = json!({ "priority": "1" });
    let reply = env.incident(INCIDENT, 1, urgent.clone()).await;
    assert_eq!(reply.status, 202, "{reply:?}");
    let run = run_named(&reply.body);

    // A duplicate delivery returns the same run: 202 until a worker has started it, then 200. A delivery with the same key
    // and another body is refused.
    wait_until("a delivery that has started its run", TIMEOUT, async || {
        let again = env.incident(INCIDENT, 1, urgent.clone()).await;
        assert_eq!(run_named(&again.body), run, "{again:?}");
        assert!(matches!(again.status, 200 | 202), "{again:?}");
        (again.status == 200).then_some(())
    })
    .await;
    let other = env.incident(INCIDENT, 1, json!({ "priority": "1", "extra": true })).await;
    assert_eq!(other.status, 409, "{other:?}");
    let forged = env.deliver(br#"{"table":"incident","record":{"sys_id":"x"}}"#, "another secret").await;
    assert_eq!(forged.status, 401, "{forged:?}");

    // Both workers are killed after the change and before its reply; one of them holds the step.
    let card = card(&env).await;
    let servicenow = &env.external.servicenow;
    assert_eq!(servicenow.writes(INCIDENT), 0, "no change before the approval");
    servicenow.faults().on_write(FakeFault::DelayedReply(HELD));
    let pressed = env.press(&card.place(), slack::card::APPROVE, "U0GRACE").await;
    assert_eq!(pressed.status, 200, "{pressed:?}");
    wait_until("the change", TIMEOUT, async || (servicenow.writes(INCIDENT) > 0).then_some(())).await;
    let killed_at = SystemClock.now();
    workers.into_iter().for_each(WorkerProcess::kill);
    let _successor = env.worker();

    let record = ended_run(&env, &run).await;
    assert_eq!(record.status, RunStatus::Succeeded);
    assert!(record.trace_context().same_trace_as(&TRACEPARENT.parse().unwrap()), "{:?}", record.trace);
    assert_eq!(servicenow.writes(INCIDENT), 1, "the change was made once");
    assert_eq!(servicenow.value("incident", INCIDENT, "assignment_group"), "db-oncall");
    let since = events(&env, &run).await.into_iter().filter(|event| event.at >= killed_at);
    let taken_over = { since }.find(|event| matches!(event.body, EventBody::LeaseExpired { .. }));
    let silent = taken_over.unwrap().at - killed_at;
    assert!(silent <= TAKE_OVER_MAX, "taken over after {silent}");

    assert_eq!(verified(&env, &run).await, 1);
    let decided = |message: &FakeMessage| message.button(slack::card::APPROVE).is_none();
    wait_until("the outcome on the card", TIMEOUT, async || {
        env.external.slack.message(&card.place()).filter(decided)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn surviving_worker_takes_over_a_step_in_time() {
    let env = DeployedEnv::open("take-over").await;
    env.apply(CHANGE).await;
    let first = named_worker(&env, &[]).await;
    let second = named_worker(&env, &[&first.0]).await;
    let servicenow = &env.external.servicenow;
    servicenow.faults().on_write(FakeFault::DelayedReply(HELD));
    let run = run_named(&env.incident(INCIDENT, 1, json!({})).await.body);
    wait_until("the change", TIMEOUT, async || (servicenow.writes(INCIDENT) > 0).then_some(())).await;

    // The change is made and its reply is held back. Only the worker that waits for it is killed.
    let held = env.store().await.load(&run).await.unwrap().unwrap();
    let owner = owner(&held).unwrap();
    let (dead, (survivor, mut alive)) = if *owner == first.0 { (first, second) } else { (second, first) };
    assert_eq!(*owner, dead.0, "one of the two workers holds the step");
    let killed_at = SystemClock.now();
    dead.1.kill();

    let record = ended_run(&env, &run).await;
    assert_eq!((record.status, record.resumes), (RunStatus::Succeeded, 1));
    assert_eq!(servicenow.writes(INCIDENT), 1, "the change was made once");
    assert_eq!(servicenow.accepted().values().sum::<u32>(), 1, "no record was written twice");
    assert!(alive.ended().is_none(), "the surviving worker did not restart");

    let chain = events(&env, &run).await;
    let taken_over = chain.iter().find_map(|event| match &event.body {
        EventBody::LeaseExpired { previous_worker: silent, .. } => Some((silent, event)),
        _ => None,
    });
    let (silent, claim) = taken_over.unwrap();
    assert_eq!((silent, claim.by.id.as_str()), (owner, survivor.as_str()));
    let after = claim.at - killed_at;
    assert!(after <= TAKE_OVER_MAX, "taken over after {after}");
    let finished = chain.iter().find_map(|event| match &event.body {
        EventBody::StepSucceeded { attempt: Some(attempt), .. } => Some(&attempt.worker),
        _ => None,
    });
    assert_eq!(finished, Some(&survivor));
    assert_eq!(verified(&env, &run).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn duplicate_and_reordered_messages_change_nothing() {
    let env = DeployedEnv::open("reordered").await;
    env.apply(CHANGE).await;
    let mut runs = Vec::new();
    for n in 0..8 {
        let sys_id = format!("{n:032x}");
        env.external.servicenow.report(&sys_id, &format!("INC{n}"), "One of eight");
        let reply = env.incident(&sys_id, 1, json!({})).await;
        runs.push(run_named(&reply.body));
    }
    let store = env.store().await;
    // No worker runs yet. Each message is sent twice, in reverse order, and `advance` comes before its run is started.
    for run in runs.iter().rev() {
        for (queue, job) in [(QueueName::Steps, Job::Advance), (QueueName::Ingest, Job::Start)] {
            let message = Outgoing { run: run.clone(), queue, job, delay: Millis(0) };
            store.send(&message).await.unwrap();
        }
    }
    let _worker = env.worker();
    for run in &runs {
        let record = ended_run(&env, run).await;
        assert_eq!((record.status, record.resumes), (RunStatus::Succeeded, 0));
        assert_eq!(store.entry(run).await.unwrap().unwrap().status, InboxStatus::Started);
        assert_eq!(verified(&env, run).await, 1);
    }
    let accepted = env.external.servicenow.accepted();
    assert_eq!(accepted.len(), runs.len(), "{accepted:?}");
    assert!(accepted.values().all(|times| *times == 1), "each change was made once: {accepted:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn poison_message_is_dead_lettered_and_others_are_redriven() {
    let env = DeployedEnv::open("poison").await;
    env.apply(PLAIN).await;
    let reply = env.incident("incident1", 1, json!({})).await;
    let run = run_named(&reply.body);
    let store = env.store().await;
    // The message is received and never deleted until it is dead-lettered.
    wait_until("a dead letter", TIMEOUT, async || {
        for delivery in store.receive(QueueName::Ingest, 10, Millis(0), Duration::ZERO).await.unwrap() {
            store.extend(&delivery.handle, Millis(0)).await.unwrap();
        }
        let dead = store.dead_letters(10).await.unwrap();
        dead.into_iter().find(|dead| dead.message == Some((run.clone(), Job::Start)))
    })
    .await;

    // A received message is hidden for twenty seconds, so the worker would need minutes for all deliveries. The test receives
    // all but the last, and the worker receives that one.
    env.send_raw_message("hello").await;
    for _ in 1..RECEIVES_MAX {
        let read = store.receive(QueueName::Steps, 10, Millis(0), Duration::ZERO).await.unwrap();
        assert!(read.is_empty(), "{read:?}");
    }
    assert_eq!(store.visible(QueueName::Steps).await.unwrap(), 1, "the message is not dead-lettered yet");
    let mut worker = env.worker();
    wait_until("the worker to receive it", TIMEOUT, async || {
        (store.visible(QueueName::Steps).await.unwrap() == 0).then_some(())
    })
    .await;

    // The worker cannot parse the message and continues with others.
    let good = run_named(&env.incident("incident2", 1, json!({})).await.body);
    assert_eq!(ended_run(&env, &good).await.status, RunStatus::Succeeded);
    assert_eq!(verified(&env, &good).await, 0);
    wait_until("the dead letter", TIMEOUT, async || {
        (env.dead_letter_count(QueueName::Steps).await == 1).then_some(())
    })
    .await;
    assert!(worker.ended().is_none(), "the worker is still running");

    // An operator lists and redrives the dead-letter message. The malformed one stays for inspection.
    let seen = wait_until("the dead letter in the program's list", TIMEOUT, async || {
        let output = run_cli(&env, "queue dead-letters --aws --json");
        output["dead_letters"]
            .as_array()
            .unwrap()
            .iter()
            .find(|dead| dead["run"] == run.run.as_str())
            .cloned()
    })
    .await;
    assert_eq!((&seen["tenant"], &seen["queue"]), (&json!(TENANT), &json!("ingest")), "{seen}");
    let redriven = wait_until("the redrive", TIMEOUT, async || {
        run_cli(&env, "queue redrive --aws --json")["redriven"].as_u64().filter(|moved| *moved > 0)
    })
    .await;
    assert_eq!(redriven, 1);
    assert_eq!(store.redrive(10).await.unwrap(), 0, "nothing is redriven twice");
    assert_eq!(ended_run(&env, &run).await.status, RunStatus::Succeeded);
    assert!(store.dead_letters(10).await.unwrap().iter().all(|dead| dead.message.is_none()));
    assert_eq!(
        (env.dead_letter_count(QueueName::Ingest).await, env.dead_letter_count(QueueName::Steps).await),
        (0, 1)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sweep_finds_due_runs_and_schedules() {
    let env = DeployedEnv::open("sweep").await;
    env.apply_earlier(YEARLY, LAST_YEAR).await;
    let plan = env.apply(PLAIN).await;
    let mut runs = Vec::new();
    for n in 0..2 {
        let input = json!({ "record": { "sys_id": format!("incident{n}") } });
        runs.push(env.start_earlier(&plan, &format!("orphan:{n}"), input, AN_HOUR).await);
    }
    let store = env.store().await;
    // The messages are lost, and no worker runs.
    wait_until("the loss of the messages", TIMEOUT, async || {
        for delivery in store.receive(QueueName::Steps, 10, Millis::secs(60), Duration::ZERO).await.unwrap() {
            store.delete(&delivery.handle).await.unwrap();
        }
        (store.depth(QueueName::Steps).await.unwrap() == 0).then_some(())
    })
    .await;

    assert_eq!(env.sweep().await.unwrap(), json!({ "scheduled": 1, "sent": 0, "woken": 2 }));
    // The next sweep finds nothing although no worker has run.
    assert_eq!(env.sweep().await.unwrap(), json!({ "scheduled": 0, "sent": 0, "woken": 0 }));
    assert_eq!(store.depth(QueueName::Steps).await.unwrap(), 2);
    let scheduled_run = wait_until("the scheduled run", TIMEOUT, async || {
        let received = store.receive(QueueName::Ingest, 10, Millis(0), Duration::ZERO).await.unwrap();
        received.into_iter().next().map(|delivery| delivery.run)
    })
    .await;

    let _worker = env.worker();
    for run in &runs {
        assert_eq!(ended_run(&env, run).await.status, RunStatus::Succeeded);
    }
    let scheduled = ended_run(&env, &scheduled_run).await;
    assert_eq!((scheduled.status, scheduled.workflow.as_str()), (RunStatus::Succeeded, "yearly"));
    assert_eq!(scheduled.trigger.kind, "schedule");
}
