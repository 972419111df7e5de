# Reviewed workflow versions may make reversible changes in production without approval. Other workflows, and new
# versions of reviewed ones, need approval.
#
# In production a workflow without `validation` still needs approval for every change. The author adds
# `validation: critical_only` to use this rule, and the reviewer sees that line.
package countersign

# A read of an external system changes nothing.
read if input.action.class == "read_only"

reviewed := {
	"incident-triage": {1, 2},
	"label-stale-issues": {1},
}

is_reviewed if input.run.version in reviewed[input.run.workflow]

reversible if input.action.reversibility == "inverse"

production if input.run.environment == "prod"

allow contains {"rule": "reviewed", "message": "reviewed version, reversible change"} if {
	production
	is_reviewed
	reversible
	input.step.blast_radius != "high"
}

needs_approval contains {
	"rule": "not-reviewed",
	"message": "this workflow version has not been reviewed",
	"tier": input.step.blast_radius,
	"people": 1,
	"groups": [],
} if {
	production
	not read
	not is_reviewed
}

needs_approval contains {
	"rule": "high-risk",
	"message": "high blast radius, or not exactly reversible",
	"tier": input.step.blast_radius,
	"people": 1,
	"groups": [],
} if {
	production
	not read
	not low_risk
}

low_risk if {
	reversible
	input.step.blast_radius != "high"
}

allow contains {"rule": "non-production", "message": "outside production"} if not production

allow contains {"rule": "read", "message": "reads are allowed"} if {
	production
	read
}
