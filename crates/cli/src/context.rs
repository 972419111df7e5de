//! What every verb works with: the store, the tenant, who is asking, and how to answer.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use connectors::{Allow, Settings, Toolbox};
use domain::{Cause, Initiator, RunKey, TenantId, WorkerId};
use engine::{Engine, Parts, Timing};
use serde_json::Value;
use store::{SqliteOptions, SqliteStore, Store, SystemClock};
use url::Url;

use crate::args::Common;
#[cfg(feature = "aws")]
use crate::aws::{Account, OnAws};
use crate::config::Variable;
use crate::error::CliError;
use crate::profile::{self, ProfileName, Profiles, Server};
use crate::run_name::RunName;
use crate::{random, screen};
use views::hint::{Hints, STORE_DEFAULT, TENANT_DEFAULT};

/// What the process was started with, beside its arguments. Only `main` finds it out.
#[derive(Debug, Clone)]
pub(crate) struct Surroundings {
    /// The store's file, if the environment names one.
    pub(crate) store: Option<PathBuf>,
    /// The profile, if the environment names one.
    pub(crate) profile: Option<String>,
    /// The file of profiles.
    pub(crate) config: Option<PathBuf>,
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
    /// Whose runs are meant, if somebody said so.
    pub(crate) tenant_named: Option<TenantId>,
    /// What was said about where the command goes.
    pub(crate) goes: Goes,
    /// The account on AWS, once it is opened, if the command goes there.
    #[cfg(feature = "aws")]
    pub(crate) account: Option<Account>,
    /// Whether a program reads the answer.
    pub(crate) json: bool,
    /// What the process was started with.
    pub(crate) surroundings: Surroundings,
}

/// Where a command goes, as somebody typed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Goes {
    /// To the store in a file.
    Store,
    /// To the store on AWS.
    Aws,
    /// To this server.
    Server(Url),
    /// To the server of this profile.
    Profile(ProfileName),
    /// Nobody said; the environment and the file of profiles may.
    Unsaid,
}

impl Context {
    pub(crate) fn new(common: Common, mut surroundings: Surroundings) -> Result<Self, CliError> {
        surroundings.user = common.user.map(|user| user.to_string()).or(surroundings.user);
        let goes = match (common.server, common.profile, &common.store) {
            (None, None, None) if common.aws => on_aws_if_built_for_it()?,
            // What stands before the verb and what stands behind it are read apart.
            _ if common.aws => {
                let text = "--aws cannot be used with --store, --server or --profile; leave one of them out";
                return Err(CliError::Usage(text.to_owned()));
            }
            (Some(url), _, _) => Goes::Server(url),
            (None, Some(profile), _) => Goes::Profile(profile),
            (None, None, Some(_)) => Goes::Store,
            (None, None, None) => Goes::Unsaid,
        };
        let named = common.store.or_else(|| surroundings.store.clone());
        let store = named.unwrap_or_else(|| STORE_DEFAULT.into());
        let tenant = match &common.tenant {
            Some(tenant) => tenant.clone(),
            None => TenantId::new(TENANT_DEFAULT)?,
        };
        Ok(Self {
            store,
            tenant,
            tenant_named: common.tenant,
            goes,
            #[cfg(feature = "aws")]
            account: None,
            json: common.json,
            surroundings,
        })
    }

    /// The same with the account opened, if the command goes to AWS.
    #[cfg(feature = "aws")]
    pub(crate) async fn on_aws(&self) -> Result<Self, CliError> {
        if self.goes != Goes::Aws {
            return Ok(self.clone());
        }
        let account = Account::open(self.surroundings.variable).await?;
        Ok(Self { account: Some(account), ..self.clone() })
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
        self.hints_for(&self.tenant)
    }

    /// The same for another tenant.
    pub(crate) fn hints_for(&self, tenant: &TenantId) -> Hints {
        if self.goes == Goes::Aws { Hints::of_aws(tenant) } else { Hints::new(&self.store, tenant) }
    }

    /// The profiles.
    pub(crate) fn profiles(&self) -> Result<Profiles, CliError> {
        self.surroundings.config.as_deref().map_or_else(|| Ok(Profiles::default()), profile::read)
    }

    /// The server that the command goes to; none, if it goes to the store.
    pub(crate) fn server(&self) -> Result<Option<Server>, CliError> {
        let variable = self.surroundings.variable;
        let server = match self.goes()? {
            Goes::Server(url) => Server::at(url, variable)?,
            Goes::Profile(name) => Server::named(&name, &self.profiles()?, variable)?,
            Goes::Store | Goes::Aws | Goes::Unsaid => return Ok(None),
        };
        server.of(self.tenant_named.clone()).map(Some)
    }

