//! What a process keeps in memory, with the tenants of a large fleet.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use countersign_engine::{Engine, StartRun};
use domain::{RunKey, RunStatus, Tenant};
use store::{Governance as _, Intercepted, PolicyFiles, SqliteStore};
use testkit::{Fault, Faults, SetRecord};

const TENANTS: usize = 1_000;

const SET: &str = "workflow: w\nversion: 1\nenvironment: dev\n\
                   steps: [{ id: a, tool: test.set, with: { to: '' } }]\n";

/// An engine whose store calls are counted by name.
struct TestEnv {
    engine: Engine<Intercepted<SqliteStore, Faults>>,
    calls: Arc<Mutex<BTreeMap<&'static str, usize>>>,
}

impl TestEnv {
    fn new() -> Self {
        let calls = Arc::<Mutex<BTreeMap<_, usize>>>::default();
        let counted = Arc::clone(&calls);
        let faults = Faults::new(move |call| {
            *counted.lock().unwrap().entry(call.name).or_default() += 1;
            match call.name {
                // As long as a request to DynamoDB, so that other jobs ask meanwhile.
                "governance.settings_eventual" => Fault::Delay(Duration::from_millis(10)),
                _ => Fault::None,
            }
        });
        let builder = testkit::engine().standard_tools().tool(SetRecord(Arc::default()));
        let store = Intercepted::new(builder.memory(), faults);
        Self { engine: builder.on(store), calls }
    }

    fn count(&self, call: &str) -> usize {
        self.calls.lock().unwrap().get(call).copied().unwrap_or_default()
    }

    async fn start(&self, tenant: usize, source: &str, key: &str) -> RunKey {
        let tenant = format!("t{tenant}").parse().unwrap();
        let request = StartRun { tenant, ..testkit::request(&self.engine, source, key) };
        Box::pin(self.engine.admission().start(request)).await.unwrap().run
    }

    /// Gives each tenant a policy of its own.
    async fn set_policies(&self) {
        for number in 0..TENANTS {
            let rule = format!(
                "package countersign\nallow contains {{\"rule\": \"all\", \"message\": \"tenant {number}\"}}\n"
            );
            let files = PolicyFiles::from([("rules.rego".to_owned(), rule)]);
            let bundle = policy::PolicyBundle::parse(files.clone()).unwrap();
            let mut tenant = Tenant::new(format!("t{number}").parse().unwrap());
            tenant.policy = Some(bundle.hash());
            self.engine.store().put_policy(&tenant.tenant, &bundle.hash(), files).await.unwrap();
            self.engine.store().put_tenant(tenant).await.unwrap();
        }
    }
}

#[tokio::test]
async fn caches_hold_the_plans_and_policies_of_a_fleet() {
    let env = TestEnv::new();
    env.set_policies().await;
    for round in ["1", "2"] {
        let mut runs = Vec::new();
        for number in 0..TENANTS {
            runs.push(env.start(number, SET, round).await);
        }
        for run in &runs {
            assert_eq!(testkit::advance(&env.engine, run).await, RunStatus::Succeeded);
        }
    }
    assert_eq!(env.count("ledger.plan"), 0);
    assert_eq!(env.count("governance.policy"), TENANTS, "each policy is read and parsed once");
}

#[tokio::test(start_paused = true)]
async fn fleet_switch_is_read_once_for_all_tenants() {
    let env = TestEnv::new();
    for second in 1..=3 {
        for number in 0..100 {
            let run = env.start(number, testkit::TRANSFORM, &second.to_string()).await;
            assert_eq!(testkit::advance(&env.engine, &run).await, RunStatus::Succeeded);
        }
        assert_eq!(env.count("governance.settings_eventual"), second, "the item of the fleet");
        assert_eq!(env.count("governance.tenant_eventual"), second * 99);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// The answer expires while jobs of many tenants are in progress.
#[tokio::test]
async fn concurrent_jobs_read_the_fleet_switch_once() {
    let env = TestEnv::new();
    let runs: Vec<_> = futures_util::future::join_all((0..16).map(|number| {
        let env = &env;
        async move { env.start(number, testkit::TRANSFORM, "1").await }
    }))
    .await;
    let advanced = runs.iter().map(|run| testkit::advance(&env.engine, run));
    assert!(
        futures_util::future::join_all(advanced).await.iter().all(|status| *status == RunStatus::Succeeded)
    );
    assert_eq!(env.count("governance.settings_eventual"), 1, "the item of the fleet");
}
