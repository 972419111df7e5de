//! `cargo xtask api`: the API, tried from outside by what its own document says.
//!
//! A house with two tenants is served on this machine, and schemathesis makes up requests from the document: those
//! that should be taken, those that should not, and sequences of them. It needs nothing but Python.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::Misuse;
use crate::cargo::Cargo;
use crate::parts::{Parts, Stream};
use crate::tools::Tool;

pub(crate) const HELP: &str = "\
The API, tried from outside by what its own document says. Takes no options.

Usage: cargo xtask api

  api     schemathesis from PyPI, pinned, in target/tools, against a house with two tenants on this machine;
          tests/contract/schemathesis.toml says what it is held to

What was made up is the same each time. Whatever could not be had is named at the end.
";

const SCHEMATHESIS: Tool = Tool { name: "schemathesis", packages: &["schemathesis==4.32.5"] };

/// The package of the house, and the program that serves it.
const HOUSE: &str = "countersign-contract";

/// For each route: takes about a minute on two cores.
const EXAMPLES: &str = "25";

/// There are none.
pub(crate) fn options(args: &[String]) -> Result<(), Misuse> {
    match args.first().map(String::as_str) {
        None => Ok(()),
        Some("--help" | "-h") => Err(Misuse::Help),
        Some(other) => Err(Misuse::Unknown(other.to_owned())),
    }
}

/// Builds the house and tries it.
pub(crate) fn api(cargo: &Cargo) -> Parts {
    let mut parts = Parts::default();
    if parts.run("build", &mut cargo.command(&["build", "--package", HOUSE])) {
        tried(cargo, &mut parts);
    }
    parts
}

/// Tries the house, which is built.
pub(crate) fn tried(cargo: &Cargo, parts: &mut Parts) {
    let programs = match SCHEMATHESIS.programs(cargo) {
        Ok(programs) => programs,
        Err(why) => {
            return parts
                .leave_out(format!("schemathesis cannot be had; the API was not tried by it: {why}"));
        }
    };
    let house = match House::open(cargo) {
        Ok(house) => house,
        Err(why) => {
            parts.work("api", || Err(why));
            return;
        }
    };
    let mut command = Command::new(programs.join("schemathesis"));
    command.current_dir(cargo.root());
    command.args(["--config-file", "tests/contract/schemathesis.toml", "run", &house.document]);
    command.args(["--header", &format!("Authorization: Bearer {}", house.key)]);
    command.args(["--max-examples", EXAMPLES, "--seed", "1", "--continue-on-failure", "--no-color"]);
    parts.read("api", &mut command, Stream::Report, summed_up);
}

/// `1512 generated, 1512 passed, 40 skipped`.
fn summed_up(lines: &[String]) -> Result<String, String> {
    let line = lines.iter().find(|line| line.contains(" generated, "));
    line.map(|line| line.trim().to_owned()).ok_or_else(|| "it says nothing about what it tried".to_owned())
}

/// The house while it is open. It is closed when this is dropped.
struct House {
    serving: Child,
    /// Kept, so that the house can go on writing.
    _says: BufReader<ChildStdout>,
    document: String,
    key: String,
}

impl House {
    fn open(cargo: &Cargo) -> Result<Self, String> {
        let program = format!("{HOUSE}{}", std::env::consts::EXE_SUFFIX);
        let program = cargo.target_directory()?.join("debug").join(program);
        let failed = |error: std::io::Error| format!("{}: {error}", program.display());
        let mut serving = Command::new(&program).stdout(Stdio::piped()).spawn().map_err(failed)?;
        let Some(says) = serving.stdout.take() else { return Err("the house says nothing".to_owned()) };
        let mut says = BufReader::new(says);
        let mut line = String::new();
        let read = says.read_line(&mut line).map_err(failed);
        let (document, key) = line.trim().split_once(' ').unwrap_or_default();
        let house = Self { serving, _says: says, document: document.to_owned(), key: key.to_owned() };
        read?;
        if house.key.is_empty() { Err("the house does not say where it is".to_owned()) } else { Ok(house) }
    }
}

impl Drop for House {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nobody to tell.
        let _ = self.serving.kill();
        let _ = self.serving.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_tried_is_one_line_of_the_report() {
        let report = ["Test cases:", "  1512 generated, 1512 passed, 40 skipped", "", "Seed: 1"];
        let report = report.map(str::to_owned);
        assert_eq!(summed_up(&report).unwrap(), "1512 generated, 1512 passed, 40 skipped");
        assert!(summed_up(&[]).is_err());
    }
}
