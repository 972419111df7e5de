# What people must say yes to.
#
# Where several of these hold, all of them must be satisfied: the highest tier and the largest number of people
# count. `groups` is empty, so anybody who may approve at all may approve these; a bundle of your own will name
# groups, such as ["db-oncall"].
package countersign

needs_approval contains {
	"rule": "prod-write",
	"says": "a change in production needs a second pair of eyes",
	"tier": input.step.blast,
	"people": 1,
	"groups": [],
} if {
	production
	forward
}

# The recorded inverse puts back what stood there, and was approved with the change itself. Anything else that
# is done to make up for a change is a change of its own.
needs_approval contains {
	"rule": "prod-undo",
	"says": "this makes up for a change in production by another change",
	"tier": input.step.blast,
	"people": 1,
	"groups": [],
} if {
	production
	undo
	not by_inverse
}

needs_approval contains {
	"rule": "irreversible",
	"says": "this cannot be taken back",
	"tier": input.step.blast,
	"people": 1,
	"groups": [],
} if {
	rehearsal
	forward
	irreversible
}

needs_approval contains {
	"rule": "high-blast-radius",
	"says": "a mistake here would reach more than one service",
	"tier": "high",
	"people": 2,
	"groups": [],
} if {
	write
	reaches_far
}

needs_approval contains {
	"rule": "destructive",
	"says": "this destroys something",
	"tier": "high",
	"people": 2,
	"groups": [],
} if {
	write
	input.action.destructive
}
