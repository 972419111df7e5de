# The words that the other files of this bundle use.
#
# A rule that says `rehearsal` reads better than one that lists environments, and there is one place to change
# when another environment comes along.
package countersign

# Nothing a customer sees breaks here.
rehearsal if input.run.environment in {"dev", "staging"}

production if input.run.environment == "prod"

# Read-only actions never reach a policy. If one did, no rule here would hold, and it would be denied.
write if input.action.class != "read_only"

# An action that goes forward, as against one that takes back what this run did.
forward if {
	write
	not input.step.undo
}

undo if {
	write
	input.step.undo
}

# The receipt of what was done carries the call that restores what stood there before.
by_inverse if input.action.reversibility == "inverse"

# It can be taken back, if not always to the letter.
reversible if input.action.reversibility in {"inverse", "compensable"}

irreversible if input.action.reversibility == "irreversible"

# More than one service, or people.
reaches_far if input.step.blast == "high"
