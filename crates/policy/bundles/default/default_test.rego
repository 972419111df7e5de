# Tests of the rules of this bundle: `countersign policy test` runs every rule here whose name begins with
# `test_`, and each must be true.
#
# Tests live in a package of their own, so that nothing they define can change a verdict. `with input as …` puts
# a made-up input in the place of the real one.
package countersign_test

import data.countersign

# A small change that can be taken back, somewhere harmless. Each test below changes what it is about.
harmless := {
	"action": {
		"tool": "servicenow.update",
		"connector": "servicenow",
		"operation": "update",
		"contract": 1,
		"class": "compare_and_set",
		"reversibility": "inverse",
		"destructive": false,
		"target": "incident/9d38",
		"fields": {"fields.assignment_group": "string"},
		"changes": ["assignment_group"],
		"values": {},
	},
	"step": {"id": "assign", "blast": "low", "critical": false, "phase": "main", "undo": false, "attempt": 1},
	"run": {
		"tenant": "acme",
		"workspace": "default",
		"workflow": "incident-triage",
		"version": 3,
		"environment": "dev",
		"trigger": "servicenow",
		"requester": null,
	},
	"caps": {"writes_done": 0, "writes_max": 64},
}

changed(part) := object.union(harmless, part)

in_prod := {"run": {"environment": "prod"}}

# The names of the rules that hold.
denies := {member.rule | some member in countersign.deny}

asks := {member.rule | some member in countersign.needs_approval}

allows := {member.rule | some member in countersign.allow}

silent if {
	count(denies) == 0
	count(asks) == 0
	count(allows) == 0
}

# rehearsal-write

test_a_reversible_change_in_dev_is_allowed if {
	allows == {"rehearsal-write"} with input as harmless
	asks == set() with input as harmless
	denies == set() with input as harmless
}

test_a_compensable_change_in_staging_is_allowed if {
	here := changed({"run": {"environment": "staging"}, "action": {"reversibility": "compensable"}})
	allows == {"rehearsal-write"} with input as here
	asks == set() with input as here
}

test_a_medium_blast_radius_is_still_allowed_in_dev if {
	here := changed({"step": {"blast": "medium"}})
	allows == {"rehearsal-write"} with input as here
	asks == set() with input as here
}

# irreversible

test_what_cannot_be_taken_back_needs_a_person_in_dev if {
	here := changed({"action": {"reversibility": "irreversible"}, "step": {"blast": "medium"}})
	asks == {"irreversible"} with input as here
	allows == set() with input as here
	[{"tier": "medium", "people": 1}] == demands with input as here
}

# prod-write

test_a_change_in_prod_needs_a_person if {
	here := changed(in_prod)
	asks == {"prod-write"} with input as here
	allows == set() with input as here
	[{"tier": "low", "people": 1}] == demands with input as here
}

# high-blast-radius

test_a_high_blast_radius_needs_two_people_even_in_dev if {
	here := changed({"step": {"blast": "high"}})
	asks == {"high-blast-radius"} with input as here
	allows == set() with input as here
	[{"tier": "high", "people": 2}] == demands with input as here
}

# destructive

test_destroying_needs_two_people_even_in_dev if {
	here := changed({"action": {"destructive": true}})
	asks == {"destructive"} with input as here
	allows == set() with input as here
	[{"tier": "high", "people": 2}] == demands with input as here
}

# rehearsal-undo

test_taking_back_is_allowed_in_staging if {
	here := changed({"run": {"environment": "staging"}, "step": {"undo": true}, "action": {"reversibility": "irreversible"}})
	allows == {"rehearsal-undo"} with input as here
	asks == set() with input as here
}

# prod-undo-by-inverse

test_taking_back_by_the_inverse_is_allowed_in_prod if {
	here := changed(object.union(in_prod, {"step": {"undo": true}}))
	allows == {"prod-undo-by-inverse"} with input as here
	asks == set() with input as here
}

# prod-undo

test_making_up_for_a_change_in_prod_needs_a_person if {
	here := changed(object.union(in_prod, {"step": {"undo": true}, "action": {"reversibility": "compensable"}}))
	asks == {"prod-undo"} with input as here
	allows == set() with input as here
	[{"tier": "low", "people": 1}] == demands with input as here
}

# max-writes

test_a_run_at_its_limit_is_denied if {
	here := changed({"caps": {"writes_done": 64}})
	denies == {"max-writes"} with input as here
}

test_a_run_below_its_limit_is_not_denied if {
	here := changed({"caps": {"writes_done": 63}})
	denies == set() with input as here
}

test_a_run_at_its_limit_can_still_take_back if {
	here := changed({"caps": {"writes_done": 64}, "step": {"undo": true}})
	denies == set() with input as here
	allows == {"rehearsal-undo"} with input as here
}

# What no rule speaks of.

test_nothing_is_said_about_reading if {
	silent with input as changed({"action": {"class": "read_only", "reversibility": "no_effect"}})
}

# What the rules that ask people demand of them.
demands := [{"tier": member.tier, "people": member.people} | some member in countersign.needs_approval]
