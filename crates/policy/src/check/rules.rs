//! The heads of rules: members of the three sets, `reads` and tests.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::error::{PolicyError, PolicyErrorKind};
use crate::evaluate::ENTRY_PACKAGE;
use crate::location::PolicyLocation;
use crate::member::{Member, RuleSet};
use crate::syntax::{Field, File, Head, Rule};

/// The name is shown on the approval card, next to the message.
pub(crate) const RULE_NAME_CHARS_MAX: usize = 64;

/// Every value in the input can influence the verdict. A policy needs few of them.
pub(crate) const READS_MAX: usize = 32;

/// The package whose sets decide the verdict.
pub(crate) const PACKAGE: &str = "countersign";

/// The contents of a bundle.
#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    pub(crate) rules: BTreeMap<String, RuleEntry>,
    /// The paths of the values in its input.
    pub(crate) reads: BTreeSet<String>,
    /// Tests by full name.
    pub(crate) tests: BTreeMap<String, PolicyLocation>,
}

#[derive(Debug)]
pub(crate) struct RuleEntry {
    pub(crate) set: RuleSet,
    pub(crate) location: PolicyLocation,
}

impl Catalogue {
    /// The sets with at least one rule.
    pub(crate) fn sets(&self) -> impl Iterator<Item = RuleSet> {
        RuleSet::ALL.into_iter().filter(|set| self.rules.values().any(|entry| entry.set == *set))
    }
}

pub(crate) fn catalogue(files: &[File]) -> Result<Catalogue, PolicyError> {
    let mut catalogue = Catalogue::default();
    for file in files {
        check_package(file)?;
        file.rules.iter().try_for_each(|rule| catalogue.add(file, rule))?;
    }
    if catalogue.rules.is_empty() {
        Err(PolicyError::of_bundle(PolicyErrorKind::NoRules))
    } else {
        Ok(catalogue)
    }
}

/// Tests have their own packages, so that their rules cannot change a verdict.
fn check_package(file: &File) -> Result<(), PolicyError> {
    if file.package.get(1).is_some_and(|part| part == ENTRY_PACKAGE) {
        let kind = PolicyErrorKind::Package("package `countersign_entry` is reserved; use another name");
        return Err(PolicyError::at(&file.location, kind));
    }
    let for_tests = file.package.iter().any(|part| part.ends_with("_test"));
    let message = match (file.is_test, for_tests) {
        (true, false) => {
            "a `_test.rego` file needs a package that ends in `_test`, such as `package countersign_test`"
        }
        (false, true) => {
            "a package that ends in `_test` is allowed only in a `_test.rego` file; rename the package or the file"
        }
        (true, true) | (false, false) => return Ok(()),
    };
    Err(PolicyError::at(&file.location, PolicyErrorKind::Package(message)))
}

impl Catalogue {
    fn add(&mut self, file: &File, rule: &Rule) -> Result<(), PolicyError> {
        let name = rule.name.first().and_then(|part| part.name()).unwrap_or_default();
        let is_policy = file.package == ["data", PACKAGE];
        match name.parse().ok() {
            Some(set) if is_policy => self.add_member(set, rule),
            _ if is_policy && name == "reads" => self.add_reads(rule),
            _ if name.starts_with("test_") => self.add_test(file, name, rule),
            _ => Ok(()),
        }
    }

    fn add_member(&mut self, set: RuleSet, rule: &Rule) -> Result<(), PolicyError> {
        let (Head::Member(Some(fields)), [_]) = (&rule.head, rule.name.as_slice()) else {
            return Err(PolicyError::at(
                &rule.location,
                PolicyErrorKind::NotAMember { name: set.name().to_owned() },
            ));
        };
        let name = rule_name(set, rule, fields)?;
        check_literals(set, name, rule, fields)?;
        let entry = RuleEntry { set, location: rule.location.clone() };
        match self.rules.insert(name.to_owned(), entry) {
            Some(RuleEntry { location: first, .. }) => Err(PolicyError::at(
                &rule.location,
                PolicyErrorKind::DuplicateRule { rule: name.to_owned(), first },
            )),
            None => Ok(()),
        }
    }

