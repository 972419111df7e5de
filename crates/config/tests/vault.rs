//! Runs whose connections name secrets in Vault: two tenants with a namespace each, and a worker that crashes.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use countersign_config::{ProcessContext, SystemsConfig};
use domain::{Cause, Initiator, Millis, RunKey, RunStatus, TenantId};
use engine::{ConnectionParts, Engine, StartRun, Timing};
use fakes::servicenow::{INCIDENT, ServiceNow, USER};
use fakes::vault::{LeaseEnd, TokenRole, Vault};
use serde_json::json;
use store::{Clock as _, SqliteStore, SystemClock};
use testkit::{HttpStub, StubReply};

/// Both tenants use the same workflow, the same names and the same record.
const WORKFLOW: &str = "
workflow: assign
version: 1
environment: dev
steps:
  - id: assign
    tool: servicenow.update
    connection: CONNECTION
    with: { table: incident, sys_id: 9d385017c611228701d22104cc95c371, fields: { assignment_group: db-oncall } }
";

/// What one tenant has.
struct Owned {
    tenant: TenantId,
    password: String,
    servicenow: ServiceNow,
}

impl Owned {
    async fn start(tenant: &str) -> Self {
        let servicenow = ServiceNow::start().await.unwrap();
        let password = format!("the password of {tenant}");
        servicenow.set_password(&password);
        Self { tenant: tenant.parse().unwrap(), password, servicenow }
    }

    fn writes(&self) -> u32 {
        self.servicenow.writes(INCIDENT)
    }
}

/// The connections of the operator's file: the same name for both tenants, and one that names the other's secret.
fn connections(owned: &Owned, other: &Owned) -> String {
    let entry = |name: &str, base_url: String, secret: &str| {
        format!(
            "  - {{ name: {name}, tenant: {}, kind: servicenow, base_url: '{base_url}', environment: dev, credential: {{ \
             type: basic, user: {USER}, password: 'vault://kv/{secret}/servicenow#password' }} }}\n",
            owned.tenant
        )
    };
    let own = entry("sn", owned.servicenow.url(), owned.tenant.as_str());
    own + &entry("stolen", other.servicenow.url(), other.tenant.as_str())
}

async fn vault(tenants: &[Owned]) -> Vault {
    let vault = Vault::start().await.unwrap();
    for Owned { tenant, password, .. } in tenants {
        let namespace = format!("{tenant}/");
        vault.add_namespace(&namespace);
        vault.put(&namespace, &format!("kv/{tenant}/servicenow"), json!({ "password": password }));
        let role =
            TokenRole::reading(&["kv/data/*"]).living(Duration::from_mins(10), Duration::from_hours(1));
        vault.add_approle(&namespace, &format!("role-{tenant}"), &format!("secret-{tenant}"), role);
    }
    vault
}

fn configuration(tenants: &[Owned; 2], vault: &Vault) -> String {
    let [acme, globex] = tenants;
    let namespace = |tenant: &TenantId| {
        format!(
            "    {tenant}:\n      namespace: {tenant}/\n      auth: {{ approle: {{ role_id: role-{tenant}, secret_id: \
             'env://SECRET_ID_{tenant}' }} }}\n"
        )
    };
    format!(
        "connections:\n{}{}vault:\n  address: {}\n  auth: {{ kubernetes: {{ role: none }} }}\n  tenants:\n{}{}",
        connections(acme, globex),
        connections(globex, acme),
        vault.url(),
        namespace(&acme.tenant),
        namespace(&globex.tenant),
    )
}

fn parts(text: &str) -> ConnectionParts {
    let look_up = |name: &str| name.strip_prefix("SECRET_ID_").map(|tenant| format!("secret-{tenant}"));
    let process = ProcessContext::without_aws(|| SystemClock.now());
    SystemsConfig::parse(text).unwrap().connection_parts(look_up, process).unwrap()
}

async fn start(engine: &Engine<SqliteStore>, tenant: &TenantId, connection: &str) -> RunKey {
    let source = WORKFLOW.replace("CONNECTION", connection);
    let request = testkit::request(engine, &source, &format!("{tenant}-{connection}"));
    let by = Initiator::new(Cause::User, "ada");
    let request = StartRun { tenant: tenant.clone(), by, ..request };
    Box::pin(engine.admission().start(request)).await.unwrap().run
}

