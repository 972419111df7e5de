//! The classification of DynamoDB errors and connection faults, injected below the SDK.

use countersign_store::aws::create_table;
use countersign_store::{Governance as _, Ledger as _, StoreError, Write};
use domain::Tenant;
use domain::command::{Cancel, Pause};

use crate::EnvCase;
use crate::env::TableEnv;
use crate::faults::connection::{Fault, FaultyConnection};
use crate::run::{decide, start_run, tenant};

pub(crate) fn cases() -> Vec<(&'static str, EnvCase)> {
    vec![
        ("lost_reply_of_a_commit_is_unknown", |env| Box::pin(lost_reply_of_a_commit_is_unknown(env))),
        ("retried_commit_is_applied_once", |env| Box::pin(retried_commit_is_applied_once(env))),
        ("write_without_a_token_is_not_retried", |env| Box::pin(write_without_a_token_is_not_retried(env))),
        ("client_request_tokens_differ_between_tables", |env| {
            Box::pin(client_request_tokens_differ_between_tables(env))
        }),
        ("commit_faults_are_classified_and_write_nothing", |env| {
            Box::pin(commit_faults_are_classified_and_write_nothing(env))
        }),
        ("failed_read_can_be_retried", |env| Box::pin(failed_read_can_be_retried(env))),
    ]
}

async fn lost_reply_of_a_commit_is_unknown(env: TableEnv) {
    let record = start_run(&env.store(), "request").await;
    let decision = decide(record, Cancel { reason: "enough".to_owned() });
    let store = env.store_over(FaultyConnection::with([Fault::LoseReply]), 1);

    let error = store.commit(decision.clone()).await.unwrap_err();

    assert!(matches!(error, StoreError::Unknown { .. }), "{error:?}");
    assert_eq!(store.load(&decision.record.key).await.unwrap(), Some(decision.record.clone()));
    assert_eq!(store.commit(decision).await.unwrap(), Write::Superseded);
}

async fn retried_commit_is_applied_once(env: TableEnv) {
    let record = start_run(&env.store(), "request").await;
    let decision = decide(record, Cancel { reason: "enough".to_owned() });
    let store = env.store_over(FaultyConnection::with([Fault::LoseReply]), 2);
    assert_eq!(store.commit(decision.clone()).await.unwrap(), Write::Committed);
    assert_eq!(store.load(&decision.record.key).await.unwrap(), Some(decision.record));
}

async fn write_without_a_token_is_not_retried(env: TableEnv) {
    let store = env.store_over(FaultyConnection::with([Fault::LoseReply]), 3);
    let settings = Tenant::new(tenant());
    let error = store.put_tenant(settings.clone()).await.unwrap_err();
    assert!(matches!(error, StoreError::Unknown { .. }), "{error:?}");
    assert_eq!(store.tenant(&tenant()).await.unwrap(), Some(settings));
}

async fn client_request_tokens_differ_between_tables(env: TableEnv) {
    let other = format!("{}-other", env.table);
    create_table(&env.client, &other).await.unwrap();
    for store in [env.store(), env.store_on(&other)] {
        let record = start_run(&store, "request").await;
        let paused = decide(record, Pause { reason: "inspection".to_owned() });
        assert_eq!(store.commit(paused).await.unwrap(), Write::Committed);
    }
}

async fn commit_faults_are_classified_and_write_nothing(env: TableEnv) {
    let record = start_run(&env.store(), "request").await;
    let decision = decide(record.clone(), Cancel { reason: "enough".to_owned() });
    for (fault, expected) in [
        (canceled("TransactionConflict"), "busy"),
        (canceled("ThrottlingError"), "busy"),
        (canceled("ProvisionedThroughputExceeded"), "busy"),
        (canceled("ConditionalCheckFailed"), "superseded"),
        (canceled("ValidationError"), "broken"),
        (response(400, "ThrottlingException"), "busy"),
        (response(400, "ProvisionedThroughputExceededException"), "busy"),
        (response(400, "RequestLimitExceeded"), "busy"),
        (response(400, "TransactionInProgressException"), "unknown"),
        (response(400, "IdempotentParameterMismatchException"), "superseded"),
        (response(400, "AccessDeniedException"), "broken"),
        (response(400, "ValidationException"), "broken"),
        (response(500, "InternalServerError"), "unknown"),
        (response(503, "ServiceUnavailable"), "unknown"),
        (Fault::LoseRequest, "unknown"),
    ] {
        let store = env.store_over(FaultyConnection::with([fault.clone()]), 1);
        let class = match store.commit(decision.clone()).await {
            Ok(Write::Committed) => "committed",
            Ok(Write::Superseded) => "superseded",
            Err(StoreError::Busy { .. }) => "busy",
            Err(StoreError::Unknown { .. }) => "unknown",
            Err(StoreError::Broken { .. }) => "broken",
        };
        assert_eq!(class, expected, "{fault:?}");
        assert_eq!(store.load(&record.key).await.unwrap().as_ref(), Some(&record), "{fault:?}");
    }
}

async fn failed_read_can_be_retried(env: TableEnv) {
    let record = start_run(&env.store(), "request").await;
    for fault in [Fault::LoseReply, Fault::LoseRequest, response(500, "InternalServerError")] {
        let store = env.store_over(FaultyConnection::with([fault]), 1);
        let error = store.load(&record.key).await.unwrap_err();
        assert!(matches!(error, StoreError::Busy { .. }), "{error:?}");
        assert_eq!(store.load(&record.key).await.unwrap().as_ref(), Some(&record));
    }
}

/// A DynamoDB response with this error code.
fn response(status: u16, code: &str) -> Fault {
    Fault::Respond { status, body: format!(r#"{{"__type":"com.amazonaws.dynamodb#{code}"}}"#) }
}

/// A canceled transaction with one failed item.
fn canceled(reason: &str) -> Fault {
    let kind = "com.amazonaws.dynamodb#TransactionCanceledException";
    let reasons = format!(r#"[{{"Code":"None"}},{{"Code":"{reason}"}},{{"Code":"None"}}]"#);
    let body = format!(r#"{{"__type":"{kind}","CancellationReasons":{reasons}}}"#);
    // The condition of the run is the first one, so the failed condition must be there.
    let body = if reason == "ConditionalCheckFailed" { body.replacen("None", reason, 1) } else { body };
    Fault::Respond { status: 400, body }
}
