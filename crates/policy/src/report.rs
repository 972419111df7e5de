//! A bundle's own tests, run.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use regorus::{Engine, Value};
use serde::Serialize;

use crate::fault::Fault;
use crate::place::Place;
use crate::size;

/// What is said of a test that nobody got round to.
const OUT_OF_TIME: &str = "it was not run: the time for tests was up";

/// What came of a bundle's tests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TestReport {
    /// Every test, in the order in which they stand in the bundle.
    pub tests: Vec<TestResult>,
}

/// What came of one test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TestResult {
    /// Its full name: `data.countersign_test.test_prod`.
    pub test: String,
    /// Where it begins.
    pub place: Place,
    /// Why it failed; absent if it passed.
    pub failed: Option<String>,
}

impl TestResult {
    /// Its name within its package.
    pub fn name(&self) -> &str {
        self.test.rsplit('.').next().unwrap_or(&self.test)
    }
}

impl TestReport {
    /// Runs `tests` one by one until `over` says that the time is up; without an engine, all of them fail.
    pub(crate) fn run(
        engine: Option<&Engine>,
        tests: &BTreeMap<String, Place>,
        over: &dyn Fn() -> bool,
    ) -> Self {
        let failed = |test: &str| {
            if over() { Some(OUT_OF_TIME.to_owned()) } else { outcome(engine, test).err() }
        };
        let result = |(test, place): (&String, &Place)| TestResult {
            test: test.clone(),
            place: place.clone(),
            failed: failed(test),
        };
        let mut tests: Vec<TestResult> = tests.iter().map(result).collect();
        tests.sort_by(|a, b| a.place.cmp(&b.place));
        Self { tests }
    }

    /// How many passed.
    pub fn passed(&self) -> usize {
        self.tests.iter().filter(|test| test.failed.is_none()).count()
    }

    /// Those that failed.
    pub fn failures(&self) -> impl Iterator<Item = &TestResult> {
        self.tests.iter().filter(|test| test.failed.is_some())
    }

    /// Whether there are tests, and all of them passed.
    pub fn is_green(&self) -> bool {
        !self.tests.is_empty() && self.failures().next().is_none()
    }
}

/// A test passes if it is true. One that is false, undefined or an error has failed.
fn outcome(engine: Option<&Engine>, test: &str) -> Result<(), String> {
    let mut engine = engine.cloned().ok_or("the tests do not compile")?;
    let asking = AssertUnwindSafe(|| engine.eval_rule(test.to_owned()));
    match catch_unwind(asking).map_err(|_| Fault::Crashed.to_string())? {
        Ok(Value::Bool(true)) => Ok(()),
        Ok(Value::Undefined) => Err("it does not hold".to_owned()),
        Ok(value) if !size::is_small(&value) => Err("it is something large, not true".to_owned()),
        Ok(value) => Err(format!("it is {value}, not true")),
        Err(error) => {
            let fault = Fault::of_evaluation(&error.to_string());
            let place = fault.place().map(|place| format!(" ({place})")).unwrap_or_default();
            Err(format!("{fault}{place}"))
        }
    }
}

impl fmt::Display for TestReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for test in &self.tests {
            let (name, place) = (test.name(), &test.place);
            match &test.failed {
                None => writeln!(f, "passed  {name}  {}:{}", place.file, place.line)?,
                Some(why) => writeln!(f, "FAILED  {name}  {}:{}\n        {why}", place.file, place.line)?,
            }
        }
        write!(f, "{} of {} tests passed", self.passed(), self.tests.len())
    }
}
