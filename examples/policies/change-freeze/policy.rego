# Changes in production are denied. Exempt workflows may continue with approval. Rollback and undo are always possible.
#
# A policy has no clock: a freeze starts when this bundle is applied and ends when another bundle is applied. The ledger
# records who applied each bundle.
package countersign

# A read of an external system changes nothing.
read if input.action.class == "read_only"

# Workflows that continue during the freeze.
exempt := {"incident-triage", "certificate-renewal"}

production if input.run.environment == "prod"

# A rollback within a run, or a run that undoes another run.
rolling_back if input.step.rollback

rolling_back if input.run.trigger == "undo"

deny contains {
	"rule": "change-freeze",
	"message": "production is frozen except for incidents, certificates and rollbacks",
} if {
	production
	not read
	not rolling_back
	not input.run.workflow in exempt
}

needs_approval contains {
	"rule": "production",
	"message": "changes in production need approval",
	"tier": "high",
	"people": 1,
	"groups": [],
} if {
	production
	not read
}

allow contains {"rule": "non-production", "message": "the freeze covers production only"} if not production

allow contains {"rule": "read", "message": "reads are allowed"} if {
	production
	read
}
