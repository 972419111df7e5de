//! What an operator's verb speaks to: the API of a server, or the same routes in this process, on the store's file or on
//! AWS.
//!
//! A verb has one way of doing things; where it is done is settled here.

use std::sync::Arc;

use api::auth::{Caller, Gate};
use api::{Api, CursorSecret};
use client::{Client, ClientError, Remote, Transport};
use connectors::Toolbox;
use domain::{PersonId, RunId, RunKey, TenantId};
use engine::{Engine, EngineError};
use store::{Clock as _, Store, SystemClock};
use views::EventDocument;
use views::hint::Hints;

use crate::context::Context;
#[cfg(feature = "aws")]
use crate::context::tools;
use crate::error::CliError;
use crate::run_name::RunName;

/// Cursors of this process lead back into the store of whoever holds them: there is nobody to keep out.
const CURSORS: [u8; 32] = [0; 32];

/// The API, and for whom it is spoken to.
pub(crate) struct Link {
    /// The API.
    pub(crate) client: Client,
    /// Whose runs are meant.
    pub(crate) tenant: TenantId,
    /// Commands that can be typed next.
    pub(crate) hints: Hints,
}

impl Context {
    /// The API for the tenant that is meant.
    pub(crate) fn link(&self) -> Result<Link, CliError> {
        self.link_as(None, None)
    }

    /// The API for the tenant of the run that was typed, and that run.
    pub(crate) fn link_to(&self, run: &RunName) -> Result<(Link, RunKey), CliError> {
        let link = self.link_as(None, run.tenant())?;
        let run = run.of(&link.tenant);
        Ok((link, run))
    }

    /// The same in the name of `person`. A server knows who asks by their key, and by nothing else.
    pub(crate) fn link_to_as(&self, run: &RunName, person: PersonId) -> Result<(Link, RunKey), CliError> {
        if self.server()?.is_some() {
            return Err(CliError::Usage(
                "a server knows who answers by their key; leave --by out, and use the key of whoever answers"
                    .to_owned(),
            ));
        }
        let link = self.link_as(Some(person), run.tenant())?;
        let run = run.of(&link.tenant);
        Ok((link, run))
    }

    /// The API on a store that is made if it is not there, or of a server.
    pub(crate) fn link_or_new(&self) -> Result<Link, CliError> {
        if self.is_for_a_file()? {
            self.open_store()?;
        }
        self.link()
    }

    /// The API for whoever only looks: of a server, or on a store that need not be there. Workflows are looked at as
    /// if steps called `tools`; a server has its own.
    pub(crate) fn link_to_look(&self, tools: Toolbox) -> Result<Link, CliError> {
        if self.server()?.is_some() {
            return self.link();
        }
        #[cfg(feature = "aws")]
        if let Some(engine) = self.engine_on_aws(tools.clone())? {
            return Ok(self.within(engine, self.person()?, self.tenant.clone()));
        }
        Ok(self.within(self.looking_engine(tools)?, self.person()?, self.tenant.clone()))
    }

    fn person(&self) -> Result<PersonId, CliError> {
        let user = self.user();
        let wrong = |why| CliError::Usage(format!("{user:?} cannot name a person: {why}; --as gives a name"));
        PersonId::new(&user).map_err(wrong)
    }

    /// The API in the name of `person`, or else of whoever uses this machine. What they are called here is nothing to a
    /// server.
    fn link_as(&self, person: Option<PersonId>, typed: Option<&TenantId>) -> Result<Link, CliError> {
        let Some(server) = self.server()? else {
            let person = person.map_or_else(|| self.person(), Ok)?;
            let tenant = typed.unwrap_or(&self.tenant).clone();
            #[cfg(feature = "aws")]
            if let Some(engine) = self.engine_on_aws(tools())? {
                return Ok(self.within(engine, person, tenant));
            }
            return Ok(self.within(self.existing_engine()?, person, tenant));
        };
        let tenant = server.tenant.clone().or_else(|| typed.cloned()).unwrap_or_else(|| self.tenant.clone());
        if let Some(other) = typed.filter(|typed| **typed != tenant) {
            return Err(CliError::Usage(format!("the key is for tenant {tenant}, not for {other}")));
        }
        let remote = Remote::new(&server.url, server.key)?;
        let client = Client::new(Transport::Server(remote));
        Ok(Link { client, tenant, hints: Hints::of_server(&server.option) })
    }

    /// The routes in this process, on the store of `engine`.
    fn within<S: Store>(&self, engine: Engine<S>, person: PersonId, tenant: TenantId) -> Link {
        let gate = Gate::local(Arc::new(engine), Caller::local(tenant.clone(), person));
        let api = Api::new(gate, CursorSecret::new(CURSORS));
        let client = Client::new(Transport::InProcess(api::router(Arc::new(api))));
        let hints = self.hints_for(&tenant);
        Link { client, tenant, hints }
    }
}

impl Link {
    /// Why a run was not dealt with. What there is not is told by the name that was typed; of what was to start and did
    /// not, the API says why.
    pub(crate) fn about(run: &RunKey) -> impl Fn(ClientError) -> CliError {
        |error| {
            if error.is("NOT_FOUND") {
                return EngineError::NoRun { run: run.clone() }.into();
            }
            error.into()
        }
    }

    /// The whole chain of a run.
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

    /// The time here: what a server tells is told as it is seen from this machine.
    pub(crate) fn now() -> domain::Timestamp {
        SystemClock.now()
    }
}
