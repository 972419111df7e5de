//! A policy: Rego files, checked and compiled once, with a version hash over all of them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use domain::verdict::REASONS_MAX;
use domain::{Demand, Digest, Reason, Ruling, Verdict};
use regorus::Engine;

use crate::answer::{Answer, Set};
use crate::check::{self, Catalogue};
use crate::compile;
use crate::error::BundleError;
use crate::evaluate::{self, Answers};
use crate::explain::Explanation;
use crate::facts::Facts;
use crate::fault::Fault;
use crate::input::Input;
use crate::report::TestReport;

/// One file per subject; nobody reviews more.
pub(crate) const FILES_MAX: usize = 64;

/// About ten thousand lines of rules. The bundle is parsed wherever it is used.
pub(crate) const BUNDLE_BYTES_MAX: usize = 256 * 1024;

/// A policy. Cloning one is cheap.
#[derive(Clone)]
pub struct Bundle(Arc<Inner>);

struct Inner {
    files: BTreeMap<String, String>,
    hash: Digest,
    catalogue: Catalogue,
    engine: Engine,
}

impl Bundle {
    /// Takes Rego files, by their paths in the bundle, as a policy. Files that end in `_test.rego` hold tests.
    pub fn parse(files: BTreeMap<String, String>) -> Result<Self, BundleError> {
        compile::check_size(&files)?;
        let outline = compile::outline(&files)?;
        let catalogue = check::check(&outline)?;
        let engine = compile::prepared(policy_files(&files), &catalogue)?;
        // Tests are compiled here as well: a bundle whose tests cannot run is not finished.
        compile::prepared(&files, &catalogue)?;
        let hash = hash_of(policy_files(&files));
        Ok(Self(Arc::new(Inner { files, hash, catalogue, engine })))
    }

    /// The policy that ships with the runtime, and counts for a tenant that has settled on none.
    pub fn shipped() -> Result<Self, BundleError> {
        static SHIPPED: LazyLock<Result<Bundle, BundleError>> = LazyLock::new(|| {
            let files = SHIPPED_FILES.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
            Bundle::parse(files.collect())
        });
        SHIPPED.clone()
    }

    /// The version: a digest of the paths and texts of all files that take part in a verdict. Tests do not.
    pub fn hash(&self) -> Digest {
        self.0.hash
    }

    /// All files, tests included, by their paths.
    pub fn files(&self) -> &BTreeMap<String, String> {
        &self.0.files
    }

    /// How many rules it has.
    pub fn rule_count(&self) -> usize {
        self.0.catalogue.rules.len()
    }

    /// How many tests it has.
    pub fn test_count(&self) -> usize {
        self.0.catalogue.tests.len()
    }

    /// What the policy says about `facts`. Whatever goes wrong is a deny with its reason.
    pub fn judge(&self, facts: &Facts<'_>) -> Verdict {
        match self.answers(facts) {
            Ok(answers) => self.verdict(&answers),
            Err(fault) => fault.verdict(self.hash()),
        }
    }

    /// The same verdict, with all that led to it.
    pub fn explain(&self, facts: &Facts<'_>) -> Explanation {
        let input = Input::of(facts, &self.0.catalogue.reads);
        let input = input.ok().and_then(|input| serde_json::to_value(input).ok());
        let answers = self.answers(facts);
        let verdict = match &answers {
            Ok(answers) => self.verdict(answers),
            Err(fault) => fault.verdict(self.hash()),
        };
        Explanation::new(verdict, input, &self.0.catalogue, answers)
    }

    /// Runs the bundle's own tests.
    pub fn test(&self) -> TestReport {
        self.test_until(&|| false)
    }

    /// The same; tests that are not reached before `over` says so have not passed.
    pub fn test_until(&self, over: &dyn Fn() -> bool) -> TestReport {
        // The bundle was parsed with its tests, so they compile; if not, none of them has passed.
        let engine = compile::prepared(&self.0.files, &self.0.catalogue);
        TestReport::run(engine.ok().as_ref(), &self.0.catalogue.tests, over)
    }

