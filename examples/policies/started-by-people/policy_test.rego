package countersign_test

import data.countersign

note := {
	"action": {"tool": "servicenow.work_note"},
	"step": {"blast_radius": "low", "rollback": false},
	"run": {"requester": null, "trigger": "servicenow"},
	"caps": {"writes_done": 0},
}

changed(part) := object.union(note, part)

denies := {member.rule | some member in countersign.deny}

test_webhook_run_may_not_write if denies == {"no-requester"} with input as note

test_webhook_run_may_triage if {
	triaged := changed({"action": {"tool": "servicenow.assign"}})
	denies == set() with input as triaged
	count(countersign.allow) == 1 with input as triaged
}

test_requested_run_needs_approval if {
	requested := changed({"run": {"requester": "ada", "trigger": "cli"}})
	denies == set() with input as requested
	some member in countersign.needs_approval with input as requested
	member.message == "ada started this run; another user must approve"
}

test_eleventh_change_is_denied_unless_undo if {
	eleventh := changed({"action": {"tool": "github.label"}, "caps": {"writes_done": 10}})
	denies == {"ten-changes"} with input as eleventh
	denies == set() with input as object.union(eleventh, {"step": {"rollback": true}})
}

test_reads_are_allowed if {
	read := changed({"action": {"tool": "servicenow.get", "class": "read_only"}, "caps": {"writes_done": 10}})
	denies == set() with input as read
	count(countersign.allow) == 1 with input as read
	countersign.needs_approval == set() with input as object.union(read, {"run": {"requester": "ada"}})
}
