//! The largest values that the domain allows must fit.

use std::sync::Arc;
use std::time::Duration;

use domain::command::{Admit, Claim, DeliverSignal, admit};
use domain::id::ID_BYTES_MAX;
use domain::key::KEY_BYTES_MAX;
use domain::payload::{Fingerprint, INLINE_BYTES_MAX};
use domain::plan::{STEPS_MAX, Work};
use domain::record::Signal;
use domain::{
    Cause, DecisionContext, EventName, Initiator, Millis, OpId, Payload, Plan, QueueName, RunId, RunKey,
    SignalId, StepSeq, TenantId, WorkerId, WorkflowName, WorkspaceId,
};
use serde_json::{Value, json};
use store::{Admission, Store, Write};

use crate::fixtures::{
    LedgerRun as Run, NOON, admission_with, advance, call_then_wait, calls, claim, effect, finish, granted,
    signal, step, tenant,
};

cases![largest_inline_payload_fits_in_every_field, longest_ids_fit_in_every_field, longest_plan_fits,];

/// A text whose JSON has exactly the maximum size of an inline payload.
fn largest() -> Value {
    let value = json!("x".repeat(INLINE_BYTES_MAX - 2));
    assert_eq!(serde_json::to_vec(&value).unwrap().len(), INLINE_BYTES_MAX);
    value
}

async fn largest_inline_payload_fits_in_every_field<S: Store>(store: Arc<S>) {
    let plan = call_then_wait();
    let admission = admission_with("acme", "request", &plan, largest());
    let mut run = Run { record: admission.decision.record.clone(), plan: Arc::new(plan), approval: None };
    assert_eq!(store.admit(admission).await.unwrap(), Write::Committed);
    let large = Payload::Inline(largest());
    let delivery = signal("early").signal;
    let delivery = Signal { payload: large.clone(), fingerprint: Fingerprint::of(&largest()), ..delivery };
    run.commit(&*store, DeliverSignal { signal: delivery, known: None }).await;
    run.work(&*store, "effect", largest()).await;

    assert_eq!(store.input(run.key()).await.unwrap(), Some(large.clone()));
    let stored = store.signal(run.key(), &signal("early").signal.id).await.unwrap().unwrap();
    assert_eq!(stored.payload, large);
    let ended = store.step(run.key(), StepSeq(0), false).await.unwrap().unwrap();
    assert_eq!(ended.output, Some(large));
    assert!(store.receipt(&tenant("acme"), &effect("effect")).await.unwrap().is_some());
}

/// The longest possible id that ends in `end`.
fn long(end: &str) -> String {
    format!("{}{end}", "x".repeat(ID_BYTES_MAX - end.len()))
}

async fn longest_ids_fit_in_every_field<S: Store>(store: Arc<S>) {
    let mut run = start_with_long_ids(&*store).await;
    let key = "k".repeat(KEY_BYTES_MAX);
    let owner = WorkerId::new(&long("worker")).unwrap();
    let claimed = run.commit(&*store, Claim { owner, ..claim(&key, None) }).await;
    run.commit(&*store, finish(granted(claimed), json!(1))).await;
    let delivery = SignalId::new(&long("delivery")).unwrap();
    let named = Signal { id: delivery.clone(), event: long_event(), ..signal("any").signal };
    run.commit(&*store, DeliverSignal { signal: named, known: None }).await;

    assert_eq!(store.load(run.key()).await.unwrap(), Some(run.record.clone()));
    assert!(store.receipt(&run.key().tenant, &effect(&key)).await.unwrap().is_some());
    assert!(store.signal(run.key(), &delivery).await.unwrap().is_some());
    assert_eq!(store.plan(&run.key().tenant, &run.record.plan).await.unwrap().as_ref(), Some(&*run.plan));
    assert_message_is_delivered(&*store).await;
}

fn long_event() -> EventName {
    EventName::new(&long("event")).unwrap()
}

fn long_plan() -> Plan {
    let plan = call_then_wait();
    let steps = plan.steps.into_iter().enumerate().map(|(seq, planned)| {
        let work = match planned.work {
            Work::Wait { timeout, on_timeout, .. } => Work::Wait { event: long_event(), timeout, on_timeout },
            work => work,
        };
        step(&long(&format!("step-{seq}")), &work)
    });
    let workflow = WorkflowName::new(&long("workflow")).unwrap();
    Plan { workflow, steps: steps.collect(), ..calls(1) }
}

async fn start_with_long_ids<S: Store>(store: &S) -> Run {
    let plan = long_plan();
    let input = json!(null);
    let command = Admit {
        tenant: TenantId::new(&long("tenant")).unwrap(),
        workspace: WorkspaceId::new(&long("workspace")).unwrap(),
        trigger_kind: "api".to_owned(),
        record: None,
        trace: Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse().unwrap()),
        key: effect(&"r".repeat(KEY_BYTES_MAX)),
        input: Fingerprint::of(&input),
        applied_by: None,
        inherited: domain::Inherited::default(),
    };
    let op = OpId::new(&long("op")).unwrap();
    let decision =
        admit(command, &plan, DecisionContext { op, now: NOON, by: Initiator::new(Cause::User, "user") });
    let record = decision.record.clone();
    store.put_plan(&record.key.tenant, &plan).await.unwrap();
    let written =
        store.admit(Admission { decision, input: Payload::Inline(input), hold: None }).await.unwrap();
    assert_eq!(written, Write::Committed);
    Run { plan: Arc::new(plan), record, approval: None }
}

async fn assert_message_is_delivered<S: Store>(store: &S) {
    let run =
        RunKey { tenant: TenantId::new(&long("tenant")).unwrap(), run: RunId::new(&long("run")).unwrap() };
    assert_eq!(store.load(&run).await.unwrap(), None);
    store.send(&advance(&run)).await.unwrap();
    let received =
        store.receive(QueueName::Steps, 10, Millis::secs(30), Duration::from_secs(1)).await.unwrap();
    assert!(received.iter().any(|delivery| delivery.run == run));
}

async fn longest_plan_fits<S: Store>(store: Arc<S>) {
    let call = calls(1).steps.remove(0).work;
    let steps = (0..STEPS_MAX).map(|seq| step(&long(&format!("step-{seq}")), &call)).collect();
    let plan = Plan { steps, ..calls(1) };
    store.put_plan(&tenant("acme"), &plan).await.unwrap();
    let run = Run::start(&*store, "acme", "request", &plan).await;
    assert_eq!(run.record.steps as usize, STEPS_MAX);
    assert_eq!(store.plan(&tenant("acme"), &run.record.plan).await.unwrap(), Some(plan));
}
