//! `cargo xtask api`: tests the REST API against its own `OpenAPI` document.
//!
//! The module starts a server with two tenants on this machine. Schemathesis generates valid requests, invalid requests
//! and sequences of requests from the document. It needs only Python.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::UsageError;
use crate::cargo::Cargo;
use crate::stages::{Stages, Stream};
use crate::tools::Tool;

pub(crate) const HELP: &str = "\
Test the REST API against its own OpenAPI document with schemathesis.

Usage: cargo xtask api

Options:
  -h, --help  Print help

Stages:
  build  Build the test server
  api    Run schemathesis against a server with two tenants on this machine; the checks are configured in
         tests/contract/schemathesis.toml

A pinned version of schemathesis is installed from PyPI into target/tools. If that fails, the `api` stage is
skipped and the summary says so. The generated requests are the same in every run.
";

const SCHEMATHESIS: Tool = Tool { name: "schemathesis", packages: &["schemathesis==4.32.5"] };

/// The package of the test server, and its program.
const SERVER_PACKAGE: &str = "countersign-contract";

/// The number of examples for each route. 25 take about a minute on two cores.
const EXAMPLES: &str = "25";

pub(crate) fn options(args: &[String]) -> Result<(), UsageError> {
    match args.first().map(String::as_str) {
        None => Ok(()),
        Some("--help" | "-h") => Err(UsageError::Help),
        Some(other) => Err(UsageError::Invalid(other.to_owned())),
    }
}

pub(crate) fn api(cargo: &Cargo) -> Stages {
    let mut stages = Stages::default();
    if stages.run("build", &mut cargo.command(&["build", "--package", SERVER_PACKAGE])) {
        run_schemathesis(cargo, &mut stages);
    }
    stages
}

/// Runs schemathesis against the test server, which must be built.
pub(crate) fn run_schemathesis(cargo: &Cargo, stages: &mut Stages) {
    let programs = match SCHEMATHESIS.programs(cargo) {
        Ok(programs) => programs,
        Err(reason) => {
            return stages.note(format!("the API was not tested: cannot install schemathesis: {reason}"));
        }
    };
    let server = match ApiServer::start(cargo) {
        Ok(server) => server,
        Err(reason) => {
            stages.run_fn("api", || Err(reason));
            return;
        }
    };
    let mut command = Command::new(programs.join("schemathesis"));
    command.current_dir(cargo.root());
    command.args(["--config-file", "tests/contract/schemathesis.toml", "run", &server.document]);
    command.args(["--header", &format!("Authorization: Bearer {}", server.key)]);
    command.args(["--max-examples", EXAMPLES, "--seed", "1", "--continue-on-failure", "--no-color"]);
    stages.run_with_summary("api", &mut command, Stream::Report, summary);
}

/// `1512 generated, 1512 passed, 40 skipped`.
fn summary(lines: &[String]) -> Result<String, String> {
    let line = lines.iter().find(|line| line.contains(" generated, "));
    line.map(|line| line.trim().to_owned()).ok_or_else(|| "the report has no line with test cases".to_owned())
}

/// The running test server. It is killed when this value is dropped.
struct ApiServer {
    process: Child,
    /// Kept open, so that the server can continue to write.
    _stdout: BufReader<ChildStdout>,
    document: String,
    key: String,
}

impl ApiServer {
    /// Starts the server and reads its first line: the URL of the document and an API key.
    fn start(cargo: &Cargo) -> Result<Self, String> {
        let program = format!("{SERVER_PACKAGE}{}", std::env::consts::EXE_SUFFIX);
        let program = cargo.target_directory()?.join("debug").join(program);
        let failed = |error: std::io::Error| format!("{}: {error}", program.display());
        let mut process = Command::new(&program).stdout(Stdio::piped()).spawn().map_err(failed)?;
        let Some(stdout) = process.stdout.take() else { return Err("the server has no output".to_owned()) };
        let mut stdout = BufReader::new(stdout);
        let mut line = String::new();
        let read = stdout.read_line(&mut line).map_err(failed);
        let (document, key) = line.trim().split_once(' ').unwrap_or_default();
        let server = Self { process, _stdout: stdout, document: document.to_owned(), key: key.to_owned() };
        read?;
        if server.key.is_empty() { Err("the server printed no address".to_owned()) } else { Ok(server) }
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        // Both fail if the server has exited, which is fine.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_is_the_line_with_test_cases() {
        let report = ["Test cases:", "  1512 generated, 1512 passed, 40 skipped", "", "Seed: 1"];
        let report = report.map(str::to_owned);
        assert_eq!(summary(&report).unwrap(), "1512 generated, 1512 passed, 40 skipped");
        assert!(summary(&[]).is_err());
    }
}
