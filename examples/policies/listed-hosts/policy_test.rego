package countersign_test

import data.countersign

to(target) := {
	"action": {"tool": "http.request", "target": target},
	"step": {"blast_radius": "low"},
	"run": {"environment": "dev"},
}

denied if count(countersign.deny) > 0

test_listed_host_is_allowed if {
	not denied with input as to("ops.example.com/restart")
	count(countersign.allow) == 1 with input as to("pages.example.com:8443/")
}

test_other_hosts_are_denied if {
	denied with input as to("ops.example.org/restart")
	denied with input as to("ops.example.com.evil.example/restart")
	denied with input as to("evil.example/ops.example.com/")
	denied with input as to("pages.example.com/")
}

test_production_needs_approval if {
	in_prod := object.union(to("ops.example.com/restart"), {"run": {"environment": "prod"}})
	count(countersign.needs_approval) == 1 with input as in_prod
	countersign.allow == set() with input as in_prod
}

test_read_of_other_host_is_denied if {
	read := {"action": {"class": "read_only"}, "run": {"environment": "prod"}}
	denied with input as object.union(to("evil.example/?secret=1"), read)
	not denied with input as object.union(to("ops.example.com/status"), read)
	count(countersign.allow) == 1 with input as object.union(to("ops.example.com/status"), read)
	countersign.needs_approval == set() with input as object.union(to("ops.example.com/status"), read)
}
