//! Every call of the store that speaks to DynamoDB, for the matrix.

use std::collections::BTreeSet;

use aws_sdk_dynamodb::types::AttributeValue;
use countersign_store::aws::create_table;
use countersign_store::{
    Accepted, Access as _, Admission, Again, Archive as _, DueSchedule, Governance as _, Hold, Holder,
    InLine, Inbox as _, Ledger as _, PageQuery, PolicyFiles, RunQuery, WorkerRegistry as _, Write,
};
use domain::command::Renew;
use domain::payload::Fingerprint;
use domain::{
    ApiKey, Applied, Approval, BlobRef, Card, Decision, Digest, Evidence, Fleet, IdempotencyKey, InboxEntry,
    InboxStatus, Payload, Role, RunId, RunKey, Source, StepSeq, Tenant, Ticket, WorkerRecord, WorkerReport,
    merkle,
};
use serde_json::json;

use crate::faults::matrix::{Call, Held, said};
use crate::faults::story::{
    FAR_AHEAD, LEASE, NOON, Until, admission, decision, delivery, effect, initiator, plan, record, run, tell,
    tenant, until_claimed,
};
use crate::table::Table;

/// What is there before a call.
type Given = fn(&Table) -> Held<'_, ()>;

const NOTHING: Given = |_| Box::pin(async {});
const BEGUN: Given = |table| Box::pin(tell(&table.store, Until::Begun));
const SIGNALED: Given = |table| Box::pin(tell(&table.store, Until::Signaled));
const ASKED: Given = |table| Box::pin(tell(&table.store, Until::Asked));
const CLAIMED: Given = |table| Box::pin(tell(&table.store, Until::Claimed));
const FINISHED: Given = |table| Box::pin(tell(&table.store, Until::Finished));
const OVER: Given = |table| Box::pin(tell(&table.store, Until::Canceled));

macro_rules! call {
    ($name:literal, $given:expr, |$store:ident| $call:expr) => {
        call!($name, $given, |$store| $call, again: None)
    };
    ($name:literal, $given:expr, |$store:ident| $call:expr, again: $again:expr) => {
        Call {
            name: $name,
            given: $given,
            make: |table: &Table| {
                let $store = &table.store;
                Box::pin(async move { said($call) })
            },
            again: $again,
        }
    };
}

const SUPERSEDED: Option<&str> = Some("Superseded");

pub(crate) fn calls() -> Vec<Call<Table>> {
    [ledger(), governance(), access(), roll(), archive(), inbox()].into_iter().flatten().collect()
}

