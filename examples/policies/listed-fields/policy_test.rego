package countersign_test

import data.countersign

changing(fields) := {"action": {
	"tool": "servicenow.update",
	"target": "acme.service-now.com/incident/9d38",
	"reversibility": "inverse",
	"changes": fields,
}}

rules := {member.rule |
	some member in (countersign.deny | countersign.needs_approval) | countersign.allow
}

test_an_assignment_is_free if {
	rules == {"assignment"} with input as changing(["assignment_group", "assigned_to"])
}

test_one_other_column_asks_for_all_of_them if {
	rules == {"other-columns"} with input as changing(["assignment_group", "priority"])
}

test_people_close_incidents if {
	"closing" in rules with input as changing(["state"])
	"closing" in rules with input as changing(["assignment_group", "close_notes"])
}

test_another_table_is_not_spoken_of if {
	other := {"action": {"target": "acme.service-now.com/sys_user/9d38"}}
	rules == set() with input as object.union(changing(["assignment_group"]), other)
}
