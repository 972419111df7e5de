//! Two tenants with two Slack workspaces and two `PagerDuty` services, side by side in one deployment.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use ::slack::card;
use ::slack::signature::{SIGNATURE_HEADER, TIMESTAMP_HEADER};
use async_trait::async_trait;
use bytes::Bytes;
use config::{ConnectionNotifier, ProcessContext, SystemsConfig};
use countersign_ingress::slack::{SlackInstallations, handle};
use credentials::{FetchedSecret, LocalSecrets, SecretError, SecretSource};
use domain::tenant::Person;
use domain::{
    Cause, ConnectionName, Initiator, Millis, Role, RunKey, RunStatus, SecretRef, Tenant, TenantId, Timestamp,
};
use engine::{ConnectionParts, Engine, StartRun};
use fakes::pagerduty::FakePagerDuty;
use fakes::slack::{ButtonPress, Callback, FakeMessage, FakeSlack, FakeSlackSettings};
use http::{Request, Response};
use store::{Governance as _, SqliteStore};
use testkit::{ASK, TestClock, eventually, eventually_some};
use worker::{CancellationToken, Worker, WorkerSettings};

const TENANTS: [&str; 2] = ["acme", "umbrella"];

/// The workspace, the channels and the pager of one tenant.
struct Workspace {
    tenant: TenantId,
    slack: FakeSlack,
    pager: FakePagerDuty,
}

struct SlackTenants {
    workspaces: [Workspace; 2],
    engine: Arc<Engine<SqliteStore>>,
    installations: SlackInstallations,
    secrets: Arc<CountingSecrets>,
    clock: TestClock,
    shutdown: CancellationToken,
}

/// The secrets of both tenants. Counts the fetches, and can be down.
#[derive(Default)]
struct CountingSecrets {
    fetched: AtomicU32,
    is_down: AtomicBool,
}

#[async_trait]
impl SecretSource for CountingSecrets {
    fn check(&self, _: &TenantId, _: &SecretRef) -> Result<(), SecretError> {
        Ok(())
    }

    async fn fetch(&self, tenant: &TenantId, secret: &SecretRef) -> Result<FetchedSecret, SecretError> {
        self.fetched.fetch_add(1, Ordering::SeqCst);
        if self.is_down.load(Ordering::SeqCst) {
            let (secret, why) = (secret.clone(), "it is sealed".to_owned());
            return Err(SecretError::Unavailable { secret, why, retry_after: None });
        }
        let local = LocalSecrets::new(|name| Some(format!("the secret {name}")));
        let named: SecretRef = format!("env://{}", secret.path().trim_start_matches("kv/")).parse().unwrap();
        local.fetch(tenant, &named).await
    }
}

impl Workspace {
    async fn start(name: &str) -> Self {
        let settings = FakeSlackSettings {
            token: format!("the secret {name}/token"),
            signing_secret: format!("the secret {name}/signing"),
            team: team(name),
            channels: vec![channel(name, "ALL"), channel(name, "HIGH")],
            ..FakeSlackSettings::default()
        };
        Self {
            tenant: name.parse().unwrap(),
            slack: FakeSlack::start_with(settings).await.unwrap(),
            pager: FakePagerDuty::start(&format!("the secret {name}/pager")).await.unwrap(),
        }
    }

    /// The connections of the tenant, as an operator writes them.
    fn connections(&self) -> String {
        let name = self.tenant.as_str();
        format!(
            "  - {{ tenant: {name}, name: slack, kind: slack, base_url: '{slack}/api',\n      \
             credential: {{ type: bearer, token: 'env://{name}/token' }},\n      \
             options: {{ channel: {all}, routes: [ {{ workflow: risky, channel: {high} }} ],\n                 \
             team: {team}, signing_secret: 'env://{name}/signing' }} }}\n  \
             - {{ tenant: {name}, name: pagerduty, kind: pagerduty, base_url: '{pager}',\n      \
             credential: {{ type: bearer, token: 'env://{name}/pager' }} }}\n",
            slack = self.slack.url(),
            pager = self.pager.url(),
            all = channel(name, "ALL"),
            high = channel(name, "HIGH"),
            team = team(name),
        )
    }

    /// The cards that were posted, without their threads.
    fn cards(&self) -> Vec<FakeMessage> {
        self.slack.messages().into_iter().filter(|message| message.thread.is_none()).collect()
    }
}

fn team(name: &str) -> String {
    format!("T0{}", name.to_uppercase())
}

fn channel(name: &str, which: &str) -> String {
    format!("C0{}{which}", name.to_uppercase())
}

/// The tenant with its approver ben.
fn directory(tenant: &TenantId) -> Tenant {
    let mut directory = Tenant::new(tenant.clone());
    let slack = Some(format!("{}:U0BEN", team(tenant.as_str())));
    let slack_roles = [Role::Approver].into_iter().collect();
    directory.people.insert("ben".parse().unwrap(), Person { slack, oidc: None, slack_roles });
    directory
}

