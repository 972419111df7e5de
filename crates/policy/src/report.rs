//! Runs the tests of a bundle.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use regorus::{Engine, Value};
use serde::Serialize;

use crate::evaluation_error::EvaluationError;
use crate::location::PolicyLocation;
use crate::size;

const NOT_RUN: &str = "not run: the time limit for tests is exceeded";

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TestReport {
    /// In the order of the bundle.
    pub tests: Vec<TestResult>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TestResult {
    /// The full name: `data.countersign_test.test_prod`.
    pub test: String,
    pub location: PolicyLocation,
    /// Why it failed; absent if it passed.
    pub failed: Option<String>,
}

impl TestResult {
    /// The name within its package.
    pub fn name(&self) -> &str {
        self.test.rsplit('.').next().unwrap_or(&self.test)
    }
}

impl TestReport {
    /// Runs `tests` one by one until `is_expired` returns true; tests that are not run have failed.
    pub(crate) fn run(
        engine: &Engine,
        tests: &BTreeMap<String, PolicyLocation>,
        is_expired: &dyn Fn() -> bool,
    ) -> Self {
        let failed = |test: &str| {
            if is_expired() { Some(NOT_RUN.to_owned()) } else { run_test(engine, test).err() }
        };
        let result = |(test, location): (&String, &PolicyLocation)| TestResult {
            test: test.clone(),
            location: location.clone(),
            failed: failed(test),
        };
        let mut tests: Vec<TestResult> = tests.iter().map(result).collect();
        tests.sort_by(|a, b| a.location.cmp(&b.location));
        Self { tests }
    }

    /// The number of tests that passed.
    pub fn passed(&self) -> usize {
        self.tests.iter().filter(|test| test.failed.is_none()).count()
    }

    pub fn failures(&self) -> impl Iterator<Item = &TestResult> {
        self.tests.iter().filter(|test| test.failed.is_some())
    }

    /// Whether there are tests, and all of them passed.
    pub fn is_green(&self) -> bool {
        !self.tests.is_empty() && self.failures().next().is_none()
    }
}

/// A test passes if it is true. A test that is false, undefined or an error fails.
fn run_test(engine: &Engine, test: &str) -> Result<(), String> {
    let mut engine = engine.clone();
    let evaluation = AssertUnwindSafe(|| engine.eval_rule(test.to_owned()));
    match catch_unwind(evaluation).map_err(|_| EvaluationError::Crashed.to_string())? {
        Ok(Value::Bool(true)) => Ok(()),
        Ok(Value::Undefined) => Err("the test is undefined, expected true".to_owned()),
        Ok(value) if !size::is_small(&value) => Err("the test is a large value, expected true".to_owned()),
        Ok(value) => Err(format!("the test is {value}, expected true")),
        Err(error) => {
            let error = EvaluationError::from_evaluator(&error.to_string());
            let location = error.location().map(|location| format!(" ({location})")).unwrap_or_default();
            Err(format!("{error}{location}"))
        }
    }
}

impl fmt::Display for TestReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for test in &self.tests {
            let (name, location) = (test.name(), &test.location);
            match &test.failed {
                None => writeln!(f, "passed  {name}  {}:{}", location.file, location.line)?,
                Some(why) => {
                    writeln!(f, "FAILED  {name}  {}:{}\n        {why}", location.file, location.line)?;
                }
            }
        }
        write!(f, "{} of {} tests passed", self.passed(), self.tests.len())
    }
}
