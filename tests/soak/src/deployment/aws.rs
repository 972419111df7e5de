//! A local AWS: the worker of the containers, `serve --aws`, the sweep function, and a proxy between them and AWS.
//!
//! The table is on DynamoDB Local if `COUNTERSIGN_DYNAMODB` names it: an emulator in Python becomes slower as its tables grow.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use countersign_e2e::{DeployedEnv, TENANT, TestConfig};
use domain::TenantId;
use domain::tenant::Person;
use evidence::PublicKey;
use rustix::process::Pid;
use store::Governance as _;
use store::aws::{AwsStore, S3Blobs, SqsQueue};
use tempfile::TempDir;
use tokio::time::sleep;

use crate::external_systems::ExternalSystems;
use crate::flow::Endpoints;
use crate::people::ADMIN;
use crate::proxy::{Proxy, ProxyMode};

use super::{Deployment, LoadProfile, SETTLE_TIMEOUT, StoreFault};

/// As often as a schedule invokes the sweep during an incident; each invocation starts a process.
const SWEEP_EVERY: Duration = Duration::from_secs(15);

pub(crate) struct AwsDeployment {
    directory: TempDir,
    config: PathBuf,
    programs: PathBuf,
    env: DeployedEnv,
    store: AwsStore<SqsQueue, S3Blobs>,
    external_systems: ExternalSystems,
    /// One for each address of the local AWS.
    proxies: Vec<Arc<Proxy>>,
    tenant: TenantId,
}

impl AwsDeployment {
    /// Deploys the product to the local AWS that the environment names.
    pub(crate) async fn open() -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("prepare the soak: {error}");
        let directory = tempfile::Builder::new().prefix("countersign-soak-").tempdir().map_err(failed)?;
        let external_systems = ExternalSystems::start().await.map_err(failed)?;
        let config = directory.path().join("countersign.yaml");
        std::fs::write(&config, external_systems.config()).map_err(failed)?;
        let mut test_config = TestConfig::from_environment();
        test_config.dynamodb = std::env::var("COUNTERSIGN_DYNAMODB").ok();
        let mut shared = vec![("RUST_LOG".to_owned(), "warn".to_owned())];
        let mut proxies = Vec::new();
        let aws = ("AWS_ENDPOINT_URL", Some(&test_config.aws));
        for (variable, url) in [aws, ("AWS_ENDPOINT_URL_DYNAMODB", test_config.dynamodb.as_ref())] {
            let Some(url) = url else { continue };
            let proxy = Proxy::start(url.trim_start_matches("http://").to_owned()).await.map_err(failed)?;
            shared.push((variable.to_owned(), proxy.url()));
            proxies.push(proxy);
        }
        let worker =
            shared.iter().cloned().chain([("COUNTERSIGN_CONFIG".to_owned(), external_systems.config())]);
        test_config.extra_env = BTreeMap::from([
            ("worker".to_owned(), worker.collect()),
            ("countersign".to_owned(), shared.clone()),
        ]);
        let programs = test_config.programs.clone();
        let env = DeployedEnv::open_at(test_config, "soak").await;
        let store = env.store().await;
        let tenant: TenantId = TENANT.parse().map_err(|error| format!("{error}"))?;
        add_admin(&store, &tenant).await?;
        Ok(Self { directory, config, programs, env, store, external_systems, proxies, tenant })
    }
}

/// The directory must name the user of the first key.
async fn add_admin(store: &AwsStore<SqsQueue, S3Blobs>, tenant: &TenantId) -> Result<(), String> {
    let stored = store.tenant(tenant).await.map_err(|error| error.to_string())?;
    let mut settings = stored.ok_or("the tenant has no settings")?;
    let admin = ADMIN.parse().map_err(|error| format!("{error}"))?;
    settings.people.insert(admin, Person::default());
    settings.revision += 1;
    store.put_tenant(settings).await.map(drop).map_err(|error| error.to_string())
}

impl Deployment for AwsDeployment {
    type Store = AwsStore<SqsQueue, S3Blobs>;

    fn profile(&self) -> LoadProfile {
        LoadProfile {
            workers: 3,
            servers: 2,
            starters: 8,
            open_max: 100,
            fault_every: Duration::from_secs(6),
            settle_timeout: SETTLE_TIMEOUT,
            // The lease of a step is half a minute.
            suspend_time: Duration::from_secs(40),
        }
    }

    fn external_systems(&self) -> &ExternalSystems {
        &self.external_systems
    }

    /// The worker of the containers calls no host in its own network, so `http.request` is left out.
    fn endpoints(&self) -> Endpoints {
        Endpoints { http: None }
    }

    fn tenant(&self) -> TenantId {
        self.tenant.clone()
    }

    fn store(&self) -> &Self::Store {
        &self.store
    }

    fn public_key(&self) -> Result<PublicKey, String> {
        Ok(self.env.key().public())
    }

    fn worker(&self) -> Command {
        self.env.worker_command(&[])
    }

    fn server(&self, port: u16) -> Command {
        let mut command = self.cli();
        command.args(["serve", "--listen", &format!("127.0.0.1:{port}"), "--config"]).arg(&self.config);
        command.envs(ExternalSystems::credentials());
        command
    }

    fn cli(&self) -> Command {
        let mut command = self.env.countersign();
        command.args(["--aws", "--tenant", TENANT]).env("HOME", self.directory.path());
        command
    }

    fn program(&self) -> Command {
        Command::new(self.programs.join("countersign"))
    }

    fn supports(&self, fault: StoreFault) -> bool {
        fault != StoreFault::Full
    }

    async fn inject_fault(&self, fault: StoreFault, time: Duration, _: Vec<Pid>) -> Result<(), String> {
        let mode = if fault == StoreFault::Slow { ProxyMode::Slow } else { ProxyMode::Unavailable };
        self.proxies.iter().for_each(|proxy| proxy.set(mode));
        sleep(time).await;
        self.proxies.iter().for_each(|proxy| proxy.set(ProxyMode::Open));
        Ok(())
    }

    async fn sweep(&self) {
        sleep(SWEEP_EVERY).await;
        // A sweep that fails is followed by the next one.
        let _ = self.env.sweep().await;
    }

    fn directory(&self) -> PathBuf {
        self.directory.path().to_owned()
    }

    fn keep(&self) -> String {
        "the local AWS, which stops with this command".to_owned()
    }
}
