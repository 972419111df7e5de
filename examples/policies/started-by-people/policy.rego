# A run with a requester may change things with the approval of another user. A run that a webhook started may only
# triage: labels and assignments. So a flood of tickets cannot become a flood of changes.
package countersign

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
	not triage
}

allow contains {"rule": "triage", "message": "labels and assignments are reversible"} if triage

deny contains {
	"rule": "no-requester",
	"message": sprintf("a run started by %s may only change labels and assignments", [input.run.trigger]),
} if {
	not has_requester
	not triage
}

# Stops a runaway run early, with or without a requester.
deny contains {"rule": "ten-changes", "message": "the limit is ten changes per run"} if {
	input.caps.writes_done >= 10
	not input.step.undo
}
