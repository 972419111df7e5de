//! A program reaches the store by its environment alone: this one, started again.

use std::process::Command;
use std::time::Duration;

use countersign_store::aws::{AwsSettings, configure, create_queues, open, sqs};
use countersign_store::{BlobKind, Blobs as _, Ledger as _, Queue as _};
use domain::{Job, Millis, Outgoing, QueueName, RunId, RunKey, TenantId};

use crate::Own;
use crate::account::Account;

/// Names the account to the program that is started again.
pub(crate) const ACCOUNT: &str = "COUNTERSIGN_STACK_ACCOUNT";

pub(crate) fn cases() -> Vec<(&'static str, Own)> {
    vec![("a_program_reaches_the_store_by_its_environment_alone", |account| {
        Box::pin(async move { a_program_reaches_the_store_by_its_environment_alone(&account) })
    })]
}

fn a_program_reaches_the_store_by_its_environment_alone(account: &Account) {
    let output = Command::new(std::env::current_exe().unwrap())
        .env(ACCOUNT, account.name())
        .env("AWS_ENDPOINT_URL", account.endpoint())
        .env("AWS_REGION", "us-east-1")
        .env("AWS_ACCESS_KEY_ID", "local")
        .env("AWS_SECRET_ACCESS_KEY", "local")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// What that program does: a word with each of the three services.
pub(crate) async fn speak(account: &str) {
    let queues = create_queues(&sqs(&configure(None).await), account).await.unwrap();
    let store = open(AwsSettings {
        table: account.to_owned(),
        queues,
        payloads: format!("{account}-payloads"),
        evidence: format!("{account}-evidence"),
        retain: None,
    })
    .await;
    let tenant = TenantId::new("acme").unwrap();
    let run = RunKey { tenant: tenant.clone(), run: RunId::new("run").unwrap() };
    assert_eq!(store.load(&run).await.unwrap(), None);

    let blob = store.put_blob(BlobKind::Evidence, &tenant, b"proof".to_vec()).await.unwrap();
    assert_eq!(store.blob(BlobKind::Evidence, &tenant, &blob).await.unwrap(), Some(b"proof".to_vec()));

    // Waiting for a message takes longer than any other request may.
    let wait = Duration::from_secs(3);
    assert_eq!(store.receive(QueueName::Steps, 10, Millis::secs(60), wait).await.unwrap(), []);
    let message = Outgoing { run, queue: QueueName::Steps, job: Job::Advance, delay: Millis(0) };
    store.send(&message).await.unwrap();
    assert_eq!(store.receive(QueueName::Steps, 10, Millis::secs(60), wait).await.unwrap().len(), 1);
}
