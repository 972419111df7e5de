//! What every verb works with: the store, the tenant, who is asking, and how to answer.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use connectors::Toolbox;
use domain::{Cause, Initiator, RunKey, TenantId, WorkerId};
use engine::{Engine, Parts, Timing};
use serde_json::Value;
use store::{SqliteOptions, SqliteStore, SystemClock};

use crate::args::Common;
use crate::config::Variable;
use crate::error::CliError;
use crate::run_name::RunName;
use crate::{random, screen};
use telling::hint::{Hints, STORE_DEFAULT};

/// What the process was started with, beside its arguments. Only `main` finds it out.
#[derive(Debug, Clone)]
pub(crate) struct Surroundings {
    /// The store's file, if the environment names one.
    pub(crate) store: Option<PathBuf>,
    /// The name of the user.
    pub(crate) user: Option<String>,
    /// What is to be logged.
    pub(crate) log: Option<String>,
    /// Whether the terminal shows more than ASCII.
    pub(crate) utf8: bool,
    /// This program's own file.
    pub(crate) program: Option<PathBuf>,
    /// Where temporary files go.
    pub(crate) temp: PathBuf,
    /// Looks an environment variable up, for credentials that a configuration names.
    pub(crate) variable: Variable,
}

/// What every verb works with.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    /// The store's file.
    pub(crate) store: PathBuf,
    /// Whose runs are meant.
    pub(crate) tenant: TenantId,
    /// Whether a program reads the answer.
    pub(crate) json: bool,
    /// What the process was started with.
    pub(crate) surroundings: Surroundings,
}

impl Context {
    pub(crate) fn new(common: Common, mut surroundings: Surroundings) -> Self {
        surroundings.user = common.user.map(|user| user.to_string()).or(surroundings.user);
        let named = common.store.or_else(|| surroundings.store.clone());
        let store = named.unwrap_or_else(|| STORE_DEFAULT.into());
        Self { store, tenant: common.tenant, json: common.json, surroundings }
    }

    /// Who is asking, as the chain of events names them.
    pub(crate) fn user(&self) -> String {
        let uid = || format!("uid-{}", rustix::process::getuid().as_raw());
        self.surroundings.user.clone().unwrap_or_else(uid)
    }

    /// The person at the keyboard as the cause of what happens.
    pub(crate) fn by_user(&self) -> Initiator {
        Initiator::new(Cause::User, self.user())
    }

    /// The run that was typed.
    pub(crate) fn run(&self, name: &RunName) -> RunKey {
        name.of(&self.tenant)
    }

    /// Commands that can be typed next.
    pub(crate) fn hints(&self) -> Hints {
        Hints::new(&self.store, &self.tenant)
    }

    /// The same for the tenant of `run`.
    pub(crate) fn hints_for(&self, run: &RunKey) -> Hints {
        Hints::new(&self.store, &run.tenant)
    }

    /// Opens the store, and creates it if it is not there.
    pub(crate) fn open_store(&self) -> Result<SqliteStore, CliError> {
        SqliteStore::open(&self.store, SqliteOptions::default())
            .map_err(|source| CliError::OpenStore { path: self.store.clone(), source })
    }

    /// The engine on the store, which is created if it is not there.
    pub(crate) fn engine(&self) -> Result<Engine<SqliteStore>, CliError> {
        let me = WorkerId::new(&format!("cli-{}", random::hex::<8>()?)).map_err(CliError::Id)?;
        Ok(Engine::new(Parts {
            store: Arc::new(self.open_store()?),
            // Nothing is executed here.
            tools: Toolbox::default(),
            clock: Arc::new(SystemClock),
            me,
            timing: Timing::default(),
            // People look for themselves, and workers put evidence together.
            shows: None,
            sealing: None,
        }))
    }

    /// The engine on a store that must be there: looking for a run must not leave an empty file behind.
    pub(crate) fn existing_engine(&self) -> Result<Engine<SqliteStore>, CliError> {
        if is_missing(&self.store) {
            return Err(CliError::NoStore { path: self.store.clone() });
        }
        self.engine()
    }

    /// Answers, in the form that was asked for.
    pub(crate) fn answer(&self, text: &str, json: &Value) -> Result<(), CliError> {
        if self.json { screen::json(json) } else { screen::text(text) }
    }
}

/// Whether there is nothing at `path`. A file that cannot be looked at is not missing; opening it says why.
fn is_missing(path: &Path) -> bool {
    matches!(path.try_exists(), Ok(false))
}
