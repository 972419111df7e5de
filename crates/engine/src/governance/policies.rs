//! Policies: the current one of a tenant, and applying another.
//!
//! A policy is checked, tested and stored before the tenant's settings refer to it, so every applied policy can be
//! evaluated.

use domain::audit::AdminChange;
use domain::failure::bounded;
use domain::tenant::ChangeStamp;
use domain::{Digest, Tenant};
use policy::{PolicyBundle, TestReport, TestResult};
use store::{AuditedWrite, PolicyFiles, Store, StoreError, Write};

use crate::core::bundles::TenantBundle;
use crate::core::commit::ROUNDS_MAX;
use crate::error::EngineError;
use crate::tenant_handle::TenantHandle;

/// How many failed tests an error names.
const FAILURES_SHOWN: usize = 16;

/// How long the text of one failed test may be.
const FAILURE_CHARS_MAX: usize = 200;

/// A tenant and its current policy.
#[derive(Debug, Clone)]
pub struct TenantPolicy {
    pub tenant: Tenant,
    pub bundle: TenantBundle,
}

impl TenantPolicy {
    pub fn hash(&self) -> Digest {
        self.bundle.hash()
    }
}

/// A policy was applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyApplied {
    /// The previous policy; absent if it was the shipped one.
    pub before: Option<Digest>,
    pub now: Digest,
    /// The revision of the tenant's settings.
    pub revision: u32,
}

impl<S: Store> TenantHandle<S> {
    /// The tenant and its current policy.
    pub async fn policy(&self) -> Result<TenantPolicy, EngineError> {
        let tenant = self.tenant().await?;
        let bundle = self.core.bundle(&tenant, &self.core.policy_pool).await?;
        Ok(TenantPolicy { tenant, bundle })
    }

    /// Applies a policy if it is valid and its tests pass; otherwise nothing changes. Applying it again has no
    /// effect.
    pub async fn apply_policy(&self, files: PolicyFiles) -> Result<PolicyApplied, EngineError> {
        let bundle = self
            .core
            .policy_pool
            .run(&self.tenant, move |should_stop| parse_and_test(files, should_stop))
            .await??;
        let hash = bundle.hash();
        // Stored before the settings refer to it.
        self.core.retry_busy(|store| store.put_policy(&self.tenant, &hash, bundle.files().clone())).await?;
        let changed = ChangeStamp { by: self.by.clone(), at: self.now() };
        for _ in 0..ROUNDS_MAX {
            if let Some(applied) = self.set_policy(hash, &changed).await? {
                // This process evaluates reads under the new policy at once.
                self.core.dispatch_cache.clear();
                return Ok(applied);
            }
        }
        Err(StoreError::Busy { doing: "apply a policy" }.into())
    }

    /// Makes `now` the current policy, unless the settings are changed by another request.
    async fn set_policy(
        &self,
        now: Digest,
        changed: &ChangeStamp,
    ) -> Result<Option<PolicyApplied>, EngineError> {
        let current = self.tenant_settings().await?;
        let revision = current.as_ref().map_or(0, |current| current.revision.saturating_add(1));
        let current = current.unwrap_or_else(|| Tenant::new(self.tenant.clone()));
        let before = current.policy;
        if before == Some(now) {
            return Ok(Some(PolicyApplied { before, now, revision: current.revision }));
        }
        let (policy, policy_changed) = (Some(now), Some(changed.clone()));
        let after = Tenant { policy, policy_changed, revision, ..current };
        let change = AdminChange::PolicyApplied { before, after: now };
        let written = self.write_audited(AuditedWrite::Tenant(after), change).await?;
        Ok((written == Write::Committed).then_some(PolicyApplied { before, now, revision }))
    }
}

/// The policy in `files`, if its tests pass.
fn parse_and_test(files: PolicyFiles, should_stop: &dyn Fn() -> bool) -> Result<PolicyBundle, EngineError> {
    let bundle = PolicyBundle::parse(files).map_err(|error| EngineError::BadPolicy(Box::new(error)))?;
    let report = bundle.test_until(should_stop);
    if report.is_green() {
        Ok(bundle)
    } else {
        Err(EngineError::PolicyTestsFailed { why: failure_summary(&report) })
    }
}

