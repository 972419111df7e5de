//! Which crate may use which: the diagram in `ARCHITECTURE.md`, as a table.

use std::collections::BTreeSet;

use crate::workspace::{Package, file, packages};

/// Each crate outside `tests/`, and the crates of the workspace it may use. Crates under `tests/` may use every crate, and
/// no other crate may use them.
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
fn crates_use_only_lower_layers() {
    let packages = packages();
    for package in packages.iter().filter(|package| !package.is_test()) {
        let row = MAY_USE.iter().find(|(role, _)| *role == package.role);
        let allowed = row.map_or(&[][..], |(_, allowed)| allowed);
        for used in own_dependencies(package, &packages) {
            assert!(allowed.contains(&used), "`{}` may not use `{used}`", package.role);
        }
    }
}

#[test]
fn every_crate_has_a_row_in_the_table() {
    let packages = packages();
    let existing: BTreeSet<&str> =
        packages.iter().filter(|package| !package.is_test()).map(|package| package.role.as_str()).collect();
    let in_table = MAY_USE.map(|(role, _)| role).into();
    assert_eq!(existing, in_table, "left: the crates of the workspace; right: the rows of the table");
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
fn every_crate_inherits_the_workspace_lints() {
    for Package { directory, .. } in packages() {
        let manifest = file(&format!("{directory}/Cargo.toml"));
        let mut lines =
            manifest.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let inherits = lines.any(|line| line == "[lints]") && lines.next() == Some("workspace = true");
        assert!(inherits, "{directory}/Cargo.toml needs: [lints] workspace = true");
    }
}

/// The roles of the workspace crates that `package` uses.
fn own_dependencies<'a>(package: &Package, all: &'a [Package]) -> Vec<&'a str> {
    all.iter().filter(|other| package.needs.contains(&other.name)).map(|other| other.role.as_str()).collect()
}
