# Actions that need approval.
#
# If several rules match, all of them apply: the verdict has the highest tier and the largest number of approvers.
# `groups` is empty, so every user who may approve at all may approve these actions. In your own bundle, name groups such
# as ["db-oncall"].
package countersign

needs_approval contains {
	"rule": "prod-write",
	"message": "changes in production need approval",
	"tier": input.step.blast_radius,
	"people": 1,
	"groups": [],
} if {
	production
	change
}

needs_approval contains {
	"rule": "irreversible",
	"message": "this action cannot be undone",
	"tier": input.step.blast_radius,
	"people": 1,
	"groups": [],
} if {
	non_production
	change
	irreversible
}

needs_approval contains {
	"rule": "high-blast-radius",
	"message": "a mistake would affect more than one service",
	"tier": "high",
	"people": 2,
	"groups": [],
} if {
	write
	high_blast_radius
}

needs_approval contains {
	"rule": "destructive",
	"message": "this action destroys data",
	"tier": "high",
	"people": 2,
	"groups": [],
} if {
	write
	input.action.destructive
}
