//! Items that a newer program has written, with fields that this one does not know. This program neither reads them nor
//! replaces them, because it would drop those fields.

use std::collections::{BTreeSet, HashMap};

use aws_sdk_dynamodb::types::AttributeValue;
use countersign_store::{
    Access as _, Archive as _, AuditLog as _, AuditedWrite, DueSchedule, Governance as _, Inbox as _,
    Ledger as _, NewerFormat, PageQuery, StoreError, Write,
};
use domain::dispatch::RECORD_FORMAT;
use domain::{AppliedWorkflow, Fleet, RunId, RunKey, Tenant, merkle};
use engine::{DispatchScope, EngineError};
use testkit::TestClock;

use crate::calls::{api_key, applied, approval, audit_entry, card};
use crate::faults::content::items;
use crate::faults::fixture::{
    FAR_AHEAD, NOON, Until, commit_until, decision, effect, initiator, run, tenant,
};
use crate::table::Table;
use crate::threats::Case;

pub(crate) fn cases() -> Vec<(&'static str, Case)> {
    vec![
        ("newer_settings_are_neither_read_nor_replaced", |table| {
            Box::pin(newer_settings_are_neither_read_nor_replaced(table))
        }),
        ("newer_log_and_card_are_neither_read_nor_replaced", |table| {
            Box::pin(newer_log_and_card_are_neither_read_nor_replaced(table))
        }),
        ("newer_receipt_is_not_replaced", |table| Box::pin(newer_receipt_is_not_replaced(table))),
        ("newer_approval_is_not_replaced", |table| Box::pin(newer_approval_is_not_replaced(table))),
    ]
}

/// Tenant settings, fleet settings, API keys, workflows and their schedules.
async fn newer_settings_are_neither_read_nor_replaced(table: Table) {
    let store = &table.store;
    let (first, second) = (Tenant::new(tenant()), Tenant { revision: 1, ..Tenant::new(tenant()) });
    assert_eq!(store.put_tenant(first).await.unwrap(), Write::Committed);
    assert_eq!(store.put_fleet(Fleet::default()).await.unwrap(), Write::Committed);
    assert_eq!(store.put_key(api_key()).await.unwrap(), Write::Committed);
    assert_eq!(store.apply(applied(), Some(NOON)).await.unwrap(), Write::Committed);
    raise_formats(&table, &["tenant", "fleet", "key#00ff", "workflow#triage"]).await;
    let before = items(&table.client, &table.name).await;

    let fleet = Fleet { revision: 1, ..Fleet::default() };
    assert_eq!(store.put_tenant(second.clone()).await.unwrap(), Write::Superseded);
    assert_eq!(store.put_fleet(fleet.clone()).await.unwrap(), Write::Superseded);
    let key = domain::ApiKey { revision: 1, ..api_key() };
    assert_eq!(store.put_key(key.clone()).await.unwrap(), Write::Superseded);
    for write in [AuditedWrite::Tenant(second), AuditedWrite::Fleet(fleet), AuditedWrite::Key(key)] {
        assert_eq!(store.write_audited(write, audit_entry()).await.unwrap(), Write::Superseded);
    }
    let due = DueSchedule { applied: applied(), at: NOON };
    assert_eq!(store.reschedule(&due, Some(FAR_AHEAD)).await.unwrap(), Write::Superseded);
    assert_newer(&store.apply(AppliedWorkflow { version: 2, ..applied() }, None).await);

    assert_newer(&store.tenant(&tenant()).await);
    assert_newer(&store.settings_eventual(&tenant()).await);
    assert_newer(&store.fleet().await);
    assert_newer(&store.key(&tenant(), &api_key().id).await);
    assert_newer(&store.keys(&tenant(), PageQuery::first(2)).await);
    assert_newer(&store.applied(&tenant()).await);
    assert_eq!(store.due_schedules(FAR_AHEAD, 10).await.unwrap(), [], "the newer program starts it");

    let engine = testkit::engine().clock(TestClock::at(NOON)).on(store.clone());
    let tenant_handle = engine.tenant_handle(&tenant(), &initiator());
    let refused = [
        tenant_handle.stop_dispatch("fire").await.map(drop),
        engine.operations().stop_dispatch(&DispatchScope::All, &initiator(), "fire").await.map(drop),
        tenant_handle.tenant().await.map(drop),
    ];
    for (number, refused) in refused.into_iter().enumerate() {
        assert!(matches!(refused, Err(EngineError::UnsupportedRecordFormat { .. })), "{number}: {refused:?}");
    }
    assert_eq!(items(&table.client, &table.name).await, before);
}

