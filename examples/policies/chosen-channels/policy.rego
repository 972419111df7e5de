# Messages may be posted to the listed channels. Channels with customers need approval. Other channels are denied.
#
# The channel is a value, so it is listed in `reads`. The message text is not, so it cannot influence the policy.
package countersign

reads := ["channel"]

team_channels := {"C0OPS", "C0INCIDENTS"}

with_customers := {"C0STATUS"}

post if input.action.tool == "slack.post"

channel := input.action.values.channel

# A rule of its own: `not listed` is also true for a message without a channel.
listed if channel in (team_channels | with_customers)

allow contains {"rule": "team-channel", "message": "team channel"} if {
	post
	channel in team_channels
}

needs_approval contains {
	"rule": "customer-channel",
	"message": "customers read this channel",
	"tier": "medium",
	"people": 1,
	"groups": ["communications"],
} if {
	post
	channel in with_customers
}

deny contains {"rule": "other-channel", "message": "this channel is not on the list"} if {
	post
	not listed
}

allow contains {"rule": "read", "message": "reads are allowed"} if input.action.class == "read_only"
