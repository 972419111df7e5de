# High-risk changes need two approvers. Other changes in production need one. Other changes elsewhere, and reads, need
# none.
package countersign

# A read of an external system changes nothing.
read if input.action.class == "read_only"

high_risk if input.step.blast_radius == "high"

high_risk if input.action.destructive

high_risk if input.action.reversibility == "irreversible"

production if input.run.environment == "prod"

allow contains {"rule": "read", "message": "reads are allowed"} if read

needs_approval contains {
	"rule": "two-keys",
	"message": "high blast radius, destructive or irreversible",
	"tier": "high",
	"people": 2,
	"groups": [],
} if {
	high_risk
	not read
}

needs_approval contains {
	"rule": "production",
	"message": "changes in production need approval",
	"tier": input.step.blast_radius,
	"people": 1,
	"groups": [],
} if {
	production
	not high_risk
	not read
}

allow contains {"rule": "non-production", "message": "outside production"} if {
	not production
	not high_risk
	not read
}
