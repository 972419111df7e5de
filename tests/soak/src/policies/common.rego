# The rules of every policy of the soak.
package countersign

restore if input.action.origin == "recorded_inverse"

deny contains {
	"rule": "forbidden-path",
	"message": "this path is forbidden",
} if contains(input.action.target, "/forbidden")

needs_approval contains {
	"rule": "medium",
	"message": "the group oncall approves medium blast radius",
	"tier": "medium",
	"people": 1,
	"groups": ["oncall"],
} if {
	input.step.blast_radius == "medium"
	not restore
}

needs_approval contains {
	"rule": "high",
	"message": "two approvers for high blast radius",
	"tier": "high",
	"people": 2,
	"groups": [],
} if {
	input.step.blast_radius == "high"
	not restore
}

allow contains {"rule": "low", "message": "low blast radius"} if input.step.blast_radius == "low"

allow contains {"rule": "restore", "message": "restores the state before the run"} if restore
