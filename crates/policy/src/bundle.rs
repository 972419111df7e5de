//! A policy: Rego files, checked and compiled once, identified by a hash over the files.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use domain::verdict::REASONS_MAX;
use domain::{ApprovalRequirement, Digest, Reason, Ruling, Verdict};
use regorus::Engine;

use crate::check::{self, Catalogue};
use crate::compile;
use crate::error::PolicyError;
use crate::evaluate::{self, Members};
use crate::evaluation_error::EvaluationError;
use crate::explain::Explanation;
use crate::input::Input;
use crate::member::{Member, RuleSet};
use crate::report::TestReport;
use crate::request::PolicyRequest;

/// Enough for one file per subject. A larger bundle is hard to review.
pub(crate) const FILES_MAX: usize = 64;

/// About ten thousand lines of rules. Every process that uses the bundle parses it.
pub(crate) const BUNDLE_BYTES_MAX: usize = 256 * 1024;

/// The rule of the runtime that denies an action whose approval rules no user can satisfy.
const DIFFERENT_GROUPS: &str = "approval/groups";
const DIFFERENT_GROUPS_TEXT: &str =
    "the approval rules that match name groups without a group in common; use one rule, or a common group";

/// A policy. Cloning one is cheap.
#[derive(Clone)]
pub struct PolicyBundle(Arc<Inner>);

struct Inner {
    files: BTreeMap<String, String>,
    hash: Digest,
    catalogue: Catalogue,
    engine: Engine,
    /// Shares the parsed policy files with `engine`.
    tests: Engine,
}

impl PolicyBundle {
    /// Parses and checks Rego files, given by their paths in the bundle. Files that end in `_test.rego` contain tests.
    pub fn parse(files: BTreeMap<String, String>) -> Result<Self, PolicyError> {
        compile::check_size(&files)?;
        let (parsed, outline) = compile::parse(&files)?;
        let catalogue = check::check(&outline)?;
        // The tests must compile too: a bundle whose tests cannot run is refused.
        let (engine, tests) = parsed.compile(&catalogue)?;
        let hash = hash_of(policy_files(&files));
        Ok(Self(Arc::new(Inner { files, hash, catalogue, engine, tests })))
    }

    /// The default policy, for tenants that have applied no policy of their own.
    pub fn built_in() -> Result<Self, PolicyError> {
        static BUILT_IN: LazyLock<Result<PolicyBundle, PolicyError>> = LazyLock::new(|| {
            let files = BUILT_IN_FILES.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
            PolicyBundle::parse(files.collect())
        });
        BUILT_IN.clone()
    }

    /// The version: a digest of the paths and texts of all files except tests.
    pub fn hash(&self) -> Digest {
        self.0.hash
    }

    /// All files by path, including tests.
    pub fn files(&self) -> &BTreeMap<String, String> {
        &self.0.files
    }

    pub fn rule_count(&self) -> usize {
        self.0.catalogue.rules.len()
    }

    pub fn test_count(&self) -> usize {
        self.0.catalogue.tests.len()
    }

    /// The verdict on `request`. Every error is a deny with its reason.
    pub fn evaluate(&self, request: &PolicyRequest<'_>) -> Verdict {
        let verdict = self.input(request).and_then(|input| self.evaluate_input(&input));
        verdict.unwrap_or_else(|error| error.verdict(self.hash()))
    }

    /// The same verdict with the input and the result of every rule.
    pub fn explain(&self, request: &PolicyRequest<'_>) -> Explanation {
        let input = self.input(request);
        let input_json = input.as_ref().ok().and_then(|input| serde_json::from_str(input).ok());
        let members = input.and_then(|input| self.members(&input));
        let verdict = match &members {
            Ok(members) => self.verdict(members),
            Err(error) => error.verdict(self.hash()),
        };
        Explanation::new(verdict, input_json, &self.0.catalogue, members)
    }

    /// Runs the bundle's own tests.
    pub fn test(&self) -> TestReport {
        self.test_until(&|| false)
    }

    /// Runs the tests until `is_expired` returns true. Tests that are not run have failed.
    pub fn test_until(&self, is_expired: &dyn Fn() -> bool) -> TestReport {
        TestReport::run(&self.0.tests, &self.0.catalogue.tests, is_expired)
    }

    /// The verdict on an `input` document.
    pub(crate) fn evaluate_input(&self, input: &str) -> Result<Verdict, EvaluationError> {
        self.members(input).map(|members| self.verdict(&members))
    }

