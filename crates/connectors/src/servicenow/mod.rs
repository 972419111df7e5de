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

use domain::ConnectionKind;
use domain::EffectClass::{CompareAndSet, Opaque, ReadOnly};

use crate::api::Api;
use crate::connection::{ToolConnection, Unconnected};
use crate::tool::ToolRegistry;

/// Instances answer single-record requests within two seconds; a hibernating one needs longer.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Registers the ServiceNow tools.
pub(crate) fn register(registry: ToolRegistry) -> ToolRegistry {
    let tool = |name, class, connect| Unconnected { name, kind: ConnectionKind::ServiceNow, class, connect };
    registry
        .with(tool(get::NAME, ReadOnly, |on| Arc::new(get::Get(api(on)))))
        .with(tool(update::UPDATE, CompareAndSet, |on| {
            Arc::new(update::Change { api: api(on), kind: update::Kind::Update })
        }))
        .with(tool(update::ASSIGN, CompareAndSet, |on| {
            Arc::new(update::Change { api: api(on), kind: update::Kind::Assign })
        }))
        .with(tool(note::NAME, Opaque, |on| Arc::new(note::WorkNote(api(on)))))
}

fn api(connection: &ToolConnection) -> Arc<Api> {
    Arc::new(Api::new(connection, TIMEOUT))
}