impl SlackTenants {
    async fn new() -> Self {
        let [first, second] = TENANTS;
        let workspaces = [Workspace::start(first).await, Workspace::start(second).await];
        let text: String = workspaces.iter().map(Workspace::connections).collect();
        Self::with(workspaces, &format!("connections:\n{text}"), directory).await
    }

    async fn with(workspaces: [Workspace; 2], config: &str, directory: impl Fn(&TenantId) -> Tenant) -> Self {
        let systems = SystemsConfig::parse(config).unwrap();
        let process = ProcessContext::without_aws(|| Timestamp(0));
        let parts = systems.connection_parts(|_| Some("set".to_owned()), process).unwrap();
        let secrets = Arc::new(CountingSecrets::default());
        let parts = ConnectionParts { secrets: Arc::clone(&secrets) as _, ..parts };
        let clock = TestClock::system();
        let notifier = Some(Arc::new(ConnectionNotifier::default()) as _);
        let engine = testkit::engine().clock(clock.clone()).connections(parts.clone()).notifier(notifier);
        let engine = Arc::new(engine.build());
        for workspace in &workspaces {
            engine.store().put_tenant(directory(&workspace.tenant)).await.unwrap();
        }
        let shutdown = CancellationToken::new();
        let settings = WorkerSettings {
            poll: Duration::from_millis(20),
            sweep_every: Duration::from_millis(50),
            ..WorkerSettings::default()
        };
        let worker = Worker::new(Arc::clone(&engine), settings, "w".parse().unwrap(), shutdown.clone());
        tokio::spawn(worker.run());
        let installations = SlackInstallations::new(parts, None);
        Self { workspaces, engine, installations, secrets, clock, shutdown }
    }

    /// Starts a run that waits for an approval.
    async fn start(&self, tenant: usize, workflow: &str) -> RunKey {
        let source = ASK.replace("workflow: w", &format!("workflow: {workflow}"));
        let request = StartRun {
            tenant: self.workspaces[tenant].tenant.clone(),
            by: Initiator::new(Cause::User, "ada"),
            ..testkit::request(&self.engine, &source, workflow)
        };
        Box::pin(self.engine.admission().start(request)).await.unwrap().run
    }

    /// The only card in the workspace of the tenant.
    async fn card(&self, tenant: usize) -> FakeMessage {
        eventually_some(async || self.workspaces[tenant].cards().pop()).await
    }

    /// The click on Approve of `card`, as the app of the tenant sends it.
    fn click(&self, tenant: usize, card: &FakeMessage) -> Callback {
        let workspace = &self.workspaces[tenant];
        let (place, team) = (card.place(), team(workspace.tenant.as_str()));
        let (at_secs, action_id) = (self.engine.now().0 / 1_000, card::APPROVE);
        let press = ButtonPress { place: &place, action_id, user: "U0BEN", team: &team, at_secs };
        workspace.slack.press(&press).unwrap()
    }

    /// The click of the app of `tenant` with the payload of another click.
    fn forge(&self, tenant: usize, payload: &serde_json::Value) -> Callback {
        let secret = format!("the secret {}/signing", self.workspaces[tenant].tenant);
        Callback::signed(payload, &secret, self.engine.now().0 / 1_000)
    }

    /// Sends the click to the endpoint of the tenant.
    async fn deliver(&self, tenant: usize, click: &Callback) -> Response<String> {
        let request = Request::post(format!("/slack/interactions/{}", self.workspaces[tenant].tenant))
            .header(TIMESTAMP_HEADER, &click.timestamp)
            .header(SIGNATURE_HEADER, &click.signature)
            .body(Bytes::copy_from_slice(&click.body))
            .unwrap();
        Box::pin(handle(&self.engine, &self.installations, &request)).await
    }

    async fn status(&self, run: &RunKey) -> RunStatus {
        testkit::status(&self.engine, run).await
    }

    fn fetched(&self) -> u32 {
        self.secrets.fetched.load(Ordering::SeqCst)
    }
}

