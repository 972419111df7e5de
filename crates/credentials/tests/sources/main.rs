//! Every source of secrets, against fakes of the stores.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests and their helpers may")]

extern crate countersign_credentials as credentials;

mod aws;
mod core_dump;
mod failures;
mod kit;
mod leases;
mod logins;
mod tls;
mod vault;
