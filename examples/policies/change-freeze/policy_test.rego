package countersign_test

import data.countersign

deploy := {
	"step": {"rollback": false},
	"run": {"environment": "prod", "workflow": "deploy", "trigger": "cli"},
}

changed(part) := object.union(deploy, part)

denied if count(countersign.deny) > 0

approval_needed if count(countersign.needs_approval) > 0

test_production_is_frozen if denied with input as deploy

test_exempt_workflow_needs_approval if {
	exempt := changed({"run": {"workflow": "incident-triage"}})
	not denied with input as exempt
	approval_needed with input as exempt
}

test_rollback_and_undo_are_not_denied if {
	not denied with input as changed({"step": {"rollback": true}})
	not denied with input as changed({"run": {"trigger": "undo"}})
}

test_staging_is_not_frozen if {
	staging := changed({"run": {"environment": "staging"}})
	not denied with input as staging
	count(countersign.allow) == 1 with input as staging
}

test_reads_are_not_frozen if {
	read := changed({"action": {"class": "read_only"}})
	not denied with input as read
	not approval_needed with input as read
	count(countersign.allow) == 1 with input as read
}
