//! A program opens the store from its environment. The test runs itself again as that program.

use std::process::Command;
use std::time::Duration;

use countersign_store::aws::{AwsSettings, configure, create_queues, open, sqs};
use countersign_store::{Blobs as _, Ledger as _, Queue as _};
use domain::{Job, Millis, Outgoing, QueueName, RunId, RunKey, TenantId};

use crate::EnvCase;
use crate::env::StackEnv;

/// Passes the environment name to the child process.
pub(crate) const ACCOUNT: &str = "COUNTERSIGN_STACK_ACCOUNT";

pub(crate) fn cases() -> Vec<(&'static str, EnvCase)> {
    vec![("store_opens_from_the_environment", |env| {
        Box::pin(async move { store_opens_from_the_environment(&env) })
    })]
}

fn store_opens_from_the_environment(env: &StackEnv) {
    let output = Command::new(std::env::current_exe().unwrap())
        .env(ACCOUNT, env.name())
        .env("AWS_ENDPOINT_URL", env.endpoint())
        .env("AWS_REGION", "us-east-1")
        .env("AWS_ACCESS_KEY_ID", "local")
        .env("AWS_SECRET_ACCESS_KEY", "local")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The child process: one call to each of the three services.
pub(crate) async fn child(env: &str) {
    let queues = create_queues(&sqs(&configure(None).await), env).await.unwrap();
    let store = open(AwsSettings {
        table: env.to_owned(),
        queues,
        payloads: format!("{env}-payloads"),
        evidence: format!("{env}-evidence"),
        retain: None,
    })
    .await;
    let tenant = TenantId::new("acme").unwrap();
    let run = RunKey { tenant: tenant.clone(), run: RunId::new("run").unwrap() };
    assert_eq!(store.load(&run).await.unwrap(), None);

    assert_eq!(store.put_bundle(&tenant, "run", b"proof".to_vec()).await.unwrap(), None);
    assert_eq!(store.bundle(&tenant, "run").await.unwrap(), Some(b"proof".to_vec()));

    // Long polling takes longer than the timeout of other requests.
    let wait = Duration::from_secs(3);
    assert_eq!(store.receive(QueueName::Steps, 10, Millis::secs(60), wait).await.unwrap(), []);
    let message = Outgoing { run, queue: QueueName::Steps, job: Job::Advance, delay: Millis(0) };
    store.send(&message).await.unwrap();
    assert_eq!(store.receive(QueueName::Steps, 10, Millis::secs(60), wait).await.unwrap().len(), 1);
}
