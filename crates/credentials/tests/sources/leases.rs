//! Dynamic secrets and tokens: lease, renewal, revocation, expiry.

use std::time::Duration;

use credentials::SecretSource as _;
use domain::Millis;
use fakes::server::FakeFault;
use fakes::vault::LeaseEnd;

use crate::kit::{DATABASE, KV, exposed, fetch, outage, pass, refusal, role, value, vault, vault_with};

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

#[tokio::test]
async fn dynamic_secret_is_revoked_on_release() {
    let (vault, source) = vault().await;
    for reference in [DATABASE, "vault://aws/creds/deploy#secret_key"] {
        let fetched = fetch(&source, reference).await.unwrap();
        assert!(exposed(&fetched).starts_with("dynamic-secret-"));
        let (id, end) = vault.leases().pop().unwrap();
        assert_eq!((fetched.lease.as_ref().unwrap().id.as_str(), end), (id.as_str(), None));
        assert!(fetched.id.contains("?version=lease0"), "{}", fetched.id);
        source.release(fetched).await.unwrap();
        assert_eq!(vault.leases().pop().unwrap(), (id, Some(LeaseEnd::Revoked)));
    }
    assert_eq!(vault.logins_seen(), 1);
}

#[tokio::test]
async fn release_of_a_stored_secret_sends_nothing() {
    let (vault, source) = vault().await;
    let fetched = fetch(&source, KV).await.unwrap();
    let before = vault.requests().len();
    source.release(fetched).await.unwrap();
    assert_eq!(vault.requests().len(), before);
}

#[tokio::test]
async fn dynamic_secret_without_a_field_is_whole() {
    let (_vault, source) = vault().await;
    let whole = value(&source, "vault://aws/creds/deploy").await;
    let fields: serde_json::Value = serde_json::from_str(&whole).unwrap();
    assert!(fields["access_key"].as_str().unwrap().starts_with("AKIA"));
    assert!(fields["security_token"].is_null());
}

#[tokio::test]
async fn unusable_dynamic_secret_is_revoked_at_once() {
    let (vault, source) = vault().await;
    let why = refusal(fetch(&source, "vault://database/creds/writer#secret").await);
    assert_eq!(why, "it has no such field");
    assert_eq!(vault.leases()[0].1, Some(LeaseEnd::Revoked));
}

#[tokio::test]
async fn lifetime_ends_with_the_lease_or_the_token() {
    let (_vault, source) = vault().await;
    let lifetime = |fetched: credentials::FetchedSecret| fetched.lifetime;
    assert_eq!(lifetime(fetch(&source, DATABASE).await.unwrap()), Millis::secs(60));
    let long = "vault://aws/creds/deploy#secret_key";
    assert_eq!(lifetime(fetch(&source, long).await.unwrap()), Millis::mins(5));
    let (_vault, source) = vault_with(role().living(secs(40), secs(40))).await;
    assert!(lifetime(fetch(&source, DATABASE).await.unwrap()) <= Millis::secs(40));
}

#[tokio::test]
async fn token_is_renewed_before_it_expires() {
    let (vault, source) = vault_with(role().living(secs(600), secs(3_600))).await;
    for _ in 0..4 {
        assert_eq!(value(&source, KV).await, "hunter2");
        pass(&vault, 400).await;
    }
    let renewals = vault.requests().iter().filter(|request| request.path.ends_with("renew-self")).count();
    assert_eq!((vault.logins_seen(), renewals), (1, 3));
}

#[tokio::test]
async fn token_at_its_maximum_age_is_replaced() {
    let (vault, source) = vault_with(role().living(secs(600), secs(900))).await;
    value(&source, KV).await;
    for _ in 0..4 {
        pass(&vault, 400).await;
        assert_eq!(value(&source, KV).await, "hunter2");
    }
    assert_eq!(vault.logins_seen(), 3);
    assert!(vault.requests().iter().all(|request| !request.path.ends_with("lookup-self")), "no 403 occurred");
}

