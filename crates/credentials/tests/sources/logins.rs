//! Logging in, with each method.

use std::sync::Arc;

use credentials::{AwsKeys, VaultContext, VaultSetupError, VaultSource};
use fakes::vault::{AwsIdentity, Vault};
use serde_json::{Value, json};

use crate::kit::{
    KV, ROLE_ID, SECRET_ID, approle, config, context, fetch, outage, pass, refusal, role, value, vault,
};

async fn with_secret() -> Vault {
    let vault = Vault::start().await.unwrap();
    vault.put("", "kv/servicenow", json!({ "password": "hunter2" }));
    vault
}

fn open(vault: &Vault, auth: &Value, context: VaultContext) -> VaultSource {
    VaultSource::open(config(&vault.url(), auth, &json!({})), context).unwrap()
}

fn keys(secret: &str) -> AwsKeys {
    AwsKeys {
        access_key_id: "AKIDEXAMPLE".to_owned(),
        secret_access_key: secret.into(),
        session_token: Some("session".into()),
    }
}

/// A Vault that knows the worker by its AWS identity.
async fn iam(server_id: Option<&str>) -> Vault {
    let vault = with_secret().await;
    let identity = AwsIdentity {
        access_key_id: "AKIDEXAMPLE".to_owned(),
        secret_access_key: "aws-secret".to_owned(),
        server_id: server_id.map(str::to_owned),
    };
    vault.add_aws_role("", "worker", identity, role());
    vault
}

#[tokio::test]
async fn aws_identity_logs_in() {
    let vault = iam(Some("vault.example")).await;
    for region in [Value::Null, json!("eu-central-1")] {
        let auth = json!({ "aws_iam": { "role": "worker", "server_id": "vault.example", "region": region } });
        let context = VaultContext { aws: Arc::new(keys("aws-secret")), ..context() };
        assert_eq!(value(&open(&vault, &auth, context), KV).await, "hunter2");
    }
    let requests = vault.requests();
    let text = format!("{:?}", requests.iter().map(|request| &request.body).collect::<Vec<_>>());
    assert!(!text.contains("aws-secret"), "the secret key is not sent");
}

#[tokio::test]
async fn other_aws_identity_or_server_is_refused() {
    let vault = iam(Some("vault.example")).await;
    for (secret, server_id) in
        [("other", json!("vault.example")), ("aws-secret", json!("vault.other")), ("aws-secret", Value::Null)]
    {
        let auth = json!({ "aws_iam": { "role": "worker", "server_id": server_id } });
        let context = VaultContext { aws: Arc::new(keys(secret)), ..context() };
        let why = refusal(fetch(&open(&vault, &auth, context), KV).await);
        assert!(why.contains("Vault refuses the login"), "{why}");
    }
}

#[tokio::test]
async fn process_without_aws_credentials_names_them() {
    let vault = iam(None).await;
    let auth = json!({ "aws_iam": { "role": "worker" } });
    let why = outage(fetch(&open(&vault, &auth, context()), KV).await);
    assert!(why.contains("this process has no AWS credentials"), "{why}");
}

#[tokio::test]
async fn kubernetes_token_is_read_at_each_login() {
    let vault = with_secret().await;
    let file = tempfile::NamedTempFile::new().unwrap();
    let auth = json!({ "kubernetes": { "role": "worker", "jwt_file": file.path() } });
    let source = open(&vault, &auth, context());
    for jwt in ["first", "second"] {
        vault.add_kubernetes_role("", "worker", jwt, role());
        vault.revoke_all_tokens();
        std::fs::write(file.path(), format!("{jwt}\n")).unwrap();
        assert_eq!(value(&source, KV).await, "hunter2");
    }
    let absent = json!({ "kubernetes": { "role": "worker", "jwt_file": "/nonexistent" } });
    let why = refusal(fetch(&open(&vault, &absent, context()), KV).await);
    assert!(why.contains("vault.auth.kubernetes.jwt_file cannot be read"), "{why}");
}

