//! Parsing, evaluation and failures of policy bundles.
#![expect(clippy::unwrap_used, clippy::panic, reason = "test code")]

mod bundles;
#[path = "../support/case.rs"]
mod case;
mod default_bundle;
mod deny_paths;
mod depth;
#[path = "../support/files.rs"]
mod files;
mod manual;
mod opa;
mod parse_errors;
mod recipes;
#[path = "../support/reference_policy.rs"]
mod reference_policy;
