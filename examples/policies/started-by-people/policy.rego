# A run with a requester may change things with the approval of another user. A run that a webhook started may only
# triage: labels and assignments. So a flood of tickets cannot become a flood of changes.
package countersign

# A read of an external system changes nothing.
read if input.action.class == "read_only"

has_requester if not is_null(input.run.requester)

triage if input.action.tool in {"servicenow.assign", "github.label", "github.unlabel"}

needs_approval contains {
	"rule": "requested",
	"message": sprintf("%s started this run; another user must approve", [input.run.requester]),
	"tier": input.step.blast_radius,
	"people": 1,
	"groups": [],
} if {
	has_requester
	not read
	not triage
}

allow contains {"rule": "read", "message": "reads are allowed"} if read

allow contains {"rule": "triage", "message": "labels and assignments are reversible"} if triage

deny contains {
	"rule": "no-requester",
	"message": sprintf("a run started by %s may only change labels and assignments", [input.run.trigger]),
} if {
	not has_requester
	not read
	not triage
}

# Stops a runaway run early, with or without a requester.
deny contains {"rule": "ten-changes", "message": "the limit is ten changes per run"} if {
	not read
	input.caps.writes_done >= 10
	not input.step.rollback
}
