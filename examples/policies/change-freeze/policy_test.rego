package countersign_test

import data.countersign

deploy := {
	"step": {"undo": false},
	"run": {"environment": "prod", "workflow": "deploy", "trigger": "cli"},
}

changed(part) := object.union(deploy, part)

denied if count(countersign.deny) > 0

asked if count(countersign.needs_approval) > 0

test_production_is_frozen if denied with input as deploy

test_an_exempt_workflow_goes_on_with_a_yes if {
	here := changed({"run": {"workflow": "incident-triage"}})
	not denied with input as here
	asked with input as here
}

test_taking_back_goes_on if {
	not denied with input as changed({"step": {"undo": true}})
	not denied with input as changed({"run": {"trigger": "undo"}})
}

test_elsewhere_nothing_is_frozen if {
	here := changed({"run": {"environment": "staging"}})
	not denied with input as here
	count(countersign.allow) == 1 with input as here
}
