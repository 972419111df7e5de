//! `cargo xtask infra`: checks of `infra/` that need no AWS account.
//!
//! `terraform validate` needs the AWS provider, which is downloaded from a registry. Without access to a registry, this
//! stage is skipped and reported. Checks that need no provider run here and in `tests/infra`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::UsageError;
use crate::cargo::Cargo;
use crate::package::FUNCTIONS;
use crate::stages::{Stages, Stream};
use crate::tools::{Tool, is_installed, run_quietly};

pub(crate) const HELP: &str = "\
Check infra/ with terraform and checkov. No AWS account is needed.

Usage: cargo xtask infra

Options:
  -h, --help  Print help

Stages:
  tf format    Run `terraform fmt -check -recursive`; to fix: terraform fmt -recursive infra
  tf programs  Run `terraform test` in infra/modules/programs, which needs no provider
  tf validate  Run `terraform validate` in each example, which covers every module
  tf plan      Run `terraform test` in each example: plan with a mocked provider and check that invalid
               input is rejected
  checkov      Run checkov; every exception has a reason next to its resource

Terraform must be installed. A pinned version of checkov is installed from PyPI into target/tools.
`tf validate` and `tf plan` are skipped if the AWS provider cannot be downloaded. On a closed network with a
copy of the provider, set TF_CLI_ARGS_init=-plugin-dir=<DIRECTORY>. The summary lists every skipped stage.
";

const CHECKOV: Tool = Tool { name: "checkov", packages: &["checkov==3.3.30"] };

/// Together, the examples use every module.
const EXAMPLES: [&str; 2] = ["examples/minimal", "examples/production"];

/// The only module with its own tests. It contains only expressions, so the tests need no provider.
const PROGRAMS: &str = "modules/programs";

/// The error headings of terraform when a registry is unreachable.
const UNREACHABLE: [&str; 2] = ["Failed to query available provider packages", "Failed to install provider"];

/// Reasons below the same headings that point to an error in the files.
const FILE_ERRORS: [&str; 3] = [
    "no available releases match",
    "does not have a provider named",
    "does not match configured version constraint",
];

pub(crate) fn options(args: &[String]) -> Result<(), UsageError> {
    match args.first().map(String::as_str) {
        None => Ok(()),
        Some("--help" | "-h") => Err(UsageError::Help),
        Some(other) => Err(UsageError::Invalid(other.to_owned())),
    }
}

pub(crate) fn infra(cargo: &Cargo, stages: &mut Stages) {
    if is_installed("terraform") {
        let terraform = Terraform { cargo };
        stages.run("tf format", terraform.command("").args(["fmt", "-check", "-recursive", "-diff"]));
        terraform.test_programs(stages);
        terraform.validate(stages);
    } else {
        stages.note("terraform is not installed: infra/ was not formatted, validated or planned");
    }
    checkov(cargo, stages);
}

struct Terraform<'c> {
    cargo: &'c Cargo,
}

/// The result of `terraform init`.
enum Init {
    Ready,
    RegistryUnreachable,
    Failed(String),
}

impl Terraform<'_> {
    /// `terraform …` in a directory of `infra/`. Its data directory is below the target directory.
    fn command(&self, directory: &str) -> Command {
        let mut command = Command::new("terraform");
        command.current_dir(self.cargo.root().join("infra").join(directory));
        command.env("CHECKPOINT_DISABLE", "1").env("TF_IN_AUTOMATION", "1");
        if let Ok(data) = self.data(directory) {
            command.env("TF_DATA_DIR", data);
        }
        command
    }

    fn data(&self, directory: &str) -> Result<PathBuf, String> {
        Ok(self.cargo.target_directory()?.join("tools/terraform").join(directory))
    }

    fn init(&self, directory: &str) -> Init {
        let mut init = self.command(directory);
        match run_quietly(init.args(["init", "-backend=false", "-input=false", "-no-color"])) {
            Ok(()) => Init::Ready,
            Err(output) if is_registry_unreachable(&output) => Init::RegistryUnreachable,
            Err(output) => Init::Failed(output),
        }
    }

    fn test_programs(&self, stages: &mut Stages) {
        if let Init::Failed(reason) = self.init(PROGRAMS) {
            stages.run_fn("tf programs", || Err(reason));
            return;
        }
        let mut test = self.command(PROGRAMS);
        test.args(["test", "-no-color"]);
        stages.run_with_summary("tf programs", &mut test, Stream::Report, line_starting_with("Success!"));
    }

    fn validate(&self, stages: &mut Stages) {
        for example in EXAMPLES {
            match self.init(example) {
                Init::Ready => {
                    let mut validate = self.command(example);
                    stages.run("tf validate", validate.args(["validate", "-no-color"]));
                    self.plan(example, stages);
                }
                Init::Failed(reason) => drop(stages.run_fn("tf validate", || Err(reason))),
                Init::RegistryUnreachable => {
                    stages.note(
                        "the AWS provider cannot be downloaded: `tf validate` and `tf plan` were skipped. \
                         tests/infra checks names, module arguments and outputs, but not the arguments of \
                         resources",
                    );
                    return;
                }
            }
        }
    }

    /// Plans the example with a mocked provider, and checks that invalid input is rejected.
    fn plan(&self, example: &str, stages: &mut Stages) {
        let packages = self.data("packages").map(|home| home.join("arm64"));
        let packages = match packages.and_then(|home| write_placeholders(&home).map(|()| home)) {
            Ok(packages) => packages,
            Err(reason) => {
                stages.run_fn("tf plan", || Err(reason));
                return;
            }
        };
        let mut test = self.command(example);
        test.args(["test", "-no-color", "-var"]).arg(format!("packages={}", packages.display()));
        stages.run_with_summary("tf plan", &mut test, Stream::Report, line_starting_with("Success!"));
    }
}

