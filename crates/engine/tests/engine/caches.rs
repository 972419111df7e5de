//! What a process keeps in memory, with the tenants of a large fleet.

use std::sync::Arc;
use std::time::Duration;

use domain::{RunKey, RunStatus};
use store::{Intercepted, PolicyFiles, SqliteStore};
use testkit::{CallCounts, Fault, Faults, SetRecord, TestEnv};

const TENANTS: usize = 1_000;

const SET: &str = "workflow: w\nversion: 1\nenvironment: dev\n\
                   steps: [{ id: a, tool: test.set, with: { to: '' } }]\n";

type CountedEnv = TestEnv<Intercepted<SqliteStore, Faults>>;

/// An engine whose store calls are counted.
fn counted_env() -> (CountedEnv, CallCounts) {
    let calls = CallCounts::default();
    let faults = calls.faults(|call| match call.name {
        // As long as a request to DynamoDB, so that other jobs ask meanwhile.
        "governance.settings_eventual" => Fault::Delay(Duration::from_millis(10)),
        _ => Fault::None,
    });
    (testkit::engine().standard_tools().tool(SetRecord(Arc::default())).env_with(faults), calls)
}

async fn start(env: &CountedEnv, tenant: usize, source: &str, key: &str) -> RunKey {
    env.start_for(&format!("t{tenant}"), source, key).await
}

/// Gives each tenant a policy of its own.
async fn set_policies(env: &CountedEnv) {
    for number in 0..TENANTS {
        let rule = format!(
            "package countersign\nallow contains {{\"rule\": \"all\", \"message\": \"tenant {number}\"}}\n"
        );
        let files = PolicyFiles::from([("rules.rego".to_owned(), rule)]);
        env.put_policy_of(&format!("t{number}"), files).await;
    }
}

#[tokio::test]
async fn caches_hold_the_plans_and_policies_of_a_fleet() {
    let (env, calls) = counted_env();
    set_policies(&env).await;
    for round in ["1", "2"] {
        let mut runs = Vec::new();
        for number in 0..TENANTS {
            runs.push(start(&env, number, SET, round).await);
        }
        for run in &runs {
            assert_eq!(env.advance(run).await, RunStatus::Succeeded);
        }
    }
    assert_eq!(calls.of("ledger.plan"), 0);
    assert_eq!(calls.of("governance.policy"), TENANTS, "each policy is read and parsed once");
}

#[tokio::test(start_paused = true)]
async fn fleet_switch_is_read_once_for_all_tenants() {
    let (env, calls) = counted_env();
    for second in 1..=3 {
        for number in 0..100 {
            let run = start(&env, number, testkit::TRANSFORM, &second.to_string()).await;
            assert_eq!(env.advance(&run).await, RunStatus::Succeeded);
        }
        assert_eq!(calls.of("governance.settings_eventual"), second, "the item of the fleet");
        assert_eq!(calls.of("governance.tenant_eventual"), second * 99);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// The answer expires while jobs of many tenants are in progress.
#[tokio::test]
async fn concurrent_jobs_read_the_fleet_switch_once() {
    let (env, calls) = counted_env();
    let runs: Vec<_> = futures_util::future::join_all((0..16).map(|number| {
        let env = &env;
        async move { start(env, number, testkit::TRANSFORM, "1").await }
    }))
    .await;
    let advanced = runs.iter().map(|run| env.advance(run));
    assert!(
        futures_util::future::join_all(advanced).await.iter().all(|status| *status == RunStatus::Succeeded)
    );
    assert_eq!(calls.of("governance.settings_eventual"), 1, "the item of the fleet");
}
