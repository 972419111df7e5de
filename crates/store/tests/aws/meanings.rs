//! What the store makes of single answers, and of a line that fails. The faults lie below the SDK, where the real ones do.

use countersign_store::aws::create_table;
use countersign_store::{Governance as _, Ledger as _, StoreError, Write};
use domain::Tenant;
use domain::command::{Cancel, Pause};

use crate::Own;
use crate::account::Account;
use crate::faults::line::{Fault, Line};
use crate::run::{begin, decide, tenant};

pub(crate) fn cases() -> Vec<(&'static str, Own)> {
    vec![
        ("a_reply_that_is_lost_after_the_write_landed_is_unknown_and_a_look_finds_it", |account| {
            Box::pin(a_reply_that_is_lost_after_the_write_landed_is_unknown_and_a_look_finds_it(account))
        }),
        ("a_write_that_is_sent_twice_for_a_lost_reply_is_one_write", |account| {
            Box::pin(a_write_that_is_sent_twice_for_a_lost_reply_is_one_write(account))
        }),
        ("a_write_without_a_name_whose_reply_is_lost_is_unknown_and_is_not_sent_again", |account| {
            Box::pin(a_write_without_a_name_whose_reply_is_lost_is_unknown_and_is_not_sent_again(account))
        }),
        ("the_same_write_to_two_tables_of_an_account_is_two_writes", |account| {
            Box::pin(the_same_write_to_two_tables_of_an_account_is_two_writes(account))
        }),
        ("every_fault_of_a_commit_has_its_meaning_and_leaves_nothing_behind", |account| {
            Box::pin(every_fault_of_a_commit_has_its_meaning_and_leaves_nothing_behind(account))
        }),
        ("a_read_that_fails_can_be_asked_again", |account| {
            Box::pin(a_read_that_fails_can_be_asked_again(account))
        }),
    ]
}

async fn a_reply_that_is_lost_after_the_write_landed_is_unknown_and_a_look_finds_it(account: Account) {
    let record = begin(&account.store(), "request").await;
    let decision = decide(record, Cancel { reason: "enough".to_owned() });
    let store = account.store_over(Line::with([Fault::LoseReply]), 1);

    let error = store.commit(decision.clone()).await.unwrap_err();

    assert!(matches!(error, StoreError::Unknown { .. }), "{error:?}");
    assert_eq!(store.load(&decision.record.key).await.unwrap(), Some(decision.record.clone()));
    assert_eq!(store.commit(decision).await.unwrap(), Write::Superseded);
}

async fn a_write_that_is_sent_twice_for_a_lost_reply_is_one_write(account: Account) {
    let record = begin(&account.store(), "request").await;
    let decision = decide(record, Cancel { reason: "enough".to_owned() });
    let store = account.store_over(Line::with([Fault::LoseReply]), 2);
    assert_eq!(store.commit(decision.clone()).await.unwrap(), Write::Committed);
    assert_eq!(store.load(&decision.record.key).await.unwrap(), Some(decision.record));
}

async fn a_write_without_a_name_whose_reply_is_lost_is_unknown_and_is_not_sent_again(account: Account) {
    let store = account.store_over(Line::with([Fault::LoseReply]), 3);
    let settled = Tenant::new(tenant());
    let error = store.put_tenant(settled.clone()).await.unwrap_err();
    assert!(matches!(error, StoreError::Unknown { .. }), "{error:?}");
    assert_eq!(store.tenant(&tenant()).await.unwrap(), Some(settled));
}

async fn the_same_write_to_two_tables_of_an_account_is_two_writes(account: Account) {
    let other = format!("{}-other", account.table);
    create_table(&account.client, &other).await.unwrap();
    for store in [account.store(), account.store_on(&other)] {
        let record = begin(&store, "request").await;
        let paused = decide(record, Pause { reason: "a look".to_owned() });
        assert_eq!(store.commit(paused).await.unwrap(), Write::Committed);
    }
}

async fn every_fault_of_a_commit_has_its_meaning_and_leaves_nothing_behind(account: Account) {
    let record = begin(&account.store(), "request").await;
    let decision = decide(record.clone(), Cancel { reason: "enough".to_owned() });
    for (fault, meaning) in [
        (canceled("TransactionConflict"), "busy"),
        (canceled("ThrottlingError"), "busy"),
        (canceled("ProvisionedThroughputExceeded"), "busy"),
        (canceled("ConditionalCheckFailed"), "superseded"),
        (canceled("ValidationError"), "broken"),
        (answer(400, "ThrottlingException"), "busy"),
        (answer(400, "ProvisionedThroughputExceededException"), "busy"),
        (answer(400, "RequestLimitExceeded"), "busy"),
        (answer(400, "TransactionInProgressException"), "unknown"),
        (answer(400, "IdempotentParameterMismatchException"), "superseded"),
        (answer(400, "AccessDeniedException"), "broken"),
        (answer(400, "ValidationException"), "broken"),
        (answer(500, "InternalServerError"), "unknown"),
        (answer(503, "ServiceUnavailable"), "unknown"),
        (Fault::LoseRequest, "unknown"),
    ] {
        let store = account.store_over(Line::with([fault.clone()]), 1);
        let means = match store.commit(decision.clone()).await {
            Ok(Write::Committed) => "committed",
            Ok(Write::Superseded) => "superseded",
            Err(StoreError::Busy { .. }) => "busy",
            Err(StoreError::Unknown { .. }) => "unknown",
            Err(StoreError::Broken { .. }) => "broken",
        };
        assert_eq!(means, meaning, "{fault:?}");
        assert_eq!(store.load(&record.key).await.unwrap().as_ref(), Some(&record), "{fault:?}");
    }
}

async fn a_read_that_fails_can_be_asked_again(account: Account) {
    let record = begin(&account.store(), "request").await;
    for fault in [Fault::LoseReply, Fault::LoseRequest, answer(500, "InternalServerError")] {
        let store = account.store_over(Line::with([fault]), 1);
        let error = store.load(&record.key).await.unwrap_err();
        assert!(matches!(error, StoreError::Busy { .. }), "{error:?}");
        assert_eq!(store.load(&record.key).await.unwrap().as_ref(), Some(&record));
    }
}

/// Answered by DynamoDB with `code`.
fn answer(status: u16, code: &str) -> Fault {
    Fault::Answer { status, body: format!(r#"{{"__type":"com.amazonaws.dynamodb#{code}"}}"#) }
}

/// A transaction of which one part could not be done.
fn canceled(reason: &str) -> Fault {
    let kind = "com.amazonaws.dynamodb#TransactionCanceledException";
    let reasons = format!(r#"[{{"Code":"None"}},{{"Code":"{reason}"}},{{"Code":"None"}}]"#);
    let body = format!(r#"{{"__type":"{kind}","CancellationReasons":{reasons}}}"#);
    // The run's own condition is the first; a failed one stands there.
    let body = if reason == "ConditionalCheckFailed" { body.replacen("None", reason, 1) } else { body };
    Fault::Answer { status: 400, body }
}