fn failure_summary(report: &TestReport) -> String {
    if report.tests.is_empty() {
        return "the policy has no tests; write one for each rule, in a file that ends in `_test.rego`"
            .to_owned();
    }
    let describe = |test: &TestResult| {
        let why = bounded(test.failed.as_deref().unwrap_or_default(), FAILURE_CHARS_MAX);
        format!("{} ({}:{}): {why}", test.name(), test.location.file, test.location.line)
    };
    let failures: Vec<String> = report.failures().take(FAILURES_SHOWN).map(describe).collect();
    format!("{} of {} passed; {}", report.passed(), report.tests.len(), failures.join("; "))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use connectors::ToolRegistry;
    use domain::{Cause, Initiator, PersonId};
    use store::{Governance as _, SqliteOptions, SqliteStore, SystemClock};

    use super::*;
    use crate::{Engine, EngineParts, TenantUpdate, Timing};

    /// The tenant acme, on behalf of ada.
    fn acme() -> (Engine<SqliteStore>, TenantHandle<SqliteStore>) {
        let engine = Engine::new(EngineParts {
            store: Arc::new(SqliteStore::memory(SqliteOptions::default()).unwrap()),
            tools: ToolRegistry::default(),
            connections: crate::ConnectionParts::default(),
            clock: Arc::new(SystemClock),
            me: "w".parse().unwrap(),
            timing: Timing::default(),
            notifier: None,
            evidence_signer: None,
        });
        let acme = engine.tenant_handle(&"acme".parse().unwrap(), &ada());
        (engine, acme)
    }

    fn files(message: &str) -> PolicyFiles {
        let rules = format!(
            "package countersign\nallow contains {{\"rule\": \"all\", \"message\": \"{message}\"}}\n"
        );
        let tests =
            "package countersign_test\nimport data.countersign\ntest_all if count(countersign.allow) == 1\n";
        PolicyFiles::from([
            ("rules.rego".to_owned(), rules),
            ("rules_test.rego".to_owned(), tests.to_owned()),
        ])
    }

    fn ada() -> Initiator {
        Initiator::new(Cause::User, "ada")
    }

    #[tokio::test]
    async fn invalid_or_failing_policy_changes_nothing() {
        let (_, acme) = acme();
        let mut wrong = files("why not");
        wrong.insert(
            "more.rego".to_owned(),
            "package countersign\nallow contains 1 if input.action.tol\n".into(),
        );
        let refused = acme.apply_policy(wrong).await.unwrap_err();
        assert!(refused.to_string().starts_with("more.rego:2:"), "{refused}");
        let mut red = files("why not");
        red.insert("red_test.rego".to_owned(), "package red_test\ntest_red if 1 == 2\n".to_owned());
        let refused = acme.apply_policy(red).await.unwrap_err();
        assert!(refused.to_string().contains("test_red (red_test.rego:2)"), "{refused}");
        let mut bare = files("why not");
        bare.remove("rules_test.rego");
        let refused = acme.apply_policy(bare).await.unwrap_err();
        assert!(refused.to_string().contains("has no tests"), "{refused}");
        assert_eq!(acme.tenant_settings().await.unwrap(), None);
    }

    #[tokio::test]
    async fn reapplied_policy_keeps_who_applied_it_first() {
        let (engine, acme) = acme();
        let first = acme.apply_policy(files("one")).await.unwrap();
        assert_eq!((first.before, first.revision), (None, 0));
        let grace = Initiator::new(Cause::User, "grace");
        let as_grace = engine.tenant_handle(acme.tenant_id(), &grace);
        let again = as_grace.apply_policy(files("one")).await.unwrap();
        assert_eq!((again.before, again.revision), (Some(first.now), 0));
        let policy = acme.policy().await.unwrap();
        assert_eq!(policy.hash(), first.now);
        assert_eq!(policy.tenant.policy_changed.unwrap().by, ada());
        let other = as_grace.apply_policy(files("two")).await.unwrap();
        assert_eq!((other.before, other.revision), (Some(first.now), 1));
        assert_eq!(acme.tenant().await.unwrap().policy_changed.unwrap().by, grace);
    }

    #[tokio::test]
    async fn concurrent_settings_changes_lose_nothing() {
        let (engine, acme) = acme();
        engine.store().put_tenant(Tenant::new(acme.tenant_id().clone())).await.unwrap();
        let ada: PersonId = "ada".parse().unwrap();
        let people = std::collections::BTreeMap::from([(ada.clone(), domain::tenant::Person::default())]);
        let applying = (0..4).map(|n| {
            let acme = acme.clone();
            tokio::spawn(async move { acme.apply_policy(files(&format!("number {n}"))).await })
        });
        let applying: Vec<_> = applying.collect();
        let update = |seen| TenantUpdate {
            redact: Vec::new(),
            caps: domain::tenant::Caps::default(),
            people: people.clone(),
            groups: std::collections::BTreeMap::new(),
            seen: Some(seen),
        };
        loop {
            let seen = acme.tenant().await.unwrap().revision;
            match acme.update_tenant(update(seen)).await {
                Err(EngineError::TenantChanged { .. }) => {}
                updated => break drop(updated.unwrap()),
            }
        }
        for applied in applying {
            applied.await.unwrap().unwrap();
        }
        let tenant = acme.tenant().await.unwrap();
        assert!(tenant.people.contains_key(&ada) && tenant.policy.is_some(), "{tenant:?}");
        assert_eq!(tenant.revision, 5);
    }
}
