//! Why files are not a bundle: a place, and a sentence that names the thing and the way out.

use std::collections::BTreeMap;
use std::fmt;

use crate::bundle::{BUNDLE_BYTES_MAX, FILES_MAX};
use crate::check::names::DEPTH_MAX;
use crate::check::rules::{READS_MAX, RULE_NAME_CHARS_MAX};
use crate::lexical::OPERATORS_MAX;
use crate::place::Place;

/// Why files are not a bundle.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct BundleError {
    /// Where; absent if it is about the bundle as a whole.
    pub place: Option<Place>,
    /// What is wrong.
    pub problem: Problem,
}

impl BundleError {
    pub(crate) fn at(place: &Place, problem: Problem) -> Self {
        Self { place: Some(place.clone()), problem }
    }

    pub(crate) fn of_bundle(problem: Problem) -> Self {
        Self { place: None, problem }
    }

    /// The error with the line it is about, taken from the `files` that were parsed, and a caret under the
    /// column.
    pub fn render(&self, files: &BTreeMap<String, String>) -> String {
        let source = self.place.as_ref().and_then(|place| Some((place, files.get(&place.file)?)));
        match source {
            Some((place, source)) => format!("{self}\n{}", place.snippet(source)),
            None => format!("{self}\n"),
        }
    }
}

impl fmt::Display for BundleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => write!(f, "{place}: {}", self.problem),
            None => self.problem.fmt(f),
        }
    }
}

/// What is wrong with a bundle.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// No file with rules.
    #[error("the bundle is empty; it needs at least one `.rego` file that is not a `_test.rego` file")]
    Empty,
    /// More than [`FILES_MAX`].
    #[error("the bundle has {files} files; at most {FILES_MAX} are allowed")]
    TooManyFiles {
        /// How many there are.
        files: usize,
    },
    /// More than [`BUNDLE_BYTES_MAX`].
    #[error("the bundle has {bytes} bytes; at most {BUNDLE_BYTES_MAX} are allowed")]
    TooLarge {
        /// How many it has.
        bytes: usize,
    },
    /// A path that is not one of a Rego file in the bundle.
    #[error(
        "`{path}` is no path of a bundle; write it relative, with `/`, letters, digits, `.`, `_` and `-`, \
         and end it in `.rego`"
    )]
    Path {
        /// The path, as far as it is shown.
        path: String,
    },
    /// Not Rego.
    #[error("{0}; mend the Rego")]
    Syntax(String),
    /// A chain of operators that no person reads.
    #[error(
        "this expression has more than {OPERATORS_MAX} operators, dots and brackets; give its parts names of their own"
    )]
    Operators,
    /// A file with rules in a package for tests, or the other way around.
    #[error("{0}")]
    Package(&'static str),
    /// No `deny`, `needs_approval` or `allow` at all.
    #[error(
        "the bundle says nothing; add a rule such as \
         `allow contains {{\"rule\": \"…\", \"says\": \"…\"}} if {{ … }}` to the package `countersign`"
    )]
    NoRules,
    /// `deny := …`, `allow(x)` and the like.
    #[error(
        "`{name}` is one of the three sets a verdict is made from; write \
         `{name} contains {{\"rule\": …, \"says\": …}} if {{ … }}`"
    )]
    NotAMember {
        /// Which set.
        name: String,
    },
    /// A head without one of its fields, or with one too many.
    #[error("a member of `{set}` has exactly the fields {expected}; this one {flaw}")]
    Fields {
        /// Which set.
        set: &'static str,
        /// The fields it must have.
        expected: &'static str,
        /// What is wrong.
        flaw: String,
    },
    /// A name that no person would say.
    #[error(
        "the name of a rule is written out, in at most {RULE_NAME_CHARS_MAX} letters, digits, `.`, `_`, `-` \
         and `/`; write `\"rule\": \"some-name\"`"
    )]
    RuleName,
    /// Two rules of one name.
    #[error("the rule `{rule}` stands twice, first at {first}; give one of them another name")]
    DuplicateRule {
        /// The name.
        rule: String,
        /// Where the first stands.
        first: Place,
    },
    /// A head that could never be right.
    #[error("the rule `{rule}` is misshapen: {why}")]
    Misshapen {
        /// The rule.
        rule: String,
        /// Why.
        why: String,
    },
    /// A `reads` that cannot be known beforehand.
    #[error(
        "`reads` is one list, written out, of at most {READS_MAX} paths: `reads := [\"fields.urgency\"]`"
    )]
    Reads,
    /// A function that a policy cannot call.
    #[error("there is no function `{name}` for policies; {}", instead_of(.name))]
    Function {
        /// The function.
        name: String,
    },
    /// A width in a format.
    #[error("the format of `sprintf` is written out and has no widths; write `%s`, `%d` or `%v`")]
    Format,
    /// `with` outside of tests.
    #[error("`with` is for tests, and only for `input`; a policy judges what it is given")]
    With,
    /// A path below `input` that is never there.
    #[error("there is no `input.{path}`, so this would never hold; there are {known}")]
    UnknownInput {
        /// The path.
        path: String,
        /// What there is.
        known: String,
    },
    /// A value that nobody asked for.
    #[error("the value `{path}` is not shown to this policy; add it to `reads`")]
    NotRead {
        /// The path.
        path: String,
    },
    /// A name below `data` that nobody defines.
    #[error("nothing is called `{path}` here, so this would never hold; mend the name, or define it")]
    UnknownName {
        /// The path.
        path: String,
    },
    /// A rule that needs itself.
    #[error("`{name}` leads back to itself; a rule may not need its own answer")]
    Recursion {
        /// The rule.
        name: String,
    },
    /// Rules that need rules that need rules.
    #[error("`{name}` rests on too many rules within rules (more than {DEPTH_MAX} levels); make it flatter")]
    TooDeep {
        /// The rule.
        name: String,
    },
    /// A test where nobody looks for it, or one that no test could be.
    #[error("{0}")]
    Test(&'static str),
    /// Two tests of one name.
    #[error("the test `{test}` stands twice, first at {first}; one of them could hide behind the other")]
    DuplicateTest {
        /// The name.
        test: String,
        /// Where the first stands.
        first: Place,
    },
}

/// What to do about a function that a policy cannot call.
fn instead_of(name: &str) -> &'static str {
    match name.split('.').next() {
        Some("time" | "rand" | "uuid" | "opa") => "a verdict may depend on nothing but its input",
        Some("http" | "net") => "a policy does not reach the network",
        Some("print" | "trace") => "look at `policy explain` instead",
        _ => "mend the name, or say it another way",
    }
}
