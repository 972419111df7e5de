package countersign_test

import data.countersign

change := {
	"action": {"reversibility": "inverse", "destructive": false},
	"step": {"blast": "low"},
	"run": {"environment": "dev"},
}

changed(part) := object.union(change, part)

people := {member.people | some member in countersign.needs_approval}

test_a_small_change_in_dev_is_allowed if {
	some member in countersign.allow with input as change
	member.rule == "rehearsal"
	people == set() with input as change
}

test_a_small_change_in_prod_needs_one_person if {
	people == {1} with input as changed({"run": {"environment": "prod"}})
}

test_each_grave_change_needs_two_people_even_in_dev if {
	people == {2} with input as changed({"step": {"blast": "high"}})
	people == {2} with input as changed({"action": {"destructive": true}})
	people == {2} with input as changed({"action": {"reversibility": "irreversible"}})
}

test_a_grave_change_is_not_allowed_by_another_rule if {
	countersign.allow == set() with input as changed({"action": {"destructive": true}})
}
