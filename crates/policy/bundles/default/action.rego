# Helper rules for the other files of this bundle.
#
# Other rules use names such as `non_production` instead of lists of environments, so a new environment is added in one
# place.
package countersign

# Environments without customer traffic. The environment of an action is that of its connection; a workflow can only be
# stricter.
non_production if input.run.environment in {"dev", "staging"}

production if input.run.environment == "prod"

# The call reads an external system and changes nothing: a GET, `servicenow.get`, a prompt to a model. What it sends
# leaves the process.
read if input.action.class == "read_only"

write if input.action.class != "read_only"

# The call comes from the receipt of the change that is rolled back, and restores the previous state.
restore if {
	write
	input.action.origin == "recorded_inverse"
}

# Every other action. A `rollback` that the author of the workflow wrote is a change like any other: it may affect any
# record.
change if {
	write
	not restore
}

# The effect can be undone, although not always exactly.
reversible if input.action.reversibility in {"inverse", "compensable"}

irreversible if input.action.reversibility == "irreversible"

# A mistake affects more than one service, or users.
high_blast_radius if input.step.blast_radius == "high"