    /// Where the command goes: what was typed, or else what the environment says, or else the profile in use.
    fn goes(&self) -> Result<Goes, CliError> {
        if self.goes != Goes::Unsaid {
            return Ok(self.goes.clone());
        }
        match (&self.surroundings.profile, &self.surroundings.store) {
            (Some(_), Some(_)) => Err(CliError::Usage(
                "COUNTERSIGN_PROFILE names a server and COUNTERSIGN_STORE a store; unset one, or say which with \
                 --profile or --store"
                    .to_owned(),
            )),
            (Some(name), None) => {
                let wrong = |why| CliError::Usage(format!("COUNTERSIGN_PROFILE cannot be used: {why}"));
                Ok(Goes::Profile(name.parse().map_err(wrong)?))
            }
            (None, Some(_)) => Ok(Goes::Store),
            (None, None) => Ok(self.profiles()?.used.map_or(Goes::Store, Goes::Profile)),
        }
    }

    /// Whether the command goes to a store in a file.
    pub(crate) fn is_for_a_file(&self) -> Result<bool, CliError> {
        Ok(matches!(self.goes()?, Goes::Store | Goes::Unsaid))
    }

    /// The server that the command goes to, in words; none, if it goes to a store.
    fn server_in_words(&self) -> Result<Option<String>, CliError> {
        Ok(match self.goes()? {
            Goes::Server(url) => Some(format!("the server {url}")),
            Goes::Profile(name) => Some(format!("the server of profile {}", name.as_str())),
            Goes::Store | Goes::Aws | Goes::Unsaid => None,
        })
    }

    /// Refuses if the command goes to a server or to AWS: what was meant there must not happen here.
    fn must_be_for_a_store(&self) -> Result<(), CliError> {
        let elsewhere = match self.server_in_words()? {
            Some(server) => server,
            None if self.goes == Goes::Aws => "AWS".to_owned(),
            None => return Ok(()),
        };
        Err(CliError::Usage(format!(
            "this command works on a store in a file, and cannot be done on {elsewhere}; name the store with --store FILE"
        )))
    }

    /// Refuses if the command goes to a server: it is about all tenants, and works on a store in a file or on AWS.
    pub(crate) fn must_not_be_for_a_server(&self) -> Result<(), CliError> {
        let Some(server) = self.server_in_words()? else { return Ok(()) };
        Err(CliError::Usage(format!(
            "this command works on a store, and cannot be done on {server}; name a file with --store FILE, or say \
             --aws for the account that the environment names"
        )))
    }

    /// Opens the store, and creates it if it is not there.
    pub(crate) fn open_store(&self) -> Result<SqliteStore, CliError> {
        self.must_be_for_a_store()?;
        SqliteStore::open(&self.store, SqliteOptions::default())
            .map_err(|source| CliError::OpenStore { path: self.store.clone(), source })
    }

    /// The engine on the store, which is created if it is not there.
    pub(crate) fn engine(&self) -> Result<Engine<SqliteStore>, CliError> {
        engine_on(self.open_store()?, tools())
    }

    /// The engine on AWS, if the command goes there.
    #[cfg(feature = "aws")]
    pub(crate) fn engine_on_aws(&self, tools: Toolbox) -> Result<Option<Engine<OnAws>>, CliError> {
        let account = self.account.as_ref().filter(|_| self.goes == Goes::Aws);
        account.map(|account| engine_on(account.store.clone(), tools)).transpose()
    }

    /// The engine on the store for whoever only looks, with `tools`: where there is no store, on one that holds nothing
    /// and leaves no file behind.
    pub(crate) fn looking_engine(&self, tools: Toolbox) -> Result<Engine<SqliteStore>, CliError> {
        self.must_be_for_a_store()?;
        if !is_missing(&self.store) {
            return engine_on(self.open_store()?, tools);
        }
        let path = self.store.clone();
        let nothing = SqliteStore::memory(SqliteOptions::default());
        engine_on(nothing.map_err(|source| CliError::OpenStore { path, source })?, tools)
    }

    /// The engine on a store that must be there: looking for a run must not leave an empty file behind.
    pub(crate) fn existing_engine(&self) -> Result<Engine<SqliteStore>, CliError> {
        self.must_be_for_a_store()?;
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

/// Where a command goes that is meant for AWS; refuses, if this program cannot speak to it.
fn on_aws_if_built_for_it() -> Result<Goes, CliError> {
    if cfg!(feature = "aws") {
        return Ok(Goes::Aws);
    }
    Err(CliError::Usage(
        "this program was built without AWS, so that it stays small; `cargo install --path cli --features aws` builds \
         one with it"
            .to_owned(),
    ))
}

/// The tools of an engine that executes nothing: workflows are checked against what workers can do.
pub(crate) fn tools() -> Toolbox {
    connectors::standard(Allow::default(), Settings::default())
}

fn engine_on<S: Store>(store: S, tools: Toolbox) -> Result<Engine<S>, CliError> {
    let me = WorkerId::new(&format!("cli-{}", random::hex::<8>()?)).map_err(CliError::Id)?;
    Ok(Engine::new(Parts {
        store: Arc::new(store),
        tools,
        clock: Arc::new(SystemClock),
        me,
        timing: Timing::default(),
        // People look for themselves, and workers put evidence together.
        shows: None,
        sealing: None,
    }))
}

/// Whether there is nothing at `path`. A file that cannot be looked at is not missing; opening it says why.
fn is_missing(path: &Path) -> bool {
    matches!(path.try_exists(), Ok(false))
}
