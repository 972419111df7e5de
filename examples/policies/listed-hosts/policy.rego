# `http.request` changes something at the hosts of this list, and nowhere else.
#
# The target of a request is its host and path, so that the host is what stands before the first slash. A port
# belongs to the host.
package countersign

hosts := {"ops.example.com", "pages.example.com:8443"}

host := split(input.action.target, "/")[0]

request if input.action.tool == "http.request"

listed if host in hosts

deny contains {
	"rule": "host",
	"says": sprintf("%s is not a host that requests may change something at", [host]),
} if {
	request
	not listed
}

needs_approval contains {
	"rule": "production",
	"says": "a change in production needs a second pair of eyes",
	"tier": input.step.blast,
	"people": 1,
	"groups": [],
} if {
	request
	listed
	input.run.environment == "prod"
}

allow contains {"rule": "rehearsal", "says": "a host of the list, outside production"} if {
	request
	listed
	input.run.environment != "prod"
}
