# Workflows that were reviewed, by name and version, may do in production what can be put back, without asking.
# Any other workflow, and the next version of a reviewed one, asks.
#
# A workflow that says nothing has every change seen by a person in production all the same: its author adds
# `validation: critical_only`, and the reviewer sees that line.
package countersign

reviewed := {
	"incident-triage": {1, 2},
	"label-stale-issues": {1},
}

known if input.run.version in reviewed[input.run.workflow]

put_back if input.action.reversibility == "inverse"

production if input.run.environment == "prod"

allow contains {"rule": "reviewed", "says": "this version was reviewed, and the change can be put back"} if {
	production
	known
	put_back
	input.step.blast != "high"
}

needs_approval contains {
	"rule": "not-reviewed",
	"says": "this version of the workflow was not reviewed for changes on its own",
	"tier": input.step.blast,
	"people": 1,
	"groups": [],
} if {
	production
	not known
}

needs_approval contains {
	"rule": "not-put-back",
	"says": "this reaches far, or cannot be put back to the letter",
	"tier": input.step.blast,
	"people": 1,
	"groups": [],
} if {
	production
	not easy
}

easy if {
	put_back
	input.step.blast != "high"
}

allow contains {"rule": "rehearsal", "says": "nothing a customer sees breaks here"} if not production