    fn add_reads(&mut self, rule: &Rule) -> Result<(), PolicyError> {
        let Head::Complete(Some(Value::Array(paths))) = &rule.head else {
            return Err(PolicyError::at(&rule.location, PolicyErrorKind::Reads));
        };
        // The empty path would read all fields at once.
        let read = |path: &Value| path.as_str().filter(|path| !path.is_empty()).map(str::to_owned);
        let paths: Option<BTreeSet<String>> = paths.iter().map(read).collect();
        match paths {
            Some(paths) if self.reads.is_empty() && paths.len() <= READS_MAX && rule.name.len() == 1 => {
                self.reads = paths;
                Ok(())
            }
            _ => Err(PolicyError::at(&rule.location, PolicyErrorKind::Reads)),
        }
    }

    fn add_test(&mut self, file: &File, name: &str, rule: &Rule) -> Result<(), PolicyError> {
        let message = match (&rule.head, rule.name.as_slice()) {
            _ if !file.is_test => "tests run only from `_test.rego` files; move this `test_…` rule into one",
            (Head::Complete(_), [_]) => {
                let full = format!("{}.{name}", file.package.join("."));
                return match self.tests.insert(full, rule.location.clone()) {
                    Some(first) => Err(duplicate_test(name, first, rule)),
                    None => Ok(()),
                };
            }
            _ => "a test must be a rule without arguments: `test_name if { … }`",
        };
        Err(PolicyError::at(&rule.location, PolicyErrorKind::Test(message)))
    }
}

fn duplicate_test(name: &str, first: PolicyLocation, rule: &Rule) -> PolicyError {
    PolicyError::at(&rule.location, PolicyErrorKind::DuplicateTest { test: name.to_owned(), first })
}

/// The name of the rule, if its head has the fields of `set`.
fn rule_name<'r>(set: RuleSet, rule: &Rule, fields: &'r [Field]) -> Result<&'r str, PolicyError> {
    let wrong = |location: &PolicyLocation, flaw: String| {
        let (set, expected) = (set.name(), set.field_list());
        Err(PolicyError::at(location, PolicyErrorKind::Fields { set, expected, flaw }))
    };
    for field in fields {
        match field.name.as_deref() {
            Some(name) if set.fields().contains(&name) || set.optional_fields().contains(&name) => {}
            Some(name) => return wrong(&field.location, format!("has the unknown field `{name}`")),
            None => return wrong(&field.location, "has a field whose name is not a literal".to_owned()),
        }
    }
    for expected in set.fields() {
        match fields.iter().filter(|field| field.name.as_deref() == Some(*expected)).count() {
            0 => return wrong(&rule.location, format!("has no `{expected}`")),
            1 => {}
            _ => return wrong(&rule.location, format!("has `{expected}` twice")),
        }
    }
    for optional in set.optional_fields() {
        if fields.iter().filter(|field| field.name.as_deref() == Some(*optional)).count() > 1 {
            return wrong(&rule.location, format!("has `{optional}` twice"));
        }
    }
    let name = fields.iter().find(|field| field.name.as_deref() == Some("rule"));
    match name.and_then(|field| field.value.as_ref()).and_then(Value::as_str) {
        Some(name) if is_rule_name(name) => Ok(name),
        _ => Err(PolicyError::at(
            name.map_or(&rule.location, |field| &field.location),
            PolicyErrorKind::RuleName,
        )),
    }
}

fn is_rule_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/');
    !name.is_empty() && name.len() <= RULE_NAME_CHARS_MAX && name.chars().all(allowed)
}

/// Refuses a head with invalid literals. Computed values are validated during evaluation.
fn check_literals(set: RuleSet, name: &str, rule: &Rule, fields: &[Field]) -> Result<(), PolicyError> {
    let mut member: Map<String, Value> = set.example();
    for field in fields {
        if let (Some(name), Some(value)) = (&field.name, &field.value) {
            member.insert(name.clone(), value.clone());
        }
    }
    Member::parse(set, Value::Object(member)).map(drop).map_err(|why| {
        PolicyError::at(&rule.location, PolicyErrorKind::InvalidMember { rule: name.to_owned(), why })
    })
}
