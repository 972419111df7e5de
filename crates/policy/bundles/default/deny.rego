# What may not happen, whoever says yes.
package countersign

# A run that changes more than its tenant allows has gone wrong, and people who approve one step do not see how
# many there were. Taking back is not counted: a run at its limit must still be able to clean up.
deny contains {
	"rule": "max-writes",
	"says": sprintf("the run has made %d of its %d changes", [input.caps.writes_done, input.caps.writes_max]),
} if {
	forward
	input.caps.writes_done >= input.caps.writes_max
}
