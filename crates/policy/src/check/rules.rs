//! The heads of a bundle's rules: the three sets, the values it reads, and its tests.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::answer::{Answer, Set};
use crate::error::{BundleError, Problem};
use crate::evaluate::ENTRY_PACKAGE;
use crate::place::Place;
use crate::syntax::{Field, File, Head, Rule};

/// A name that fits on a card beside what the rule says.
pub(crate) const RULE_NAME_CHARS_MAX: usize = 64;

/// Every value shown is a value that could sway the verdict; a policy needs few.
pub(crate) const READS_MAX: usize = 32;

/// The package whose sets make a verdict.
pub(crate) const PACKAGE: &str = "countersign";

/// What a bundle consists of.
#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    /// The rules by name.
    pub(crate) rules: BTreeMap<String, Named>,
    /// The values it wants to see.
    pub(crate) reads: BTreeSet<String>,
    /// The tests by their full name.
    pub(crate) tests: BTreeMap<String, Place>,
}

/// A rule that has a name.
#[derive(Debug)]
pub(crate) struct Named {
    /// The set it adds to.
    pub(crate) set: Set,
    /// Where it begins.
    pub(crate) place: Place,
}

impl Catalogue {
    /// The sets that some rule adds to.
    pub(crate) fn sets(&self) -> impl Iterator<Item = Set> {
        Set::ALL.into_iter().filter(|set| self.rules.values().any(|named| named.set == *set))
    }
}

/// The catalogue of `files`.
pub(crate) fn catalogue(files: &[File]) -> Result<Catalogue, BundleError> {
    let mut catalogue = Catalogue::default();
    for file in files {
        package(file)?;
        file.rules.iter().try_for_each(|rule| catalogue.add(file, rule))?;
    }
    if catalogue.rules.is_empty() { Err(BundleError::of_bundle(Problem::NoRules)) } else { Ok(catalogue) }
}

/// Tests live in packages of their own: what they add can then never change a verdict.
fn package(file: &File) -> Result<(), BundleError> {
    if file.package.get(1).is_some_and(|part| part == ENTRY_PACKAGE) {
        let problem =
            Problem::Package("the package `countersign_entry` is the runtime's own; take another name");
        return Err(BundleError::at(&file.place, problem));
    }
    let for_tests = file.package.iter().any(|part| part.ends_with("_test"));
    let problem = match (file.is_test, for_tests) {
        (true, false) => {
            "a `_test.rego` file needs a package that ends in `_test`: `package countersign_test`"
        }
        (false, true) => "a package that ends in `_test` belongs into a `_test.rego` file",
        (true, true) | (false, false) => return Ok(()),
    };
    Err(BundleError::at(&file.place, Problem::Package(problem)))
}

impl Catalogue {
    fn add(&mut self, file: &File, rule: &Rule) -> Result<(), BundleError> {
        let name = rule.name.first().and_then(|part| part.name()).unwrap_or_default();
        let ours = file.package == ["data", PACKAGE];
        match Set::named(name) {
            Some(set) if ours => self.add_member(set, rule),
            _ if ours && name == "reads" => self.add_reads(rule),
            _ if name.starts_with("test_") => self.add_test(file, name, rule),
            _ => Ok(()),
        }
    }

    fn add_member(&mut self, set: Set, rule: &Rule) -> Result<(), BundleError> {
        let (Head::Member(Some(fields)), [_]) = (&rule.head, rule.name.as_slice()) else {
            return Err(BundleError::at(&rule.place, Problem::NotAMember { name: set.name().to_owned() }));
        };
        let name = rule_name(set, rule, fields)?;
        could_be_right(set, name, rule, fields)?;
        let named = Named { set, place: rule.place.clone() };
        match self.rules.insert(name.to_owned(), named) {
            Some(Named { place: first, .. }) => {
                Err(BundleError::at(&rule.place, Problem::DuplicateRule { rule: name.to_owned(), first }))
            }
            None => Ok(()),
        }
    }

