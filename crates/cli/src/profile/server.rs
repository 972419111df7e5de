//! The server that a command is for.

use domain::TenantId;
use domain::access::ShownKey;
use secrecy::{ExposeSecret as _, SecretString};
use url::Url;

use super::{ProfileName, Profiles, key};
use crate::config::Variable;
use crate::error::CliError;
use views::hint::quoted;

/// A server, and the key to it.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    /// Where it is.
    pub(crate) url: Url,
    /// Whose runs are meant, where that is known before the server is asked.
    pub(crate) tenant: Option<TenantId>,
    /// What proves who asks.
    pub(crate) key: SecretString,
    /// How this server is named on a command line.
    pub(crate) option: String,
}

impl Server {
    /// The server at `url`, with the key in the variable that is meant for that.
    pub(crate) fn at(url: Url, variable: Variable) -> Result<Self, CliError> {
        let option = format!("--server {}", quoted(url.as_str()));
        Ok(Self { key: key::of(None, variable)?, url, tenant: None, option })
    }

    /// The server of the profile `name`.
    pub(crate) fn named(
        name: &ProfileName,
        profiles: &Profiles,
        variable: Variable,
    ) -> Result<Self, CliError> {
        let profile = profiles.get(name)?;
        Ok(Self {
            url: profile.url.clone(),
            tenant: profile.tenant.clone(),
            key: key::of(Some(profile), variable)?,
            option: format!("--profile {}", name.as_str()),
        })
    }

    /// The same, if it is for `wanted`, or nobody said for whom. A key that says for whom it is is not sent for
    /// somebody else.
    pub(crate) fn of(mut self, wanted: Option<TenantId>) -> Result<Self, CliError> {
        let wanted = wanted.or(self.tenant.take());
        let meant = ShownKey::read(self.key.expose_secret()).map(|shown| shown.tenant);
        if let (Some(wanted), Some(meant)) = (&wanted, &meant)
            && wanted != meant
        {
            return Err(CliError::Usage(format!("the key is for tenant {meant}, not for {wanted}")));
        }
        self.tenant = wanted.or(meant);
        Ok(self)
    }
}
