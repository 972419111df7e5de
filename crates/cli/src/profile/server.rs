//! The server that a command uses.

use domain::TenantId;
use domain::access::PresentedKey;
use secrecy::{ExposeSecret as _, SecretString};
use url::Url;

use super::{ProfileName, Profiles, key};
use crate::error::CliError;
use crate::input::Variable;
use views::hint::quoted;

#[derive(Debug, Clone)]
pub(crate) struct Server {
    pub(crate) url: Url,
    /// The tenant, if it is known without a request to the server.
    pub(crate) tenant: Option<TenantId>,
    pub(crate) key: SecretString,
    /// The command line option that names this server.
    pub(crate) option: String,
}

impl Server {
    /// The server at `url`, with the key in the default variable.
    pub(crate) fn at(url: Url, variable: Variable) -> Result<Self, CliError> {
        let option = format!("--server {}", quoted(url.as_str()));
        Ok(Self { key: key::read_key(None, variable)?, url, tenant: None, option })
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
            key: key::read_key(Some(profile), variable)?,
            option: format!("--profile {}", name.as_str()),
        })
    }

    /// Restricts the server to `tenant` or to the tenant of the profile. A key names its tenant and is not used for
    /// another one.
    pub(crate) fn for_tenant(mut self, tenant: Option<TenantId>) -> Result<Self, CliError> {
        let tenant = tenant.or(self.tenant.take());
        let key_tenant = PresentedKey::parse(self.key.expose_secret()).map(|shown| shown.tenant);
        if let (Some(tenant), Some(key_tenant)) = (&tenant, &key_tenant)
            && tenant != key_tenant
        {
            return Err(CliError::Usage(format!("the key is for tenant {key_tenant}, not for {tenant}")));
        }
        self.tenant = tenant.or(key_tenant);
        Ok(self)
    }
}