fn ledger() -> Vec<Call<Table>> {
    vec![
        call!("put_plan", NOTHING, |store| store.put_plan(&tenant(), &plan()).await),
        call!(
            "plan",
            |table| Box::pin(async { table.store.put_plan(&tenant(), &plan()).await.unwrap() }),
            |store| { store.plan(&tenant(), &plan().hash()).await }
        ),
        call!("admit", NOTHING, |store| store.admit(admission()).await, again: SUPERSEDED),
        call!("admit, with a ticket", NOTHING, |store| store.admit(with_ticket()).await, again: SUPERSEDED),
        call!(
            "holder",
            |table| Box::pin(async {
                assert_eq!(table.store.admit(with_ticket()).await.unwrap(), Write::Committed);
            }),
            |store| { store.holder(&tenant(), &ticket()).await }
        ),
        call!(
            "enqueue_waiter",
            |table| Box::pin(async {
                assert_eq!(table.store.admit(with_ticket()).await.unwrap(), Write::Committed);
            }),
            |store| {
                let stands = Holder { run: run().run, next: None };
                let next = InLine { run: RunId::new("next").unwrap(), since: NOON, seen: NOON };
                store.enqueue_waiter(&tenant(), &ticket(), stands, next).await
            },
            again: SUPERSEDED
        ),
        call!("commit", SIGNALED, |store| store.commit(decision(Until::Asked)).await, again: SUPERSEDED),
        Call {
            name: "commit, whose job goes late",
            given: SIGNALED,
            make: |table| {
                Box::pin(async { said(table.with_a_slow_queue().commit(decision(Until::Asked)).await) })
            },
            again: SUPERSEDED,
        },
        call!("commit, of a record alone", CLAIMED, |store| store.commit(heartbeat()).await, again: SUPERSEDED),
        call!("load", BEGUN, |store| store.load(&run()).await),
        call!("input", BEGUN, |store| store.input(&run()).await),
        call!("step", FINISHED, |store| store.step(&run(), StepSeq(0), false).await),
        call!("steps", FINISHED, |store| store.steps(&run()).await),
        call!("events", FINISHED, |store| store.events(&run(), 0, 100).await),
        call!("history", FINISHED, |store| store.history(&run(), 100).await),
        call!("receipt", CLAIMED, |store| store.receipt(&tenant(), &effect()).await),
        call!("displaced", CLAIMED, |store| store.displaced(&run(), &effect()).await),
        call!("signal", SIGNALED, |store| store.signal(&run(), &delivery()).await),
        call!("runs", BEGUN, |store| store.runs(&tenant(), RunQuery::newest(10)).await),
        call!("runs, about a record", BEGUN, |store| {
            store.runs(&tenant(), RunQuery { record: Some(record()), ..RunQuery::newest(10) }).await
        }),
        call!("due", BEGUN, |store| store.due(FAR_AHEAD, 10).await),
        call!("due_excluding", BEGUN, |store| {
            let others = BTreeSet::from(["umbrella".parse().unwrap()]);
            store.due_excluding(&others, FAR_AHEAD, 10).await
        }),
        call!("tenants", BEGUN, |store| store.tenants().await),
        call!("flush", LEFT_BEHIND, |store| store.flush(FAR_AHEAD, 10).await, again: Some("0")),
        call!("flush, for evidence", OVER, |store| store.flush(FAR_AHEAD, 10).await, again: Some("0")),
    ]
}

/// The first commit of a run that is about a ticket.
fn with_ticket() -> Admission {
    Admission { hold: Some(Hold { ticket: ticket(), after: None }), ..admission() }
}

fn ticket() -> Ticket {
    Ticket::derive(&tenant(), &plan().workflow, "INC1")
}

/// The step is held for longer: what changes the record and nothing else.
fn heartbeat() -> Decision {
    let mut story = until_claimed();
    let fence = story.grant.as_ref().unwrap().fence;
    story.add(Renew { fence, lease: LEASE });
    story.decisions.pop().unwrap()
}

/// An job that was committed and could not be sent.
const LEFT_BEHIND: Given = |table| {
    Box::pin(async {
        tell(&table.store, Until::Signaled).await;
        let cut_off = table.without_queue();
        assert_eq!(cut_off.commit(decision(Until::Asked)).await.unwrap(), Write::Committed);
    })
};

fn governance() -> Vec<Call<Table>> {
    vec![
        call!(
            "tenant",
            |table| Box::pin(async {
                assert_eq!(table.store.put_tenant(settled()).await.unwrap(), Write::Committed);
            }),
            |store| { store.tenant(&tenant()).await }
        ),
        call!("put_tenant", NOTHING, |store| store.put_tenant(settled()).await, again: SUPERSEDED),
        call!(
            "fleet",
            |table| Box::pin(async {
                assert_eq!(table.store.put_fleet(Fleet::default()).await.unwrap(), Write::Committed);
            }),
            |store| store.fleet().await
        ),
        call!(
            "eventual",
            |table| Box::pin(async {
                assert_eq!(table.store.put_fleet(Fleet::default()).await.unwrap(), Write::Committed);
            }),
            |store| store.eventual(&tenant()).await
        ),
        call!("put_fleet", NOTHING, |store| store.put_fleet(Fleet::default()).await, again: SUPERSEDED),
        call!("put_policy", NOTHING, |store| store.put_policy(&tenant(), &Digest::ZERO, policy()).await),
        call!(
            "policy",
            |table| {
                Box::pin(async { table.store.put_policy(&tenant(), &Digest::ZERO, policy()).await.unwrap() })
            },
            |store| store.policy(&tenant(), &Digest::ZERO).await
        ),
        call!("approval", ASKED, |store| store.approval(&tenant(), &asked().id).await),
        call!("approvals", ASKED, |store| store.approvals(&run()).await),
        call!("open_approvals", ASKED, |store| {
            store.open_approvals(&tenant(), PageQuery::first(10)).await
        }),
        call!("card", CARD, |store| store.card(&tenant(), &asked().id).await),
        call!("put_card", NOTHING, |store| store.put_card(&tenant(), &asked().id, card(1), None).await, again: SUPERSEDED),
        call!("put_card, over another", CARD, |store| {
            store.put_card(&tenant(), &asked().id, card(2), Some(card(1))).await
        }, again: SUPERSEDED),
        call!("put_card, over one in other words", CARD_IN_OTHER_WORDS, |store| {
            store.put_card(&tenant(), &asked().id, card(2), Some(card(1))).await
        }, again: SUPERSEDED),
    ]
}

