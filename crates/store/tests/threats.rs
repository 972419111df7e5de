//! The named threats to a store: oversized input.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a case fails by panicking")]

use std::path::Path;

use countersign_store::{Admission, Ledger, Queue, SqliteOptions, SqliteStore, Write};
use domain::command::{
    Admit, Claim, ClaimResult, Command, DeliverSignal, Finish, Grant, OpenWait, PolicyEvaluation, RecordVote,
    Renew, admit,
};
use domain::payload::{Fingerprint, INLINE_BYTES_MAX};
use domain::plan::{Call, Environment, OnTimeout, Undo, Work};
use domain::record::Signal;
use domain::{
    Action, Approval, ApprovalRequirement, BlastRadius, Cause, DecisionContext, Digest, EffectClass,
    IdempotencyKey, Initiator, Millis, OpId, Payload, PersonId, Plan, PlannedStep, QueueName, Reversibility,
    Ruling, SignalId, StepId, Timestamp, ToolName, WorkerId, WorkflowName, WorkspaceId,
};
use rusqlite::Connection;
use serde_json::{Value, json};
use testkit::ledger::{self, LedgerRun};

/// The size limit of a DynamoDB item.
const ITEM_BYTES_MAX: i64 = 400 * 1024;

/// One DynamoDB write unit: a claim must not cost more.
const HOT_RECORD_BYTES_MAX: usize = 1024;

/// All payloads of the run have the maximum inline size. No row comes near the item limit, and the record that
/// every claim writes stays small.
#[tokio::test]
#[expect(non_snake_case, reason = "the name of the threat")]
async fn item_over_400KB() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ledger.db");
    let store = SqliteStore::open(&path, SqliteOptions::default()).unwrap();
    let mut run = Run::start(&store).await;

    let grant = run.claim(&store).await;
    run.commit(&store, Renew { fence: grant.fence, lease: Millis::secs(30) }).await;
    run.commit(&store, early_signal()).await;
    run.commit(&store, finish(grant)).await;
    let signal = store.signal(&run.0.record.key, &delivery()).await.unwrap();
    run.commit(&store, OpenWait { buffered: signal }).await;
    let grant = run.claim(&store).await;
    run.commit(&store, finish(grant)).await;

    assert!(store.depth(QueueName::Steps).await.unwrap() > 0);
    for (row, bytes) in largest_rows(&path) {
        assert!(bytes < ITEM_BYTES_MAX, "{row} holds {bytes} bytes");
    }
}

/// A run whose record stays small.
struct Run(LedgerRun);

impl Run {
    async fn start(store: &SqliteStore) -> Self {
        let plan = plan();
        let key = "sn:incident:insert:acme.service-now.com:9d385017c611228701d22104cc95c371";
        let command = Admit {
            workspace: WorkspaceId::new("platform-team").unwrap(),
            trigger_kind: "servicenow".to_owned(),
            ..ledger::admit_command("acme-production", key, &large())
        };
        let decision = admit(command, &plan, context(0));
        store.put_plan(&decision.record.key.tenant, &plan).await.unwrap();
        let admission = Admission { decision, input: Payload::Inline(large()), hold: None };
        Self(LedgerRun::admit(store, admission, &plan).await)
    }

    async fn commit<C: Command>(&mut self, store: &SqliteStore, command: C) -> C::Output {
        let (decision, output) = self.0.decide_with(context(self.0.record.version.0 + 1), command);
        self.0.apply(&decision);
        assert_eq!(store.commit(decision).await.unwrap(), Write::Committed);
        self.assert_small();
        output
    }

    /// Claims the current step, with an intent on the record.
    async fn claim(&mut self, store: &SqliteStore) -> Grant {
        let step = &self.0.plan.step(self.0.record.at).unwrap().id;
        let key = IdempotencyKey::for_step(&tool(), &self.0.record.key.run, step);
        let verdict = ledger::verdict(Ruling::NeedsApproval(ApprovalRequirement::default()));
        let claim = Claim {
            owner: worker(),
            departed: Vec::new(),
            assessment: Some(PolicyEvaluation { verdict, observed: Some(large()) }),
            ..ledger::claim_of(action(key), Ruling::Allow)
        };
        assert_eq!(self.commit(store, claim.clone()).await, ClaimResult::AwaitingApproval);
        let vote = approve(self.0.approval.clone().unwrap());
        self.commit(store, vote).await;
        let claimed = self.commit(store, claim).await;
        let ClaimResult::Granted(grant) = claimed else { unreachable!("{claimed:?}") };
        *grant
    }

