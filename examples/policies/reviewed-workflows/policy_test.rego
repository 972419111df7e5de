package countersign_test

import data.countersign

assignment := {
	"action": {"reversibility": "inverse"},
	"step": {"blast_radius": "medium"},
	"run": {"environment": "prod", "workflow": "incident-triage", "version": 2},
}

changed(part) := object.union(assignment, part)

approvals := {member.rule | some member in countersign.needs_approval}

allows := {member.rule | some member in countersign.allow}

test_reviewed_version_is_allowed if {
	allows == {"reviewed"} with input as assignment
	approvals == set() with input as assignment
}

test_new_version_needs_approval if {
	approvals == {"not-reviewed"} with input as changed({"run": {"version": 3}})
	approvals == {"not-reviewed"} with input as changed({"run": {"workflow": "new"}})
}

test_high_risk_needs_approval_even_if_reviewed if {
	approvals == {"high-risk"} with input as changed({"action": {"reversibility": "irreversible"}})
	approvals == {"high-risk"} with input as changed({"step": {"blast_radius": "high"}})
	allows == set() with input as changed({"step": {"blast_radius": "high"}})
}

test_reads_are_allowed if {
	read := changed({"action": {"class": "read_only", "reversibility": "no_effect"}, "run": {"version": 3}})
	approvals == set() with input as read
	allows == {"read"} with input as read
}
