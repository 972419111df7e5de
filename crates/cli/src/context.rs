//! The context of every command: store or server, tenant, user and output format.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use connectors::{HostAllowList, ToolRegistry};
use domain::{Cause, Initiator, RunKey, TenantId, WorkerId};
use engine::{ConnectionParts, Engine, EngineParts, Timing};
use serde_json::Value;
use store::{SqliteOptions, SqliteStore, Store, SystemClock};
use url::Url;

use crate::any_store::{AnyStore, AwsAccount};
use crate::common::Common;
use crate::error::CliError;
use crate::input::Variable;
use crate::profile::{self, ProfileName, Profiles, Server};
use crate::run_name::RunName;
use crate::{random, screen};
use views::hint::{CommandHints, STORE_DEFAULT, TENANT_DEFAULT};

/// The environment of the process. Only `main` reads it.
#[derive(Debug, Clone)]
pub(crate) struct Env {
    pub(crate) store: Option<PathBuf>,
    pub(crate) profile: Option<String>,
    /// The file that holds the profiles.
    pub(crate) config: Option<PathBuf>,
    pub(crate) user: Option<String>,
    /// The value of `RUST_LOG`.
    pub(crate) log: Option<String>,
    /// Whether the locale uses UTF-8.
    pub(crate) utf8: bool,
    /// The path of this executable.
    pub(crate) program: Option<PathBuf>,
    pub(crate) temp: PathBuf,
    /// Looks up the variables in which a configuration or profile keeps its credentials.
    pub(crate) variable: Variable,
}

#[derive(Debug, Clone)]
pub(crate) struct Context {
    /// The store file.
    pub(crate) store: PathBuf,
    pub(crate) tenant: TenantId,
    /// The value of `--tenant`.
    pub(crate) tenant_named: Option<TenantId>,
    /// The target that the options name.
    pub(crate) target: Target,
    /// Set by [`Context::open_account`] if the target is AWS.
    pub(crate) account: Option<AwsAccount>,
    pub(crate) json: bool,
    pub(crate) env: Env,
}

/// The system on which a command acts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// A store file.
    Store,
    /// The store on AWS.
    Aws,
    Server(Url),
    /// The server of a profile.
    Profile(ProfileName),
    /// No option names a target; the environment and the selected profile decide.
    Unspecified,
}

/// What to do if the store file does not exist.
#[derive(Debug, Clone, Copy)]
pub(crate) enum IfMissing {
    Create,
    Fail,
    /// Use an empty store in memory and create no file.
    UseEmpty,
}

impl Context {
    pub(crate) fn new(common: Common, mut env: Env) -> Result<Self, CliError> {
        env.user = common.user.map(|user| user.to_string()).or(env.user);
        let target = match (common.server, common.profile, &common.store) {
            (None, None, None) if common.aws => Target::Aws,
            // clap does not detect a conflict between an option before the verb and one after it.
            _ if common.aws => {
                let text = "--aws cannot be used with --store, --server or --profile; remove one of them";
                return Err(CliError::Usage(text.to_owned()));
            }
            (Some(url), _, _) => Target::Server(url),
            (None, Some(profile), _) => Target::Profile(profile),
            (None, None, Some(_)) => Target::Store,
            (None, None, None) => Target::Unspecified,
        };
        let named = common.store.or_else(|| env.store.clone());
        let store = named.unwrap_or_else(|| STORE_DEFAULT.into());
        let tenant = match &common.tenant {
            Some(tenant) => tenant.clone(),
            None => TenantId::new(TENANT_DEFAULT)?,
        };
        Ok(Self { store, tenant, tenant_named: common.tenant, target, account: None, json: common.json, env })
    }

    /// Returns the context with the account opened if the target is AWS.
    pub(crate) async fn open_account(&self) -> Result<Self, CliError> {
        if self.target != Target::Aws {
            return Ok(self.clone());
        }
        let account = AwsAccount::open(self.env.variable).await?;
        Ok(Self { account: Some(account), ..self.clone() })
    }

    /// The user's name as recorded in the chain of events.
    pub(crate) fn user(&self) -> String {
        self.env.user.clone().unwrap_or_else(account_name)
    }

    pub(crate) fn by_user(&self) -> Initiator {
        Initiator::new(Cause::User, self.user())
    }

    pub(crate) fn run(&self, name: &RunName) -> RunKey {
        name.key_for(&self.tenant)
    }

    /// Renders follow-up commands with the options that lead to this target.
    pub(crate) fn hints(&self) -> CommandHints {
        self.hints_for(&self.tenant)
    }

    pub(crate) fn hints_for(&self, tenant: &TenantId) -> CommandHints {
        if self.target == Target::Aws {
            CommandHints::for_aws(tenant)
        } else {
            CommandHints::new(&self.store, tenant)
        }
    }

    pub(crate) fn profiles(&self) -> Result<Profiles, CliError> {
        self.env.config.as_deref().map_or_else(|| Ok(Profiles::default()), profile::read)
    }

    /// The server that is the target; `None` for a store.
    pub(crate) fn server(&self) -> Result<Option<Server>, CliError> {
        let variable = self.env.variable;
        let server = match self.resolve_target()? {
            Target::Server(url) => Server::at(url, variable)?,
            Target::Profile(name) => Server::named(&name, &self.profiles()?, variable)?,
            Target::Store | Target::Aws | Target::Unspecified => return Ok(None),
        };
        server.for_tenant(self.tenant_named.clone()).map(Some)
    }

