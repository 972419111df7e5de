//! Secrets Manager and Parameter Store.

use std::sync::Arc;

use credentials::{AwsKeys, AwsSecrets, AwsSecretsConfig, FetchedSecret, SecretError, SecretSource as _};
use domain::Millis;
use fakes::aws_secrets::{ACCESS_KEY_ID, FakeAwsSecrets, SECRET_ACCESS_KEY};
use fakes::server::FakeFault;

use crate::kit::{AT, exposed, outage, refusal};

async fn store() -> (FakeAwsSecrets, AwsSecrets) {
    let store = FakeAwsSecrets::start().await.unwrap();
    let source = source(&store, SECRET_ACCESS_KEY);
    (store, source)
}

fn source(store: &FakeAwsSecrets, secret_access_key: &str) -> AwsSecrets {
    let keys = AwsKeys {
        access_key_id: ACCESS_KEY_ID.to_owned(),
        secret_access_key: secret_access_key.into(),
        session_token: None,
    };
    let endpoint = Some(store.url().parse().unwrap());
    let config = AwsSecretsConfig { region: "eu-central-1".to_owned(), endpoint };
    AwsSecrets::new(config, Arc::new(keys), Arc::new(|| AT)).unwrap()
}

async fn fetch(source: &AwsSecrets, reference: &str) -> Result<FetchedSecret, SecretError> {
    source.fetch(&"acme".parse().unwrap(), &reference.parse().unwrap()).await
}

#[tokio::test]
async fn secret_has_its_version_in_the_id() {
    let (store, source) = store().await;
    store.put_secret("acme/sn", r#"{"password": "hunter2"}"#);
    let fetched = fetch(&source, "aws-sm://acme/sn#password").await.unwrap();
    assert_eq!(exposed(&fetched), "hunter2");
    let expected = "aws-sm://acme/sn?version=00000000-0000-4000-8000-000000000001#password";
    assert_eq!((fetched.id.as_str(), fetched.lease), (expected, None));
    assert_eq!(exposed(&fetch(&source, "aws-sm://acme/sn").await.unwrap()), r#"{"password": "hunter2"}"#);
}

#[tokio::test]
async fn rotated_secret_is_seen_and_the_previous_stage_kept() {
    let (store, source) = store().await;
    store.put_secret("sn", "first");
    store.put_secret("sn", "second");
    assert_eq!(exposed(&fetch(&source, "aws-sm://sn").await.unwrap()), "second");
    assert_eq!(exposed(&fetch(&source, "aws-sm://sn:AWSPREVIOUS").await.unwrap()), "first");
    assert!(
        refusal(fetch(&source, "aws-sm://sn:AWSPENDING").await).contains("no such secret or version stage")
    );
}

#[tokio::test]
async fn parameter_is_decrypted_and_versioned() {
    let (store, source) = store().await;
    store.put_parameter("/acme/token", "first");
    store.put_parameter("/acme/token", "second");
    store.put_parameter("token", "flat");
    let fetched = fetch(&source, "aws-ssm://acme/token").await.unwrap();
    assert_eq!(
        (exposed(&fetched).as_str(), fetched.id.as_str()),
        ("second", "aws-ssm://acme/token?version=2")
    );
    assert_eq!(exposed(&fetch(&source, "aws-ssm://acme/token:1").await.unwrap()), "first");
    assert_eq!(exposed(&fetch(&source, "aws-ssm://token").await.unwrap()), "flat");
    assert!(refusal(fetch(&source, "aws-ssm://acme/token:9").await).contains("no such version"));
    assert!(refusal(fetch(&source, "aws-ssm://acme/none").await).contains("no such parameter"));
}

#[tokio::test]
async fn known_codes_decide_whether_to_retry() {
    let (store, source) = store().await;
    for code in ["ThrottlingException", "com.amazonaws.ssm#InternalServerError", "ExpiredTokenException"] {
        store.fail_once(400, code);
        assert!(outage(fetch(&source, "aws-sm://sn").await).contains("AWS: "));
    }
    store.fail_once(500, "Unheard");
    assert!(outage(fetch(&source, "aws-sm://sn").await).contains("status 500"));
    store.fail_once(400, "AccessDeniedException");
    assert!(refusal(fetch(&source, "aws-sm://sn").await).contains("allow it in the IAM policy"));
    store.faults().on_write(FakeFault::RateLimited { retry_after: "3".to_owned() });
    let error = fetch(&source, "aws-sm://sn").await.unwrap_err();
    assert!(
        matches!(error, SecretError::Unavailable { retry_after: Some(after), .. } if after == Millis::secs(3))
    );
}

#[tokio::test]
async fn errors_contain_no_part_of_the_response() {
    let (store, source) = store().await;
    store.put_secret("sn", "hunter2");
    let mut errors = vec![fetch(&source, "aws-sm://sn#field").await.unwrap_err()];
    for code in ["hunter2", "AccessDeniedException", "ThrottlingException"] {
        store.fail_once(400, code);
        errors.push(fetch(&source, "aws-sm://sn").await.unwrap_err());
    }
    for error in errors {
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
    }
}

#[tokio::test]
async fn wrong_access_key_is_refused() {
    let (store, _) = store().await;
    store.put_secret("sn", "hunter2");
    let why = refusal(fetch(&source(&store, "another"), "aws-sm://sn").await);
    assert!(why.contains("AWS refuses the signature"), "{why}");
}
