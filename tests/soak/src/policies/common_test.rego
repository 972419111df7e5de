package countersign_test

import data.countersign

change := {
	"action": {"target": "host/effect", "origin": "forward", "reversibility": "inverse"},
	"step": {"blast_radius": "low"},
}

test_low_is_allowed if {
	count(countersign.allow) > 0 with input as change
	count(countersign.needs_approval) == 0 with input as change
}

test_forbidden_is_denied if {
	forbidden := {"action": {"target": "host/forbidden", "origin": "forward", "reversibility": "inverse"}, "step": {"blast_radius": "low"}}
	count(countersign.deny) == 1 with input as forbidden
}
