//! Every store call that sends requests to DynamoDB, for the fault matrix.

use std::collections::BTreeSet;

use aws_sdk_dynamodb::types::AttributeValue;
use countersign_store::aws::create_table;
use countersign_store::{
    Access as _, Admission, Archive as _, AuditLog as _, AuditedWrite, DueSchedule, Governance as _,
    Inbox as _, KeyAcquisition, Ledger as _, PageQuery, PolicyFiles, Reopen, RunQuery, StoredEntry, Waiter,
    WorkerRegistry as _, Write,
};
use domain::audit::{AdminChange, AuditEntry};
use domain::command::Renew;
use domain::payload::Fingerprint;
use domain::{
    ApiKey, AppliedWorkflow, Approval, BlobRef, Card, ConcurrencyKey, ConcurrencyScope, Decision, Digest,
    Evidence, Fleet, IdempotencyKey, InboxEntry, InboxStatus, Page, PageStatus, Payload, Role, RunId, RunKey,
    Source, StepSeq, Tenant, WorkerRecord, WorkerReport, merkle,
};
use serde_json::json;

use crate::faults::fixture::{
    FAR_AHEAD, LEASE, NOON, Until, admission, commit_until, decision, delivery, effect, initiator, plan,
    record, run, tenant, until_claimed,
};
use crate::faults::matrix::{BoxFuture, Call, render};
use crate::table::Table;

/// Prepares the store for a call.
type Setup = fn(&Table) -> BoxFuture<'_, ()>;

const NOTHING: Setup = |_| Box::pin(async {});
const STARTED: Setup = |table| Box::pin(commit_until(&table.store, Until::Started));
const SIGNALED: Setup = |table| Box::pin(commit_until(&table.store, Until::Signaled));
const APPROVAL_REQUESTED: Setup = |table| Box::pin(commit_until(&table.store, Until::ApprovalRequested));
const CLAIMED: Setup = |table| Box::pin(commit_until(&table.store, Until::Claimed));
const FINISHED: Setup = |table| Box::pin(commit_until(&table.store, Until::Finished));
const CANCELED: Setup = |table| Box::pin(commit_until(&table.store, Until::Canceled));

macro_rules! call {
    ($name:literal, $setup:expr, |$store:ident| $call:expr) => {
        call!($name, $setup, |$store| $call, repeated: None)
    };
    ($name:literal, $setup:expr, |$store:ident| $call:expr, repeated: $repeated:expr) => {
        Call {
            name: $name,
            setup: $setup,
            make: |table: &Table| {
                let $store = &table.store;
                Box::pin(async move { render($call) })
            },
            repeated: $repeated,
        }
    };
}

const SUPERSEDED: Option<&str> = Some("Superseded");

pub(crate) fn calls() -> Vec<Call<Table>> {
    [ledger(), governance(), access(), audit_log(), worker_registry(), archive(), inbox()]
        .into_iter()
        .flatten()
        .collect()
}

