package countersign_test

import data.countersign

note := {
	"action": {"tool": "servicenow.work_note"},
	"step": {"blast": "low", "undo": false},
	"run": {"requester": null, "trigger": "servicenow"},
	"caps": {"writes_done": 0},
}

changed(part) := object.union(note, part)

denies := {member.rule | some member in countersign.deny}

test_a_webhook_by_itself_may_not_write if denies == {"nobody-asked"} with input as note

test_a_webhook_may_sort if {
	here := changed({"action": {"tool": "servicenow.assign"}})
	denies == set() with input as here
	count(countersign.allow) == 1 with input as here
}

test_a_person_may_with_anothers_yes if {
	here := changed({"run": {"requester": "ada", "trigger": "cli"}})
	denies == set() with input as here
	some member in countersign.needs_approval with input as here
	member.says == "ada started this; somebody else agrees"
}

test_ten_changes_are_enough if {
	here := changed({"action": {"tool": "github.label"}, "caps": {"writes_done": 10}})
	denies == {"ten-changes"} with input as here
	denies == set() with input as object.union(here, {"step": {"undo": true}})
}
