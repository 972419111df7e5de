//! `cargo xtask infra`: what can be said about `infra/` without an account.
//!
//! Terraform's own check needs the provider, which comes from a registry. Where that cannot be reached it is said so;
//! what needs no provider is checked all the same, here and by the tests in `tests/infra`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Misuse;
use crate::cargo::Cargo;
use crate::package::FUNCTIONS;
use crate::parts::{Parts, Stream};
use crate::tools::{Tool, is_installed, quietly};

pub(crate) const HELP: &str = "\
What can be said about infra/ without an account. Takes no options.

Usage: cargo xtask infra

  tf format    terraform fmt -check -recursive infra; `terraform fmt -recursive infra` mends it
  tf programs  terraform test in infra/modules/programs, which needs no provider
  tf validate  terraform validate of each example, and so of every module, where the provider can be had
  tf plan      terraform test in each example: planned with a mocked provider, and refused where it should be
  checkov      checkov from PyPI, pinned, in target/tools; every exception is argued beside its resource

Terraform is not installed for you. On a closed network with a copy of the provider, say where it is:
TF_CLI_ARGS_init=-plugin-dir=<directory>. Whatever could not be had is named at the end.
";

const CHECKOV: Tool = Tool { name: "checkov", packages: &["checkov==3.3.30"] };

/// Together they call every module.
const EXAMPLES: [&str; 2] = ["examples/minimal", "examples/production"];

/// The one module with tests of its own: it is nothing but expressions.
const PROGRAMS: &str = "modules/programs";

/// What terraform writes above its reason when a registry is out of reach.
const OUT_OF_REACH: [&str; 2] = ["Failed to query available provider packages", "Failed to install provider"];

/// Reasons below the same headings that are mistakes in the files.
const MISTAKES: [&str; 3] = [
    "no available releases match",
    "does not have a provider named",
    "does not match configured version constraint",
];

/// There are none.
pub(crate) fn options(args: &[String]) -> Result<(), Misuse> {
    match args.first().map(String::as_str) {
        None => Ok(()),
        Some("--help" | "-h") => Err(Misuse::Help),
        Some(other) => Err(Misuse::Unknown(other.to_owned())),
    }
}

/// Runs every part, whatever the ones before it said.
pub(crate) fn infra(cargo: &Cargo, parts: &mut Parts) {
    if is_installed("terraform") {
        let terraform = Terraform { cargo };
        parts.run("tf format", terraform.command("").args(["fmt", "-check", "-recursive", "-diff"]));
        terraform.programs(parts);
        terraform.validate(parts);
    } else {
        parts.leave_out("terraform is not installed; infra/ was neither formatted nor validated by it");
    }
    checkov(cargo, parts);
}

struct Terraform<'c> {
    cargo: &'c Cargo,
}

/// What came of fetching what a directory needs.
enum Fetched {
    All,
    /// The registry did not answer.
    Nothing,
    /// The files are wrong.
    Refused(String),
}

impl Terraform<'_> {
    /// `terraform …` in a directory of `infra/`; what it keeps for itself goes below the target directory.
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

    fn fetch(&self, directory: &str) -> Fetched {
        let mut init = self.command(directory);
        match quietly(init.args(["init", "-backend=false", "-input=false", "-no-color"])) {
            Ok(()) => Fetched::All,
            Err(said) if is_out_of_reach(&said) => Fetched::Nothing,
            Err(said) => Fetched::Refused(said),
        }
    }

    fn programs(&self, parts: &mut Parts) {
        if let Fetched::Refused(why) = self.fetch(PROGRAMS) {
            parts.work("tf programs", || Err(why));
            return;
        }
        let mut test = self.command(PROGRAMS);
        parts.read("tf programs", test.args(["test", "-no-color"]), Stream::Report, closing("Success!"));
    }

    fn validate(&self, parts: &mut Parts) {
        for example in EXAMPLES {
            match self.fetch(example) {
                Fetched::All => {
                    let mut validate = self.command(example);
                    parts.run("tf validate", validate.args(["validate", "-no-color"]));
                    self.plan(example, parts);
                }
                Fetched::Refused(why) => drop(parts.work("tf validate", || Err(why))),
                Fetched::Nothing => {
                    parts.leave_out(
                        "the AWS provider cannot be had here (no registry in reach); terraform validate was \
                         not run, and nothing was planned. tests/infra checked names, arguments and outputs; nothing checked the \
                         resources' own arguments",
                    );
                    return;
                }
            }
        }
    }

    /// What would be made, and what is refused, with a provider that makes nothing.
    fn plan(&self, example: &str, parts: &mut Parts) {
        let packages = self.data("packages").map(|home| home.join("arm64"));
        let packages = match packages.and_then(|home| placeholders(&home).map(|()| home)) {
            Ok(packages) => packages,
            Err(why) => {
                parts.work("tf plan", || Err(why));
                return;
            }
        };
        let mut test = self.command(example);
        test.args(["test", "-no-color", "-var"]).arg(format!("packages={}", packages.display()));
        parts.read("tf plan", &mut test, Stream::Report, closing("Success!"));
    }
}

