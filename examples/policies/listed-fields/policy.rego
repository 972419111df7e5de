# Assignment and category of an incident may change without approval, because the change is reversible. Other columns
# need approval. Closing an incident is denied: users do that in ServiceNow.
#
# `changes` holds the names of the fields that would change, not their values.
package countersign

# A read of an external system changes nothing.
read if input.action.class == "read_only"

free := {"assignment_group", "assigned_to", "category", "subcategory"}

closing := {"state", "close_code", "close_notes"}

incident if {
	input.action.tool in {"servicenow.update", "servicenow.assign"}
	startswith(input.action.target, "acme.service-now.com/incident/")
}

changes := {field | some field in input.action.changes}

deny contains {"rule": "closing", "message": "workflows may not close incidents"} if {
	incident
	count(changes & closing) > 0
}

needs_approval contains {
	"rule": "other-columns",
	"message": sprintf("changes of %s need approval", [concat(", ", sort(changes - free))]),
	"tier": "low",
	"people": 1,
	"groups": [],
} if {
	incident
	count(changes - free) > 0
}

allow contains {"rule": "assignment", "message": "assignments are reversible"} if {
	incident
	count(changes - free) == 0
	input.action.reversibility in {"inverse", "no_effect"}
}

allow contains {"rule": "read", "message": "reads are allowed"} if read
