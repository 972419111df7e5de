//! `countersign policy test`.

use std::path::PathBuf;

use ::policy::TestReport;
use serde_json::json;

use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;

use super::files::read_policy;

const EXAMPLES: &str = "\
Examples:
  countersign policy test policies/acme
  countersign policy test policies/acme --json | jq '.tests[] | select(.failed)'

Tests are rules named `test_…` in files that end in `_test.rego`, in a package that ends in
`_test`. Each must be true. The exit code is 1 if a test fails or there are no tests.";

/// Run the tests of a policy
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The policy directory; includes every `.rego` file below it
    dir: PathBuf,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    let bundle = read_policy(&args.dir)?;
    let report = bundle.test();
    let green = report.is_green();
    let json = json!({
        "policy": bundle.hash(),
        "green": green,
        "passed": report.passed(),
        "tests": report.tests,
    });
    context.print(&results_text(&report), &json)?;
    Ok(ExitStatus::success_if(green))
}

/// The results, failures first.
pub(super) fn results_text(report: &TestReport) -> String {
    if report.tests.is_empty() {
        return "no tests found; add at least one test for each rule, in a file that ends in `_test.rego`"
            .to_owned();
    }
    let failure = |test: &::policy::TestResult| {
        let name = test.name();
        let why = test.failed.as_deref().unwrap_or_default();
        format!("FAILED  {name}  {}:{}\n        {why}\n", test.location.file, test.location.line)
    };
    let failures: String = report.failures().map(failure).collect();
    format!("{failures}{} of {} tests passed", report.passed(), report.tests.len())
}
