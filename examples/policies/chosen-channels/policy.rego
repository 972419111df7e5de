# Messages go to the channels of this list. Those where customers read along need a person who has seen the text;
# any other channel is refused.
#
# The channel is a value, so it stands in `reads`. The text does not: nobody's words sway a policy.
package countersign

reads := ["channel"]

ours := {"C0OPS", "C0INCIDENTS"}

with_customers := {"C0STATUS"}

post if input.action.tool == "slack.post"

channel := input.action.values.channel

allow contains {"rule": "our-channels", "says": "only we read there"} if {
	post
	channel in ours
}

needs_approval contains {
	"rule": "customers-read-along",
	"says": "customers read what is posted there",
	"tier": "medium",
	"people": 1,
	"groups": ["communications"],
} if {
	post
	channel in with_customers
}

deny contains {"rule": "other-channels", "says": "this channel is not on the list"} if {
	post
	not channel in ours | with_customers
}
