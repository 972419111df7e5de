//! Evaluates Rego policies: a request goes in, a [verdict](domain::Verdict) with its reasons comes out.
//!
//! A [`PolicyBundle`] is a policy. It is parsed and checked once, identified by its [hash](PolicyBundle::hash), and then
//! [evaluated](PolicyBundle::evaluate) for each [`PolicyRequest`]: an action, its step and run, and the caps of the run.
//! Evaluation does no I/O, and equal requests get equal verdicts, so a [`VerdictCache`] can remember them. Every failure is an
//! [`EvaluationError`], and every such error is a deny. No setting changes that.
//!
//! # How to write a bundle
//!
//! A bundle is a directory of Rego v1 files. Rules in the package `countersign` add members to three sets. The strictest
//! set with a member decides the verdict:
//!
//! | set | verdict |
//! |---|---|
//! | `deny` | Denied, even if other rules allow the action. |
//! | `needs_approval` | Approval is required. The strictest member sets the number of approvers and the tier. |
//! | `allow` | Allowed without approval. |
//! | no member | Denied. The default is deny. |
//!
//! A member is an object literal in the head of the rule. `rule` is the name of the rule, unique in the bundle. `message`
//! is one sentence, shown on the approval card. A member of `needs_approval` also has a `tier` (`"low"`, `"medium"` or
//! `"high"`), the number of approvers in `people` (1 or 2), and the `groups` of the approvers. An empty list of groups
//! means every user who may approve.
//!
//! ```rego
//! package countersign
//!
//! reads := ["fields.assignment_group"]
//!
//! deny contains {"rule": "no-shell-in-prod", "message": "shell commands are not allowed in production"} if {
//!     input.run.environment == "prod"
//!     input.action.connector == "command"
//! }
//!
//! needs_approval contains {
//!     "rule": "database-tickets",
//!     "message": "the database on-call approves assignments to db-oncall",
//!     "tier": "medium",
//!     "people": 1,
//!     "groups": ["db-oncall"],
//! } if input.action.values["fields.assignment_group"] == "db-oncall"
//!
//! allow contains {"rule": "tickets", "message": "reversible changes to tickets are allowed"} if {
//!     input.action.tool == "servicenow.update"
//!     input.action.reversibility == "inverse"
//! }
//! ```
//!
//! Start from a copy of the default policy ([`PolicyBundle::built_in`]).
//!
//! ## Policy input
//!
//! | `input.…` | value |
//! |---|---|
//! | `action.tool`, `.connector`, `.operation` | `servicenow.update`, and its two parts |
//! | `action.contract` | the version of the tool's contract |
//! | `action.class` | `read_only`, `native_key`, `compare_and_set`, `look_up` or `opaque` |
//! | `action.reversibility` | `no_effect`, `inverse`, `compensable` or `irreversible` |
//! | `action.origin` | `forward`, `recorded_inverse` or `declared_rollback` |
//! | `action.destructive` | whether the action destroys data |
//! | `action.target` | the target: a host and a path, or a table and a record |
//! | `action.fields` | the type of each field, by its dotted path: `{"fields.urgency": "number"}` |
//! | `action.changes` | the names of the fields that would change |
//! | `action.values` | the values at the paths that the bundle lists in `reads`, by path |
//! | `step.id`, `.blast_radius`, `.critical`, `.phase`, `.rollback`, `.attempt` | the step; `blast_radius` is `low`, `medium` or `high` |
//! | `run.tenant`, `.workspace`, `.workflow`, `.version` | the run and its workflow |
//! | `run.environment` | `dev`, `staging` or `prod`: the environment of the connection, or of the workflow if that is stricter |
//! | `run.trigger`, `.requester` | the trigger type, and the user who requested the run, or null |
//! | `connection.name`, `.kind`, `.environment` | the connection of the action; undefined if it has none |
//! | `caps.writes_done`, `.writes_max` | the number of effects of the run so far, and the limit |
//!
//! The input contains no field values by default: text in a ticket comes from untrusted users and must not influence a
//! policy. A bundle that needs a value lists its path in `reads`, where a reviewer can see it. A path addresses a field of
//! the action, not an item of a list. A name that contains a dot is quoted: `a."b.c"`. The input never contains the
//! idempotency key or previous values.
//!
//! ## Checks
//!
//! In Rego, an undefined name makes its rule undefined, and a `deny` rule that is undefined denies nothing. So a bundle is
//! refused, with file, line and column ([`PolicyError`]), if a rule references an unknown `input` field, a value that is
//! not in `reads`, or an undefined rule. It is also refused if it calls a function whose result depends on more than its
//! arguments, if rules form a cycle, or if it exceeds the size limits.
//!
//! An evaluation may take one second. A rule that fails, conflicts with another rule or returns an invalid member makes
//! the verdict a deny, regardless of other rules.
//!
//! ## Tests
//!
//! Files that end in `_test.rego` contain tests, in a package that ends in `_test`. Each rule named `test_…` must be true.
//! `with input as …` replaces the input. Tests are not part of the hash, because no verdict depends on them.
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

mod builtins;
mod bundle;
mod check;
mod compile;
mod error;
mod evaluate;
mod evaluation_error;
mod explain;
mod input;
mod lexical;
mod location;
mod member;
mod report;
mod request;
mod size;
mod syntax;
mod verdict_cache;

pub use bundle::PolicyBundle;
pub use error::{PolicyError, PolicyErrorKind};
pub use evaluation_error::{EvaluationError, EvaluationErrorKind, without_bundle};
pub use explain::{Explanation, RuleTrace};
pub use location::PolicyLocation;
pub use member::RuleSet;
pub use report::{TestReport, TestResult};
pub use request::{CapUsage, PolicyRequest, RunContext, StepContext};
pub use verdict_cache::VerdictCache;
