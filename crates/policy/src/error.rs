//! Why files are not a valid policy: a location, and a message with the fix.

use std::collections::BTreeMap;
use std::fmt;

use crate::bundle::{BUNDLE_BYTES_MAX, FILES_MAX};
use crate::check::references::DEPTH_MAX;
use crate::check::rules::{READS_MAX, RULE_NAME_CHARS_MAX};
use crate::lexical::{NESTING_MAX, OPERATORS_MAX};
use crate::location::PolicyLocation;

/// Why files are not a valid policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct PolicyError {
    /// Absent if the error concerns the bundle as a whole.
    pub location: Option<PolicyLocation>,
    pub kind: PolicyErrorKind,
}

impl PolicyError {
    pub(crate) fn at(location: &PolicyLocation, kind: PolicyErrorKind) -> Self {
        Self { location: Some(location.clone()), kind }
    }

    pub(crate) fn of_bundle(kind: PolicyErrorKind) -> Self {
        Self { location: None, kind }
    }

    /// The error with its source line from `files`, and a caret under the column.
    pub fn render(&self, files: &BTreeMap<String, String>) -> String {
        let source = self.location.as_ref().and_then(|location| Some((location, files.get(&location.file)?)));
        match source {
            Some((location, source)) => format!("{self}\n{}", location.snippet(source)),
            None => format!("{self}\n"),
        }
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.location {
            Some(location) => write!(f, "{location}: {}", self.kind),
            None => self.kind.fmt(f),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyErrorKind {
    #[error("the bundle is empty; add at least one `.rego` file that is not a `_test.rego` file")]
    Empty,
    #[error("the bundle has {files} files; at most {FILES_MAX} are allowed")]
    TooManyFiles { files: usize },
    #[error("the bundle has {bytes} bytes; at most {BUNDLE_BYTES_MAX} are allowed")]
    TooLarge { bytes: usize },
    #[error(
        "invalid path `{path}`; use a relative path of letters, digits, `.`, `_`, `-` and `/` that ends in `.rego`"
    )]
    Path {
        /// Cut to a bounded length.
        path: String,
    },
    #[error("{0}; fix the Rego syntax")]
    Syntax(String),
    #[error("expression has more than {OPERATORS_MAX} operators, dots and brackets; move parts into rules")]
    Operators,
    #[error("brackets are nested more than {NESTING_MAX} levels deep; move parts into rules")]
    Nesting,
    /// A file with rules in a package for tests, or the other way around.
    #[error("{0}")]
    Package(&'static str),
    /// No `deny`, `needs_approval` or `allow` rule at all.
    #[error(
        "the bundle has no rules; add a rule such as \
         `allow contains {{\"rule\": \"…\", \"message\": \"…\"}} if {{ … }}` to package `countersign`"
    )]
    NoRules,
    /// `deny := …`, `allow(x)` and similar.
    #[error(
        "`{name}` must be a set of objects; write \
         `{name} contains {{\"rule\": …, \"message\": …}} if {{ … }}`"
    )]
    NotAMember { name: String },
    /// A member with a missing, unknown or repeated field.
    #[error("a member of `{set}` must have exactly the fields {expected}; this member {flaw}")]
    Fields { set: &'static str, expected: &'static str, flaw: String },
    #[error(
        "invalid rule name; write a literal of at most {RULE_NAME_CHARS_MAX} letters, digits, `.`, `_`, `-` and `/`: \
         `\"rule\": \"some-name\"`"
    )]
    RuleName,
    #[error("duplicate rule `{rule}`, first defined at {first}; rename one of them")]
    DuplicateRule { rule: String, first: PolicyLocation },
    /// A member whose literal values are invalid.
    #[error("rule `{rule}` is invalid: {why}")]
    InvalidMember { rule: String, why: String },
    #[error(
        "`reads` must be defined once, as a literal list of at most {READS_MAX} paths: \
         `reads := [\"fields.urgency\"]`"
    )]
    Reads,
    #[error("function `{name}` is not available in policies; {}", advice(.name))]
    Function { name: String },
    #[error("the format of `sprintf` must be a literal without widths and flags; use `%s`, `%d` or `%v`")]
    Format,
    #[error(
        "`[^`, `[]`, `-]` and `***` mean something else in OPA's globs; write `[!a]` to exclude a character and `**` for \
         any text"
    )]
    Glob,
    #[error("{why}; write the pattern in RE2 syntax")]
    Pattern { why: String },
    #[error(
        "`{path}` may have no value, and then `not` is undefined in OPA; assign it first (`value := {path}`), or put \
         the call into a rule of its own and write `not` before the name of that rule"
    )]
    BeforeNot { path: String },
    #[error("`with` is allowed only in tests, and only for `input`")]
    With,
    #[error("unknown field `input.{path}`; the condition would never match; available: {known}")]
    UnknownInput { path: String, known: String },
    #[error("value `{path}` is not in `reads`; add it to `reads`")]
    NotRead { path: String },
    #[error("unknown name `{path}`; the condition would never match; correct the name or define a rule")]
    UnknownName { path: String },
    #[error("rule `{name}` depends on itself; remove the cycle")]
    Recursion { name: String },
    #[error("rule `{name}` is nested more than {DEPTH_MAX} levels deep; reduce the nesting")]
    TooDeep { name: String },
    /// A test in the wrong file, or of the wrong form.
    #[error("{0}")]
    Test(&'static str),
    #[error("duplicate test `{test}`, first defined at {first}; rename one of them")]
    DuplicateTest { test: String, first: PolicyLocation },
}

fn advice(name: &str) -> &'static str {
    match name.split('.').next() {
        Some("time" | "rand" | "uuid" | "opa") => "a verdict depends on its input only",
        Some("http" | "net") => "policies have no network access",
        Some("print" | "trace") => "use `countersign policy explain` instead",
        _ => "correct the name or use another function",
    }
}
