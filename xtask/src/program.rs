//! The proofs, the benchmark and the cost meter: programs of their own that a command hands over to.

use std::process::{Command, ExitCode, ExitStatus};

use crate::cargo::{Cargo, shown};

/// A program behind a command.
#[derive(Clone, Copy)]
pub(crate) struct Program {
    package: &'static str,
    /// Its name among the package's examples, if it is one.
    example: Option<&'static str>,
    build: Build,
}

/// How a program is built.
#[derive(Clone, Copy)]
enum Build {
    /// For speed.
    Fast,
    /// It counts and takes no time, so it shares what the tests have built. It knows AWS, which is built only where
    /// it is asked for.
    Counting,
}

impl Build {
    fn options(self) -> &'static [&'static str] {
        match self {
            Self::Fast => &["--release"],
            Self::Counting => &["--features", "aws"],
        }
    }
}

/// Every fault at every call.
pub(crate) const SIMULATION: Program =
    Program { package: "countersign-simulation", example: None, build: Build::Fast };
/// Every state of the protocol.
pub(crate) const MODEL: Program = Program { package: "countersign-model", example: None, build: Build::Fast };
/// What a step costs on AWS.
pub(crate) const COST: Program =
    Program { package: "countersign-cost", example: None, build: Build::Counting };
/// What a step costs.
pub(crate) const BENCH: Program = Program { package: "countersign-bench", example: None, build: Build::Fast };

/// The default policy against a second reading of its rules.
pub(crate) const POLICY: Program =
    Program { package: "countersign-policy", example: Some("differential"), build: Build::Fast };
/// What evidence costs.
pub(crate) const EVIDENCE: Program =
    Program { package: "countersign-evidence", example: Some("throughput"), build: Build::Fast };

impl Program {
    /// How it is built and started; what follows are its own options.
    pub(crate) fn command(self, cargo: &Cargo, options: &[impl AsRef<str>]) -> Command {
        let mut command = cargo.command(&["run", "--quiet", "--package", self.package]);
        command.args(self.build.options());
        if let Some(example) = self.example {
            command.args(["--example", example]);
        }
        command.arg("--").args(options.iter().map(AsRef::as_ref));
        command
    }
}

/// Runs the program in our place: its output is ours, and so is its exit code.
pub(crate) fn hand_over(cargo: &Cargo, program: Program, options: &[String]) -> ExitCode {
    let mut command = program.command(cargo, options);
    eprintln!("--- {}", shown(&command));
    match command.status() {
        Ok(status) => exit_code(status),
        Err(error) => {
            eprintln!("xtask: {} did not start: {error}", program.package);
            ExitCode::FAILURE
        }
    }
}

/// A program that was killed has no code of its own.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    code.map_or(ExitCode::FAILURE, ExitCode::from)
}
