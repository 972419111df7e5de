//! The API that commands call: of a server, or the same routes in this process on a store file or on AWS.
//!
//! Commands are the same for all three; this module chooses the transport.

use std::path::Path;
use std::sync::Arc;

use api::auth::{Authenticator, Caller};
use api::{Api, CursorSecret};
use axum::Router;
use client::{Client, ClientError, Remote, Transport};
use domain::{PersonId, RunId, RunKey, TenantId};
use engine::{Engine, EngineError};
use evidence::TrustedKeys;
use store::{Clock as _, Store, SystemClock};
use views::EventDocument;
use views::hint::CommandHints;

use crate::any_store::{AnyStore, with_store};
use crate::context::{CommandTools, Context, IfMissing, command_engine, default_tools};
use crate::error::CliError;
use crate::input::read_config;
use crate::keys;
use crate::run_name::RunName;

/// Cursors of the in-process API stay in this process, so their key need not be secret.
const CURSORS: [u8; 32] = [0; 32];

/// A client of the API for one tenant and user.
pub(crate) struct ApiSession {
    pub(crate) client: Client,
    pub(crate) tenant: TenantId,
    /// Renders follow-up commands.
    pub(crate) hints: CommandHints,
}

impl Context {
    pub(crate) fn connect(&self) -> Result<ApiSession, CliError> {
        self.connect_as(None, None)
    }

    /// Connects for the tenant in the name of the run, and returns the run's key.
    pub(crate) fn connect_to_run(&self, run: &RunName) -> Result<(ApiSession, RunKey), CliError> {
        let session = self.connect_as(None, run.tenant())?;
        let run = run.key_for(&session.tenant);
        Ok((session, run))
    }

    /// Like [`Context::connect_to_run`], as `person`. A server identifies users by their key only.
    pub(crate) fn connect_to_run_as(
        &self,
        run: &RunName,
        person: PersonId,
    ) -> Result<(ApiSession, RunKey), CliError> {
        if self.server()?.is_some() {
            return Err(CliError::Usage(
                "--by works on a store only: a server identifies the user by API key; remove --by and use the \
                 approver's own key"
                    .to_owned(),
            ));
        }
        let session = self.connect_as(Some(person), run.tenant())?;
        let run = run.key_for(&session.tenant);
        Ok((session, run))
    }

    /// Connects to a server, or to a store that is created if it is missing.
    pub(crate) fn connect_or_create(&self) -> Result<ApiSession, CliError> {
        if self.targets_file()? {
            self.file_store(IfMissing::Create)?;
        }
        self.connect()
    }

    /// The same, with the connections of a configuration. A server uses its own.
    pub(crate) fn connect_or_create_with(&self, config: Option<&Path>) -> Result<ApiSession, CliError> {
        if self.server()?.is_some() {
            if config.is_some() {
                let text = "--config works on a store only: a server uses its own configuration; remove it";
                return Err(CliError::Usage(text.to_owned()));
            }
            return self.connect();
        }
        if self.targets_file()? {
            self.file_store(IfMissing::Create)?;
        }
        let connections = read_config(config)?.connections_without_secrets()?;
        let tools = CommandTools { tools: default_tools(), connections };
        let (person, tenant) = (self.person()?, self.tenant.clone());
        self.connect_in_process(self.any_store(IfMissing::Fail)?, tools, (person, tenant))
    }

    /// Connects for reads: to a server, or to a store that may be missing. Workflows are checked against `tools`; a
    /// server uses its own.
    pub(crate) fn connect_read_only(&self, tools: CommandTools) -> Result<ApiSession, CliError> {
        if self.server()?.is_some() {
            return self.connect();
        }
        let (person, tenant) = (self.person()?, self.tenant.clone());
        self.connect_in_process(self.any_store(IfMissing::UseEmpty)?, tools, (person, tenant))
    }

    fn person(&self) -> Result<PersonId, CliError> {
        let user = self.user();
        let wrong =
            |why| CliError::Usage(format!("{user:?} is not a valid user name: {why}; set one with --as"));
        PersonId::new(&user).map_err(wrong)
    }

    /// Connects as `person` or as the user of this shell; a server ignores both. `run_tenant` is the tenant in the
    /// name of a run.
    fn connect_as(
        &self,
        person: Option<PersonId>,
        run_tenant: Option<&TenantId>,
    ) -> Result<ApiSession, CliError> {
        let Some(server) = self.server()? else {
            let person = person.map_or_else(|| self.person(), Ok)?;
            let tenant = run_tenant.unwrap_or(&self.tenant).clone();
            return self.connect_in_process(
                self.any_store(IfMissing::Fail)?,
                default_tools().into(),
                (person, tenant),
            );
        };
        let tenant = server.tenant.clone().or_else(|| run_tenant.cloned());
        let tenant = tenant.unwrap_or_else(|| self.tenant.clone());
        if let Some(other) = run_tenant.filter(|other| **other != tenant) {
            return Err(CliError::Usage(format!("the key is for tenant {tenant}, not for {other}")));
        }
        let remote = Remote::new(&server.url, server.key)?;
        let client = Client::new(Transport::Server(remote));
        Ok(ApiSession { client, tenant, hints: CommandHints::for_server(&server.option) })
    }

    fn connect_in_process(
        &self,
        store: AnyStore,
        tools: CommandTools,
        (person, tenant): (PersonId, TenantId),
    ) -> Result<ApiSession, CliError> {
        let caller = Caller::local(tenant.clone(), person);
        let keys = self.trusted_keys();
        let router =
            with_store!(store, |store| in_process_routes(command_engine(store, tools)?, caller, keys));
        let client = Client::new(Transport::InProcess(router));
        Ok(ApiSession { client, hints: self.hints_for(&tenant), tenant })
    }

    /// The keys next to the store file, if there are any.
    fn trusted_keys(&self) -> Option<TrustedKeys> {
        let path = keys::public_key_path(&self.store);
        if self.targets_file().is_ok_and(|file| file) { keys::read_trusted_keys(&path).ok() } else { None }
    }
}

/// The routes of the API in this process.
fn in_process_routes<S: Store>(engine: Engine<S>, caller: Caller, keys: Option<TrustedKeys>) -> Router {
    let authenticator = Authenticator::local(Arc::new(engine), caller);
    let api = Api::new(authenticator, CursorSecret::new(CURSORS));
    api::router(Arc::new(match keys {
        Some(keys) => api.with_trusted_keys(keys),
        None => api,
    }))
}

impl ApiSession {
    /// Converts an error about `run`. If the run does not exist, the message names it as typed.
    pub(crate) fn run_error(run: &RunKey) -> impl Fn(ClientError) -> CliError {
        |error| {
            if error.is("NOT_FOUND") {
                return EngineError::NoRun { run: run.clone() }.into();
            }
            error.into()
        }
    }

    /// Reads the whole chain of a run.
    pub(crate) async fn chain(&self, run: &RunId) -> Result<Vec<EventDocument>, ClientError> {
        let mut chain = Vec::new();
        let mut after = None;
        loop {
            let page = self.client.events(run, after).await?;
            chain.extend(page.events);
            after = match page.next {
                Some(next) => Some(next),
                None => return Ok(chain),
            };
        }
    }

    /// The time on this machine, against which ages are computed.
    pub(crate) fn now() -> domain::Timestamp {
        SystemClock.now()
    }
}