    /// Precedence: options, then the environment, then the selected profile.
    fn resolve_target(&self) -> Result<Target, CliError> {
        if self.target != Target::Unspecified {
            return Ok(self.target.clone());
        }
        match (&self.env.profile, &self.env.store) {
            (Some(_), Some(_)) => Err(CliError::Usage(
                "COUNTERSIGN_PROFILE and COUNTERSIGN_STORE are both set; unset one, or use --profile or --store"
                    .to_owned(),
            )),
            (Some(name), None) => {
                let wrong = |why| CliError::Usage(format!("COUNTERSIGN_PROFILE is invalid: {why}"));
                Ok(Target::Profile(name.parse().map_err(wrong)?))
            }
            (None, Some(_)) => Ok(Target::Store),
            (None, None) => Ok(self.profiles()?.used.map_or(Target::Store, Target::Profile)),
        }
    }

    /// Whether the target is a store file.
    pub(crate) fn targets_file(&self) -> Result<bool, CliError> {
        Ok(matches!(self.resolve_target()?, Target::Store | Target::Unspecified))
    }

    /// The server that is the target, for error messages; `None` for a store.
    fn server_label(&self) -> Result<Option<String>, CliError> {
        Ok(match self.resolve_target()? {
            Target::Server(url) => Some(format!("server {url}")),
            Target::Profile(name) => Some(format!("the server of profile {}", name.as_str())),
            Target::Store | Target::Aws | Target::Unspecified => None,
        })
    }

    /// Refuses a server or AWS as target, so that a command meant for them does not act on a local file.
    pub(crate) fn require_file_store(&self) -> Result<(), CliError> {
        let elsewhere = match self.server_label()? {
            Some(server) => server,
            None if self.target == Target::Aws => "AWS".to_owned(),
            None => return Ok(()),
        };
        Err(CliError::Usage(format!(
            "this command works on a store file and cannot run on {elsewhere}; name the file with --store FILE"
        )))
    }

    /// Refuses a server as target: the command affects all tenants, so it runs on a store file or on AWS.
    pub(crate) fn require_store(&self) -> Result<(), CliError> {
        let Some(server) = self.server_label()? else { return Ok(()) };
        Err(CliError::Usage(format!(
            "this command works on a store and cannot run on {server}; name a file with --store FILE, or use --aws \
             for the account that the environment names"
        )))
    }

    /// Opens the store file, or the store on AWS if that is the target.
    pub(crate) fn any_store(&self, if_missing: IfMissing) -> Result<AnyStore, CliError> {
        match &self.account {
            Some(account) if self.target == Target::Aws => Ok(account.store()),
            _ => self.file_store(if_missing).map(AnyStore::File),
        }
    }

    /// Opens the store file.
    pub(crate) fn file_store(&self, if_missing: IfMissing) -> Result<SqliteStore, CliError> {
        self.require_file_store()?;
        let path = self.store.clone();
        let opened = match if_missing {
            IfMissing::Fail if is_missing(&path) => return Err(CliError::NoStore { path }),
            IfMissing::UseEmpty if is_missing(&path) => SqliteStore::memory(SqliteOptions::default()),
            IfMissing::Create | IfMissing::Fail | IfMissing::UseEmpty => {
                SqliteStore::open(&path, SqliteOptions::default())
            }
        };
        opened.map_err(|source| CliError::OpenStore { path, source })
    }

    /// Prints the result as text, or as JSON with `--json`.
    pub(crate) fn print(&self, text: &str, json: &Value) -> Result<(), CliError> {
        if self.json { screen::json(json) } else { screen::text(text) }
    }
}

/// The tools against which an engine that executes nothing checks workflows.
pub(crate) fn default_tools() -> ToolRegistry {
    connectors::standard_tools(HostAllowList::default())
}

/// The tools and the connections of an engine that executes nothing.
#[derive(Debug)]
pub(crate) struct CommandTools {
    pub(crate) tools: ToolRegistry,
    pub(crate) connections: ConnectionParts,
}

impl From<ToolRegistry> for CommandTools {
    /// Without connections.
    fn from(tools: ToolRegistry) -> Self {
        Self { tools, connections: ConnectionParts::default() }
    }
}

/// An engine that executes no steps.
pub(crate) fn command_engine<S: Store>(
    store: S,
    tools: impl Into<CommandTools>,
) -> Result<Engine<S>, CliError> {
    let CommandTools { tools, connections } = tools.into();
    let me = WorkerId::new(&format!("cli-{}", random::hex::<8>()?)).map_err(CliError::Id)?;
    Ok(Engine::new(EngineParts {
        store: Arc::new(store),
        tools,
        connections,
        clock: Arc::new(SystemClock),
        me,
        timing: Timing::default(),
        // Workers post approval cards and build evidence.
        notifier: None,
        evidence_signer: None,
    }))
}

/// A file whose existence cannot be determined is not missing: opening it returns the cause.
fn is_missing(path: &Path) -> bool {
    matches!(path.try_exists(), Ok(false))
}

/// The name of the account in the user database. A container often sets neither `USER` nor `LOGNAME`.
fn account_name() -> String {
    let uid = rustix::process::getuid().as_raw();
    let accounts = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    name_of(&accounts, uid).unwrap_or_else(|| format!("uid-{uid}"))
}

/// The name of `uid` in the lines of `/etc/passwd`.
fn name_of(accounts: &str, uid: u32) -> Option<String> {
    accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, id) = (fields.next()?, fields.nth(1)?);
        (id.parse() == Ok(uid) && !name.is_empty()).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_name_comes_from_the_account() {
        let accounts = "root:x:0:0:root:/root:/bin/sh\nbroken\nada:x:1000:1000::/home/ada:/bin/sh\n";
        assert_eq!(name_of(accounts, 0).as_deref(), Some("root"));
        assert_eq!(name_of(accounts, 1000).as_deref(), Some("ada"));
        assert_eq!(name_of(accounts, 7), None);
    }
}
