package countersign_test

import data.countersign

changing(fields) := {"action": {
	"tool": "servicenow.update",
	"target": "acme.service-now.com/incident/9d38",
	"reversibility": "inverse",
	"changes": fields,
}}

rules := {member.rule |
	some member in ((countersign.deny | countersign.needs_approval) | countersign.allow)
}

test_assignment_is_allowed if {
	rules == {"assignment"} with input as changing(["assignment_group", "assigned_to"])
}

test_one_other_column_needs_approval if {
	rules == {"other-columns"} with input as changing(["assignment_group", "priority"])
}

test_closing_is_denied if {
	"closing" in rules with input as changing(["state"])
	"closing" in rules with input as changing(["assignment_group", "close_notes"])
}

test_other_tables_match_no_rule if {
	other := {"action": {"target": "acme.service-now.com/sys_user/9d38"}}
	rules == set() with input as object.union(changing(["assignment_group"]), other)
}

test_reads_are_allowed if rules == {"read"} with input as {"action": {"tool": "servicenow.get", "class": "read_only"}}
