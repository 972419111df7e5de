//! Which crate may use which, and which part of the engine: the diagrams in `ARCHITECTURE.md`, as tables.

use std::collections::{BTreeMap, BTreeSet};

use crate::workspace::{Package, Source, file, packages, sources};

/// Each crate outside `tests/`, and the crates of the workspace it may use. Crates under `tests/` may use every crate, and
/// no other crate may use them.
const MAY_USE: [(&str, &[&str]); 25] = [
    ("domain", &[]),
    ("workflow", &["domain"]),
    ("policy", &["domain"]),
    ("evidence", &["domain"]),
    ("store", &["domain"]),
    ("connectors", &["domain", "http-client"]),
    ("credentials", &["domain", "http-client"]),
    ("signing", &["domain"]),
    ("http-client", &[]),
    ("http-server", &[]),
    ("slack", &["domain", "connectors", "signing", "http-client"]),
    // The fakes of external systems share no code with the product.
    ("fakes", &[]),
    (
        "engine",
        &["domain", "workflow", "policy", "evidence", "store", "connectors", "credentials", "http-server"],
    ),
    // The harness of the tests. The other crates use it only as a dev-dependency.
    ("testkit", &["domain", "workflow", "policy", "evidence", "store", "connectors", "engine"]),
    ("views", &["domain", "evidence", "store", "engine"]),
    ("api-types", &["domain", "engine", "views"]),
    ("api", &["domain", "workflow", "evidence", "store", "engine", "views", "api-types", "http-client"]),
    ("console", &["domain", "workflow", "evidence", "store", "engine", "views", "slack", "api", "api-types"]),
    ("client", &["domain", "views", "api-types", "http-client"]),
    ("config", &["domain", "connectors", "credentials", "engine", "slack", "signing"]),
    ("ingress", &["domain", "store", "engine", "signing", "slack", "config"]),
    (
        "worker",
        &["domain", "evidence", "store", "connectors", "credentials", "engine", "config", "http-server"],
    ),
    ("functions", &["domain", "store", "connectors", "engine", "config", "ingress"]),
    (
        "cli",
        &[
            "domain",
            "workflow",
            "policy",
            "evidence",
            "store",
            "connectors",
            "credentials",
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
            "http-server",
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
fn only_test_crates_depend_on_the_testkit() {
    let packages = packages();
    let users = packages.iter().filter(|package| package.needs.contains("countersign-testkit"));
    for package in users {
        assert!(package.is_test(), "`{}` may use `testkit` only in [dev-dependencies]", package.role);
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
fn crate_is_named_after_its_directory() {
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

/// The parts of the engine, and the modules of the engine that each may use. `tenant_handle` is the type that every part
/// adds operations to.
const ENGINE_PARTS: [(&str, &[&str]); 6] = [
    ("core", &["core", "error", "metrics"]),
    ("tenant_handle", &["core", "error"]),
    ("admission", &["admission", "core", "error", "tenant_handle"]),
    ("governance", &["governance", "core", "error", "tenant_handle"]),
    ("execution", &["execution", "governance", "core", "error"]),
    ("operations", &["operations", "execution", "admission", "core", "error", "tenant_handle"]),
];

#[test]
fn part_of_the_engine_uses_only_lower_parts() {
    let sources = sources();
    for (part, allowed) in ENGINE_PARTS {
        let (directory, file) =
            (format!("crates/engine/src/{part}/"), format!("crates/engine/src/{part}.rs"));
        let is_of_part = |source: &&Source| source.path.starts_with(&directory) || source.path == file;
        let of_part: Vec<_> = sources.iter().filter(is_of_part).collect();
        assert!(!of_part.is_empty(), "the engine has no part `{part}`");
        for Source { path, code } in of_part {
            for used in own_modules(code) {
                assert!(allowed.contains(&used), "{path}: `{part}` may not use `crate::{used}`");
            }
        }
    }
}

#[test]
fn module_is_found_by_its_path() {
    let code = "use crate::core::Core;\nfn f() { crate::error::g() }\n#[cfg(test)]\nmod tests { use crate::Engine; }";
    assert_eq!(own_modules(code).collect::<Vec<_>>(), ["core", "error"]);
    assert_eq!(own_modules("use crate::{Engine, core};").collect::<Vec<_>>(), [""], "a group has no path");
}

/// The first word after each `crate::`, outside unit tests. It is empty for a group, which no part may use.
fn own_modules(code: &str) -> impl Iterator<Item = &str> {
    let shipped = code.split("#[cfg(test)]").next().unwrap_or_default();
    let behind = shipped.split("crate::").skip(1);
    behind.map(|path| path.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default())
}

#[test]
fn modules_of_the_cli_import_in_no_cycle() {
    const DIRECTORY: &str = "crates/cli/src/";
    let mut imports: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for Source { path, code } in sources() {
        let Some(file) = path.strip_prefix(DIRECTORY).filter(|file| *file != "main.rs") else { continue };
        let module = file.split('/').next().unwrap_or_default().trim_end_matches(".rs");
        let used = imported_modules(&code).filter(|used| *used != module).map(str::to_owned);
        imports.entry(module.to_owned()).or_default().extend(used);
    }
    assert!(imports.len() > 10, "{imports:?}");
    let cycles = cycles(imports);
    assert!(cycles.is_empty(), "these modules import each other: {cycles:?}");
}

/// Removes modules that import no other module that is left, or that no other imports, until there is none.
fn cycles(mut imports: BTreeMap<String, BTreeSet<String>>) -> BTreeMap<String, BTreeSet<String>> {
    loop {
        let left: BTreeSet<String> = imports.keys().cloned().collect();
        let imported: BTreeSet<String> = imports.values().flatten().cloned().collect();
        imports.retain(|module, used| imported.contains(module) && !used.is_disjoint(&left));
        if imports.len() == left.len() {
            return imports;
        }
    }
}

/// The first word after each `crate::`, and of each path in a group, outside unit tests.
fn imported_modules(code: &str) -> impl Iterator<Item = &str> {
    let shipped = code.split("#[cfg(test)]").next().unwrap_or_default();
    shipped.split("crate::").skip(1).flat_map(|path| {
        let paths = path.strip_prefix('{').map_or(path, |group| group.split(';').next().unwrap_or_default());
        let is_group = path.starts_with('{');
        paths.split(',').take(if is_group { usize::MAX } else { 1 }).map(|path| {
            path.trim().split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
        })
    })
}

#[test]
fn import_cycle_is_found() {
    let uses = |module: &str, code: &str| {
        (module.to_owned(), imported_modules(code).map(str::to_owned).collect::<BTreeSet<_>>())
    };
    let args = uses("args", "use crate::{keys, verb};");
    let verb = uses("verb", "use crate::context::Context;");
    let [keys, dev] = [uses("keys", ""), uses("dev", "use crate::args;")];
    let back = uses("context", "fn f() { crate::args::g() }");
    let found = cycles([args.clone(), verb.clone(), back, keys.clone(), dev.clone()].into());
    assert_eq!(found.into_keys().collect::<Vec<_>>(), ["args", "context", "verb"]);
    let down = uses("context", "use crate::keys;");
    assert!(cycles([args, verb, down, keys, dev].into()).is_empty());
}
