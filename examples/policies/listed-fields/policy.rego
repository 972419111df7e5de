# An incident's assignment and its labels may be changed without asking, because that can be put back. Any other
# column needs a person, and closing an incident is left to people.
#
# `changes` holds the names of the fields that would change, not their values.
package countersign

free := {"assignment_group", "assigned_to", "category", "subcategory"}

closing := {"state", "close_code", "close_notes"}

incident if {
	input.action.tool in {"servicenow.update", "servicenow.assign"}
	startswith(input.action.target, "acme.service-now.com/incident/")
}

changes := {field | some field in input.action.changes}

deny contains {"rule": "closing", "says": "incidents are closed by people"} if {
	incident
	count(changes & closing) > 0
}

needs_approval contains {
	"rule": "other-columns",
	"says": sprintf("a person looks at %s", [concat(", ", sort(changes - free))]),
	"tier": "low",
	"people": 1,
	"groups": [],
} if {
	incident
	count(changes - free) > 0
}

allow contains {"rule": "assignment", "says": "who has an incident can be put back"} if {
	incident
	count(changes - free) == 0
	input.action.reversibility in {"inverse", "no_effect"}
}
