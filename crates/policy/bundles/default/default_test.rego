# Tests of this bundle. `countersign policy test` runs every rule whose name starts with `test_`. Each must be true.
#
# Tests have their own package, so that their definitions cannot change a verdict. `with input as …` replaces the input.
package countersign_test

import data.countersign

# A small reversible change in dev. Each test replaces the parts it covers.
small_change := {
	"action": {
		"tool": "servicenow.update",
		"connector": "servicenow",
		"operation": "update",
		"origin": "forward",
		"contract": 1,
		"class": "compare_and_set",
		"reversibility": "inverse",
		"destructive": false,
		"target": "incident/9d38",
		"fields": {"fields.assignment_group": "string"},
		"changes": ["assignment_group"],
		"values": {},
	},
	"step": {"id": "assign", "blast_radius": "low", "critical": false, "phase": "main", "rollback": false, "attempt": 1},
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

changed(part) := object.union(small_change, part)

in_prod := {"run": {"environment": "prod"}}

# The names of the rules that match.
denied_by := {member.rule | some member in countersign.deny}

approval_rules := {member.rule | some member in countersign.needs_approval}

allowed_by := {member.rule | some member in countersign.allow}

no_match if {
	count(denied_by) == 0
	count(approval_rules) == 0
	count(allowed_by) == 0
}

# non-prod-write

test_reversible_change_in_dev_is_allowed if {
	allowed_by == {"non-prod-write"} with input as small_change
	approval_rules == set() with input as small_change
	denied_by == set() with input as small_change
}

test_compensable_change_in_staging_is_allowed if {
	here := changed({"run": {"environment": "staging"}, "action": {"reversibility": "compensable"}})
	allowed_by == {"non-prod-write"} with input as here
	approval_rules == set() with input as here
}

test_medium_blast_radius_in_dev_is_allowed if {
	here := changed({"step": {"blast_radius": "medium"}})
	allowed_by == {"non-prod-write"} with input as here
	approval_rules == set() with input as here
}

# irreversible

test_irreversible_change_in_dev_needs_one_approver if {
	here := changed({"action": {"reversibility": "irreversible"}, "step": {"blast_radius": "medium"}})
	approval_rules == {"irreversible"} with input as here
	allowed_by == set() with input as here
	[{"tier": "medium", "people": 1}] == demands with input as here
}

# prod-write

test_change_in_prod_needs_one_approver if {
	here := changed(in_prod)
	approval_rules == {"prod-write"} with input as here
	allowed_by == set() with input as here
	[{"tier": "low", "people": 1}] == demands with input as here
}

# high-blast-radius

test_high_blast_radius_in_dev_needs_two_approvers if {
	here := changed({"step": {"blast_radius": "high"}})
	approval_rules == {"high-blast-radius"} with input as here
	allowed_by == set() with input as here
	[{"tier": "high", "people": 2}] == demands with input as here
}

# destructive

test_destructive_change_in_dev_needs_two_approvers if {
	here := changed({"action": {"destructive": true}})
	approval_rules == {"destructive"} with input as here
	allowed_by == set() with input as here
	[{"tier": "high", "people": 2}] == demands with input as here
}

# recorded-inverse

# The parts of the input during a rollback.
rollback(origin) := {"step": {"rollback": true}, "action": {"origin": origin}}

test_recorded_inverse_is_allowed_everywhere if {
	every environment in ["dev", "staging", "prod"] {
		here := changed(object.union(rollback("recorded_inverse"), {"run": {"environment": environment}}))
		allowed_by == {"recorded-inverse"} with input as here
		approval_rules == set() with input as here
	}
}

# A rollback that the author of the workflow wrote is a change like any other, although its tool records an inverse.

test_declared_rollback_in_prod_needs_one_approver if {
	here := changed(object.union(rollback("declared_rollback"), in_prod))
	approval_rules == {"prod-write"} with input as here
	allowed_by == set() with input as here
	[{"tier": "low", "people": 1}] == demands with input as here
}

test_declared_rollback_in_staging_is_a_change if {
	here := changed(object.union(rollback("declared_rollback"), {"run": {"environment": "staging"}}))
	allowed_by == {"non-prod-write"} with input as here
	approval_rules == set() with input as here
}

test_irreversible_rollback_in_staging_needs_one_approver if {
	parts := object.union(rollback("declared_rollback"), {"run": {"environment": "staging"}})
	here := changed(object.union(parts, {"action": {"origin": "declared_rollback", "reversibility": "irreversible"}}))
	approval_rules == {"irreversible"} with input as here
	allowed_by == set() with input as here
}

# max-writes

test_change_at_the_limit_is_denied if {
	here := changed({"caps": {"writes_done": 64}})
	denied_by == {"max-writes"} with input as here
}

test_change_below_the_limit_is_not_denied if {
	here := changed({"caps": {"writes_done": 63}})
	denied_by == set() with input as here
}

test_rollback_at_the_limit_is_allowed if {
	here := changed(object.union(rollback("recorded_inverse"), {"caps": {"writes_done": 64}}))
	denied_by == set() with input as here
	allowed_by == {"recorded-inverse"} with input as here
}

# read

test_read_is_allowed_everywhere if {
	every environment in ["dev", "staging", "prod"] {
		here := changed({
			"action": {"class": "read_only", "reversibility": "no_effect"},
			"step": {"blast_radius": "high"},
			"run": {"environment": environment},
			"caps": {"writes_done": 64},
		})
		allowed_by == {"read"} with input as here
		approval_rules == set() with input as here
		denied_by == set() with input as here
	}
}

# no-change

test_change_that_changes_nothing_is_allowed_outside_production if {
	allowed_by == {"no-change"} with input as changed({"action": {"reversibility": "no_effect"}})
}

test_change_that_changes_nothing_needs_approval_in_production if {
	here := changed({"action": {"reversibility": "no_effect"}, "run": {"environment": "prod"}})
	allowed_by == set() with input as here
	approval_rules == {"prod-write"} with input as here
}

# The tier and the number of approvers of each approval rule.
demands := [{"tier": member.tier, "people": member.people} | some member in countersign.needs_approval]
