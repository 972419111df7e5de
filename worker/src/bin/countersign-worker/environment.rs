//! The environment of the worker. No other module reads environment variables.

use std::env;
use std::fmt::Display;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use config::secrets::SecretMap;
use config::{ProcessContext, SystemsConfig};
use countersign_worker::Concurrency;
use credentials::{AwsKeySource, NoAwsKeys, SdkKeys};
use engine::{ConnectionParts, EvidenceSigner, Notifier};
use evidence::SigningKey;
use store::aws::{AwsSettings, Retention, RetentionMode};
use store::{Clock as _, SystemClock};

use crate::Failure;
use crate::timers::Timers;

/// The time that ECS gives a stopping container, less what the process itself needs.
const DRAIN: Duration = Duration::from_secs(50);

const EVIDENCE_KEY: &str = "EVIDENCE_KEY";

pub(crate) struct Environment {
    pub(crate) store: AwsSettings,
    pub(crate) concurrency: Concurrency,
    pub(crate) health: SocketAddr,
    /// The address of the metrics endpoint, if it is enabled.
    pub(crate) metrics: Option<SocketAddr>,
    pub(crate) drain: Duration,
    pub(crate) timers: Timers,
    /// Random part of the worker's name.
    pub(crate) random_suffix: String,
    pub(crate) log: Option<String>,
    secret: String,
    systems: String,
}

/// Connections to external systems.
pub(crate) struct ExternalSystems {
    pub(crate) connections: ConnectionParts,
    pub(crate) notifier: Notifier,
    pub(crate) evidence_signer: EvidenceSigner,
}

impl Environment {
    /// Reads all variables; fails with the first that is missing or invalid.
    pub(crate) fn read() -> Result<Self, Failure> {
        let mut random = [0; 8];
        getrandom::fill(&mut random)?;
        let default = Concurrency::for_steps(16);
        Ok(Self {
            store: store_settings()?,
            concurrency: Concurrency {
                ingest: parse_or("COUNTERSIGN_CONCURRENCY_INGEST", default.ingest)?,
                decisions: parse_or("COUNTERSIGN_CONCURRENCY_DECISIONS", default.decisions)?,
                steps: parse_or("COUNTERSIGN_CONCURRENCY_STEPS", default.steps)?,
            },
            health: parse_or("COUNTERSIGN_HEALTH", SocketAddr::from(([0, 0, 0, 0], 8080)))?,
            metrics: parse_optional("COUNTERSIGN_METRICS")?,
            drain: DRAIN,
            timers: Timers::read(variable)?,
            random_suffix: format!("{:016x}", u64::from_be_bytes(random)),
            log: variable("RUST_LOG"),
            secret: required("COUNTERSIGN_SECRET")?,
            systems: required("COUNTERSIGN_CONFIG")?,
        })
    }

    /// Fetches the secrets and connects to external systems.
    pub(crate) async fn connect(&self) -> Result<ExternalSystems, Failure> {
        let sdk = store::aws::configure(None).await;
        let secrets = SecretMap::open(&self.secret, &sdk).await?;
        let aws: Arc<dyn AwsKeySource> = match sdk.credentials_provider() {
            Some(provider) => Arc::new(SdkKeys(provider)),
            None => Arc::new(NoAwsKeys),
        };
        let process = ProcessContext { aws, now: Arc::new(|| SystemClock.now()) };
        let look_up = |name: &str| secrets.look_up(name);
        let systems = SystemsConfig::parse(&self.systems)?;
        let missing =
            || format!("secret {} has no entry {EVIDENCE_KEY}; add the PEM private key", self.secret);
        let key = look_up(EVIDENCE_KEY).ok_or_else(missing)?;
        let key = SigningKey::from_text(&key)?;
        Ok(ExternalSystems {
            notifier: systems.notifier()?,
            evidence_signer: EvidenceSigner {
                key: Arc::new(key),
                origin: format!("countersign/{}", self.store.table),
            },
            connections: systems.connection_parts(move |name| secrets.look_up(name), process)?,
        })
    }
}

fn store_settings() -> Result<AwsSettings, Failure> {
    let days: u32 = parse_or("COUNTERSIGN_EVIDENCE_RETENTION_DAYS", 0)?;
    let mode = match variable("COUNTERSIGN_EVIDENCE_RETENTION_MODE").as_deref() {
        None | Some("governance") => RetentionMode::Governance,
        Some("compliance") => RetentionMode::Compliance,
        Some(other) => {
            return Err(format!(
                "COUNTERSIGN_EVIDENCE_RETENTION_MODE is {other:?}; it is governance or compliance"
            )
            .into());
        }
    };
    Ok(AwsSettings {
        retain: (days > 0).then_some(Retention { mode, days }),
        ..AwsSettings::from_env(required)?
    })
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|text| !text.is_empty())
}

fn required(name: &str) -> Result<String, Failure> {
    variable(name).ok_or_else(|| format!("{name} is not set").into())
}

fn parse_or<T: FromStr<Err: Display>>(name: &str, default: T) -> Result<T, Failure> {
    Ok(parse_optional(name)?.unwrap_or(default))
}

fn parse_optional<T: FromStr<Err: Display>>(name: &str) -> Result<Option<T>, Failure> {
    let Some(text) = variable(name) else { return Ok(None) };
    text.parse().map(Some).map_err(|error| format!("{name} is {text:?}: {error}").into())
}
