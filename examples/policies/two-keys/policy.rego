# Two people for what reaches far, destroys something or cannot be taken back. One for every other change in
# production. Nobody elsewhere.
package countersign

grave if input.step.blast == "high"

grave if input.action.destructive

grave if input.action.reversibility == "irreversible"

production if input.run.environment == "prod"

needs_approval contains {
	"rule": "two-keys",
	"says": "this reaches far, destroys something, or cannot be taken back",
	"tier": "high",
	"people": 2,
	"groups": [],
} if grave

needs_approval contains {
	"rule": "second-pair-of-eyes",
	"says": "a change in production needs a second pair of eyes",
	"tier": input.step.blast,
	"people": 1,
	"groups": [],
} if {
	production
	not grave
}

allow contains {"rule": "rehearsal", "says": "nothing a customer sees breaks here"} if {
	not production
	not grave
}
