//! The audit log of a tenant: who changed its keys, settings, policy, workflows and dispatch switch. A log of its own has the
//! changes for all tenants, such as a restored store.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::access::Roles;
use crate::connection::Connection;
use crate::digest::Digest;
use crate::id::{ConnectionName, KeyId, PersonId, TenantId, WorkerId, WorkflowName};
use crate::initiator::Initiator;
use crate::json;
use crate::tenant::{Caps, Person, Tenant, WorkspaceCaps};
use crate::time::Timestamp;

/// An administrative change, as the audit log stores it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// The tenant; `None` for a change for all tenants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// When.
    pub at: Timestamp,
    /// Who. The context names the credential.
    pub by: Initiator,
    /// What changed.
    pub change: AdminChange,
}

/// What an administrator changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum AdminChange {
    /// An API key was created.
    KeyCreated {
        /// The id of the key.
        key: KeyId,
        /// The user in whose name the key acts.
        person: PersonId,
        /// The roles of the key.
        roles: Roles,
        /// When the key expires; never, if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expires_at: Option<Timestamp>,
    },
    /// An API key was revoked.
    KeyRevoked {
        /// The id of the key.
        key: KeyId,
        /// The user in whose name the key acted.
        person: PersonId,
    },
    /// Users, groups or limits changed.
    SettingsChanged {
        /// Each setting that changed.
        settings: Vec<SettingChange>,
    },
    /// A connection was added or replaced.
    ConnectionSet {
        /// The connection.
        connection: ConnectionName,
        /// What it was; absent for a new one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<Box<Connection>>,
        /// What it is now.
        after: Box<Connection>,
    },
    /// A connection was removed.
    ConnectionRemoved {
        /// The connection.
        connection: ConnectionName,
        /// What it was.
        before: Box<Connection>,
    },
    /// A policy was applied.
    PolicyApplied {
        /// The hash of the previous policy; absent for the default policy.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<Digest>,
        /// The hash of the policy.
        after: Digest,
    },
    /// A version of a workflow was applied.
    WorkflowApplied {
        /// The workflow.
        workflow: WorkflowName,
        /// The version.
        version: u32,
        /// The hash of the plan.
        plan: Digest,
    },
    /// Dispatch was stopped.
    DispatchStopped {
        /// Why.
        reason: String,
        /// Whether a backout stopped it, which also ends every active run.
        #[serde(default)]
        backout: bool,
    },
    /// Dispatch was started.
    DispatchStarted,
    /// A worker was asked to drain.
    DrainRequested {
        /// The worker.
        worker: WorkerId,
        /// Why.
        reason: String,
    },
    /// Dead-letter messages were moved back to their queues. The entry is written before they are moved.
    DeadLettersRedriven {
        /// The largest number of messages to move.
        limit: u32,
    },
    /// The store was restored from a copy.
    StoreRestored {
        /// The file of the copy.
        copy: String,
    },
}

/// One setting that changed. A value is absent if the setting did not exist.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingChange {
    /// Such as `people.ada` or `groups.db`.
    pub setting: String,
    /// The value before: the Slack user of a user, the members of a group, or a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The value after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

impl AuditEntry {
    /// The digest of the content. It recognizes a repeated write: no process writes two entries with one time.
    pub fn digest(&self) -> Digest {
        Digest::of_parts("countersign/audit/v1", &[json::canonical(self)])
    }
}

impl AdminChange {
    /// What an update of the settings changes.
    pub fn of_settings(before: &Tenant, after: &Tenant) -> Self {
        let (old, new) = (settings(before), settings(after));
        let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        let changed = names.into_iter().filter(|name| old.get(*name) != new.get(*name));
        let settings = changed
            .map(|name| SettingChange {
                setting: name.clone(),
                before: old.get(name).cloned(),
                after: new.get(name).cloned(),
            })
            .collect();
        Self::SettingsChanged { settings }
    }

    /// The name of every kind of change.
    pub const KINDS: [&str; 12] = [
        "key_created",
        "key_revoked",
        "settings_changed",
        "connection_set",
        "connection_removed",
        "policy_applied",
        "workflow_applied",
        "dispatch_stopped",
        "dispatch_started",
        "drain_requested",
        "dead_letters_redriven",
        "store_restored",
    ];

    /// The name of the kind of change.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::KeyCreated { .. } => "key_created",
            Self::KeyRevoked { .. } => "key_revoked",
            Self::SettingsChanged { .. } => "settings_changed",
            Self::ConnectionSet { .. } => "connection_set",
            Self::ConnectionRemoved { .. } => "connection_removed",
            Self::PolicyApplied { .. } => "policy_applied",
            Self::WorkflowApplied { .. } => "workflow_applied",
            Self::DispatchStopped { .. } => "dispatch_stopped",
            Self::DispatchStarted => "dispatch_started",
            Self::DrainRequested { .. } => "drain_requested",
            Self::DeadLettersRedriven { .. } => "dead_letters_redriven",
            Self::StoreRestored { .. } => "store_restored",
        }
    }
}

/// The settings of a tenant that its administrators write, by name.
fn settings(tenant: &Tenant) -> BTreeMap<String, String> {
    let people = tenant.people.iter().flat_map(|(id, person)| person_settings(id, person));
    let groups = tenant.groups.iter().map(|(name, members)| {
        let members: Vec<&str> = members.iter().map(PersonId::as_str).collect();
        (format!("groups.{name}"), members.join(", "))
    });
    let caps = caps_settings(&tenant.caps);
    let redact =
        tenant.redact.iter().enumerate().map(|(n, pattern)| (format!("redact.{n}"), pattern.clone()));
    people.chain(groups).chain(caps).chain(redact).collect()
}

