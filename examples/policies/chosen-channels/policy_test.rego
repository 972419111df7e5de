package countersign_test

import data.countersign

to(channel) := {"action": {"tool": "slack.post", "values": {"channel": channel}}}

test_team_channel_is_allowed if count(countersign.allow) == 1 with input as to("C0OPS")

test_customer_channel_needs_approval if {
	some member in countersign.needs_approval with input as to("C0STATUS")
	member.groups == ["communications"]
}

test_other_channels_are_denied if {
	count(countersign.deny) == 1 with input as to("C0GENERAL")
	count(countersign.deny) == 0 with input as to("C0OPS")
	count(countersign.deny) == 0 with input as to("C0STATUS")
}

test_post_without_channel_is_not_allowed if {
	count(countersign.allow) == 0 with input as {"action": {"tool": "slack.post", "values": {}}}
}

test_reads_are_allowed if count(countersign.allow) == 1 with input as {"action": {"class": "read_only"}}