/// A card as another program would have written it.
const CARD_IN_OTHER_WORDS: Given = |table| {
    Box::pin(async {
        CARD(table).await;
        let found = table.client.scan().table_name(&table.name).send().await.unwrap().items.unwrap();
        for mut item in found {
            let words = format!(" {}", item["body"].as_s().unwrap());
            item.insert("body".to_owned(), AttributeValue::S(words));
            table.client.put_item().table_name(&table.name).set_item(Some(item)).send().await.unwrap();
        }
    })
};

const CARD: Given = |table| {
    Box::pin(async {
        let written = table.store.put_card(&tenant(), &asked().id, card(1), None).await;
        assert_eq!(written.unwrap(), Write::Committed);
    })
};

/// The run's request for approval.
fn asked() -> Approval {
    decision(Until::Asked).approvals.swap_remove(0)
}

fn settled() -> Tenant {
    Tenant::new(tenant())
}

fn policy() -> PolicyFiles {
    PolicyFiles::from([("main.rego".to_owned(), "package countersign".to_owned())])
}

fn card(shown: u32) -> Card {
    Card { place: "C1/1".to_owned(), shown, reminders: 0, escalated: false }
}

fn archive() -> Vec<Call<Table>> {
    vec![
        call!("append_log", BEGUN, |store| store.append_log(&run(), merkle::leaf(b"head")).await),
        call!("append_log, after another", ANOTHER, |store| {
            store.append_log(&run(), merkle::leaf(b"head")).await
        }),
        call!("put_evidence", OVER, |store| store.put_evidence(&run(), evidence()).await, again: SUPERSEDED),
        call!("put_evidence, of a run that goes on", BEGUN, |store| {
            store.put_evidence(&run(), evidence()).await
        }, again: SUPERSEDED),
        call!("evidence", SEALED, |store| store.evidence(&run()).await),
        call!("filed", SEALED, |store| store.filed(&run()).await),
    ]
}

/// Evidence of the run is recorded.
const SEALED: Given = |table| {
    Box::pin(async {
        tell(&table.store, Until::Canceled).await;
        assert_eq!(table.store.put_evidence(&run(), evidence()).await.unwrap(), Write::Committed);
    })
};

/// Another run stands in the log.
const ANOTHER: Given = |table| {
    Box::pin(async {
        let another = RunKey { tenant: tenant(), run: RunId::new("another").unwrap() };
        table.store.append_log(&another, merkle::leaf(b"another")).await.unwrap();
    })
};

fn evidence() -> Evidence {
    let bundle = BlobRef { sha256: Digest::of_bytes(b"bundle"), bytes: 6 };
    Evidence { bundle, index: 0, sealed_at: NOON }
}

const KEY_MADE: Given = |table| {
    Box::pin(async {
        assert_eq!(table.store.put_key(api_key()).await.unwrap(), Write::Committed);
    })
};

fn access() -> Vec<Call<Table>> {
    vec![
        call!("key", KEY_MADE, |store| store.key(&tenant(), &api_key().id).await),
        call!("put_key", NOTHING, |store| store.put_key(api_key()).await, again: SUPERSEDED),
        call!("keys", KEY_MADE, |store| store.keys(&tenant(), PageQuery::first(2)).await),
    ]
}

const SIGNED: Given = |table| {
    Box::pin(async {
        assert_eq!(table.store.put_worker(signed()).await.unwrap(), Write::Committed);
    })
};

