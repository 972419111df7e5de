package countersign_test

import data.countersign

assign := {
	"action": {"reversibility": "inverse"},
	"step": {"blast": "medium"},
	"run": {"environment": "prod", "workflow": "incident-triage", "version": 2},
}

changed(part) := object.union(assign, part)

asks := {member.rule | some member in countersign.needs_approval}

allows := {member.rule | some member in countersign.allow}

test_a_reviewed_version_goes_ahead if {
	allows == {"reviewed"} with input as assign
	asks == set() with input as assign
}

test_the_next_version_asks_again if {
	asks == {"not-reviewed"} with input as changed({"run": {"version": 3}})
	asks == {"not-reviewed"} with input as changed({"run": {"workflow": "new"}})
}

test_what_cannot_be_put_back_asks_whoever_reviewed_it if {
	asks == {"not-put-back"} with input as changed({"action": {"reversibility": "irreversible"}})
	asks == {"not-put-back"} with input as changed({"step": {"blast": "high"}})
	allows == set() with input as changed({"step": {"blast": "high"}})
}
