//! The roll of workers.

use std::future::Future;

use domain::{Enrolled, WorkerId};

use crate::error::StoreError;
use crate::ledger::Write;

/// Which workers there are. The roll is nobody's: workers serve every tenant.
pub trait Roll {
    /// A worker on the roll.
    fn enrolled(
        &self,
        worker: &WorkerId,
    ) -> impl Future<Output = Result<Option<Enrolled>, StoreError>> + Send;

    /// Writes a worker's place; superseded unless what stands there has the revision before.
    fn enroll(&self, worker: Enrolled) -> impl Future<Output = Result<Write, StoreError>> + Send;

    /// All workers on the roll, by name. One that has not signed for [`domain::roll::KEPT_FOR`] may be missing.
    fn roll(&self) -> impl Future<Output = Result<Vec<Enrolled>, StoreError>> + Send;
}
