# Helper rules for the other files of this bundle.
#
# Other rules use names such as `non_production` instead of lists of environments, so a new environment is added in one
# place.
package countersign

# Environments without customer traffic.
non_production if input.run.environment in {"dev", "staging"}

production if input.run.environment == "prod"

# Read-only actions are not evaluated. If one were, no rule of this bundle would match, and it would be denied.
write if input.action.class != "read_only"

# An action of the workflow itself, as opposed to an action that undoes an effect of this run.
forward if {
	write
	not input.step.undo
}

undo if {
	write
	input.step.undo
}

# The receipt of the original action contains the call that restores the previous state.
by_inverse if input.action.reversibility == "inverse"

# The effect can be undone, although not always exactly.
reversible if input.action.reversibility in {"inverse", "compensable"}

irreversible if input.action.reversibility == "irreversible"

# A mistake affects more than one service, or users.
high_blast_radius if input.step.blast_radius == "high"