#[tokio::test]
async fn expired_token_is_replaced_by_a_new_login() {
    let (vault, source) = vault().await;
    value(&source, KV).await;
    pass(&vault, 2 * 3_600).await;
    assert_eq!(value(&source, KV).await, "hunter2");
    assert_eq!(vault.logins_seen(), 2);
}

/// Vault ends the secrets of a token with the token. The step that still holds one can release it without an error, and
/// the next step gets a secret of a new token.
#[tokio::test]
async fn vault_token_expires_mid_step() {
    let (vault, source) = vault_with(role().living(secs(30), secs(30))).await;
    let held = fetch(&source, DATABASE).await.unwrap();
    assert!(held.lifetime <= Millis::secs(30), "the step knows that its secret ends with the token");
    pass(&vault, 31).await;
    assert_eq!(vault.leases()[0].1, Some(LeaseEnd::WithToken));
    source.release(held).await.unwrap();
    let next = fetch(&source, DATABASE).await.unwrap();
    assert_eq!(vault.leases()[1].1, None);
    source.release(next).await.unwrap();
    assert_eq!(vault.leases()[1].1, Some(LeaseEnd::Revoked));
    assert_eq!(vault.logins_seen(), 2);
}

/// The client trusts the clock of the token, but Vault has revoked it.
#[tokio::test]
async fn revoked_token_is_replaced_within_the_fetch() {
    let (vault, source) = vault().await;
    value(&source, KV).await;
    vault.revoke_all_tokens();
    assert_eq!(value(&source, KV).await, "hunter2");
    assert_eq!(vault.logins_seen(), 2);
}

#[tokio::test]
async fn outage_of_the_login_does_not_end_the_token() {
    let (vault, source) = vault_with(role().living(secs(600), secs(3_600))).await;
    value(&source, KV).await;
    pass(&vault, 400).await;
    vault.faults().on_write(FakeFault::Status(500));
    vault.faults().on_write(FakeFault::Status(500));
    assert_eq!(value(&source, KV).await, "hunter2");
    assert_eq!(vault.logins_seen(), 1);
}

/// The step is not held up for longer than the limit, and Vault ends the lease on its own.
#[tokio::test]
async fn vault_revoke_times_out() {
    let (vault, source) = vault().await;
    let fetched = fetch(&source, DATABASE).await.unwrap();
    vault.faults().on_write(FakeFault::Slow(secs(3_600)));
    // Time jumps to the next timer when every task waits, so the test does not.
    tokio::time::pause();
    let started = tokio::time::Instant::now();
    let error = source.release(fetched).await.unwrap_err();
    assert!(started.elapsed() <= secs(11), "{:?}", started.elapsed());
    tokio::time::resume();
    assert!(matches!(error, credentials::SecretError::Unavailable { .. }));
    assert!(error.to_string().contains("did not answer within 10 s"), "{error}");
    assert_eq!(vault.leases()[0].1, None);
    vault.advance(secs(60));
    assert_eq!(vault.leases()[0].1, Some(LeaseEnd::Expired));
}

#[tokio::test]
async fn revocation_without_permission_names_the_policy() {
    let reading = fakes::vault::TokenRole { policy: vec![("read", "database/creds/*".to_owned())], ..role() };
    let (_vault, source) = vault_with(reading).await;
    let fetched = fetch(&source, DATABASE).await.unwrap();
    let error = source.release(fetched).await.unwrap_err().to_string();
    assert!(error.contains("allow `update` on sys/leases/revoke"), "{error}");
}

#[tokio::test]
async fn fetch_whose_reply_is_lost_is_retryable() {
    let (vault, source) = vault().await;
    value(&source, KV).await;
    vault.faults().on_read(FakeFault::LostReply);
    assert!(outage(fetch(&source, DATABASE).await).contains("cut"));
    assert_eq!(vault.leases()[0].1, None, "the unknown lease ends by itself");
}
