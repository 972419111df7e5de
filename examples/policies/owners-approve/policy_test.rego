package countersign_test

import data.countersign

of(table) := {"action": {"connector": "servicenow", "values": {"table": table}}}

groups := {group | some member in countersign.needs_approval; some group in member.groups}

# An action that matches no rule is denied.
no_match if count(countersign.needs_approval) == 0

test_table_owners_must_approve if {
	groups == {"platform"} with input as of("cmdb_ci")
	groups == {"incident-managers"} with input as of("incident")
}

test_table_without_owner_matches_no_rule if no_match with input as of("sys_user")

test_other_systems_match_no_rule if {
	no_match with input as {"action": {"connector": "github", "values": {"table": "incident"}}}
}

test_reads_are_allowed if {
	read := object.union(of("incident"), {"action": {"class": "read_only"}})
	no_match with input as read
	count(countersign.allow) == 1 with input as read
}
