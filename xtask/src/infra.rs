//! `cargo xtask infra`: checks of `infra/` that need no AWS account.
//!
//! Most stages need the AWS provider. Terraform takes it from the directory in `TF_PLUGIN_DIR`, from the place that its CLI
//! configuration file names, or from a registry. Without the provider, these stages are skipped and reported. Checks that
//! need no provider run here and in `tests/infra`.

use std::ffi::OsString;
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
  tf modules   Run `terraform test` in each other module with tests: plan with a mocked provider
  tf validate  Run `terraform validate` in each example, which covers every module
  tf plan      Run `terraform test` in each example: plan with a mocked provider and check that invalid
               input is rejected
  checkov      Run checkov; every exception has a reason next to its resource

Terraform must be installed, version 1.11 or later for the tests. A pinned version of checkov is installed
from PyPI into target/tools.

`tf modules`, `tf validate` and `tf plan` need the AWS provider. They are skipped if it cannot be downloaded.
On a closed network with a copy of the provider, set one of these variables:
  TF_PLUGIN_DIR       Directory in the layout of `terraform providers mirror`
  TF_CLI_CONFIG_FILE  Terraform CLI configuration file with a `provider_installation` block
The summary lists every skipped stage.
";

const CHECKOV: Tool = Tool { name: "checkov", packages: &["checkov==3.3.30"] };

/// Together, the examples use every module.
const EXAMPLES: [&str; 2] = ["examples/minimal", "examples/production"];

/// This module contains only expressions, so its tests need no provider.
const PROGRAMS: &str = "modules/programs";

/// The error headings of terraform when a provider cannot be installed.
const UNAVAILABLE: [&str; 2] = ["Failed to query available provider packages", "Failed to install provider"];

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
        let base = std::env::current_dir().unwrap_or_else(|_| cargo.root().to_owned());
        let terraform =
            Terraform { cargo, source: ProviderSource::new(&base, |name| std::env::var_os(name)) };
        stages.run("tf format", terraform.command("").args(["fmt", "-check", "-recursive", "-diff"]));
        terraform.test_programs(stages);
        terraform.check_with_provider(stages);
    } else {
        stages.note("terraform is not installed: infra/ was not formatted, validated or planned");
    }
    checkov(cargo, stages);
}

struct Terraform<'c> {
    cargo: &'c Cargo,
    source: ProviderSource,
}

/// Where terraform finds the AWS provider, as absolute paths, because terraform runs in the directory of a module.
#[derive(Debug, Default, PartialEq)]
struct ProviderSource {
    /// `TF_PLUGIN_DIR`, which terraform does not read itself.
    plugin_dir: Option<PathBuf>,
    /// `TF_CLI_CONFIG_FILE`, which terraform reads.
    cli_config: Option<PathBuf>,
}

impl ProviderSource {
    /// Reads the variables. A relative path is below `base`.
    fn new(base: &Path, variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let path = |name| variable(name).filter(|path| !path.is_empty()).map(|path| base.join(path));
        Self { plugin_dir: path("TF_PLUGIN_DIR"), cli_config: path("TF_CLI_CONFIG_FILE") }
    }

    fn init_args(&self) -> Vec<OsString> {
        let mut args = ["init", "-backend=false", "-input=false", "-no-color"].map(OsString::from).to_vec();
        if let Some(directory) = &self.plugin_dir {
            let mut plugin_dir = OsString::from("-plugin-dir=");
            plugin_dir.push(directory);
            args.push(plugin_dir);
        }
        args
    }

    /// What a failed `terraform init` means. A directory in `TF_PLUGIN_DIR` must contain the provider.
    fn classify(&self, output: String) -> Init {
        if self.plugin_dir.is_none() && is_provider_unavailable(&output) {
            Init::ProviderUnavailable
        } else {
            Init::Failed(output)
        }
    }

    /// What was skipped without the provider, and how to enable it.
    fn skip_note(&self, exists: impl Fn(&Path) -> bool) -> String {
        let missing = self.cli_config.as_deref().filter(|path| !exists(path));
        let missing = missing
            .map(|path| format!(" TF_CLI_CONFIG_FILE is set, but {} does not exist.", path.display()))
            .unwrap_or_default();
        format!(
            "the AWS provider cannot be downloaded: `tf modules`, `tf validate` and `tf plan` were skipped. To run \
             them, set TF_PLUGIN_DIR to a directory with the provider, or TF_CLI_CONFIG_FILE to a configuration file \
             that names one (cargo xtask infra --help).{missing}"
        )
    }
}

/// The result of `terraform init`.
#[derive(Debug, PartialEq)]
enum Init {
    Ready,
    ProviderUnavailable,
    Failed(String),
}