fn ledger() -> Vec<Call<Table>> {
    vec![
        call!("put_plan", NOTHING, |store| store.put_plan(&tenant(), &plan()).await),
        call!(
            "plan",
            |table| Box::pin(async { table.store.put_plan(&tenant(), &plan()).await.unwrap() }),
            |store| { store.plan(&tenant(), &plan().hash()).await }
        ),
        call!("admit", NOTHING, |store| store.admit(admission()).await, repeated: SUPERSEDED),
        call!("admit, with a concurrency key", NOTHING, |store| store.admit(with_concurrency_key()).await, repeated: SUPERSEDED),
        call!(
            "holder",
            |table| Box::pin(async {
                assert_eq!(table.store.admit(with_concurrency_key()).await.unwrap(), Write::Committed);
            }),
            |store| { store.holder(&tenant(), &concurrency_key()).await }
        ),
        call!(
            "enqueue_waiter",
            |table| Box::pin(async {
                assert_eq!(table.store.admit(with_concurrency_key()).await.unwrap(), Write::Committed);
            }),
            |store| { store.enqueue_waiter(&tenant(), &concurrency_key(), waiter()).await }
        ),
        call!(
            "remove_waiter",
            |table| Box::pin(async {
                table.store.enqueue_waiter(&tenant(), &concurrency_key(), waiter()).await.unwrap();
            }),
            |store| { store.remove_waiter(&tenant(), &concurrency_key(), waiter()).await }
        ),
        call!("commit", SIGNALED, |store| store.commit(decision(Until::ApprovalRequested)).await, repeated: SUPERSEDED),
        Call {
            name: "commit, job sent late",
            setup: SIGNALED,
            make: |table| {
                Box::pin(async {
                    render(table.with_failing_first_send().commit(decision(Until::ApprovalRequested)).await)
                })
            },
            repeated: SUPERSEDED,
        },
        call!("commit, record only", CLAIMED, |store| store.commit(heartbeat()).await, repeated: SUPERSEDED),
        call!("load", STARTED, |store| store.load(&run()).await),
        call!("input", STARTED, |store| store.input(&run()).await),
        call!("step", FINISHED, |store| store.step(&run(), StepSeq(0), false).await),
        call!("steps", FINISHED, |store| store.steps(&run()).await),
        call!("events", FINISHED, |store| store.events(&run(), 0, 100).await),
        call!("history", FINISHED, |store| store.history(&run(), 100).await),
        call!("receipt", CLAIMED, |store| store.receipt(&tenant(), &effect()).await),
        call!("displaced", CLAIMED, |store| store.displaced(&run(), &effect()).await),
        call!("signal", SIGNALED, |store| store.signal(&run(), &delivery()).await),
        call!("runs", STARTED, |store| store.runs(&tenant(), RunQuery::newest(10)).await),
        call!("runs, by record", STARTED, |store| {
            store.runs(&tenant(), RunQuery { record: Some(record()), ..RunQuery::newest(10) }).await
        }),
        call!("due", STARTED, |store| store.due(FAR_AHEAD, 10).await),
        call!("due_excluding", STARTED, |store| {
            let others = BTreeSet::from(["umbrella".parse().unwrap()]);
            store.due_excluding(&others, FAR_AHEAD, 10).await
        }),
        call!("tenants", STARTED, |store| store.tenants(None, 10).await),
        call!("flush", OUTBOX_ENTRY, |store| store.flush(FAR_AHEAD, 10).await, repeated: Some("0")),
        call!("flush, for evidence", CANCELED, |store| store.flush(FAR_AHEAD, 10).await, repeated: Some("0")),
    ]
}

/// The first commit of a run with a concurrency key.
fn with_concurrency_key() -> Admission {
    Admission {
        hold: Some(KeyAcquisition { concurrency_key: concurrency_key(), previous_holder: None }),
        ..admission()
    }
}

fn concurrency_key() -> ConcurrencyKey {
    ConcurrencyKey::derive(&tenant(), &plan().workflow, ConcurrencyScope::Workflow, "INC1")
}

/// Renews the lease, which changes only the record.
fn heartbeat() -> Decision {
    let mut scenario = until_claimed();
    let fence = scenario.grant.as_ref().unwrap().fence;
    scenario.add(Renew { fence, lease: LEASE });
    scenario.decisions.pop().unwrap()
}

/// A message that was committed but could not be sent.
const OUTBOX_ENTRY: Setup = |table| {
    Box::pin(async {
        commit_until(&table.store, Until::Signaled).await;
        let store = table.with_queue_down();
        assert_eq!(store.commit(decision(Until::ApprovalRequested)).await.unwrap(), Write::Committed);
    })
};

