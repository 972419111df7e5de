# What may happen without anybody being asked, unless a rule in one of the other files holds as well.
#
# Nothing is allowed by default: an action about which no rule says anything is denied.
package countersign

allow contains {
	"rule": "rehearsal-write",
	"says": "outside production, what can be taken back may be done",
} if {
	rehearsal
	forward
	reversible
	not reaches_far
	not input.action.destructive
}

allow contains {
	"rule": "rehearsal-undo",
	"says": "outside production, a run may take back what it did",
} if {
	rehearsal
	undo
}

allow contains {
	"rule": "prod-undo-by-inverse",
	"says": "this puts back what stood there before the run",
} if {
	production
	undo
	by_inverse
}