impl Terraform<'_> {
    /// `terraform …` in a directory of `infra/`. Its data directory is below the target directory.
    fn command(&self, directory: &str) -> Command {
        let mut command = Command::new("terraform");
        command.current_dir(self.cargo.root().join("infra").join(directory));
        command.env("CHECKPOINT_DISABLE", "1").env("TF_IN_AUTOMATION", "1");
        if let Some(config) = &self.source.cli_config {
            command.env("TF_CLI_CONFIG_FILE", config);
        }
        if let Ok(data) = self.data(directory) {
            command.env("TF_DATA_DIR", data);
        }
        command
    }

    fn data(&self, directory: &str) -> Result<PathBuf, String> {
        Ok(self.cargo.target_directory()?.join("tools/terraform").join(directory))
    }

    fn init(&self, directory: &str) -> Init {
        match run_quietly(self.command(directory).args(self.source.init_args())) {
            Ok(()) => Init::Ready,
            Err(output) => self.source.classify(output),
        }
    }

    fn test_programs(&self, stages: &mut Stages) {
        match self.init(PROGRAMS) {
            Init::Failed(reason) => drop(stages.run_fn("tf programs", || Err(reason))),
            Init::Ready | Init::ProviderUnavailable => self.test("tf programs", PROGRAMS, &[], stages),
        }
    }

    fn test(&self, stage: &'static str, directory: &str, more: &[String], stages: &mut Stages) {
        let mut test = self.command(directory);
        test.args(["test", "-no-color"]).args(more);
        stages.run_with_summary(stage, &mut test, Stream::Report, line_starting_with("Success!"));
    }

    fn check_with_provider(&self, stages: &mut Stages) {
        let modules = match tested_modules(&self.cargo.root().join("infra/modules")) {
            Ok(modules) => modules,
            Err(reason) => {
                stages.run_fn("tf modules", || Err(reason));
                return;
            }
        };
        for directory in modules.iter().map(String::as_str).chain(EXAMPLES) {
            match self.init(directory) {
                Init::Ready if EXAMPLES.contains(&directory) => self.check_example(directory, stages),
                Init::Ready => self.test("tf modules", directory, &[], stages),
                Init::Failed(reason) => drop(stages.run_fn("tf init", || Err(reason))),
                Init::ProviderUnavailable => return stages.note(self.source.skip_note(Path::exists)),
            }
        }
    }

    fn check_example(&self, example: &str, stages: &mut Stages) {
        stages.run("tf validate", self.command(example).args(["validate", "-no-color"]));
        self.plan(example, stages);
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
        let packages = format!("packages={}", packages.display());
        self.test("tf plan", example, &["-var".to_owned(), packages], stages);
    }
}

/// The modules with tests that need the provider, relative to `infra/`.
fn tested_modules(modules: &Path) -> Result<Vec<String>, String> {
    let failed = |error| format!("cannot list {}: {error}", modules.display());
    let mut tested = Vec::new();
    for entry in std::fs::read_dir(modules).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let module = format!("modules/{}", entry.file_name().to_string_lossy());
        if entry.path().join("tests").is_dir() && module != PROGRAMS {
            tested.push(module);
        }
    }
    tested.sort();
    Ok(tested)
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

fn is_provider_unavailable(output: &str) -> bool {
    // Terraform wraps long lines.
    let output = output.split_whitespace().collect::<Vec<_>>().join(" ");
    let contains = |words: &&str| output.contains(*words);
    UNAVAILABLE.iter().any(contains) && !FILE_ERRORS.iter().any(contains)
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

    const HEADING: &str = "Error: Failed to query available provider packages\n\n\
                           Could not retrieve the list of available versions for provider hashicorp/aws:";
    const OFFLINE: &str = "could not connect\nto the registry: no such host";

    fn source(variables: &[(&str, &str)]) -> ProviderSource {
        ProviderSource::new(Path::new("/base"), |name| {
            variables.iter().find(|(set, _)| *set == name).map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn version_conflict_is_not_an_unreachable_registry() {
        let conflict = "no\navailable releases match the given constraints >= 6.0.0, < 6.0.0";
        assert!(is_provider_unavailable(&format!("{HEADING} {OFFLINE}")));
        assert!(!is_provider_unavailable(&format!("{HEADING} {conflict}")));
    }

    #[test]
    fn plugin_dir_is_passed_to_init_as_absolute_path() {
        let init = ["init", "-backend=false", "-input=false", "-no-color"];
        assert_eq!(source(&[("TF_PLUGIN_DIR", "")]).init_args(), init);
        let args = source(&[("TF_PLUGIN_DIR", "plugins")]).init_args();
        assert_eq!(args.last(), Some(&OsString::from("-plugin-dir=/base/plugins")));
        let args = source(&[("TF_PLUGIN_DIR", "/plugins")]).init_args();
        assert_eq!(args.last(), Some(&OsString::from("-plugin-dir=/plugins")));
        let relative = source(&[("TF_CLI_CONFIG_FILE", "terraform.rc")]);
        assert_eq!(relative.cli_config, Some(PathBuf::from("/base/terraform.rc")));
        assert_eq!(relative.init_args(), init);
    }

    #[test]
    fn missing_provider_in_plugin_dir_is_a_failure() {
        let output = format!("{HEADING} {OFFLINE}");
        assert_eq!(source(&[]).classify(output.clone()), Init::ProviderUnavailable);
        let named = source(&[("TF_PLUGIN_DIR", "/plugins")]);
        assert_eq!(named.classify(output.clone()), Init::Failed(output));
    }

    #[test]
    fn skip_note_says_what_was_skipped_and_how_to_enable_it() {
        let note = source(&[]).skip_note(|_| false);
        for words in ["`tf modules`", "`tf validate`", "`tf plan`", "TF_PLUGIN_DIR", "TF_CLI_CONFIG_FILE"] {
            assert!(note.contains(words), "{words} is not in: {note}");
        }
        let config = source(&[("TF_CLI_CONFIG_FILE", "/gone.rc")]);
        assert!(config.skip_note(|_| false).ends_with("but /gone.rc does not exist."));
        assert_eq!(config.skip_note(|_| true), note);
    }

    #[test]
    fn modules_with_tests_are_listed_without_programs() {
        let modules =
            tested_modules(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../infra/modules")).unwrap();
        assert!(!modules.contains(&PROGRAMS.to_owned()) && modules.is_sorted(), "{modules:?}");
        assert!(tested_modules(Path::new("/gone")).is_err());
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