/// Writes placeholders for the Lambda zips. A plan reads only their hashes.
fn write_placeholders(directory: &Path) -> Result<(), String> {
    std::fs::create_dir_all(directory).map_err(|error| error.to_string())?;
    for function in FUNCTIONS {
        let zip = directory.join(format!("{function}.zip"));
        std::fs::write(&zip, function).map_err(|error| format!("{}: {error}", zip.display()))?;
    }
    Ok(())
}

fn is_registry_unreachable(output: &str) -> bool {
    // Terraform wraps long lines.
    let output = output.split_whitespace().collect::<Vec<_>>().join(" ");
    let contains = |words: &&str| output.contains(*words);
    UNREACHABLE.iter().any(contains) && !FILE_ERRORS.iter().any(contains)
}

fn checkov(cargo: &Cargo, stages: &mut Stages) {
    match CHECKOV.programs(cargo) {
        Ok(programs) => {
            let mut command = Command::new(programs.join("checkov"));
            command.current_dir(cargo.root());
            // The download is only for links to explanations, and hangs on a closed network.
            command.args(["--directory", "infra", "--framework", "terraform"]);
            command.args(["--quiet", "--compact", "--skip-download"]);
            stages.run_with_summary("checkov", &mut command, Stream::Report, checkov_summary);
        }
        Err(reason) => {
            stages.note(format!("checkov cannot be installed: infra/ was not checked with it: {reason}"));
        }
    }
}

/// The last line of checkov. Its exit code is also 0 if it cannot parse files or finds none.
fn checkov_summary(lines: &[String]) -> Result<String, String> {
    let unparsed = lines.iter().map(|line| line.trim()).find(|line| line.contains("Parsing errors:"));
    match unparsed.and_then(|line| line.split("Parsing errors:").nth(1)) {
        Some(number) if !number.trim().starts_with('0') => {
            Err(format!("checkov cannot parse {} of the files", number.trim()))
        }
        Some(_) | None => match line_starting_with("Passed checks:")(lines)? {
            none if none.starts_with("Passed checks: 0") => Err("checkov found no resource".to_owned()),
            passed => Ok(passed),
        },
    }
}

/// Returns a function that finds the line with this prefix.
fn line_starting_with(prefix: &'static str) -> impl FnOnce(&[String]) -> Result<String, String> {
    move |lines| {
        let line = lines.iter().map(|line| line.trim()).find(|line| line.starts_with(prefix));
        line.map(str::to_owned).ok_or_else(|| format!("the output has no line that starts with `{prefix}`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_line_is_found_by_its_prefix() {
        let lines = ["terraform scan results:", "", "Passed checks: 3, Failed checks: 0"].map(str::to_owned);
        let found = line_starting_with("Passed checks:")(&lines);
        assert_eq!(found, Ok("Passed checks: 3, Failed checks: 0".to_owned()));
        assert!(line_starting_with("Success!")(&lines).is_err());
    }

    #[test]
    fn version_conflict_is_not_an_unreachable_registry() {
        let heading = "Error: Failed to query available provider packages\n\n";
        let offline = "Could not retrieve the list of available versions for provider hashicorp/aws:\n\
                       could not connect\nto registry.terraform.io: no such host";
        let conflict = "Could not retrieve the list of available versions for provider hashicorp/aws: no\n\
                        available releases match the given constraints >= 6.0.0, < 6.0.0";
        assert!(is_registry_unreachable(&format!("{heading}{offline}")));
        assert!(!is_registry_unreachable(&format!("{heading}{conflict}")));
    }

    #[test]
    fn unparsed_files_fail_the_checkov_stage() {
        let summary = |line: &str| checkov_summary(&[line.to_owned()]);
        assert!(summary("Passed checks: 695, Failed checks: 0, Skipped checks: 45").is_ok());
        assert!(summary("Passed checks: 3, Failed checks: 0, Skipped checks: 0, Parsing errors: 2").is_err());
        assert!(summary("Passed checks: 0, Failed checks: 0, Skipped checks: 0").is_err());
        assert!(summary("").is_err());
    }

    #[test]
    fn unknown_option_is_rejected_by_name() {
        let result = options(&["--fast".to_owned()]);
        assert!(matches!(result, Err(UsageError::Invalid(option)) if option == "--fast"));
    }
}
