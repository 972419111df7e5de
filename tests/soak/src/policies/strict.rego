# The strict policy also asks for approval of what cannot be undone.
package countersign

needs_approval contains {
	"rule": "irreversible",
	"message": "this cannot be undone",
	"tier": "low",
	"people": 1,
	"groups": [],
} if input.action.reversibility == "irreversible"