async fn newer_log_and_card_are_neither_read_nor_replaced(table: Table) {
    let (store, id) = (&table.store, approval().id);
    assert_eq!(store.put_card(&tenant(), &id, card(1), None).await.unwrap(), Write::Committed);
    store.append_log(&run(), merkle::leaf(b"head")).await.unwrap();
    raise_formats(&table, &["card", "log_head"]).await;
    let before = items(&table.client, &table.name).await;

    assert_newer(&store.card(&tenant(), &id).await);
    assert_newer(&store.put_card(&tenant(), &id, card(2), Some(card(1))).await);
    let other = RunKey { tenant: tenant(), run: RunId::new("another").unwrap() };
    assert_newer(&store.append_log(&other, merkle::leaf(b"other")).await);
    assert_eq!(items(&table.client, &table.name).await, before);
}

/// The receipt has been replaced since this program read it. The record of the run has not.
async fn newer_receipt_is_not_replaced(table: Table) {
    commit_until(&table.store, Until::Claimed).await;
    raise_formats(&table, &["receipt"]).await;
    let before = items(&table.client, &table.name).await;
    assert_eq!(table.store.commit(decision(Until::Finished)).await.unwrap(), Write::Superseded);
    assert_newer(&table.store.receipt(&tenant(), &effect()).await);
    assert_eq!(items(&table.client, &table.name).await, before);
}

async fn newer_approval_is_not_replaced(table: Table) {
    commit_until(&table.store, Until::ApprovalRequested).await;
    raise_formats(&table, &["approval"]).await;
    let before = items(&table.client, &table.name).await;
    assert_eq!(table.store.commit(decision(Until::Approved)).await.unwrap(), Write::Superseded);
    assert_newer(&table.store.approval(&tenant(), &approval().id).await);
    assert_eq!(items(&table.client, &table.name).await, before);
}

fn assert_newer<T: std::fmt::Debug>(answer: &Result<T, StoreError>) {
    let expected = NewerFormat { format: RECORD_FORMAT + 1 };
    let is_newer = |error: &StoreError| match error {
        StoreError::Broken { source, .. } => source.downcast_ref() == Some(&expected),
        StoreError::Busy { .. } | StoreError::Unknown { .. } => false,
    };
    assert!(answer.as_ref().is_err_and(is_newer), "{answer:?}");
}

/// Raises the format of the items with these sort keys, which all have one.
async fn raise_formats(table: &Table, sort_keys: &[&str]) {
    let found = table.client.scan().table_name(&table.name).send().await.unwrap().items.unwrap_or_default();
    let sort_key = |item: &HashMap<String, AttributeValue>| item["sk"].as_s().unwrap().clone();
    let mut raised = BTreeSet::new();
    for mut item in found.into_iter().filter(|item| sort_keys.contains(&sort_key(item).as_str())) {
        raised.insert(sort_key(&item));
        let format = AttributeValue::N((RECORD_FORMAT + 1).to_string());
        let before = item.insert("fmt".to_owned(), format);
        assert_eq!(before, Some(AttributeValue::N(RECORD_FORMAT.to_string())), "{item:?}");
        table.client.put_item().table_name(&table.name).set_item(Some(item)).send().await.unwrap();
    }
    assert_eq!(raised, sort_keys.iter().map(|&key| key.to_owned()).collect());
}
