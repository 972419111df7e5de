//! Authentication for a user who opens the store directly.
//!
//! A user who can open the file of the store can read and write all of it, so an API key would add no protection.

use std::sync::Arc;

use domain::{PersonId, Role, TenantId};
use engine::Engine;
use store::Store;

use super::{Authenticator, Caller};

/// The credential of a user who opens the store directly.
pub const COMMAND_LINE: &str = "command-line";

impl Caller {
    /// A user of the machine with the store.
    pub fn local(tenant: TenantId, person: PersonId) -> Self {
        let roles = [Role::Admin].into_iter().collect();
        Self { tenant, person, roles, credential: COMMAND_LINE.to_owned() }
    }
}

impl<S: Store> Authenticator<S> {
    /// Authenticates every request as `caller`. Must not be served over a network.
    pub fn local(engine: Arc<Engine<S>>, caller: Caller) -> Self {
        Self { local: Some(caller), ..Self::new(engine) }
    }
}