impl Drop for SlackTenants {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

#[tokio::test]
async fn each_tenant_has_its_own_workspace_and_pager() {
    let env = SlackTenants::new().await;
    let runs = [env.start(0, "w").await, env.start(1, "risky").await];
    let cards = [env.card(0).await, env.card(1).await];
    assert_eq!(cards[0].channel, channel("acme", "ALL"));
    assert_eq!(cards[1].channel, channel("umbrella", "HIGH"));

    env.clock.advance(Millis::mins(6));
    eventually(async || env.workspaces.iter().all(|one| one.slack.messages().len() == 2)).await;
    env.clock.advance(Millis::mins(5));
    eventually(async || env.workspaces.iter().all(|one| one.pager.open_incidents().len() == 1)).await;

    for (tenant, run) in runs.iter().enumerate() {
        let response = env.deliver(tenant, &env.click(tenant, &cards[tenant])).await;
        assert_eq!((response.status().as_u16(), response.body().as_str()), (200, ""));
        eventually(async || env.status(run).await == RunStatus::Succeeded).await;
        let workspace = &env.workspaces[tenant];
        eventually(async || workspace.pager.open_incidents().is_empty()).await;
        let is_decided = |card: &FakeMessage| card.button(card::APPROVE).is_none();
        eventually(async || workspace.cards().iter().all(is_decided)).await;
        let incident = workspace.pager.events()[0]["source"].clone();
        assert_eq!((workspace.cards().len(), workspace.pager.events().len()), (1, 2), "{incident}");
    }
}

#[tokio::test]
async fn click_of_other_tenants_app() {
    let env = SlackTenants::new().await;
    let run = env.start(0, "w").await;
    let click = env.click(0, &env.card(0).await);
    // The approver of umbrella clicks on a copy of acme's card.
    let mut payload = click.payload();
    payload["team"]["id"] = team("umbrella").into();
    payload["user"]["team_id"] = team("umbrella").into();
    let response_url = payload["response_url"].as_str().unwrap();
    let response_url = response_url.replace(&env.workspaces[0].slack.url(), &env.workspaces[1].slack.url());
    payload["response_url"] = response_url.into();
    let forged = env.forge(1, &payload);
    assert_eq!(env.deliver(0, &forged).await.status(), 401, "the signature is umbrella's");
    assert_eq!(env.deliver(1, &forged).await.status(), 200);
    let reply = env.workspaces[1].slack.answers().pop().unwrap();
    assert_eq!(reply["text"], "this approval does not exist");
    assert_eq!(env.status(&run).await, RunStatus::WaitingApproval);
    let approval = env.engine.store().approvals(&run).await.unwrap().pop().unwrap();
    assert_eq!(approval.votes, []);
}

#[tokio::test]
async fn click_from_another_workspace_is_refused() {
    let env = SlackTenants::new().await;
    let run = env.start(0, "w").await;
    let mut payload = env.click(0, &env.card(0).await).payload();
    payload["team"]["id"] = "T0OTHER".into();
    payload["user"]["team_id"] = "T0OTHER".into();
    let click = env.forge(0, &payload);
    assert_eq!(env.deliver(0, &click).await.status(), 403);
    assert_eq!(env.status(&run).await, RunStatus::WaitingApproval);
}

#[tokio::test]
async fn clicks_share_the_fetched_secrets() {
    let env = SlackTenants::new().await;
    let run = env.start(0, "w").await;
    let card = env.card(0).await;
    let posted = env.fetched();
    for _ in 0..20 {
        let unsigned = Callback::signed(&env.click(0, &card).payload(), "another secret", 0);
        assert_eq!(env.deliver(0, &unsigned).await.status(), 401);
    }
    assert_eq!(env.fetched(), posted + 2, "the signing secret and the token, once");
    assert_eq!(env.deliver(0, &env.click(0, &card)).await.status(), 200);
    eventually(async || env.status(&run).await == RunStatus::Succeeded).await;
}

#[tokio::test]
async fn unavailable_signing_secret_is_no_wrong_signature() {
    let env = SlackTenants::new().await;
    env.start(0, "w").await;
    let card = env.card(0).await;
    env.secrets.is_down.store(true, Ordering::SeqCst);
    let before = env.fetched();
    for _ in 0..3 {
        assert_eq!(env.deliver(0, &env.click(0, &card)).await.status(), 503);
    }
    assert_eq!(env.fetched(), before + 1, "a store that is down is asked once in a while");
}

/// An admin adds the connection of the tenant to the settings of the tenant.
#[tokio::test]
async fn app_of_a_connection_that_an_admin_set() {
    let workspaces = [Workspace::start("acme").await, Workspace::start("umbrella").await];
    let systems = SystemsConfig::parse(&format!("connections:\n{}", workspaces[0].connections())).unwrap();
    let operator = systems.connections(&|_| Some("set".to_owned())).unwrap();
    let name: ConnectionName = "slack".parse().unwrap();
    let connection = operator.of(&workspaces[0].tenant)[&name].clone();
    let json = serde_json::to_string(&connection).unwrap();
    let json = json.replace("env://", "vault://kv/").replace("127.0.0.1", "localhost");
    let with_connection = |tenant: &TenantId| {
        let mut directory = directory(tenant);
        directory.connections.insert(name.clone(), serde_json::from_str(&json).unwrap());
        directory
    };
    let config = "tenants: { acme: { secrets: ['vault://kv/acme/'], private_hosts: [localhost] } }";
    let env = SlackTenants::with(workspaces, config, with_connection).await;
    let run = env.start(0, "w").await;
    // The operator has given nothing to umbrella, so its copy of the connection reaches neither the secret nor the host.
    let other = env.start(1, "w").await;
    let card = env.card(0).await;
    let mut payload = env.click(0, &card).payload();
    let url = payload["response_url"].as_str().unwrap().replace("127.0.0.1", "localhost");
    payload["response_url"] = url.into();
    assert_eq!(env.deliver(0, &env.forge(0, &payload)).await.status(), 200);
    eventually(async || env.status(&run).await == RunStatus::Succeeded).await;
    assert_eq!((env.workspaces[1].cards().len(), env.workspaces[0].cards().len()), (0, 1));
    assert_eq!(env.status(&other).await, RunStatus::WaitingApproval);
}
