//! Reading secrets.

use std::collections::BTreeSet;

use credentials::{SecretSource as _, VaultSource};
use domain::Millis;
use fakes::vault::{TokenRole, Vault};
use futures_util::future::join_all;
use serde_json::json;

use crate::kit::{
    DATABASE, KV, ROLE_ID, SECRET_ID, approle, config, context, exposed, fetch, outage, refusal, value, vault,
};

#[tokio::test]
async fn kv_secret_has_its_version_in_the_id() {
    let (_vault, source) = vault().await;
    let fetched = fetch(&source, KV).await.unwrap();
    assert_eq!(exposed(&fetched), "hunter2");
    assert_eq!(fetched.id, "vault://kv/servicenow?version=1#password");
    assert_eq!((fetched.version.as_deref(), fetched.lifetime), (Some("1"), Millis::mins(5)));
    assert_eq!(fetched.lease, None);
    assert!(!format!("{fetched:?}").contains("hunter2"));
    assert_eq!(value(&source, "vault://kv/servicenow").await, r#"{"password":"hunter2","user":"svc"}"#);
}

#[tokio::test]
async fn rotated_value_is_seen_at_the_next_fetch() {
    let (vault, source) = vault().await;
    assert_eq!(value(&source, KV).await, "hunter2");
    vault.put("", "kv/servicenow", json!({ "password": "rotated" }));
    let fetched = fetch(&source, KV).await.unwrap();
    assert_eq!((exposed(&fetched).as_str(), fetched.version.as_deref()), ("rotated", Some("2")));
}

#[tokio::test]
async fn missing_or_deleted_secret_is_refused() {
    let (vault, source) = vault().await;
    assert!(refusal(fetch(&source, "vault://kv/other#a").await).contains("no secret at this path"));
    assert!(refusal(fetch(&source, "vault://kv/servicenow#pass").await).contains("no such field"));
    vault.delete("", "kv/servicenow");
    assert!(refusal(fetch(&source, KV).await).contains("deleted"));
    assert!(refusal(fetch(&source, "vault://database/creds/reader#a").await).contains("check the path"));
}

#[tokio::test]
async fn concurrent_fetches_log_in_once() {
    let (vault, source) = vault().await;
    let fetched = join_all((0..20).map(|_| fetch(&source, KV))).await;
    assert!(fetched.iter().all(Result::is_ok));
    assert_eq!(vault.logins_seen(), 1);
}

#[tokio::test]
async fn concurrent_fetches_share_a_failed_login() {
    let (vault, source) = vault().await;
    vault.seal();
    for failed in join_all((0..20).map(|_| fetch(&source, KV))).await {
        assert!(outage(failed).contains("sealed"));
    }
    assert_eq!(vault.logins_seen(), 1);
}

/// Two tenants, each with a namespace and an `AppRole` of its own, and the same path in both.
async fn two_tenants() -> (Vault, VaultSource) {
    let vault = Vault::start().await.unwrap();
    for (namespace, password) in [("acme/", "of acme"), ("globex/", "of globex")] {
        vault.add_namespace(namespace);
        vault.add_approle(namespace, ROLE_ID, SECRET_ID, TokenRole::reading(&["kv/data/*", "database/*"]));
        vault.put(namespace, "kv/servicenow", json!({ "password": password }));
        vault.add_dynamic_role(namespace, "database/creds/writer", std::time::Duration::from_mins(1));
    }
    let tenants = json!({ "tenants": {
        "acme": { "namespace": "acme" },
        "globex": { "namespace": "globex/", "auth": approle() },
    }});
    let source = VaultSource::open(config(&vault.url(), &approle(), &tenants), context()).unwrap();
    (vault, source)
}

#[tokio::test]
async fn two_namespaces_never_see_each_other() {
    let (vault, source) = two_tenants().await;
    for (tenant, expected) in [("acme", "of acme"), ("globex", "of globex"), ("acme", "of acme")] {
        let fetched = source.fetch(&tenant.parse().unwrap(), &KV.parse().unwrap()).await.unwrap();
        assert_eq!(exposed(&fetched), expected);
    }
    let requests = vault.requests();
    let seen = |namespace| -> BTreeSet<_> {
        let of = requests.iter().filter(|request| request.namespace == namespace);
        of.filter_map(|request| request.token.clone()).collect()
    };
    let (acme, globex) = (seen("acme/"), seen("globex/"));
    assert_eq!((acme.len(), globex.len()), (1, 1));
    assert!(acme.is_disjoint(&globex), "a token is used in one namespace only");
    assert!(requests.iter().all(|request| !request.namespace.is_empty()));
}

#[tokio::test]
async fn lease_is_revoked_in_the_namespace_of_its_tenant() {
    let (vault, source) = two_tenants().await;
    for tenant in ["acme", "globex"] {
        let fetched = source.fetch(&tenant.parse().unwrap(), &DATABASE.parse().unwrap()).await.unwrap();
        source.release(fetched).await.unwrap();
        let last = vault.requests().pop().unwrap();
        assert_eq!((last.path.as_str(), last.namespace), ("sys/leases/revoke", format!("{tenant}/")));
    }
}

#[tokio::test]
async fn tenant_without_a_namespace_is_refused() {
    let (vault, source) = two_tenants().await;
    let (tenant, secret) = ("initech".parse().unwrap(), KV.parse().unwrap());
    let why = refusal(source.fetch(&tenant, &secret).await);
    assert!(why.contains("vault.tenants does not list the tenant initech"), "{why}");
    assert!(source.check(&tenant, &secret).is_err() && vault.requests().is_empty());
}

#[tokio::test]
async fn parent_login_serves_child_namespaces() {
    let vault = Vault::start().await.unwrap();
    vault.add_namespace("org/");
    vault.add_namespace("org/acme/");
    vault.add_approle("org/", ROLE_ID, SECRET_ID, TokenRole::reading(&["acme/kv/data/*"]));
    vault.put("org/acme/", "kv/servicenow", json!({ "password": "of acme" }));
    let other = json!({ "login_namespace": "org", "tenants": { "acme": { "namespace": "org/acme" } } });
    let source = VaultSource::open(config(&vault.url(), &approle(), &other), context()).unwrap();
    assert_eq!(value(&source, KV).await, "of acme");
    assert_eq!(vault.requests()[0].namespace, "org/");
}
