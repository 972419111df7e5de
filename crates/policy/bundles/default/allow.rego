# Actions that need no approval, unless a rule in `deny.rego` or `approval.rego` also matches.
#
# The default is deny: an action that no rule matches is denied.
package countersign

allow contains {
	"rule": "read",
	"message": "reads are allowed",
} if {
	read
}

allow contains {
	"rule": "non-prod-write",
	"message": "reversible changes are allowed outside production",
} if {
	non_production
	change
	reversible
	not high_blast_radius
	not input.action.destructive
}

allow contains {
	"rule": "no-change",
	"message": "the values are already set, so nothing changes",
} if {
	non_production
	change
	input.action.reversibility == "no_effect"
	not high_blast_radius
	not input.action.destructive
}

allow contains {
	"rule": "recorded-inverse",
	"message": "this restores the state from before the run",
} if {
	restore
}
