# High-risk changes need two approvers. Other changes in production need one. Other changes elsewhere need none.
package countersign

high_risk if input.step.blast_radius == "high"

high_risk if input.action.destructive

high_risk if input.action.reversibility == "irreversible"

production if input.run.environment == "prod"

needs_approval contains {
	"rule": "two-keys",
	"message": "high blast radius, destructive or irreversible",
	"tier": "high",
	"people": 2,
	"groups": [],
} if high_risk

needs_approval contains {
	"rule": "production",
	"message": "changes in production need approval",
	"tier": input.step.blast_radius,
	"people": 1,
	"groups": [],
} if {
	production
	not high_risk
}

allow contains {"rule": "non-production", "message": "outside production"} if {
	not production
	not high_risk
}
