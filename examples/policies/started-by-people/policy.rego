# What a person started may change something, with another person's yes. What a webhook started by itself may
# only sort: labels and assignments. So a flood of tickets cannot become a flood of changes.
package countersign

by_a_person if not is_null(input.run.requester)

sorting if input.action.tool in {"servicenow.assign", "github.label", "github.unlabel"}

needs_approval contains {
	"rule": "started-by-a-person",
	"says": sprintf("%s started this; somebody else agrees", [input.run.requester]),
	"tier": input.step.blast,
	"people": 1,
	"groups": [],
} if {
	by_a_person
	not sorting
}

allow contains {"rule": "sorting", "says": "labels and assignments can be put back"} if sorting

deny contains {
	"rule": "nobody-asked",
	"says": sprintf("%s started this run by itself, and such runs only sort", [input.run.trigger]),
} if {
	not by_a_person
	not sorting
}

# A run away from what it was meant for is stopped early, whoever started it.
deny contains {"rule": "ten-changes", "says": "a run that sorts has no more than ten things to change"} if {
	input.caps.writes_done >= 10
	not input.step.undo
}
