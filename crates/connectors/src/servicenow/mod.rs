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
//! # What an update promises
//! `servicenow.update` and `servicenow.assign` are compare-and-set. The survey reads the fields and the
//! record's `sys_mod_count`; both become part of the action, so that an approval is bound to the values that
//! the approver saw. Before the write the record is read again, and if anybody has changed it since, nothing
//! is written and the step fails with `CONFLICT`. The write itself carries
//! `sysparm_query=sys_mod_count={n}`.
//!
//! **A stock instance ignores that parameter on a PATCH.** There, a change that somebody makes between our
//! read and our write, which is one round trip, is overwritten in the fields we name, and in no others. An
//! instance with a business rule or a scripted API that honours the condition (as the simulated one does)
//! closes this window. Being asked again is safe on both: a second write of ours sets the same values.
//!
//! After an attempt that got no reply, the count has moved on, by our own write or by a stranger's. If every
//! field holds what we wanted, it is done, whoever did it. If not, it cannot be told whether our write landed
//! before the stranger's, and a person is shown that.
//!
//! # What a note promises
//! See [`saying`](crate::saying): opaque, with a mark. A journal entry cannot be taken back over the API.

mod get;
mod note;
mod record;
mod update;

use std::sync::Arc;
use std::time::Duration;

use domain::EffectClass::{CompareAndSet, Opaque, ReadOnly};

use crate::absent::Absent;
use crate::api::{Api, Base, Credential};
use crate::tool::Toolbox;

/// Instances answer single records within a second or two; a sleeping one needs longer.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Where the instance is, and who we are there.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `https://acme.service-now.com`.
    pub base: Base,
    /// A user of the instance that may read and write the tables that workflows name.
    pub credential: Credential,
}

/// `toolbox` with the tools for ServiceNow.
pub(crate) fn add(toolbox: Toolbox, settings: Option<Settings>) -> Toolbox {
    let Some(Settings { base, credential }) = settings else { return add_absent(toolbox) };
    let api = Arc::new(Api::new(base, credential, TIMEOUT));
    toolbox
        .with(get::Get(Arc::clone(&api)))
        .with(update::Change { api: Arc::clone(&api), kind: update::Kind::Update })
        .with(update::Change { api: Arc::clone(&api), kind: update::Kind::Assign })
        .with(note::WorkNote(api))
}

fn add_absent(toolbox: Toolbox) -> Toolbox {
    let absent = |name, class| Absent { name, class, setting: "servicenow" };
    toolbox
        .with(absent(get::NAME, ReadOnly))
        .with(absent(update::UPDATE, CompareAndSet))
        .with(absent(update::ASSIGN, CompareAndSet))
        .with(absent(note::NAME, Opaque))
}
