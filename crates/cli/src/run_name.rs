//! A run on the command line: `run-…`, or `tenant/run-…` as messages print it.

use std::str::FromStr;

use domain::id::InvalidId;
use domain::{RunId, RunKey, TenantId};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunName {
    tenant: Option<TenantId>,
    run: RunId,
}

impl RunName {
    pub(crate) fn tenant(&self) -> Option<&TenantId> {
        self.tenant.as_ref()
    }

    /// The key of the run; `tenant` applies if the name contains none.
    pub(crate) fn key_for(&self, tenant: &TenantId) -> RunKey {
        RunKey { tenant: self.tenant.as_ref().unwrap_or(tenant).clone(), run: self.run.clone() }
    }
}

impl FromStr for RunName {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        match text.split_once('/') {
            Some((tenant, run)) => Ok(Self { tenant: Some(tenant.parse()?), run: run.parse()? }),
            None => Ok(Self { tenant: None, run: text.parse()? }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(text: &str) -> String {
        text.parse::<RunName>().unwrap().key_for(&"acme".parse().unwrap()).to_string()
    }

    #[test]
    fn name_may_contain_the_tenant() {
        assert_eq!(named("run-1"), "acme/run-1");
        assert_eq!(named("other/run-1"), "other/run-1");
    }

    #[test]
    fn invalid_id_is_refused() {
        for bad in ["", "/", "a/b/c", "run 1", "run-1\n", "rün"] {
            assert!(bad.parse::<RunName>().is_err(), "{bad:?}");
        }
    }
}
