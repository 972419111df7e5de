//! What must hold of a bundle before anybody asks it.
//!
//! A mistake that only shows while judging shows as a deny, in the middle of somebody's run. Whatever can be
//! known from the text is therefore refused here, with its place. The evaluation trusts none of it: it checks
//! every answer again.

pub(crate) mod functions;
pub(crate) mod graph;
pub(crate) mod names;
pub(crate) mod rules;

use crate::error::BundleError;
use crate::syntax::File;

pub(crate) use rules::Catalogue;

/// The catalogue of the bundle that is made of `files`.
pub(crate) fn check(files: &[File]) -> Result<Catalogue, BundleError> {
    let catalogue = rules::catalogue(files)?;
    names::check(files, &catalogue.reads)?;
    Ok(catalogue)
}
