# Whoever owns a table in ServiceNow says yes to changes of it. A table that nobody owns is not changed.
#
# `reads` names the one value that these rules look at. The groups are those of `countersign tenant set`.
package countersign

reads := ["table"]

owners := {
	"incident": "incident-managers",
	"change_request": "change-advisory",
	"cmdb_ci": "platform",
}

needs_approval contains {
	"rule": "owner",
	"says": sprintf("changes of %s are agreed by %s", [input.action.values.table, owner]),
	"tier": "medium",
	"people": 1,
	"groups": [owner],
} if {
	input.action.connector == "servicenow"
	owner := owners[input.action.values.table]
}
