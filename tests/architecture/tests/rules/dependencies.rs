//! Which crate may use which: the picture in `ARCHITECTURE.md`, as a table.

use std::collections::BTreeSet;

use crate::workspace::{Package, file, packages};

/// Each crate that is shipped or runs the house, and those of ours it may be built from. Crates under
/// `tests/` need no row: they may use everything, and nothing shipped may use them.
const MAY_USE: [(&str, &[&str]); 21] = [
    ("domain", &[]),
    ("workflow", &["domain"]),
    ("policy", &["domain"]),
    ("evidence", &["domain"]),
    ("store", &["domain"]),
    ("connectors", &["domain", "tls"]),
    ("signing", &["domain"]),
    ("tls", &[]),
    ("notify", &["domain", "signing", "tls"]),
    // The world outside, which knows nothing of us.
    ("simulated", &[]),
    ("engine", &["domain", "workflow", "policy", "evidence", "store", "connectors"]),
    ("telling", &["domain", "store", "engine"]),
    ("api", &["domain", "workflow", "evidence", "store", "engine", "telling", "tls"]),
    ("console", &["domain", "workflow", "evidence", "store", "engine", "telling", "notify", "api"]),
    ("client", &["domain", "telling", "api", "tls"]),
    ("systems", &["domain", "connectors", "engine", "notify", "signing"]),
    ("meter", &["engine"]),
    ("worker", &["domain", "evidence", "store", "connectors", "engine", "meter", "systems"]),
    ("functions", &["domain", "store", "connectors", "engine", "signing", "notify", "systems"]),
    (
        "cli",
        &[
            "domain",
            "workflow",
            "policy",
            "evidence",
            "store",
            "connectors",
            "signing",
            "notify",
            "simulated",
            "engine",
            "meter",
            "telling",
            "api",
            "client",
            "console",
            "systems",
            "worker",
            "functions",
        ],
    ),
    ("xtask", &[]),
];

#[test]
fn each_crate_is_built_only_from_crates_beneath_it() {
    let packages = packages();
    for package in packages.iter().filter(|package| !package.is_a_test()) {
        let row = MAY_USE.iter().find(|(role, _)| *role == package.role);
        let allowed = row.map_or(&[][..], |(_, allowed)| allowed);
        for used in ours(package, &packages) {
            assert!(allowed.contains(&used), "`{}` may not use `{used}`", package.role);
        }
    }
}

#[test]
fn every_crate_has_its_place_in_the_table() {
    let packages = packages();
    let there: BTreeSet<&str> =
        packages.iter().filter(|package| !package.is_a_test()).map(|package| package.role.as_str()).collect();
    let in_the_table = MAY_USE.map(|(role, _)| role).into();
    assert_eq!(there, in_the_table, "the crates of the workspace, and those in the table");
}

#[test]
fn a_crate_is_named_after_its_directory() {
    for Package { role, name, .. } in packages() {
        let expected = match role.as_str() {
            "cli" => "countersign".to_owned(),
            "xtask" => "xtask".to_owned(),
            _ => format!("countersign-{}", role.trim_start_matches("tests/")),
        };
        assert_eq!(name, expected, "in {role}/Cargo.toml");
    }
}

#[test]
fn every_crate_takes_its_lints_from_the_workspace() {
    for Package { role, .. } in packages() {
        let manifest = file(&format!("{role}/Cargo.toml"));
        let mut lines =
            manifest.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let inherits = lines.any(|line| line == "[lints]") && lines.next() == Some("workspace = true");
        assert!(inherits, "{role}/Cargo.toml needs: [lints] workspace = true");
    }
}

/// The roles of those of our crates that `package` is built from.
fn ours<'a>(package: &Package, all: &'a [Package]) -> Vec<&'a str> {
    all.iter().filter(|other| package.needs.contains(&other.name)).map(|other| other.role.as_str()).collect()
}