/// Files that stand in for the zips: a plan reads what they hash to, and nothing else.
fn placeholders(at: &Path) -> Result<(), String> {
    std::fs::create_dir_all(at).map_err(|error| error.to_string())?;
    for function in FUNCTIONS {
        let zip = at.join(format!("{function}.zip"));
        std::fs::write(&zip, function).map_err(|error| format!("{}: {error}", zip.display()))?;
    }
    Ok(())
}

/// Terraform breaks its lines where they are long enough.
fn is_out_of_reach(said: &str) -> bool {
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let says = |words: &&str| said.contains(*words);
    OUT_OF_REACH.iter().any(says) && !MISTAKES.iter().any(says)
}

fn checkov(cargo: &Cargo, parts: &mut Parts) {
    match CHECKOV.programs(cargo) {
        Ok(programs) => {
            let mut command = Command::new(programs.join("checkov"));
            command.current_dir(cargo.root());
            // Without the download: it is only for links to explanations, and hangs on a closed network.
            command.args(["--directory", "infra", "--framework", "terraform"]);
            command.args(["--quiet", "--compact", "--skip-download"]);
            parts.read("checkov", &mut command, Stream::Report, checked);
        }
        Err(why) => {
            parts.leave_out(format!("checkov cannot be had; infra/ was not checked by it: {why}"));
        }
    }
}

/// What checkov says at its end. It exits well, too, after files that it could not read, and where it found none.
fn checked(lines: &[String]) -> Result<String, String> {
    let unread = lines.iter().map(|line| line.trim()).find(|line| line.contains("Parsing errors:"));
    match unread.and_then(|line| line.split("Parsing errors:").nth(1)) {
        Some(number) if !number.trim().starts_with('0') => {
            Err(format!("it could not read {number} of the files"))
        }
        Some(_) | None => match closing("Passed checks:")(lines)? {
            none if none.starts_with("Passed checks: 0") => Err("it found nothing to check".to_owned()),
            passed => Ok(passed),
        },
    }
}

/// Sums up by the line that begins with these words.
fn closing(words: &'static str) -> impl FnOnce(&[String]) -> Result<String, String> {
    move |lines| {
        let line = lines.iter().map(|line| line.trim()).find(|line| line.starts_with(words));
        line.map(str::to_owned).ok_or_else(|| format!("it did not say `{words}`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_line_is_found_or_missed() {
        let lines = ["terraform scan results:", "", "Passed checks: 3, Failed checks: 0"].map(str::to_owned);
        assert_eq!(closing("Passed checks:")(&lines), Ok("Passed checks: 3, Failed checks: 0".to_owned()));
        assert!(closing("Success!")(&lines).is_err());
    }

    #[test]
    fn versions_that_contradict_each_other_are_not_a_network_that_is_away() {
        let heading = "Error: Failed to query available provider packages\n\n";
        let away = "Could not retrieve the list of available versions for provider hashicorp/aws:\ncould not connect\nto \
                    registry.terraform.io: no such host";
        let wrong = "Could not retrieve the list of available versions for provider hashicorp/aws: no\navailable releases \
                     match the given constraints >= 6.0.0, < 6.0.0";
        assert!(is_out_of_reach(&format!("{heading}{away}")));
        assert!(!is_out_of_reach(&format!("{heading}{wrong}")));
    }

    #[test]
    fn files_that_checkov_cannot_read_are_no_success() {
        let said = |line: &str| checked(&[line.to_owned()]);
        assert!(said("Passed checks: 695, Failed checks: 0, Skipped checks: 45").is_ok());
        assert!(said("Passed checks: 3, Failed checks: 0, Skipped checks: 0, Parsing errors: 2").is_err());
        assert!(said("Passed checks: 0, Failed checks: 0, Skipped checks: 0").is_err());
        assert!(said("").is_err());
    }

    #[test]
    fn an_option_is_refused_by_name() {
        assert!(
            matches!(options(&["--fast".to_owned()]), Err(Misuse::Unknown(option)) if option == "--fast")
        );
    }
}
