//! What a bundle may be, what it says, and what happens when it cannot say anything.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests and their helpers may")]

mod bundles;
#[path = "../support/case.rs"]
mod case;
mod deny_paths;
mod depth;
#[path = "../support/files.rs"]
mod files;
mod manual;
#[path = "../support/oracle.rs"]
mod oracle;
mod recipes;
mod refused;
mod shipped;
