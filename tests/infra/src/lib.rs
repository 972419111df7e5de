//! The requirements on `infra/` that a terraform test cannot assert, as tests that parse the terraform files.
//!
//! This crate has no code. The terraform tests of each module assert the settings of its resources: encryption, retention,
//! alarms and access. These rules compare terraform with the programs, and cover every module:
//!
//! - `shape`: a module has four files; every variable has a type and a description; every important resource is tested
//! - `names`: every reference resolves, and module calls match the variables of the module
//! - `statements`: every IAM statement is specific
//! - `grants`: every allowed action is one that the store uses
//! - `queues`: the queues match localstack and the programs
//! - `functions`: a function outlives the answer of its program
//! - `environment`: every variable that a program reads is set
//! - `server`: the server's command, files, port and timeouts match the program
//! - `storage`: the table and the buckets match localstack and the store
//!
//! Each rule is also tested with a few lines that violate it.
