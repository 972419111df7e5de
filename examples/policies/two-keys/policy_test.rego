package countersign_test

import data.countersign

change := {
	"action": {"reversibility": "inverse", "destructive": false},
	"step": {"blast_radius": "low"},
	"run": {"environment": "dev"},
}

changed(part) := object.union(change, part)

people := {member.people | some member in countersign.needs_approval}

test_low_risk_change_in_dev_is_allowed if {
	some member in countersign.allow with input as change
	member.rule == "non-production"
	people == set() with input as change
}

test_low_risk_change_in_prod_needs_one_approver if {
	people == {1} with input as changed({"run": {"environment": "prod"}})
}

test_high_risk_change_needs_two_approvers_even_in_dev if {
	people == {2} with input as changed({"step": {"blast_radius": "high"}})
	people == {2} with input as changed({"action": {"destructive": true}})
	people == {2} with input as changed({"action": {"reversibility": "irreversible"}})
}

test_high_risk_change_matches_no_allow_rule if {
	countersign.allow == set() with input as changed({"action": {"destructive": true}})
}

test_read_in_prod_is_allowed if {
	read := changed({"action": {"class": "read_only"}, "step": {"blast_radius": "high"}, "run": {"environment": "prod"}})
	people == set() with input as read
	count(countersign.allow) == 1 with input as read
}
