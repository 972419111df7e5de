//! How somebody follows a request whose run is not there yet, because another run is about the same ticket.

use domain::RunKey;
use domain::inbox::WAITING_MAX;
use tokio::time::timeout;

use super::ear::Ear;
use crate::context::Context;
use crate::error::CliError;
use crate::link::Link;
use crate::so_far::SoFar;

/// Waits until `run` is there, which begins when run `by` is over.
pub(super) async fn begun(link: &Link, run: &RunKey, by: &RunKey, context: &Context) -> Result<(), CliError> {
    let mut so_far = SoFar::new(context);
    so_far.say(&format!("run {} waits until run {} is over", run.run, by.run));
    // Nobody keeps a request for longer than that.
    let begins = timeout(WAITING_MAX.std(), Ear::new(link, run, false).begins()).await;
    begins.unwrap_or_else(|_| Err(CliError::Refused(format!("run {} was not begun in time", run.run))))
}
