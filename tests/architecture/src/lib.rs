//! The rules of the workspace that no compiler knows, as tests.
//!
//! There is no code here. The tests ask cargo what depends on what, and read the sources:
//!
//! - `dependencies`: which crate may use which of ours, and what each is called
//! - `libraries`: which crates from outside may be used, and by whom
//! - `licences`: under which terms they come
//! - `sources`: who may read the time and the environment; what is not written at all
//! - `invariants`: every invariant in `ARCHITECTURE.md` names a test that exists
//!
//! A rule that is in the way may be wrong. Then it is changed here, in the commit that needs it, where a
//! reviewer sees it.
