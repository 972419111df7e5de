# Production stands still. A few workflows go on, with a person's yes; taking back is always possible.
#
# A policy knows no clock: a freeze begins when this bundle is applied and ends when another one is. Both stand
# in the ledger with who did it.
package countersign

# What must go on even now.
exempt := {"incident-triage", "certificate-renewal"}

production if input.run.environment == "prod"

# A rollback within a run, or a run that undoes another.
takes_back if input.step.undo

takes_back if input.run.trigger == "undo"

deny contains {
	"rule": "change-freeze",
	"says": "production is frozen; only incidents, certificates and taking back go on",
} if {
	production
	not takes_back
	not input.run.workflow in exempt
}

needs_approval contains {
	"rule": "second-pair-of-eyes",
	"says": "a change in production needs a second pair of eyes",
	"tier": "high",
	"people": 1,
	"groups": [],
} if production

allow contains {"rule": "rehearsal", "says": "the freeze is for production"} if not production