    fn add_reads(&mut self, rule: &Rule) -> Result<(), BundleError> {
        let Head::Complete(Some(Value::Array(paths))) = &rule.head else {
            return Err(BundleError::at(&rule.place, Problem::Reads));
        };
        // The empty path would be all of the fields at once.
        let named = |path: &Value| path.as_str().filter(|path| !path.is_empty()).map(str::to_owned);
        let paths: Option<BTreeSet<String>> = paths.iter().map(named).collect();
        match paths {
            Some(paths) if self.reads.is_empty() && paths.len() <= READS_MAX && rule.name.len() == 1 => {
                self.reads = paths;
                Ok(())
            }
            _ => Err(BundleError::at(&rule.place, Problem::Reads)),
        }
    }

    fn add_test(&mut self, file: &File, name: &str, rule: &Rule) -> Result<(), BundleError> {
        let problem = match (&rule.head, rule.name.as_slice()) {
            _ if !file.is_test => {
                "a rule called `test_…` belongs into a `_test.rego` file, or nobody runs it"
            }
            (Head::Complete(_), [_]) => {
                let full = format!("{}.{name}", file.package.join("."));
                return match self.tests.insert(full, rule.place.clone()) {
                    Some(first) => Err(duplicate_test(name, first, rule)),
                    None => Ok(()),
                };
            }
            _ => "a test is a plain rule: `test_name if { … }`",
        };
        Err(BundleError::at(&rule.place, Problem::Test(problem)))
    }
}

fn duplicate_test(name: &str, first: Place, rule: &Rule) -> BundleError {
    BundleError::at(&rule.place, Problem::DuplicateTest { test: name.to_owned(), first })
}

/// The rule's name, if its head has the fields that a member of `set` has.
fn rule_name<'r>(set: Set, rule: &Rule, fields: &'r [Field]) -> Result<&'r str, BundleError> {
    let wrong = |place: &Place, flaw: String| {
        let (set, expected) = (set.name(), set.fields_listed());
        Err(BundleError::at(place, Problem::Fields { set, expected, flaw }))
    };
    for field in fields {
        match field.name.as_deref() {
            Some(name) if set.fields().contains(&name) => {}
            Some(name) => return wrong(&field.place, format!("has `{name}`")),
            None => return wrong(&field.place, "has one whose name is not written out".to_owned()),
        }
    }
    for expected in set.fields() {
        match fields.iter().filter(|field| field.name.as_deref() == Some(*expected)).count() {
            0 => return wrong(&rule.place, format!("has no `{expected}`")),
            1 => {}
            _ => return wrong(&rule.place, format!("has `{expected}` twice")),
        }
    }
    let name = fields.iter().find(|field| field.name.as_deref() == Some("rule"));
    match name.and_then(|field| field.value.as_ref()).and_then(Value::as_str) {
        Some(name) if is_rule_name(name) => Ok(name),
        _ => Err(BundleError::at(name.map_or(&rule.place, |field| &field.place), Problem::RuleName)),
    }
}

/// Whether `name` may be the name of a rule.
fn is_rule_name(name: &str) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/');
    !name.is_empty() && name.len() <= RULE_NAME_CHARS_MAX && name.chars().all(fine)
}

/// Refuses a head whose written-out parts could never be right. What is only known when the rule runs is
/// taken to be fine, and looked at then.
fn could_be_right(set: Set, name: &str, rule: &Rule, fields: &[Field]) -> Result<(), BundleError> {
    let mut member: Map<String, Value> = set.example();
    for field in fields {
        if let (Some(name), Some(value)) = (&field.name, &field.value) {
            member.insert(name.clone(), value.clone());
        }
    }
    Answer::read(set, Value::Object(member))
        .map(drop)
        .map_err(|why| BundleError::at(&rule.place, Problem::Misshapen { rule: name.to_owned(), why }))
}
