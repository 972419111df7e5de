//! Commands that run one program of the workspace: simulation, model, benchmarks, cost, scale, fuzz and
//! differential.

use std::process::{Command, ExitCode, ExitStatus};

use crate::cargo::{Cargo, command_line};

#[derive(Clone, Copy)]
pub(crate) struct Program {
    package: &'static str,
    /// The example's name, if the program is an example of its package.
    example: Option<&'static str>,
    build: Build,
}

#[derive(Clone, Copy)]
enum Build {
    Release,
    /// The development profile with the `aws` feature: the program counts requests or measures virtual time, so it
    /// shares the build of the tests.
    DevWithAws,
    /// The development profile, which checks overflow and debug assertions.
    Dev,
}

impl Build {
    fn options(self) -> &'static [&'static str] {
        match self {
            Self::Release => &["--release"],
            Self::DevWithAws => &["--features", "aws"],
            Self::Dev => &[],
        }
    }
}

pub(crate) const SIMULATION: Program =
    Program { package: "countersign-simulation", example: None, build: Build::Release };
pub(crate) const MODEL: Program =
    Program { package: "countersign-model", example: None, build: Build::Release };
pub(crate) const COST: Program =
    Program { package: "countersign-cost", example: None, build: Build::DevWithAws };
pub(crate) const SCALE: Program =
    Program { package: "countersign-scale", example: None, build: Build::DevWithAws };
pub(crate) const FUZZ: Program = Program { package: "countersign-fuzz", example: None, build: Build::Dev };
pub(crate) const BENCH: Program =
    Program { package: "countersign-bench", example: None, build: Build::Release };
/// Compares the default policy with an independent implementation of its rules.
pub(crate) const DIFFERENTIAL: Program =
    Program { package: "countersign-policy", example: Some("differential"), build: Build::Release };
/// Measures how fast evidence bundles are built and verified.
pub(crate) const EVIDENCE: Program =
    Program { package: "countersign-evidence", example: Some("throughput"), build: Build::Release };

impl Program {
    /// The `cargo run` command that builds and starts the program with `options`.
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

/// Runs the program with our own standard streams and returns its exit code.
pub(crate) fn run(cargo: &Cargo, program: Program, options: &[String]) -> ExitCode {
    let mut command = program.command(cargo, options);
    eprintln!("--- {}", command_line(&command));
    match command.status() {
        Ok(status) => exit_code(status),
        Err(error) => {
            eprintln!("error: cannot start {}: {error}", program.package);
            ExitCode::FAILURE
        }
    }
}

/// A program that was killed by a signal has no exit code.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    code.map_or(ExitCode::FAILURE, ExitCode::from)
}
