//! Where the soak runs: the store, and how the programs reach it.

#[cfg(feature = "aws")]
mod aws;
mod sqlite;

use std::future::Future;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use domain::TenantId;
use evidence::PublicKey;
use store::Store;

use crate::external_systems::ExternalSystems;
use crate::flow::Endpoints;

#[cfg(feature = "aws")]
pub(crate) use aws::AwsDeployment;
pub(crate) use sqlite::SqliteDeployment;

/// A run that does not end within this time without faults is stuck. A request that waits for a concurrency key is
/// processed again after 15 minutes, if its wake-up was lost.
const SETTLE_TIMEOUT: Duration = Duration::from_mins(17);

/// A fault of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StoreFault {
    /// Requests wait.
    Slow,
    /// Requests fail.
    Unavailable,
    /// Writes that need more space fail.
    Full,
}

/// The sizes that fit the speed of a store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoadProfile {
    pub(crate) workers: usize,
    pub(crate) servers: usize,
    /// The number of requests that are sent at the same time.
    pub(crate) starters: usize,
    /// No run is started while this many are open.
    pub(crate) open_max: usize,
    /// The mean time between two faults.
    pub(crate) fault_every: Duration,
    /// A run that does not end within this time without faults is stuck.
    pub(crate) settle_timeout: Duration,
    /// Longer than the lease of a step.
    pub(crate) suspend_time: Duration,
}

pub(crate) trait Deployment: Send + Sync + 'static {
    type Store: Store;

    fn profile(&self) -> LoadProfile;
    fn external_systems(&self) -> &ExternalSystems;
    fn endpoints(&self) -> Endpoints;
    fn tenant(&self) -> TenantId;
    /// The store as the oracle reads it, not affected by the faults.
    fn store(&self) -> &Self::Store;
    fn public_key(&self) -> Result<PublicKey, String>;
    fn worker(&self) -> Command;
    fn server(&self, port: u16) -> Command;
    /// The command line of an operator of the store.
    fn cli(&self) -> Command;
    /// The command line without a store.
    fn program(&self) -> Command;
    /// Whether the deployment can produce the fault.
    fn supports(&self, fault: StoreFault) -> bool;
    /// Produces a fault for `time`. `processes` are the ids of the running programs.
    fn inject_fault(
        &self,
        fault: StoreFault,
        time: Duration,
        processes: Vec<rustix::process::Pid>,
    ) -> impl Future<Output = Result<(), String>> + Send;
    /// Runs the sweep, where no worker does.
    fn sweep(&self) -> impl Future<Output = ()> + Send;
    /// Keeps what was stored, after a violation. Returns where it is.
    fn keep(&self) -> String;
    /// A directory for files of the soak.
    fn directory(&self) -> PathBuf;
}