fn roll() -> Vec<Call<Table>> {
    vec![
        call!("registered_worker", SIGNED, |store| store.registered_worker(&signed().worker).await),
        call!("put_worker", NOTHING, |store| store.put_worker(signed()).await, again: SUPERSEDED),
        call!("roll", SIGNED, |store| store.roll().await),
    ]
}

fn signed() -> WorkerRecord {
    WorkerRecord::new("worker-1".parse().unwrap(), WorkerReport::Working { in_hand: 2 }, NOON)
}

fn api_key() -> ApiKey {
    ApiKey {
        tenant: tenant(),
        id: "00ff".parse().unwrap(),
        person: "ada".parse().unwrap(),
        roles: [Role::Operator].into_iter().collect(),
        secret: Digest::ZERO,
        note: String::new(),
        created_at: NOON,
        expires_at: None,
        revoked_at: None,
        revision: 0,
    }
}

fn inbox() -> Vec<Call<Table>> {
    vec![
        call!("accept", NOTHING, |store| store.accept(entry("sn:1")).await, again: Some("Known")),
        call!("accept, known by its proof", CAME, |store| store.accept(entry("sn:2")).await),
        call!(
            "accept, known by what it tells",
            |table| Box::pin(async {
                assert_eq!(table.store.accept(telling("github:1")).await.unwrap(), Accepted::New);
            }),
            |store| { store.accept(telling("github:2")).await }
        ),
        call!("entry", CAME, |store| store.entry(&entry("sn:1").run).await),
        call!("settle", CAME, |store| store.settle(&entry("sn:1").run, InboxStatus::Started, FAR_AHEAD).await, again: SUPERSEDED),
        call!(
            "reopen",
            |table| Box::pin(async {
                CAME(table).await;
                let settled = table.store.settle(&entry("sn:1").run, refused(), FAR_AHEAD).await;
                assert_eq!(settled.unwrap(), Write::Committed);
            }),
            |store| {
                let again = Again { was: refused(), tries: 1, keep_until: FAR_AHEAD };
                store.reopen(&entry("sn:1").run, again).await
            },
            again: SUPERSEDED
        ),
        call!("apply", NOTHING, |store| store.apply(applied(), Some(NOON)).await),
        call!("due_schedules", SCHEDULED, |store| store.due_schedules(FAR_AHEAD, 10).await),
        call!("reschedule", SCHEDULED, |store| {
            store.reschedule(&DueSchedule { applied: applied(), at: NOON }, Some(FAR_AHEAD)).await
        }, again: SUPERSEDED),
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
            given: NOTHING,
            make: |table| {
                Box::pin(async { said(create_table(&table.client, &format!("{}-other", table.name)).await) })
            },
            again: None,
        },
    ]
}

/// A workflow in use is due.
const SCHEDULED: Given = |table| {
    Box::pin(async {
        assert_eq!(table.store.apply(applied(), Some(NOON)).await.unwrap(), Write::Committed);
    })
};

const CAME: Given = |table| {
    Box::pin(async {
        assert_eq!(table.store.accept(entry("sn:1")).await.unwrap(), Accepted::New);
    })
};

fn entry(key: &str) -> InboxEntry {
    let key = IdempotencyKey::new(key).unwrap();
    let body = json!({ "record": { "sys_id": "abc" } });
    InboxEntry {
        run: InboxEntry::run_of(&tenant(), &key),
        key,
        source: Source::ServiceNow,
        about: None,
        record: None,
        proof: Digest::of_bytes(b"proof"),
        dedupe_key: None,
        fingerprint: Fingerprint::of(&body),
        body: Payload::Inline(body),
        asked: None,
        at: NOON,
        tries: 0,
        status: InboxStatus::Pending,
    }
}

fn refused() -> InboxStatus {
    InboxStatus::rejected("two workflows want it", NOON)
}

/// An entry that tells what others tell.
fn telling(key: &str) -> InboxEntry {
    let (proof, dedupe_key) = (Digest::of_bytes(key.as_bytes()), Some(Digest::of_bytes(b"opened")));
    InboxEntry { proof, dedupe_key, ..entry(key) }
}

fn applied() -> Applied {
    Applied {
        tenant: tenant(),
        workflow: "triage".parse().unwrap(),
        version: 1,
        plan: Digest::of_bytes(b"plan"),
        triggered_by: None,
        at: NOON,
        by: initiator(),
    }
}
