//! The options that every command takes.

use std::path::PathBuf;

use clap::Args;
use domain::{PersonId, TenantId};
use url::Url;

use crate::profile::ProfileName;

const HEADING: &str = "Common options";

#[derive(Debug, Clone, Args)]
pub(crate) struct Common {
    /// The store file, which holds runs, queues and payloads [default: `countersign.db`]
    #[arg(long, global = true, value_name = "FILE", help_heading = HEADING)]
    pub(crate) store: Option<PathBuf>,
    /// Use the API of this server instead of a store on this machine
    #[arg(long, global = true, value_name = "URL", conflicts_with_all = ["store", "profile"], help_heading = HEADING)]
    pub(crate) server: Option<Url>,
    /// Use the server of this profile (see `countersign profile`)
    #[arg(long, global = true, value_name = "NAME", conflicts_with = "store", help_heading = HEADING)]
    pub(crate) profile: Option<ProfileName>,
    /// Use AWS instead of a store file: the emulator at `COUNTERSIGN_AWS` if that is set, otherwise the account
    /// whose table, queues and buckets are named by `COUNTERSIGN_TABLE` and the related variables. Requires a binary
    /// built with `--features aws`
    #[arg(long, global = true, conflicts_with_all = ["store", "server", "profile"], help_heading = HEADING)]
    pub(crate) aws: bool,
    /// The tenant [default: `default` on a store, the tenant of the API key on a server]
    #[arg(long, global = true, value_name = "TENANT", help_heading = HEADING)]
    pub(crate) tenant: Option<TenantId>,
    /// Act as this user; a user cannot approve a run that they requested [default: the current OS user]
    #[arg(long = "as", global = true, value_name = "NAME", help_heading = HEADING)]
    pub(crate) user: Option<PersonId>,
    /// Print JSON instead of text
    #[arg(long, global = true, help_heading = HEADING)]
    pub(crate) json: bool,
}
