package countersign_test

import data.countersign

of(table) := {"action": {"connector": "servicenow", "values": {"table": table}}}

groups := {group | some member in countersign.needs_approval; some group in member.groups}

# What no rule speaks of is denied.
silent if count(countersign.needs_approval) == 0

test_the_owners_of_a_table_are_asked if {
	groups == {"platform"} with input as of("cmdb_ci")
	groups == {"incident-managers"} with input as of("incident")
}

test_a_table_that_nobody_owns_is_not_changed if silent with input as of("sys_user")

test_other_systems_are_not_spoken_of if {
	silent with input as {"action": {"connector": "github", "values": {"table": "incident"}}}
}
