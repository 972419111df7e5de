//! Static checks of a bundle.
//!
//! A mistake that shows only during evaluation denies an action in the middle of a run. So every mistake that is visible
//! in the text is refused here, with its location. Evaluation does not rely on these checks: it validates every member
//! again.

pub(crate) mod functions;
pub(crate) mod graph;
pub(crate) mod references;
pub(crate) mod rules;

use crate::error::PolicyError;
use crate::syntax::File;

pub(crate) use rules::Catalogue;

pub(crate) fn check(files: &[File]) -> Result<Catalogue, PolicyError> {
    let catalogue = rules::catalogue(files)?;
    references::check(files, &catalogue.reads)?;
    Ok(catalogue)
}
