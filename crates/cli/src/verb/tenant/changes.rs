//! What changed between two states of a tenant, in words.

use std::collections::BTreeSet;

use domain::tenant::Person;
use domain::{GroupName, PersonId, Tenant};

/// One line for each thing that changed.
pub(super) fn changes(before: &Tenant, after: &Tenant) -> Vec<String> {
    [people(before, after), groups(before, after), caps(before, after)].concat()
}

fn people(before: &Tenant, after: &Tenant) -> Vec<String> {
    let ids: BTreeSet<&PersonId> = before.people.keys().chain(after.people.keys()).collect();
    let line = |id: &PersonId| match (before.people.get(id), after.people.get(id)) {
        (None, Some(new)) => Some(format!("{id} is new{}", slack_of(new))),
        (Some(_), None) => Some(format!("{id} is gone")),
        (Some(old), Some(new)) if old != new => {
            let slack = |person: &Person| person.slack.clone().unwrap_or_else(|| "nobody".to_owned());
            Some(format!("{id} was {} in Slack and is {} now", slack(old), slack(new)))
        }
        (Some(_), Some(_)) | (None, None) => None,
    };
    ids.into_iter().filter_map(line).collect()
}

fn slack_of(person: &Person) -> String {
    person.slack.as_ref().map(|slack| format!(", in Slack {slack}")).unwrap_or_default()
}

fn groups(before: &Tenant, after: &Tenant) -> Vec<String> {
    let names: BTreeSet<&GroupName> = before.groups.keys().chain(after.groups.keys()).collect();
    let lines = |name: &GroupName| match (before.groups.get(name), after.groups.get(name)) {
        (None, Some(new)) => vec![format!("group {name} is new: {}", listed(new))],
        (Some(_), None) => vec![format!("group {name} is gone")],
        (Some(old), Some(new)) => {
            let joined = new.difference(old).map(|person| format!("{person} joined group {name}"));
            let left = old.difference(new).map(|person| format!("{person} left group {name}"));
            joined.chain(left).collect()
        }
        (None, None) => Vec::new(),
    };
    names.into_iter().flat_map(lines).collect()
}

/// The names, or `nobody`.
pub(super) fn listed(people: &BTreeSet<PersonId>) -> String {
    let names: Vec<_> = people.iter().map(PersonId::as_str).collect();
    if names.is_empty() { "nobody".to_owned() } else { names.join(", ") }
}

fn caps(before: &Tenant, after: &Tenant) -> Vec<String> {
    let (old, new) = (before.caps.max_writes_per_run, after.caps.max_writes_per_run);
    let line = || format!("a run could have {old} effects and may have {new} now");
    (old != new).then(line).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(body: &str) -> Tenant {
        serde_json::from_str(&format!("{{\"tenant\": \"acme\", {body}}}")).unwrap()
    }

    #[test]
    fn every_change_is_a_line_and_nothing_else_is() {
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
                "ada was T:A in Slack and is nobody now",
                "cyn is new, in Slack T:C",
                "eve is gone",
                "bob joined group db",
                "eve left group db",
                "group new is new: nobody",
                "group old is gone",
                "a run could have 9 effects and may have 8 now",
            ]
        );
        assert!(changes(&before, &before).is_empty());
    }
}
