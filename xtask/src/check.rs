//! `cargo xtask check`: what can be said about the code without running it.

use std::process::Command;

use crate::Misuse;
use crate::cargo::Cargo;
use crate::parts::Parts;

pub(crate) const HELP: &str = "\
What can be said about the code without running it. Takes no options.

Usage: cargo xtask check

  format     cargo fmt --check
  lints      cargo clippy, for every target of every crate; a warning fails
  documents  cargo doc; a warning, such as a broken link, fails
  licences   cargo deny: licences, bans and sources, as deny.toml says

`cargo fmt` mends the first. `cargo clippy --fix` mends some of the second. cargo-deny is not installed for
you, because that takes minutes: without it the last part is left out, and said to be. Its advisories are
not asked for here, because they have to be fetched: `cargo deny check advisories` does that.
";

/// What is built only where it is asked for.
const AWS: &str = "countersign-store/aws,countersign-cost/aws";

/// There are none.
pub(crate) fn options(args: &[String]) -> Result<(), Misuse> {
    match args.first().map(String::as_str) {
        None => Ok(()),
        Some("--help" | "-h") => Err(Misuse::Help),
        Some(other) => Err(Misuse::Unknown(other.to_owned())),
    }
}

/// Runs every part, whatever the ones before it said.
pub(crate) fn check(cargo: &Cargo) -> Parts {
    let mut parts = Parts::default();
    parts.run("format", &mut cargo.command(&["fmt", "--all", "--check"]));
    // Warnings are denied behind `--`, which reaches our crates alone. RUSTFLAGS would do the same and
    // compile every dependency once more.
    let lints = ["clippy", "--workspace", "--all-targets", "--features", AWS, "--", "-D", "warnings"];
    parts.run("lints", &mut cargo.command(&lints));
    parts.run("documents", &mut documents(cargo));
    licences(cargo, &mut parts);
    parts
}

fn documents(cargo: &Cargo) -> Command {
    let mut command = cargo.command(&["doc", "--workspace", "--no-deps", "--features", AWS]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    command
}

fn licences(cargo: &Cargo, parts: &mut Parts) {
    if cargo.has("deny") {
        parts.run(
            "licences",
            &mut cargo.command(&["deny", "check", "--hide-inclusion-graph", "licenses", "bans", "sources"]),
        );
    } else {
        parts.leave_out(
            "cargo-deny is not installed; licences and advisories were not checked: \
             cargo install cargo-deny --locked",
        );
    }
}
