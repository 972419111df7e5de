//! What the worker is told by its environment. Nothing else in this crate looks at it.

use std::env;
use std::fmt::Display;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use config::Systems;
use config::secrets::Named;
use connectors::Settings;
use countersign_worker::Rooms;
use engine::{Sealing, Showing};
use evidence::SigningKey;
use store::aws::{AwsSettings, Retention, RetentionMode};

use crate::Failure;

/// What ECS gives a container that is asked to stop, less what the process itself needs.
const DRAIN: Duration = Duration::from_secs(50);

/// The name under which the key for evidence is found among the secrets.
const EVIDENCE_KEY: &str = "EVIDENCE_KEY";

/// What the worker is told.
pub(crate) struct Environment {
    pub(crate) store: AwsSettings,
    pub(crate) rooms: Rooms,
    pub(crate) health: SocketAddr,
    /// Where it tells what it has counted, if anybody wants to know.
    pub(crate) metrics: Option<SocketAddr>,
    pub(crate) drain: Duration,
    /// Tells this process from all others.
    pub(crate) chance: String,
    pub(crate) log: Option<String>,
    secret: String,
    systems: String,
}

/// What is outside, and how it is spoken to.
pub(crate) struct Outside {
    pub(crate) settings: Settings,
    pub(crate) shows: Showing,
    pub(crate) sealing: Sealing,
}

impl Environment {
    /// All of it, or the first variable that is missing or makes no sense.
    pub(crate) fn read() -> Result<Self, Failure> {
        let mut chance = [0; 8];
        getrandom::fill(&mut chance)?;
        let default = Rooms::beside(16);
        Ok(Self {
            store: settings()?,
            rooms: Rooms {
                ingest: or("COUNTERSIGN_ROOM_INGEST", default.ingest)?,
                decisions: or("COUNTERSIGN_ROOM_DECISIONS", default.decisions)?,
                steps: or("COUNTERSIGN_ROOM_STEPS", default.steps)?,
            },
            health: or("COUNTERSIGN_HEALTH", SocketAddr::from(([0, 0, 0, 0], 8080)))?,
            metrics: may("COUNTERSIGN_METRICS")?,
            drain: DRAIN,
            chance: format!("{:016x}", u64::from_be_bytes(chance)),
            log: variable("RUST_LOG"),
            secret: need("COUNTERSIGN_SECRET")?,
            systems: need("COUNTERSIGN_SYSTEMS")?,
        })
    }

    /// Fetches the secrets and makes of them what the tools, Slack and the evidence need.
    pub(crate) async fn outside(&self) -> Result<Outside, Failure> {
        let named = Named::open(&self.secret, &store::aws::configure(None).await).await?;
        let look_up = |name: &str| named.look_up(name);
        let systems = Systems::parse(&self.systems)?;
        let key = look_up(EVIDENCE_KEY).ok_or_else(|| format!("the secrets hold no {EVIDENCE_KEY}"))?;
        let key = SigningKey::from_text(&key)?;
        Ok(Outside {
            settings: systems.settings(&look_up)?,
            shows: systems.showing(&look_up)?,
            sealing: Sealing { key: Arc::new(key), origin: format!("countersign/{}", self.store.table) },
        })
    }
}

fn settings() -> Result<AwsSettings, Failure> {
    let days: u32 = or("COUNTERSIGN_EVIDENCE_KEEP_DAYS", 0)?;
    let mode = match variable("COUNTERSIGN_EVIDENCE_LOCK").as_deref() {
        None | Some("governance") => RetentionMode::Governance,
        Some("compliance") => RetentionMode::Compliance,
        Some(other) => {
            return Err(
                format!("COUNTERSIGN_EVIDENCE_LOCK is {other:?}; it is governance or compliance").into()
            );
        }
    };
    Ok(AwsSettings { retain: (days > 0).then_some(Retention { mode, days }), ..AwsSettings::told(need)? })
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|text| !text.is_empty())
}

fn need(name: &str) -> Result<String, Failure> {
    variable(name).ok_or_else(|| format!("{name} is not set").into())
}

fn or<T: FromStr<Err: Display>>(name: &str, default: T) -> Result<T, Failure> {
    Ok(may(name)?.unwrap_or(default))
}

fn may<T: FromStr<Err: Display>>(name: &str) -> Result<Option<T>, Failure> {
    let Some(text) = variable(name) else { return Ok(None) };
    text.parse().map(Some).map_err(|error| format!("{name} is {text:?}: {error}").into())
}
