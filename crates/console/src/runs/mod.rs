//! Runs.

mod act;
mod list;
mod sections;
mod show;
mod timeline;

pub(crate) use act::act;
pub(crate) use list::{list, table};
pub(crate) use sections::rule_source;
pub(crate) use show::show;
