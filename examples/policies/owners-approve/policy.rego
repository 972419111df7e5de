# The owners of a ServiceNow table approve changes to it. A table without an owner may not be changed.
#
# `reads` lists the one value that these rules use. `countersign tenant set` defines the groups.
package countersign

reads := ["table"]

# A read of an external system changes nothing.
read if input.action.class == "read_only"

owners := {
	"incident": "incident-managers",
	"change_request": "change-advisory",
	"cmdb_ci": "platform",
}

allow contains {"rule": "read", "message": "reads are allowed"} if read

needs_approval contains {
	"rule": "owner",
	"message": sprintf("changes to %s need approval by %s", [input.action.values.table, owner]),
	"tier": "medium",
	"people": 1,
	"groups": [owner],
} if {
	input.action.connector == "servicenow"
	not read
	owner := owners[input.action.values.table]
}