    fn answers(&self, facts: &Facts<'_>) -> Result<Answers, Fault> {
        let unjudgeable = |why| Fault::Unjudgeable { why };
        let input = Input::of(facts, &self.0.catalogue.reads).map_err(unjudgeable)?;
        let text = serde_json::to_string(&input).map_err(|error| unjudgeable(error.to_string()))?;
        let input = regorus::Value::from_json_str(&text).map_err(|error| unjudgeable(error.to_string()))?;
        let answers = evaluate::ask(&self.0.engine, &self.0.catalogue, input)?;
        if answers.is_empty() { Err(Fault::Silent) } else { Ok(answers) }
    }

    /// The verdict of the strictest set that has anything to say.
    fn verdict(&self, answers: &Answers) -> Verdict {
        let strictest = answers.iter().map(|(set, _)| *set).min();
        let decisive: Vec<&Answer> =
            answers.iter().filter(|(set, _)| Some(*set) == strictest).map(|(_, answer)| answer).collect();
        let ruling = match strictest {
            Some(Set::Allow) => Ruling::Allow,
            Some(Set::NeedsApproval) => together(&decisive).map_or(Ruling::Deny, Ruling::NeedsApproval),
            Some(Set::Deny) | None => Ruling::Deny,
        };
        Verdict { ruling, because: self.reasons(&decisive), policy: self.hash() }
    }

    /// The reasons, in the order in which the rules stand in the bundle.
    fn reasons(&self, answers: &[&Answer]) -> Vec<Reason> {
        let mut reasons: Vec<Reason> = answers.iter().map(|answer| self.reason(answer)).collect();
        reasons.sort_by(|a, b| (&a.file, a.line, &a.says).cmp(&(&b.file, b.line, &b.says)));
        reasons.truncate(REASONS_MAX);
        reasons
    }

    fn reason(&self, answer: &Answer) -> Reason {
        let place = self.0.catalogue.rules.get(&answer.rule).map(|named| &named.place);
        Reason {
            rule: answer.rule.clone(),
            says: answer.says.clone(),
            file: place.map(|place| place.file.clone()),
            line: place.map(|place| place.line),
        }
    }
}

/// What satisfies all of the demands.
fn together(answers: &[&Answer]) -> Option<Demand> {
    answers.iter().filter_map(|answer| answer.demand.clone()).reduce(Demand::and)
}

/// Whether the file at `path` holds tests.
pub(crate) fn is_test(path: &str) -> bool {
    path.ends_with("_test.rego")
}

fn policy_files(files: &BTreeMap<String, String>) -> impl Iterator<Item = (&String, &String)> {
    files.iter().filter(|(path, _)| !is_test(path))
}

fn hash_of<'a>(files: impl Iterator<Item = (&'a String, &'a String)>) -> Digest {
    let parts: Vec<&str> = files.flat_map(|(path, text)| [path.as_str(), text.as_str()]).collect();
    Digest::of_parts("countersign/policy/v1", &parts)
}

impl fmt::Debug for Bundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files: Vec<&String> = self.0.files.keys().collect();
        f.debug_struct("Bundle").field("hash", &self.0.hash).field("files", &files).finish_non_exhaustive()
    }
}

/// The files of the policy that ships with the runtime.
const SHIPPED_FILES: &[(&str, &str)] = &[
    ("action.rego", include_str!("../bundles/default/action.rego")),
    ("allow.rego", include_str!("../bundles/default/allow.rego")),
    ("approval.rego", include_str!("../bundles/default/approval.rego")),
    ("deny.rego", include_str!("../bundles/default/deny.rego")),
    ("default_test.rego", include_str!("../bundles/default/default_test.rego")),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_that_nobody_got_round_to_have_not_passed() {
        let bundle = Bundle::shipped().unwrap();
        assert!(bundle.test().is_green());
        let left = std::cell::Cell::new(1);
        let report = bundle.test_until(&|| left.replace(0) == 0);
        assert_eq!(report.passed(), 1);
        assert!(report.failures().all(|test| test.failed.as_deref().unwrap().contains("was not run")));
    }

    #[test]
    fn any_byte_of_any_file_changes_the_hash() {
        let files = Bundle::shipped().unwrap().0.files.clone();
        let hash = hash_of(policy_files(&files));
        for (path, text) in policy_files(&files) {
            for (at, _) in text.char_indices() {
                let mut changed = text.clone().into_bytes();
                changed[at] ^= 1;
                let mut files = files.clone();
                files.insert(path.clone(), String::from_utf8(changed).unwrap());
                assert_ne!(hash_of(policy_files(&files)), hash, "{path}, byte {at}");
            }
        }
    }
}