#[tokio::test]
async fn wrong_secret_id_is_refused_without_being_shown() {
    let (vault, source) = vault().await;
    vault.add_approle("", ROLE_ID, "another", role());
    let error = fetch(&source, KV).await.unwrap_err();
    assert!(error.to_string().contains("Vault refuses the login; check vault.auth"), "{error}");
    assert!(!format!("{error} {error:?}").contains(SECRET_ID));
    let absent = json!({ "approle": { "role_id": ROLE_ID, "secret_id": "env://ABSENT" } });
    let why = refusal(fetch(&open(&vault, &absent, context()), KV).await);
    assert!(why.contains("env://ABSENT") && why.contains("is not set"), "{why}");
}

#[tokio::test]
async fn login_at_another_mount_names_the_mount() {
    let (vault, _) = vault().await;
    let auth =
        json!({ "approle": { "role_id": ROLE_ID, "secret_id": "env://VAULT_SECRET_ID", "mount": "none" } });
    refusal(fetch(&open(&vault, &auth, context()), KV).await);
    assert_eq!(vault.requests().pop().unwrap().path, "auth/none/login");
}

/// The operator rotates the secret id and revokes the tokens. The worker finds the new one without a restart.
#[tokio::test]
async fn vault_403_after_rotation() {
    let vault = with_secret().await;
    let file = tempfile::NamedTempFile::new().unwrap();
    let auth = json!({ "approle": { "role_id": ROLE_ID, "secret_id": format!("file://{}", file.path().display()) } });
    let source = open(&vault, &auth, context());
    for secret_id in ["first", "second"] {
        vault.add_approle("", ROLE_ID, secret_id, role());
        vault.revoke_all_tokens();
        std::fs::write(file.path(), secret_id).unwrap();
        assert_eq!(value(&source, KV).await, "hunter2");
    }
    assert_eq!(vault.logins_seen(), 2);
    // Rotated without the new one: a clear refusal, and no further use of the old token.
    vault.add_approle("", ROLE_ID, "third", role());
    vault.revoke_all_tokens();
    assert!(refusal(fetch(&source, KV).await).contains("Vault refuses the login"));
}

#[tokio::test]
async fn forbidden_path_is_refused_without_many_logins() {
    let (vault, source) = vault().await;
    for _ in 0..5 {
        let why = refusal(fetch(&source, "vault://secret/other#a").await);
        assert!(why.contains("Vault denies access"), "{why}");
    }
    assert_eq!(vault.logins_seen(), 1);
}

/// A role that has got another policy gives it to new tokens only.
#[tokio::test]
async fn policy_added_to_the_role_works_after_a_minute() {
    let (vault, source) = vault().await;
    vault.put("", "secret/other", json!({ "a": "b" }));
    refusal(fetch(&source, "vault://secret/other#a").await);
    vault.add_approle("", ROLE_ID, SECRET_ID, fakes::vault::TokenRole::reading(&["secret/data/*"]));
    pass(&vault, 61).await;
    assert_eq!(value(&source, "vault://secret/other#a").await, "b");
}

#[test]
fn unsafe_settings_are_refused() {
    let open = |address: &str, auth: &Value, other: &Value| {
        VaultSource::open(config(address, auth, other), context()).err().unwrap()
    };
    for address in ["http://vault.example", "https://user:pw@vault.example", "https://vault.example/?a=b"] {
        assert!(matches!(open(address, &approle(), &json!({})), VaultSetupError::Address), "{address}");
    }
    let own = json!({ "approle": { "role_id": "r", "secret_id": "vault://kv/a#b" } });
    assert!(matches!(open("https://v", &own, &json!({})), VaultSetupError::SecretId));
    let namespace = json!({ "tenants": { "acme": { "namespace": "a\r\nb" } } });
    assert!(matches!(open("https://v", &approle(), &namespace), VaultSetupError::Namespace(_)));
    let absent = json!({ "ca_file": "/nonexistent/ca.pem" });
    assert!(matches!(open("https://v", &approle(), &absent), VaultSetupError::CaFile { .. }));
    let no_pem = json!({ "ca_file": "/dev/null" });
    assert!(matches!(open("https://v", &approle(), &no_pem), VaultSetupError::Certificate(_)));
}