    /// The `input` document of the rules, as JSON.
    pub(crate) fn input(&self, request: &PolicyRequest<'_>) -> Result<String, EvaluationError> {
        let invalid = |why| EvaluationError::InvalidAction { why };
        let input = Input::new(request, &self.0.catalogue.reads).map_err(invalid)?;
        serde_json::to_string(&input).map_err(|error| invalid(error.to_string()))
    }

    fn members(&self, input: &str) -> Result<Members, EvaluationError> {
        let input = regorus::Value::from_json_str(input)
            .map_err(|error| EvaluationError::InvalidAction { why: error.to_string() })?;
        let members = evaluate::evaluate(&self.0.engine, &self.0.catalogue, input)?;
        if members.is_empty() { Err(EvaluationError::NoMatch) } else { Ok(members) }
    }

    /// The verdict of the strictest set that has a member.
    fn verdict(&self, members: &Members) -> Verdict {
        let strictest = members.iter().map(|(set, _)| *set).min();
        let decisive: Vec<&Member> =
            members.iter().filter(|(set, _)| Some(*set) == strictest).map(|(_, member)| member).collect();
        let mut reasons = self.reasons(&decisive);
        let requirement = combine_requirements(&decisive);
        let ruling = match (strictest, requirement) {
            (Some(RuleSet::Allow), _) => Ruling::Allow,
            (Some(RuleSet::NeedsApproval), Some(requirement)) => Ruling::NeedsApproval(requirement),
            (Some(RuleSet::NeedsApproval), None) => {
                reasons.truncate(REASONS_MAX - 1);
                reasons.push(Reason::runtime(DIFFERENT_GROUPS, DIFFERENT_GROUPS_TEXT));
                Ruling::Deny
            }
            (Some(RuleSet::Deny) | None, _) => Ruling::Deny,
        };
        Verdict { ruling, reasons, policy: self.hash() }
    }

    /// The reasons in the order of the bundle.
    fn reasons(&self, members: &[&Member]) -> Vec<Reason> {
        let mut reasons: Vec<Reason> = members.iter().map(|member| self.reason(member)).collect();
        reasons.sort_by(|a, b| (&a.file, a.line, &a.message).cmp(&(&b.file, b.line, &b.message)));
        reasons.truncate(REASONS_MAX);
        reasons
    }

    fn reason(&self, member: &Member) -> Reason {
        let location = self.0.catalogue.rules.get(&member.rule).map(|entry| &entry.location);
        Reason {
            rule: member.rule.clone(),
            message: member.message.clone(),
            file: location.map(|location| location.file.clone()),
            line: location.map(|location| location.line),
        }
    }
}

/// The requirement that satisfies the requirements of all `members`; `None` if they name different groups.
fn combine_requirements(members: &[&Member]) -> Option<ApprovalRequirement> {
    let mut requirements = members.iter().filter_map(|member| member.requirement.clone());
    let first = requirements.next()?;
    requirements.try_fold(first, ApprovalRequirement::and)
}

/// Whether the file at `path` contains tests.
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

impl fmt::Debug for PolicyBundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files: Vec<&String> = self.0.files.keys().collect();
        f.debug_struct("PolicyBundle")
            .field("hash", &self.0.hash)
            .field("files", &files)
            .finish_non_exhaustive()
    }
}

/// The files of the default policy.
const BUILT_IN_FILES: &[(&str, &str)] = &[
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
    fn every_file_is_parsed_once() {
        let files = PolicyBundle::built_in().unwrap().files().clone();
        compile::PARSED.take();
        PolicyBundle::parse(files.clone()).unwrap();
        let mut parsed = compile::PARSED.take();
        parsed.retain(|path| files.contains_key(path));
        parsed.sort();
        assert_eq!(parsed, files.into_keys().collect::<Vec<_>>());
    }

    #[test]
    fn tests_that_are_not_run_have_failed() {
        let bundle = PolicyBundle::built_in().unwrap();
        assert!(bundle.test().is_green());
        let left = std::cell::Cell::new(1);
        let report = bundle.test_until(&|| left.replace(0) == 0);
        assert_eq!(report.passed(), 1);
        assert!(report.failures().all(|test| test.failed.as_deref().unwrap().contains("not run")));
    }

    #[test]
    fn any_byte_of_any_file_changes_the_hash() {
        let files = PolicyBundle::built_in().unwrap().0.files.clone();
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
