//! What `infra/` promises, as tests that read it.
//!
//! There is no code here. `terraform validate` needs the provider, which a closed network does not have, and
//! knows nothing of what we promise; these tests parse the files themselves:
//!
//! - `shape`: a module is four files; every variable has a type and a description
//! - `names`: what is referred to is there, and a module is given what it asks for
//! - `statements`: every statement of a policy is specific
//! - `grants`: what a statement allows is something that the store asks for
//! - `queues`: every queue has its dead letters, under the name that the programs expect, for long enough to be looked at
//! - `functions`: every function has its alarms, and is made in one place
//! - `environment`: every variable that a program reads is set
//! - `services`: every task is closed, every balancer ends TLS and keeps a log, and somebody is told
//! - `server`: the server is started as its program wants to be, and asked where it answers
//! - `storage`: the table is the one the code uses; buckets and logs are encrypted, private, and kept as long as said
//!
//! Each rule is shown to fail on a few lines that break it.
