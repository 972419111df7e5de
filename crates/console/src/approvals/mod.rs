//! Approvals.

mod card;
mod list;
mod show;

pub(crate) use list::{list, table};
pub(crate) use show::{answer, show};