    fn assert_small(&self) {
        let bytes = item_bytes(&serde_json::to_value(&self.0.record).unwrap());
        assert!(bytes < HOT_RECORD_BYTES_MAX, "{bytes} bytes: {:?}", self.0.record);
    }
}

fn context(write: u64) -> DecisionContext {
    DecisionContext {
        op: OpId::new(&format!("01JXZ4T0M3Q8V6R2K9B7N5H1{write:02}")).unwrap(),
        now: Timestamp(1_750_000_000_000),
        by: Initiator::new(Cause::System, worker().as_str()),
    }
}

fn worker() -> WorkerId {
    WorkerId::new("worker-ip-10-0-12-34-1750000000000-4f2a").unwrap()
}

fn tool() -> ToolName {
    ToolName::new("servicenow.update").unwrap()
}

fn plan() -> Plan {
    let call =
        || Call { tool: tool(), connection: None, with: json!({ "sys_id": "${ trigger.record.sys_id }" }) };
    let wait = Work::Wait { event: ledger::event(), timeout: Millis::hours(2), on_timeout: OnTimeout::Fail };
    let step = |id: &str, work: Work| PlannedStep {
        blast_radius: BlastRadius::Medium,
        critical: true,
        rollback: Some(Undo::Auto),
        ..PlannedStep::new(StepId::new(id).unwrap(), work)
    };
    let steps = vec![
        step("assign-to-on-call", Work::Call(call())),
        step("change-approved", wait),
        step("restart-primary", Work::Call(call())),
    ];
    Plan { version: 3, ..Plan::new(WorkflowName::new("incident-triage").unwrap(), Environment::Prod, steps) }
}

fn action(key: IdempotencyKey) -> Action {
    Action {
        tool: tool(),
        class: EffectClass::CompareAndSet,
        reversibility: Reversibility::Inverse,
        target: "acme.service-now.com/incident/9d385017c611228701d22104cc95c371".to_owned(),
        key,
        fields: large(),
        ..ledger::action("effect")
    }
}

fn approve(approval: Approval) -> RecordVote {
    RecordVote { person: PersonId::new("grace.hopper").unwrap(), ..ledger::approve(approval) }
}

fn finish(grant: Grant) -> Finish {
    Finish {
        response: large(),
        inverse: Some(large()),
        cost_microusd: 1_200,
        ..ledger::finish(grant, large())
    }
}

fn delivery() -> SignalId {
    SignalId::new("sn-7c1f0b3e-2c58-4d0e-9a0c-0a4f5b6c7d8e").unwrap()
}

fn early_signal() -> DeliverSignal {
    let payload = Payload::Inline(large());
    let sent = ledger::signal(delivery().as_str()).signal;
    let signal = Signal { payload, fingerprint: Fingerprint::of(&large()), ..sent };
    DeliverSignal { signal, known: None }
}

/// A value whose JSON has the maximum inline size.
fn large() -> Value {
    json!("x".repeat(INLINE_BYTES_MAX - 2))
}

/// The size of `value` as DynamoDB counts it: a number takes a byte per two digits plus one, a map or a list three
/// plus one per entry. A digest is stored as bytes.
fn item_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 1,
        Value::Number(number) => number.to_string().len().div_ceil(2) + 1,
        Value::String(text) if text.parse::<Digest>().is_ok() => 32,
        Value::String(text) => text.len(),
        Value::Array(items) => 3 + items.iter().map(|item| 1 + item_bytes(item)).sum::<usize>(),
        Value::Object(fields) => {
            3 + fields.iter().map(|(name, field)| 1 + name.len() + item_bytes(field)).sum::<usize>()
        }
    }
}

/// The largest row of each table that is an item in DynamoDB. Blobs are objects in S3.
fn largest_rows(path: &Path) -> Vec<(&'static str, i64)> {
    let conn = Connection::open(path).unwrap();
    [
        ("plans", "length(body)"),
        ("runs", "length(body)"),
        ("history", "length(event) + length(coalesce(payload, ''))"),
        ("receipts", "length(body)"),
        ("signals", "length(body)"),
    ]
    .map(|(table, bytes)| {
        let sql = format!("SELECT max({bytes}) FROM {table}");
        (table, conn.query_row(&sql, [], |row| row.get(0)).expect(table))
    })
    .into()
}
