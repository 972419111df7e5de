//! Rules of the workspace that the compiler does not check, as tests.
//!
//! This crate has no code. Its tests read cargo metadata and the sources:
//!
//! - `dependencies`: which crate may use which crate of the workspace, how each is named, and which part of the engine
//!   may use which
//! - `libraries`: which external crates may be used, and by which crate
//! - `licenses`: which licenses external crates may have
//! - `sources`: which code may read the time and the environment; which constructs are forbidden
//! - `naming`: public type names are unique, and text names its actors
//! - `threats`: every listed threat has a test of that name
//! - `documents`: the tests, files and headings that documents link to exist
//! - `invariants`: every invariant in `ARCHITECTURE.md` and `docs/invariants.md` names a test that exists
//!
//! To change a rule, edit it here in the commit that needs the change, so that a reviewer sees it.