fn governance() -> Vec<Call<Table>> {
    vec![
        call!(
            "tenant",
            |table| Box::pin(async {
                assert_eq!(table.store.put_tenant(settings()).await.unwrap(), Write::Committed);
            }),
            |store| { store.tenant(&tenant()).await }
        ),
        call!("put_tenant", NOTHING, |store| store.put_tenant(settings()).await, repeated: SUPERSEDED),
        call!(
            "fleet",
            |table| Box::pin(async {
                assert_eq!(table.store.put_fleet(Fleet::default()).await.unwrap(), Write::Committed);
            }),
            |store| store.fleet().await
        ),
        call!(
            "settings_eventual",
            |table| Box::pin(async {
                assert_eq!(table.store.put_fleet(Fleet::default()).await.unwrap(), Write::Committed);
            }),
            |store| store.settings_eventual(&tenant()).await
        ),
        call!("tenant_eventual", NOTHING, |store| store.tenant_eventual(&tenant()).await),
        call!("put_fleet", NOTHING, |store| store.put_fleet(Fleet::default()).await, repeated: SUPERSEDED),
        call!("put_policy", NOTHING, |store| store.put_policy(&tenant(), &Digest::ZERO, policy()).await),
        call!(
            "policy",
            |table| {
                Box::pin(async { table.store.put_policy(&tenant(), &Digest::ZERO, policy()).await.unwrap() })
            },
            |store| store.policy(&tenant(), &Digest::ZERO).await
        ),
        call!("approval", APPROVAL_REQUESTED, |store| store.approval(&tenant(), &approval().id).await),
        call!("approvals", APPROVAL_REQUESTED, |store| store.approvals(&run()).await),
        call!("open_approvals", APPROVAL_REQUESTED, |store| {
            store.open_approvals(&tenant(), PageQuery::first(10)).await
        }),
        call!("card", CARD, |store| store.card(&tenant(), &approval().id).await),
        call!("put_card", NOTHING, |store| store.put_card(&tenant(), &approval().id, card(1), None).await, repeated: SUPERSEDED),
        call!("put_card, replace", CARD, |store| {
            store.put_card(&tenant(), &approval().id, card(2), Some(card(1))).await
        }, repeated: SUPERSEDED),
        call!("put_card, replace another encoding", CARD_IN_ANOTHER_ENCODING, |store| {
            store.put_card(&tenant(), &approval().id, card(2), Some(card(1))).await
        }, repeated: SUPERSEDED),
        call!("page", PAGE, |store| store.page(&tenant(), &approval().id).await),
        call!("put_page", NOTHING, |store| {
            store.put_page(&tenant(), &approval().id, page(PageStatus::Paged), None).await
        }, repeated: SUPERSEDED),
    ]
}

/// A card in another JSON encoding, as another version would have written it.
const CARD_IN_ANOTHER_ENCODING: Setup = |table| {
    Box::pin(async {
        CARD(table).await;
        let found = table.client.scan().table_name(&table.name).send().await.unwrap().items.unwrap();
        for mut item in found {
            let json = format!(" {}", item["body"].as_s().unwrap());
            item.insert("body".to_owned(), AttributeValue::S(json));
            table.client.put_item().table_name(&table.name).set_item(Some(item)).send().await.unwrap();
        }
    })
};

const CARD: Setup = |table| {
    Box::pin(async {
        let written = table.store.put_card(&tenant(), &approval().id, card(1), None).await;
        assert_eq!(written.unwrap(), Write::Committed);
    })
};

const PAGE: Setup = |table| {
    Box::pin(async {
        let written = table.store.put_page(&tenant(), &approval().id, page(PageStatus::Paged), None).await;
        assert_eq!(written.unwrap(), Write::Committed);
    })
};

fn page(status: PageStatus) -> Page {
    Page { status, connection: None }
}

/// The approval request of the run.
pub(crate) fn approval() -> Approval {
    decision(Until::ApprovalRequested).approvals.swap_remove(0)
}

fn settings() -> Tenant {
    Tenant::new(tenant())
}

fn policy() -> PolicyFiles {
    PolicyFiles::from([("main.rego".to_owned(), "package countersign".to_owned())])
}

pub(crate) fn card(shown: u32) -> Card {
    Card { message: "C1/1".to_owned(), connection: None, revision: shown, reminders: 0, escalated: false }
}

fn archive() -> Vec<Call<Table>> {
    vec![
        call!("append_log", STARTED, |store| store.append_log(&run(), merkle::leaf(b"head")).await),
        call!("append_log, second entry", OTHER_RUN_LOGGED, |store| {
            store.append_log(&run(), merkle::leaf(b"head")).await
        }),
        call!("put_evidence", CANCELED, |store| store.put_evidence(&run(), evidence()).await, repeated: SUPERSEDED),
        call!("put_evidence, run resumed", STARTED, |store| {
            store.put_evidence(&run(), evidence()).await
        }, repeated: SUPERSEDED),
        call!("evidence", WITH_EVIDENCE, |store| store.evidence(&run()).await),
        call!("load_with_evidence", WITH_EVIDENCE, |store| store.load_with_evidence(&run()).await),
    ]
}

