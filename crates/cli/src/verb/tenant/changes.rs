//! The differences between two states of a tenant.

use std::collections::BTreeSet;

use domain::tenant::{Caps, Person};
use domain::{GroupName, PersonId, Role, Roles, Tenant};

/// One line for each difference.
pub(super) fn changes(before: &Tenant, after: &Tenant) -> Vec<String> {
    [people(before, after), groups(before, after), caps(before, after), redact(before, after)].concat()
}

fn people(before: &Tenant, after: &Tenant) -> Vec<String> {
    let ids: BTreeSet<&PersonId> = before.people.keys().chain(after.people.keys()).collect();
    let line = |id: &PersonId| match (before.people.get(id), after.people.get(id)) {
        (None, Some(new)) => vec![format!("user {id} added{}", accounts(new))],
        (Some(_), None) => vec![format!("user {id} removed")],
        (Some(old), Some(new)) => {
            let slack = change_line("Slack user", id, old.slack.as_deref(), new.slack.as_deref());
            let oidc = change_line("token subject", id, old.oidc.as_deref(), new.oidc.as_deref());
            let [before, after] = [old, new].map(|person| roles(&person.slack_roles));
            let roles = change_line("Slack roles", id, before.as_deref(), after.as_deref());
            slack.into_iter().chain(oidc).chain(roles).collect()
        }
        (None, None) => Vec::new(),
    };
    ids.into_iter().flat_map(line).collect()
}

fn change_line(what: &str, id: &PersonId, old: Option<&str>, new: Option<&str>) -> Option<String> {
    let (before, after) = (old.unwrap_or("none"), new.unwrap_or("none"));
    (old != new).then(|| format!("{what} of {id}: {before} -> {after}"))
}

fn accounts(person: &Person) -> String {
    let slack = person.slack.as_ref().map(|slack| format!(", Slack user {slack}"));
    let oidc = person.oidc.as_ref().map(|oidc| format!(", token subject {oidc}"));
    let roles = roles(&person.slack_roles).map(|roles| format!(", Slack roles {roles}"));
    slack.into_iter().chain(oidc).chain(roles).collect()
}

/// The names of the roles, if there is one.
pub(super) fn roles(roles: &Roles) -> Option<String> {
    let names: Vec<&str> = roles.iter().map(Role::as_str).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

fn groups(before: &Tenant, after: &Tenant) -> Vec<String> {
    let names: BTreeSet<&GroupName> = before.groups.keys().chain(after.groups.keys()).collect();
    let lines = |name: &GroupName| match (before.groups.get(name), after.groups.get(name)) {
        (None, Some(new)) => vec![format!("group {name} added: {}", member_list(new))],
        (Some(_), None) => vec![format!("group {name} removed")],
        (Some(old), Some(new)) => {
            let joined = new.difference(old).map(|person| format!("{person} added to group {name}"));
            let left = old.difference(new).map(|person| format!("{person} removed from group {name}"));
            joined.chain(left).collect()
        }
        (None, None) => Vec::new(),
    };
    names.into_iter().flat_map(lines).collect()
}

/// The names, or `no members`.
pub(super) fn member_list(people: &BTreeSet<PersonId>) -> String {
    let names: Vec<_> = people.iter().map(PersonId::as_str).collect();
    if names.is_empty() { "no members".to_owned() } else { names.join(", ") }
}

fn caps(before: &Tenant, after: &Tenant) -> Vec<String> {
    let (old, new) = (before.caps.max_writes_per_run, after.caps.max_writes_per_run);
    let line = || format!("maximum effects per run: {old} -> {new}");
    let effects = (old != new).then(line);
    let [old, new] = [before, after].map(|tenant| cost_limit(&tenant.caps));
    let cost = (old != new).then(|| format!("maximum cost per run: {old} -> {new}"));
    let workspaces = (before.caps.workspaces != after.caps.workspaces)
        .then(|| format!("limits of workspaces: {}", workspace_limits(&after.caps)));
    effects.into_iter().chain(cost).chain(workspaces).collect()
}

/// `payments: at most 5 effects, $0.50; test: at most 1 effect`, or `none`.
pub(super) fn workspace_limits(caps: &Caps) -> String {
    let limits = caps.workspaces.iter().map(|(workspace, caps)| {
        let writes = caps.max_writes_per_run.map(|max| format!("at most {max} effects"));
        let cost = caps.max_cost_per_run_microusd.map(domain::money::money);
        format!("{workspace}: {}", writes.into_iter().chain(cost).collect::<Vec<_>>().join(", "))
    });
    let limits = limits.collect::<Vec<_>>().join("; ");
    if limits.is_empty() { "none".to_owned() } else { limits }
}

/// `$0.50`, or `no limit`.
pub(super) fn cost_limit(caps: &Caps) -> String {
    caps.max_cost_per_run_microusd.map_or_else(|| "no limit".to_owned(), domain::money::money)
}

fn redact(before: &Tenant, after: &Tenant) -> Vec<String> {
    let added = after.redact.iter().filter(|pattern| !before.redact.contains(pattern));
    let removed = before.redact.iter().filter(|pattern| !after.redact.contains(pattern));
    let added = added.map(|pattern| format!("redaction of {pattern} added"));
    added.chain(removed.map(|pattern| format!("redaction of {pattern} removed"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(body: &str) -> Tenant {
        serde_json::from_str(&format!("{{\"tenant\": \"acme\", {body}}}")).unwrap()
    }

    #[test]
    fn every_change_is_one_line() {
        let before = tenant(
            r#""people": {"ada": {"slack": "T:A"}, "bob": {}, "eve": {}},
               "groups": {"db": ["ada", "eve"], "old": []}, "caps": {"max_writes_per_run": 9}"#,
        );
        let after = tenant(
            r#""people": {"ada": {}, "bob": {}, "cyn": {"slack": "T:C"}},
               "groups": {"db": ["ada", "bob"], "new": []}, "caps": {"max_writes_per_run": 8}"#,
        );
        assert_eq!(
            changes(&before, &after),
            [
                "Slack user of ada: T:A -> none",
                "user cyn added, Slack user T:C",
                "user eve removed",
                "bob added to group db",
                "eve removed from group db",
                "group new added: no members",
                "group old removed",
                "maximum effects per run: 9 -> 8",
            ]
        );
        assert!(changes(&before, &before).is_empty());
    }
}