#[tokio::test]
async fn two_tenants_use_only_their_own_systems() {
    let tenants = [Owned::start("acme").await, Owned::start("globex").await];
    let vault = vault(&tenants).await;
    let parts = parts(&configuration(&tenants, &vault));
    let engine = testkit::engine().standard_tools().connections(parts).signed().build();
    for (at, owned) in tenants.iter().enumerate() {
        let run = start(&engine, &owned.tenant, "sn").await;
        assert_eq!(testkit::advance(&engine, &run).await, RunStatus::Succeeded);
        assert_eq!(owned.writes(), 1);
        assert_eq!(tenants[1 - at].writes(), u32::try_from(at).unwrap(), "the other instance is not changed");
    }
    for owned in &tenants {
        let run = start(&engine, &owned.tenant, "stolen").await;
        assert_eq!(testkit::advance(&engine, &run).await, RunStatus::FailedTerminal);
    }
    let tokens = |namespace: &str| -> BTreeSet<String> {
        let requests = vault.requests().into_iter().filter(|request| request.namespace == namespace);
        requests.filter_map(|request| request.token).collect()
    };
    assert!(tokens("acme/").is_disjoint(&tokens("globex/")) && tokens("").is_empty());
    assert!(!tokens("acme/").is_empty() && !tokens("globex/").is_empty());
    for owned in &tenants {
        assert_eq!((owned.writes(), owned.servicenow.refused()), (1, 0), "no instance got a wrong password");
    }
}

const REPORT: &str = "
workflow: report
version: 1
environment: dev
steps:
  - { id: read, tool: http.request, connection: reports, with: { url: /daily } }
";

/// A killed worker cannot revoke its lease, so Vault ends it. The worker that takes over has a lease of its own.
#[tokio::test]
async fn vault_lease_not_revoked_on_crash() {
    let vault = Vault::start().await.unwrap();
    vault.add_dynamic_role("", "database/creds/reader", Duration::from_mins(1));
    let role = TokenRole::reading(&["database/creds/*"]);
    vault.add_approle(
        "",
        "role-acme",
        "secret-acme",
        role.living(Duration::from_mins(10), Duration::from_mins(10)),
    );
    let is_first = AtomicBool::new(true);
    let stub = HttpStub::start(move |_| {
        if is_first.swap(false, Ordering::SeqCst) {
            StubReply::head(200).then(testkit::StubEnding::Stall)
        } else {
            StubReply::json(200, "{}")
        }
    });
    let text = format!(
        "connections:\n  - {{ name: reports, kind: http, base_url: '{}', environment: dev, credential: {{ type: bearer, \
         token: 'vault://database/creds/reader#password' }} }}\nvault:\n  address: {}\n  auth: {{ approle: {{ role_id: \
         role-acme, secret_id: 'env://SECRET_ID_acme' }} }}\n",
        stub.url(""),
        vault.url()
    );
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let timing = Timing { lease: Millis::secs(1), renew_every: Millis(300), ..Timing::default() };
    let worker = |name: &str| {
        let engine =
            testkit::engine().standard_tools().connections(parts(&text)).timing(timing.clone()).me(name);
        engine.signed().on(testkit::open(&path))
    };
    let killed = worker("w1");
    let run = testkit::start(&killed, REPORT, "k").await;
    tokio::select! {
        status = testkit::advance(&killed, &run) => panic!("{status:?}"),
        () = async { while stub.requests().is_empty() { tokio::time::sleep(Duration::from_millis(20)).await } } => {}
    }
    assert_eq!(ends(&vault), [None]);
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    assert_eq!(testkit::advance(&worker("w2"), &run).await, RunStatus::Succeeded);
    assert_eq!(ends(&vault), [None, Some(LeaseEnd::Revoked)]);
    vault.advance(Duration::from_secs(61));
    assert_eq!(ends(&vault)[0], Some(LeaseEnd::Expired));
}

fn ends(vault: &Vault) -> Vec<Option<LeaseEnd>> {
    vault.leases().into_iter().map(|(_, end)| end).collect()
}
