//! Two tenants on one fleet, each with its own ServiceNow and its own namespace in Vault.

use std::process::Stdio;
use std::time::Duration;

use countersign_e2e::{DeployedEnv, TENANT, TIMEOUT, wait_until};
use domain::{RunKey, RunStatus, TenantId};
use engine::StartRun;
use fakes::servicenow::{INCIDENT, ServiceNow, USER};
use fakes::vault::{TokenRole, Vault};
use serde_json::json;
use store::Ledger as _;

const OTHER: &str = "globex";

/// The tenants run the same workflow with the same name of a connection, about the same record.
const CHANGE: &str = "
workflow: change
version: 1
environment: dev
steps:
  - id: assign
    tool: servicenow.update
    connection: sn
    with: { table: incident, sys_id: 9d385017c611228701d22104cc95c371, fields: { assignment_group: db-oncall } }
    blast_radius: low
";

/// A tenant whose password is known only to its own instance and its own namespace.
async fn instance(vault: &Vault, tenant: &str) -> ServiceNow {
    let servicenow = ServiceNow::start().await.unwrap();
    let (password, namespace) = (format!("the password of {tenant}"), format!("{tenant}/"));
    servicenow.set_password(&password);
    vault.add_namespace(&namespace);
    vault.put(&namespace, "kv/servicenow", json!({ "password": password }));
    let role = TokenRole::reading(&["kv/data/*"]).living(Duration::from_mins(10), Duration::from_hours(1));
    vault.add_approle(&namespace, &format!("role-{tenant}"), &format!("secret-{tenant}"), role);
    servicenow
}

fn configuration(vault: &Vault, instances: [(&str, &ServiceNow); 2]) -> String {
    let connections = instances.map(|(tenant, servicenow)| {
        format!(
            "  - {{ name: sn, tenant: {tenant}, kind: servicenow, base_url: '{}', environment: dev, credential: {{ type: \
             basic, user: {USER}, password: 'vault://kv/servicenow#password' }} }}\n",
            servicenow.url()
        )
    });
    let namespaces = instances.map(|(tenant, _)| {
        format!(
            "    {tenant}: {{ namespace: {tenant}/, auth: {{ approle: {{ role_id: role-{tenant}, secret_id: \
             'env://SECRET_ID_{tenant}' }} }} }}\n"
        )
    });
    format!(
        "connections:\n{}vault:\n  address: {}\n  auth: {{ kubernetes: {{ role: none }} }}\n  tenants:\n{}",
        connections.concat(),
        vault.url(),
        namespaces.concat()
    )
}

async fn start(env: &DeployedEnv, tenant: &str) -> RunKey {
    let engine = testkit::engine().standard_tools().me("e2e").on(env.store().await);
    let tenant: TenantId = tenant.parse().unwrap();
    let request = StartRun { tenant, ..testkit::request(&engine, CHANGE, "the-same-key") };
    Box::pin(engine.admission().start(request)).await.unwrap().run
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_tenants_share_a_fleet_and_nothing_else() {
    let env = DeployedEnv::open("tenants").await;
    let vault = Vault::start().await.unwrap();
    let (acme, globex) = (instance(&vault, TENANT).await, instance(&vault, OTHER).await);
    let config = configuration(&vault, [(TENANT, &acme), (OTHER, &globex)]);
    let variables = [("COUNTERSIGN_CONFIG", config.as_str())];
    let _workers = [env.worker_with(&variables, Stdio::null()), env.worker_with(&variables, Stdio::null())];
    let store = env.store().await;
    for (tenant, own, other, changes) in [(TENANT, &acme, &globex, 0), (OTHER, &globex, &acme, 1)] {
        let run = start(&env, tenant).await;
        let ended = wait_until("the run's end", TIMEOUT, async || {
            store.load(&run).await.unwrap().filter(|record| record.status.is_terminal())
        });
        let record = ended.await;
        let events = store.events(&run, 0, 100).await.unwrap();
        let events: Vec<_> = events.iter().map(|event| String::from_utf8_lossy(&event.canonical)).collect();
        assert_eq!(record.status, RunStatus::Succeeded, "{tenant}: {events:?}");
        assert_eq!((own.writes(INCIDENT), other.writes(INCIDENT)), (1, changes), "{tenant}");
    }
    assert_eq!((acme.refused(), globex.refused()), (0, 0), "an instance got the password of another tenant");
    let namespaces: Vec<String> = vault.requests().into_iter().map(|request| request.namespace).collect();
    for tenant in [TENANT, OTHER] {
        assert!(namespaces.contains(&format!("{tenant}/")), "{namespaces:?}");
    }
}
