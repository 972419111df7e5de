//! A gate for one person on their own machine.
//!
//! Whoever can open the store's file can read and write all of it; asking them for a key would prove nothing.

use std::sync::Arc;

use domain::{PersonId, Role, TenantId};
use engine::Engine;
use store::Store;

use super::{Caller, Gate};

/// The credential of whoever opened the store themselves.
pub const COMMAND_LINE: &str = "command-line";

impl Caller {
    /// Somebody at the keyboard of the machine that holds the store.
    pub fn local(tenant: TenantId, person: PersonId) -> Self {
        let roles = [Role::Admin].into_iter().collect();
        Self { tenant, person, roles, credential: COMMAND_LINE.to_owned() }
    }
}

impl<S: Store> Gate<S> {
    /// A gate that lets `caller` in, whatever a request shows. It must not be served to anybody else.
    pub fn local(engine: Arc<Engine<S>>, caller: Caller) -> Self {
        Self { local: Some(caller), ..Self::new(engine) }
    }
}
