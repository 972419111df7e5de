//! What the store makes of a line that fails. The faults lie below the SDK, where the real ones do.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use aws_sdk_dynamodb::config::http::{HttpRequest, HttpResponse};
use aws_sdk_dynamodb::config::{HttpClient, RuntimeComponents, SharedHttpClient};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::http::StatusCode;
use countersign_store::aws::create_table;
use countersign_store::{Governance as _, Ledger as _, StoreError, Write};
use domain::Tenant;
use domain::command::{Cancel, Pause};

use crate::Own;
use crate::account::Account;
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
        (Fault::canceled("TransactionConflict"), "busy"),
        (Fault::canceled("ThrottlingError"), "busy"),
        (Fault::canceled("ProvisionedThroughputExceeded"), "busy"),
        (Fault::canceled("ConditionalCheckFailed"), "superseded"),
        (Fault::canceled("ValidationError"), "broken"),
        (Fault::answer(400, "ThrottlingException"), "busy"),
        (Fault::answer(400, "ProvisionedThroughputExceededException"), "busy"),
        (Fault::answer(400, "RequestLimitExceeded"), "busy"),
        (Fault::answer(400, "TransactionInProgressException"), "busy"),
        (Fault::answer(400, "IdempotentParameterMismatchException"), "superseded"),
        (Fault::answer(400, "AccessDeniedException"), "broken"),
        (Fault::answer(400, "ValidationException"), "broken"),
        (Fault::answer(500, "InternalServerError"), "unknown"),
        (Fault::answer(503, "ServiceUnavailable"), "unknown"),
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
    for fault in [Fault::LoseReply, Fault::LoseRequest, Fault::answer(500, "InternalServerError")] {
        let store = account.store_over(Line::with([fault]), 1);
        let error = store.load(&record.key).await.unwrap_err();
        assert!(matches!(error, StoreError::Busy { .. }), "{error:?}");
        assert_eq!(store.load(&record.key).await.unwrap().as_ref(), Some(&record));
    }
}

/// What happens to one request.
#[derive(Debug, Clone)]
enum Fault {
    /// It arrives, and its answer does not.
    LoseReply,
    /// It does not arrive.
    LoseRequest,
    /// It is answered with this, and nothing is done.
    Answer { status: u16, body: String },
}

impl Fault {
    fn answer(status: u16, code: &str) -> Self {
        Self::Answer { status, body: format!(r#"{{"__type":"com.amazonaws.dynamodb#{code}"}}"#) }
    }

    fn canceled(reason: &str) -> Self {
        let kind = "com.amazonaws.dynamodb#TransactionCanceledException";
        let reasons = format!(r#"[{{"Code":"None"}},{{"Code":"{reason}"}},{{"Code":"None"}}]"#);
        let body = format!(r#"{{"__type":"{kind}","CancellationReasons":{reasons}}}"#);
        // The run's own condition is the first; a failed one stands there.
        let body = if reason == "ConditionalCheckFailed" { body.replacen("None", reason, 1) } else { body };
        Self::Answer { status: 400, body }
    }
}

/// A line whose first requests fail in these ways.
#[derive(Debug, Clone)]
struct Line {
    inner: SharedHttpClient,
    faults: Arc<Mutex<VecDeque<Fault>>>,
}

impl Line {
    fn with(faults: impl IntoIterator<Item = Fault>) -> Self {
        let inner = aws_smithy_http_client::Builder::new().build_http();
        Self { inner, faults: Arc::new(Mutex::new(faults.into_iter().collect())) }
    }
}

impl HttpClient for Line {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        let inner = self.inner.http_connector(settings, components);
        SharedHttpConnector::new(Faulty { inner, faults: Arc::clone(&self.faults) })
    }
}

#[derive(Debug)]
struct Faulty {
    inner: SharedHttpConnector,
    faults: Arc<Mutex<VecDeque<Fault>>>,
}

impl HttpConnector for Faulty {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let fault = self.faults.lock().unwrap().pop_front();
        let inner = self.inner.clone();
        HttpConnectorFuture::new(async move {
            match fault {
                None => inner.call(request).await,
                Some(Fault::LoseReply) => {
                    inner.call(request).await?;
                    Err(ConnectorError::io("the line broke".into()))
                }
                Some(Fault::LoseRequest) => Err(ConnectorError::timeout("nobody answers".into())),
                Some(Fault::Answer { status, body }) => {
                    Ok(HttpResponse::new(StatusCode::try_from(status).unwrap(), body.into()))
                }
            }
        })
    }
}
