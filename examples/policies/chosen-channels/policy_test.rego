package countersign_test

import data.countersign

to(channel) := {"action": {"tool": "slack.post", "values": {"channel": channel}}}

test_our_own_channels_are_free if count(countersign.allow) == 1 with input as to("C0OPS")

test_where_customers_read_a_person_looks if {
	some member in countersign.needs_approval with input as to("C0STATUS")
	member.groups == ["communications"]
}

test_any_other_channel_is_denied if {
	count(countersign.deny) == 1 with input as to("C0GENERAL")
	count(countersign.deny) == 0 with input as to("C0OPS")
	count(countersign.deny) == 0 with input as to("C0STATUS")
}

test_a_post_without_a_channel_is_denied if {
	count(countersign.allow) == 0 with input as {"action": {"tool": "slack.post", "values": {}}}
}