const WITH_EVIDENCE: Setup = |table| {
    Box::pin(async {
        commit_until(&table.store, Until::Canceled).await;
        assert_eq!(table.store.put_evidence(&run(), evidence()).await.unwrap(), Write::Committed);
    })
};

/// The log has an entry of another run.
const OTHER_RUN_LOGGED: Setup = |table| {
    Box::pin(async {
        let other = RunKey { tenant: tenant(), run: RunId::new("another").unwrap() };
        table.store.append_log(&other, merkle::leaf(b"another")).await.unwrap();
    })
};

fn evidence() -> Evidence {
    let bundle = BlobRef { sha256: Digest::of_bytes(b"bundle"), bytes: 6 };
    let name = "run".to_owned();
    Evidence { bundle, name, index: 0, recorded_at: NOON }
}

const KEY_CREATED: Setup = |table| {
    Box::pin(async {
        assert_eq!(table.store.put_key(api_key()).await.unwrap(), Write::Committed);
    })
};

fn access() -> Vec<Call<Table>> {
    vec![
        call!("key", KEY_CREATED, |store| store.key(&tenant(), &api_key().id).await),
        call!("put_key", NOTHING, |store| store.put_key(api_key()).await, repeated: SUPERSEDED),
        call!("keys", KEY_CREATED, |store| store.keys(&tenant(), PageQuery::first(2)).await),
    ]
}

const AUDITED: Setup = |table| {
    Box::pin(async {
        let written = table.store.write_audited(AuditedWrite::Key(api_key()), audit_entry()).await;
        assert_eq!(written.unwrap(), Write::Committed);
    })
};

fn audit_log() -> Vec<Call<Table>> {
    vec![
        call!("write_audited", NOTHING, |store| {
            store.write_audited(AuditedWrite::Key(api_key()), audit_entry()).await
        }, repeated: SUPERSEDED),
        call!("write_audited, workflow", NOTHING, |store| {
            store.write_audited(AuditedWrite::Workflow(applied(), Some(NOON)), audit_entry()).await
        }),
        call!("write_audited, superseded", KEY_CREATED, |store| {
            store.write_audited(AuditedWrite::Key(api_key()), audit_entry()).await
        }),
        call!("audit", AUDITED, |store| store.audit(Some(&tenant()), PageQuery::first(2)).await),
        call!("audit_record", AUDITED, |store| store.audit_record(Some(&tenant()), 1).await),
        call!("audit_head", AUDITED, |store| store.audit_head(Some(&tenant())).await),
    ]
}

pub(crate) fn audit_entry() -> AuditEntry {
    let change = AdminChange::DispatchStarted;
    AuditEntry { tenant: Some(tenant()), at: NOON, by: initiator(), change }
}

const REGISTERED: Setup = |table| {
    Box::pin(async {
        assert_eq!(table.store.put_worker(worker_record()).await.unwrap(), Write::Committed);
    })
};

fn worker_registry() -> Vec<Call<Table>> {
    vec![
        call!("worker", REGISTERED, |store| store.worker(&worker_record().worker).await),
        call!("put_worker", NOTHING, |store| store.put_worker(worker_record()).await, repeated: SUPERSEDED),
        call!("workers", REGISTERED, |store| store.workers().await),
    ]
}

fn worker_record() -> WorkerRecord {
    WorkerRecord::new("worker-1".parse().unwrap(), WorkerReport::Working { in_flight: 2 }, NOON)
}

pub(crate) fn api_key() -> ApiKey {
    ApiKey {
        tenant: tenant(),
        id: "00ff".parse().unwrap(),
        person: "ada".parse().unwrap(),
        roles: [Role::Operator].into_iter().collect(),
        secret: Digest::ZERO,
        note: String::new(),
        created_at: NOON,
        created_by: initiator(),
        expires_at: None,
        revoked_at: None,
        revoked_by: None,
        revision: 0,
    }
}

fn waiter() -> Waiter {
    Waiter { run: RunId::new("next").unwrap(), since: NOON, woken: None }
}

