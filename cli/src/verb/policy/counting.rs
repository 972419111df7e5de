//! Which policy counts.

use std::path::Path;

use ::policy::Bundle;
use domain::{Digest, Tenant};
use serde_json::{Value, json};

use crate::context::Context;
use crate::error::CliError;

use super::files::read_policy;

/// A tenant and the policy that counts for it.
pub(super) struct Counting {
    /// What the tenant has settled.
    pub(super) tenant: Tenant,
    /// The policy, or its hash and why it cannot be asked.
    pub(super) bundle: Result<Bundle, (Digest, String)>,
    /// Where it comes from.
    pub(super) from: From,
}

/// Where a policy comes from.
pub(super) enum From {
    /// The directory that was named.
    Directory(String),
    /// The tenant has settled on it.
    Tenant,
    /// It ships with the program.
    Shipped,
}

impl Counting {
    /// What counts for the tenant of `context`; with `dir`, what would count if that were its policy. Where
    /// there is no store yet, nobody has settled anything.
    pub(super) async fn find(dir: Option<&Path>, context: &Context) -> Result<Self, CliError> {
        let (tenant, bundle) = match context.existing_engine() {
            Ok(engine) => {
                let tenant = engine.tenant(&context.tenant).await?;
                let bundle = engine.bundle(&tenant).await?;
                (tenant, bundle)
            }
            Err(CliError::NoStore { .. }) => (Tenant::new(context.tenant.clone()), shipped()),
            Err(error) => return Err(error),
        };
        Ok(match dir {
            Some(dir) => {
                let from = From::Directory(dir.display().to_string());
                Self { tenant, bundle: Ok(read_policy(dir)?), from }
            }
            None if tenant.policy.is_some() => Self { tenant, bundle, from: From::Tenant },
            None => Self { tenant, bundle, from: From::Shipped },
        })
    }

    /// Its hash.
    pub(super) fn hash(&self) -> Digest {
        match &self.bundle {
            Ok(bundle) => bundle.hash(),
            Err((hash, _)) => *hash,
        }
    }

    /// Where it comes from, in words.
    pub(super) fn origin(&self) -> String {
        match &self.from {
            From::Directory(dir) => format!("in {dir}"),
            From::Tenant => format!("settled by tenant {}", self.tenant.tenant),
            From::Shipped => {
                format!("ships with the program; tenant {} has settled on none", self.tenant.tenant)
            }
        }
    }

    /// Its hash and where it comes from, for programs.
    pub(super) fn to_json(&self) -> Value {
        let from = match &self.from {
            From::Directory(dir) => json!({ "directory": dir }),
            From::Tenant => json!({ "tenant": self.tenant.tenant }),
            From::Shipped => json!("shipped"),
        };
        json!({ "hash": self.hash(), "from": from })
    }
}

fn shipped() -> Result<Bundle, (Digest, String)> {
    Bundle::shipped().map_err(|error| (Digest::ZERO, error.to_string()))
}
