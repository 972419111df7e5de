# Actions that are denied, even if they are approved.
package countersign

# A run that exceeds the tenant's limit of changes is faulty, and an approver of one step does not see how many changes
# came before it. Rollbacks do not count, so a run at its limit can still clean up.
deny contains {
	"rule": "max-writes",
	"message": sprintf("the run has made %d changes; its limit is %d", [input.caps.writes_done, input.caps.writes_max]),
} if {
	write
	not input.step.rollback
	input.caps.writes_done >= input.caps.writes_max
}
