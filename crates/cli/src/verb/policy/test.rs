//! `countersign policy test`: do a policy's own tests hold?

use std::path::PathBuf;

use ::policy::TestReport;
use serde_json::json;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;

use super::files::read_policy;

const EXAMPLES: &str = "\
Examples:
  countersign policy test policies/acme
  countersign policy test policies/acme --json | jq '.tests[] | select(.failed)'

Tests stand in files that end in `_test.rego`, in a package that ends in `_test`; each rule
called `test_…` must be true. A policy without tests is not green. Exit code 1 if it is not.";

/// Run a policy's own tests
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The directory; every `.rego` file under it counts
    dir: PathBuf,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Ending, CliError> {
    let bundle = read_policy(&args.dir)?;
    let report = bundle.test();
    let green = report.is_green();
    let json = json!({
        "policy": bundle.hash(),
        "green": green,
        "passed": report.passed(),
        "tests": report.tests,
    });
    context.answer(&outcome(&report), &json)?;
    Ok(Ending::done_if(green))
}

/// What came of the tests; failures first, because there the work is.
pub(super) fn outcome(report: &TestReport) -> String {
    if report.tests.is_empty() {
        return "there are no tests; write one for each rule, in a file that ends in `_test.rego`".to_owned();
    }
    let failure = |test: &::policy::TestResult| {
        let name = test.name();
        let why = test.failed.as_deref().unwrap_or_default();
        format!("FAILED  {name}  {}:{}\n        {why}\n", test.place.file, test.place.line)
    };
    let failures: String = report.failures().map(failure).collect();
    format!("{failures}{} of {} tests passed", report.passed(), report.tests.len())
}