/// The limits of a run.
fn caps_settings(caps: &Caps) -> Vec<(String, String)> {
    let Caps { max_writes_per_run, max_cost_per_run_microusd, workspaces } = caps;
    let own = WorkspaceCaps {
        max_writes_per_run: Some(*max_writes_per_run),
        max_cost_per_run_microusd: *max_cost_per_run_microusd,
    };
    let all = workspaces.iter().map(|(name, caps)| (format!("caps.workspaces.{name}"), *caps));
    let all = std::iter::once(("caps".to_owned(), own)).chain(all);
    all.flat_map(|(name, WorkspaceCaps { max_writes_per_run, max_cost_per_run_microusd })| {
        let writes = max_writes_per_run.map(|max| (format!("{name}.max_writes_per_run"), max.to_string()));
        let cost = max_cost_per_run_microusd
            .map(|max| (format!("{name}.max_cost_per_run_microusd"), max.to_string()));
        writes.into_iter().chain(cost)
    })
    .collect()
}

/// The settings of a user. The pattern names every field, so that a new field must be listed here.
fn person_settings(id: &PersonId, person: &Person) -> Vec<(String, String)> {
    let Person { slack, oidc, slack_roles } = person;
    let slack = slack.clone().unwrap_or_else(|| "no Slack user".to_owned());
    let mut settings = vec![(format!("people.{id}"), slack)];
    settings.extend(oidc.iter().map(|subject| (format!("people.{id}.oidc"), subject.clone())));
    if !slack_roles.is_empty() {
        let roles: Vec<String> = slack_roles.iter().map(|role| role.to_string()).collect();
        settings.push((format!("people.{id}.slack_roles"), roles.join(", ")));
    }
    settings
}

impl fmt::Display for AdminChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KeyCreated { key, person, roles, .. } => {
                let roles: Vec<String> = roles.iter().map(|role| role.to_string()).collect();
                write!(f, "created key {key} of {person} ({})", roles.join(", "))
            }
            Self::KeyRevoked { key, person } => write!(f, "revoked key {key} of {person}"),
            Self::SettingsChanged { settings } if settings.is_empty() => f.write_str("changed no setting"),
            Self::SettingsChanged { settings } => {
                let lines: Vec<String> = settings.iter().map(ToString::to_string).collect();
                write!(f, "changed {}", lines.join("; "))
            }
            Self::ConnectionSet { connection, before: None, after } => {
                write!(f, "added connection {connection}: {after}")
            }
            Self::ConnectionSet { connection, before: Some(before), after } => {
                write!(f, "changed connection {connection}: {before} -> {after}")
            }
            Self::ConnectionRemoved { connection, before } => {
                write!(f, "removed connection {connection}: {before}")
            }
            Self::PolicyApplied { after, .. } => write!(f, "applied policy {}", after.short()),
            Self::WorkflowApplied { workflow, version, .. } => {
                write!(f, "applied workflow {workflow} version {version}")
            }
            Self::DispatchStopped { reason, backout: false } => write!(f, "stopped dispatch: {reason}"),
            Self::DispatchStopped { reason, backout: true } => write!(f, "started a backout: {reason}"),
            Self::DispatchStarted => f.write_str("started dispatch"),
            Self::DrainRequested { worker, reason } => write!(f, "asked {worker} to drain: {reason}"),
            Self::DeadLettersRedriven { limit } => write!(f, "redrove up to {limit} dead-letter messages"),
            Self::StoreRestored { copy } => write!(f, "restored the store from {copy}"),
        }
    }
}

impl fmt::Display for SettingChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (before, after) = (self.before.as_deref(), self.after.as_deref());
        write!(f, "{}: {} -> {}", self.setting, before.unwrap_or("none"), after.unwrap_or("none"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(body: &str) -> Tenant {
        serde_json::from_str(&format!("{{\"tenant\": \"acme\", {body}}}")).unwrap()
    }

    #[test]
    fn settings_change_names_both_values() {
        let before = tenant(
            r#""people": {"ada": {"slack": "T:A"}, "bob": {}, "eve": {}}, "groups": {"db": ["ada", "eve"]}"#,
        );
        let after = tenant(
            r#""people": {"ada": {"slack": "T:B"}, "bob": {}}, "groups": {"db": ["ada"]},
               "caps": {"max_writes_per_run": 8}"#,
        );
        assert_eq!(
            AdminChange::of_settings(&before, &after).to_string(),
            "changed caps.max_writes_per_run: 64 -> 8; groups.db: ada, eve -> ada; people.ada: T:A -> T:B; \
             people.eve: no Slack user -> none"
        );
        let same = AdminChange::SettingsChanged { settings: Vec::new() };
        assert_eq!(AdminChange::of_settings(&before, &before), same);
    }

    #[test]
    fn settings_change_names_identity_and_roles() {
        let before = tenant(r#""people": {"ada": {"slack": "T:A"}}"#);
        let after = tenant(
            r#""people": {"ada": {"slack": "T:A", "oidc": "https://id#7", "slack_roles": ["approver"]}}"#,
        );
        assert_eq!(
            AdminChange::of_settings(&before, &after).to_string(),
            "changed people.ada.oidc: none -> https://id#7; people.ada.slack_roles: none -> approver"
        );
    }
}