fn inbox() -> Vec<Call<Table>> {
    vec![
        call!("accept", NOTHING, |store| store.accept(entry("sn:1")).await, repeated: Some("Duplicate")),
        call!(
            "accept, dedupe key",
            NOTHING,
            |store| store.accept(with_dedupe_key("github:1")).await,
            repeated: Some("Duplicate")
        ),
        call!("accept, duplicate proof", ACCEPTED, |store| store.accept(entry("sn:2")).await),
        call!(
            "accept, duplicate dedupe key",
            |table| Box::pin(async {
                assert_eq!(table.store.accept(with_dedupe_key("github:1")).await.unwrap(), StoredEntry::New);
            }),
            |store| { store.accept(with_dedupe_key("github:2")).await }
        ),
        call!("entry", ACCEPTED, |store| store.entry(&entry("sn:1").run).await),
        call!("set_status", ACCEPTED, |store| store.set_status(&entry("sn:1").run, InboxStatus::Started, FAR_AHEAD).await, repeated: SUPERSEDED),
        call!(
            "reopen",
            |table| Box::pin(async {
                ACCEPTED(table).await;
                let written = table.store.set_status(&entry("sn:1").run, rejected(), FAR_AHEAD).await;
                assert_eq!(written.unwrap(), Write::Committed);
            }),
            |store| {
                let reopen = Reopen { was: rejected(), tries: 1, due_at: FAR_AHEAD };
                store.reopen(&entry("sn:1").run, reopen).await
            },
            repeated: SUPERSEDED
        ),
        call!("postpone_entry", ACCEPTED, |store| store.postpone_entry(&entry("sn:1").run, FAR_AHEAD).await),
        call!("apply", NOTHING, |store| store.apply(applied(), Some(NOON)).await),
        call!("due_schedules", SCHEDULED, |store| store.due_schedules(FAR_AHEAD, 10).await),
        call!("reschedule", SCHEDULED, |store| {
            store.reschedule(&DueSchedule { applied: applied(), at: NOON }, Some(FAR_AHEAD)).await
        }, repeated: SUPERSEDED),
        call!(
            "applied",
            |table| Box::pin(async {
                assert_eq!(table.store.apply(applied(), Some(NOON)).await.unwrap(), Write::Committed);
            }),
            |store| { store.applied(&tenant()).await }
        ),
        call!(
            "versions",
            |table| Box::pin(async {
                assert_eq!(table.store.apply(applied(), None).await.unwrap(), Write::Committed);
            }),
            |store| { store.versions(&tenant(), &applied().workflow).await }
        ),
        Call {
            name: "create_table",
            setup: NOTHING,
            make: |table| {
                Box::pin(async {
                    render(create_table(&table.client, &format!("{}-other", table.name)).await)
                })
            },
            repeated: None,
        },
    ]
}

/// An applied workflow is due.
const SCHEDULED: Setup = |table| {
    Box::pin(async {
        assert_eq!(table.store.apply(applied(), Some(NOON)).await.unwrap(), Write::Committed);
    })
};

const ACCEPTED: Setup = |table| {
    Box::pin(async {
        assert_eq!(table.store.accept(entry("sn:1")).await.unwrap(), StoredEntry::New);
    })
};

fn entry(key: &str) -> InboxEntry {
    let key = IdempotencyKey::new(key).unwrap();
    let body = json!({ "record": { "sys_id": "abc" } });
    InboxEntry {
        run: InboxEntry::run_of(&tenant(), &key),
        key,
        source: Source::ServiceNow,
        topic: None,
        record: None,
        proof: Digest::of_bytes(b"proof"),
        dedupe_key: None,
        fingerprint: Fingerprint::of(&body),
        body: Payload::Inline(body),
        start_request: None,
        at: NOON,
        tries: 0,
        status: InboxStatus::Pending,
    }
}

fn rejected() -> InboxStatus {
    InboxStatus::rejected("two workflows match", NOON)
}

/// An entry with a shared dedupe key.
fn with_dedupe_key(key: &str) -> InboxEntry {
    let (proof, dedupe_key) = (Digest::of_bytes(key.as_bytes()), Some(Digest::of_bytes(b"opened")));
    InboxEntry { proof, dedupe_key, ..entry(key) }
}

pub(crate) fn applied() -> AppliedWorkflow {
    AppliedWorkflow {
        tenant: tenant(),
        workflow: "triage".parse().unwrap(),
        version: 1,
        plan: Digest::of_bytes(b"plan"),
        triggered_by: None,
        at: NOON,
        by: initiator(),
    }
}
