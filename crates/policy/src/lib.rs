//! What policy says about an action: Rego in, a [verdict](domain::Verdict) with its reasons out.
//!
//! A [`Bundle`] is a policy. It is parsed and checked once, named by its [hash](Bundle::hash), and then
//! [asked](Bundle::judge) about [`Facts`]: an action, the step and the run it belongs to, and how much the run
//! may still do. Asking does no I/O and keeps nothing, so the same facts get the same verdict. Whatever goes
//! wrong is a [`Fault`], and every fault is a deny; nothing can be set to make it anything else.
//!
//! # How to write a bundle
//!
//! A bundle is a directory of Rego files (version 1 of the language). Those in the package `countersign` add to
//! three sets, and the sets make the verdict:
//!
//! | if there is a member of | then the verdict is |
//! |---|---|
//! | `deny` | deny, whatever else is said |
//! | `needs_approval` | people must say yes, as many and of as high a tier as the strictest member asks for |
//! | `allow` | allow |
//! | none of them | deny: nothing is allowed by default |
//!
//! A member is an object, written out where the rule begins. Its `rule` is a name that no other rule of the
//! bundle has, and `says` is one sentence for the person who reads the card. A member of `needs_approval` also
//! has a `tier` (`"low"`, `"medium"` or `"high"`), the number of `people` (1 or 2) and the `groups` they must
//! belong to; an empty list means everybody who may approve.
//!
//! ```rego
//! package countersign
//!
//! reads := ["fields.assignment_group"]
//!
//! deny contains {"rule": "no-shell-in-prod", "says": "production is not changed by hand"} if {
//!     input.run.environment == "prod"
//!     input.action.connector == "command"
//! }
//!
//! needs_approval contains {
//!     "rule": "database-tickets",
//!     "says": "the people on call take tickets for the databases themselves",
//!     "tier": "medium",
//!     "people": 1,
//!     "groups": ["db-oncall"],
//! } if input.action.values["fields.assignment_group"] == "db-oncall"
//!
//! allow contains {"rule": "tickets", "says": "a ticket may be changed if that can be taken back"} if {
//!     input.action.tool == "servicenow.update"
//!     input.action.reversibility == "inverse"
//! }
//! ```
//!
//! The policy that ships with the runtime ([`Bundle::shipped`]) is written as a model to start from.
//!
//! ## What a rule can see
//!
//! | `input.…` | is |
//! |---|---|
//! | `action.tool`, `.connector`, `.operation` | `servicenow.update` and its two parts |
//! | `action.contract` | the version of the tool's contract |
//! | `action.class` | `read_only`, `native_key`, `compare_and_set`, `look_up` or `opaque` |
//! | `action.reversibility` | `no_effect`, `inverse`, `compensable` or `irreversible` |
//! | `action.destructive` | whether it destroys something |
//! | `action.target` | the place it changes: a host and a path, a table and a record |
//! | `action.fields` | the type of each field, by its dotted path: `{"fields.urgency": "number"}` |
//! | `action.changes` | the names of the fields that would change |
//! | `action.values` | the values at the paths that the bundle lists in `reads`, by path |
//! | `step.id`, `.blast`, `.critical`, `.phase`, `.undo`, `.attempt` | the step; `blast` is `low`, `medium` or `high` |
//! | `run.tenant`, `.workspace`, `.workflow`, `.version` | whose run, and of what |
//! | `run.environment` | `dev`, `staging` or `prod` |
//! | `run.trigger`, `.requester` | what started it, and the person who did, or null |
//! | `caps.writes_done`, `.writes_max` | how many effects the run has had, and may have |
//!
//! Values of fields are left out on purpose: a ticket's text is written by strangers, and must not be able to
//! talk a policy into anything. A bundle that needs one names its path in `reads`, where a reviewer sees it. A
//! path leads into the fields of the action; lists are not looked into, and a name that holds a dot is written
//! in quotes: `a."b.c"`. The idempotency key and the values that stood there before are never shown.
//!
//! ## What a bundle may not do
//!
//! A name in Rego that does not exist makes its rule silent, and a silent `deny` denies nothing. So a bundle is
//! refused, with file, line and column ([`BundleError`]), if a rule names something in `input` that is never
//! there, a value that is not in `reads`, or a rule that nobody has written. It is also refused if it calls a
//! function whose answer depends on more than its arguments, goes in circles, or is too large to be reviewed.
//!
//! While it is asked, a bundle has a second. A rule that fails, contradicts another or gives an
//! answer of the wrong shape makes the verdict a deny, whatever the other rules say.
//!
//! ## Tests
//!
//! Files that end in `_test.rego` hold tests, in a package that ends in `_test`. Each rule called `test_…` must
//! be true. `with input as …` puts a made-up input in the place of the real one. Tests are not part of the
//! hash, since no verdict depends on them.
//!
//! ```rego
//! package countersign_test
//!
//! import data.countersign
//!
//! test_no_shell_in_prod if {
//!     some member in countersign.deny with input as {
//!         "run": {"environment": "prod"},
//!         "action": {"connector": "command"},
//!     }
//!     member.rule == "no-shell-in-prod"
//! }
//! ```

mod answer;
mod bundle;
mod check;
mod compile;
mod error;
mod evaluate;
mod explain;
mod facts;
mod fault;
mod input;
mod lexical;
mod place;
mod report;
mod size;
mod syntax;

pub use answer::Set;
pub use bundle::Bundle;
pub use error::{BundleError, Problem};
pub use explain::{Explanation, Trace};
pub use facts::{CapsState, Facts, RunFacts, StepFacts};
pub use fault::{Fault, FaultKind, without_bundle};
pub use place::Place;
pub use report::{TestReport, TestResult};
