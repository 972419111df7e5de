//! Which crate may use which: the picture in `ARCHITECTURE.md`, as a table.

use std::collections::BTreeSet;

use crate::workspace::{Package, file, packages};

/// Each crate that is shipped or runs the house, and those of ours it may be built from. Crates under
/// `tests/` need no row: they may use everything, and nothing shipped may use them.
const MAY_USE: [(&str, &[&str]); 22] = [
    ("domain", &[]),
    ("workflow", &["domain"]),
    ("policy", &["domain"]),
    ("evidence", &["domain"]),
    ("store", &["domain"]),
    ("connectors", &["domain", "http-client"]),
    ("signing", &["domain"]),
    ("http-client", &[]),
    ("slack", &["domain", "signing", "http-client"]),
    // The fakes of external systems share no code with the product.
    ("fakes", &[]),
    ("engine", &["domain", "workflow", "policy", "evidence", "store", "connectors"]),
    ("views", &["domain", "store", "engine"]),
    ("api-types", &["domain", "engine", "views"]),
    ("api", &["domain", "workflow", "evidence", "store", "engine", "views", "api-types", "http-client"]),
    ("console", &["domain", "workflow", "evidence", "store", "engine", "views", "slack", "api", "api-types"]),
    ("client", &["domain", "views", "api-types", "http-client"]),
    ("config", &["domain", "connectors", "engine", "slack", "signing"]),
    ("ingress", &["domain", "store", "engine", "signing", "slack", "config"]),
    ("worker", &["domain", "evidence", "store", "connectors", "engine", "config"]),
    ("functions", &["domain", "store", "connectors", "engine", "slack", "config", "ingress"]),
    (
        "cli",
        &[
            "domain",
            "workflow",
            "policy",
            "evidence",
            "store",
            "connectors",
            "slack",
            "fakes",
            "engine",
            "views",
            "api",
            "api-types",
            "client",
            "console",
            "config",
            "worker",
            "ingress",
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
    for Package { directory, .. } in packages() {
        let manifest = file(&format!("{directory}/Cargo.toml"));
        let mut lines =
            manifest.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let inherits = lines.any(|line| line == "[lints]") && lines.next() == Some("workspace = true");
        assert!(inherits, "{directory}/Cargo.toml needs: [lints] workspace = true");
    }
}

/// The roles of those of our crates that `package` is built from.
fn ours<'a>(package: &Package, all: &'a [Package]) -> Vec<&'a str> {
    all.iter().filter(|other| package.needs.contains(&other.name)).map(|other| other.role.as_str()).collect()
}
