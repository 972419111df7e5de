//! `cargo xtask check`: static checks of the code.

use std::process::Command;

use crate::UsageError;
use crate::cargo::Cargo;
use crate::stages::Stages;

pub(crate) const HELP: &str = "\
Check the code without running it.

Usage: cargo xtask check

Options:
  -h, --help  Print help

Stages:
  format    Run `cargo fmt --check`
  lints     Run `cargo clippy` on every target of every crate; a warning is a failure
  docs      Run `cargo doc`; a warning, such as a broken link, is a failure
  licenses  Run `cargo deny` for licenses, bans and sources as configured in deny.toml

Run `cargo fmt` to fix formatting and `cargo clippy --fix` to fix some lints.

The `licenses` stage is skipped if cargo-deny is not installed: `cargo install cargo-deny --locked`.
Security advisories are not checked, because they need a download: run `cargo deny check advisories`.
";

pub(crate) fn options(args: &[String]) -> Result<(), UsageError> {
    match args.first().map(String::as_str) {
        None => Ok(()),
        Some("--help" | "-h") => Err(UsageError::Help),
        Some(other) => Err(UsageError::Invalid(other.to_owned())),
    }
}

pub(crate) fn check(cargo: &Cargo) -> Stages {
    let mut stages = Stages::default();
    stages.run("format", &mut cargo.command(&["fmt", "--all", "--check"]));
    // Arguments after `--` apply to the crates of the workspace only. RUSTFLAGS would recompile every dependency.
    let lints = ["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"];
    stages.run("lints", &mut cargo.command(&lints));
    stages.run("docs", &mut docs(cargo));
    licenses(cargo, &mut stages);
    stages
}

fn docs(cargo: &Cargo) -> Command {
    let mut command = cargo.command(&["doc", "--workspace", "--no-deps", "--all-features"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    command
}

fn licenses(cargo: &Cargo, stages: &mut Stages) {
    if cargo.has("deny") {
        stages.run(
            "licenses",
            &mut cargo.command(&["deny", "check", "--hide-inclusion-graph", "licenses", "bans", "sources"]),
        );
    } else {
        stages.note(
            "cargo-deny is not installed: licenses, bans and sources were not checked; \
             to install it: cargo install cargo-deny --locked",
        );
    }
}
