//! The requirements on `infra/`, as tests that parse the terraform files.
//!
//! This crate has no code. `terraform validate` needs the provider, which an offline build does not have, and does not
//! know these requirements:
//!
//! - `shape`: a module has four files; every variable has a type and a description
//! - `names`: every reference resolves, and module calls match the variables of the module
//! - `statements`: every IAM statement is specific
//! - `grants`: every allowed action is one that the store uses
//! - `queues`: every queue has a dead-letter queue with the expected name, an alarm, and a sufficient retention
//! - `functions`: every function has its alarms and is defined in one module
//! - `environment`: every variable that a program reads is set
//! - `services`: every balancer uses TLS, logs access and has its alarms
//! - `server`: the server's command, files, port and timeouts match the program
//! - `storage`: the table matches the code; buckets and logs are encrypted, private and have a retention
//!
//! Each rule is also tested with a few lines that violate it.
