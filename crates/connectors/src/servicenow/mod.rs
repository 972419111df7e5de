//! ServiceNow, through its Table API.
//!
//! ```yaml
//! tool: servicenow.get
//! with: { table: incident, sys_id: 9d385017c611228701d22104cc95c371, fields: [number, priority] }
//! tool: servicenow.update
//! with: { table: incident, sys_id: …, fields: { priority: "2" } }
//! tool: servicenow.assign
//! with: { table: incident, sys_id: …, assignment_group: …, assigned_to: … }
//! tool: servicenow.work_note
//! with: { table: incident, sys_id: …, text: Restarted the primary. }
//! ```
//!
//! # Updates
//! `servicenow.update` and `servicenow.assign` are compare-and-set. `observe` reads the fields and the record's
//! `sys_mod_count`. Both become part of the action, so an approval is bound to the values that the approver saw.
//! `perform` reads the record again. If it changed since, nothing is written and the step fails with `CONFLICT`. The
//! write itself carries `sysparm_query=sys_mod_count={n}`.
//!
//! **A stock instance ignores that parameter on a PATCH.** There, a change by another user during the one round trip
//! between read and write is overwritten, in the named fields only. An instance with a business rule or a scripted
//! API that honors the condition (as the fake does) closes this window. A retry is safe on both: a second write sets
//! the same values.
//!
//! After an attempt without a reply, the count may have increased because of this write or another user's. If every
//! field has the desired value, the action is done. Otherwise the outcome is unknown and an operator decides.
//!
//! # Work notes
//! `servicenow.work_note` is opaque, with a mark: see [`marked_post`](crate::marked_post). The API cannot remove a
//! journal entry, so a note is irreversible.

mod get;
mod note;
mod record;
mod update;

use std::sync::Arc;
use std::time::Duration;

use domain::EffectClass::{CompareAndSet, Opaque, ReadOnly};

use crate::api::{Api, BaseUrl, Credential};
use crate::not_configured::NotConfiguredTool;
use crate::tool::ToolRegistry;

/// Instances answer single-record requests within two seconds; a hibernating one needs longer.
const TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Debug, Clone)]
pub struct ServiceNowSettings {
    /// `https://acme.service-now.com`.
    pub base: BaseUrl,
    /// A user that may read and write the tables that workflows name.
    pub credential: Credential,
}

/// Registers the ServiceNow tools.
pub(crate) fn register(registry: ToolRegistry, settings: Option<ServiceNowSettings>) -> ToolRegistry {
    let Some(ServiceNowSettings { base, credential }) = settings else {
        return register_not_configured(registry);
    };
    let api = Arc::new(Api::new(base, credential, TIMEOUT));
    registry
        .with(get::Get(Arc::clone(&api)))
        .with(update::Change { api: Arc::clone(&api), kind: update::Kind::Update })
        .with(update::Change { api: Arc::clone(&api), kind: update::Kind::Assign })
        .with(note::WorkNote(api))
}

fn register_not_configured(registry: ToolRegistry) -> ToolRegistry {
    let not_configured = |name, class| NotConfiguredTool { name, class, setting: "servicenow" };
    registry
        .with(not_configured(get::NAME, ReadOnly))
        .with(not_configured(update::UPDATE, CompareAndSet))
        .with(not_configured(update::ASSIGN, CompareAndSet))
        .with(not_configured(note::NAME, Opaque))
}
