# `http.request` may contact only the listed hosts. A GET is also judged: its URL can carry data out.
#
# The target of a request is its host and path. The host is the part before the first slash, including the port.
package countersign

# A read of an external system changes nothing.
read if input.action.class == "read_only"

hosts := {"ops.example.com", "pages.example.com:8443"}

host := split(input.action.target, "/")[0]

request if input.action.tool == "http.request"

listed if host in hosts

deny contains {
	"rule": "host",
	"message": sprintf("%s is not in the list of allowed hosts", [host]),
} if {
	request
	not listed
}

needs_approval contains {
	"rule": "production",
	"message": "changes in production need approval",
	"tier": input.step.blast_radius,
	"people": 1,
	"groups": [],
} if {
	request
	listed
	not read
	input.run.environment == "prod"
}

allow contains {"rule": "non-production", "message": "listed host, outside production"} if {
	request
	listed
	not read
	input.run.environment != "prod"
}

# The rule `host` also applies: deny is stricter than allow.
allow contains {"rule": "read", "message": "reads are allowed"} if read
