//! Which crates from outside may be used, and by whom.

use crate::workspace::{built_at_first, built_into, built_into_tests, file, packages, parts, required};

/// What a crate that only decides must not bring along, even through others. A `*` stands for any ending.
const LOOKS_AROUND: &[&str] = &[
    // To wait is to have a runtime.
    "tokio",
    "tokio-*",
    "async-std",
    "async-io",
    "smol",
    "mio",
    "polling",
    "futures-executor",
    // To reach out of the process.
    "hyper",
    "hyper-*",
    "reqwest",
    "rustls",
    "socket2",
    "rusqlite",
    "libsqlite3-sys",
    "rustix",
    "tempfile",
    "aws-*",
    "lambda_*",
    // To ask for the time.
    "chrono",
    "time",
    "jiff",
    // To throw dice.
    "rand",
    "getrandom",
    "fastrand",
    "oorandom",
];

/// What only one crate may know. Tests may look behind the curtain.
const KNOWN_TO_ONE: &[(&str, &str)] = &[
    ("rusqlite", "store"),
    ("libsqlite3-sys", "store"),
    ("aws-sdk-dynamodb", "store"),
    ("aws-sdk-sqs", "store"),
    ("aws-sdk-s3", "store"),
    ("aws-config", "store"),
    ("aws-sdk-secretsmanager", "config"),
    ("lambda_*", "functions"),
];

#[test]
fn crates_that_decide_bring_no_runtime_no_io_no_clock_and_no_chance() {
    for package in ["countersign-domain", "countersign-workflow"] {
        for name in built_into(package) {
            let rule = LOOKS_AROUND.iter().find(|pattern| fits(pattern, &name));
            assert_eq!(rule, None, "`{package}` brings `{name}`: ask `cargo tree -p {package} -i {name}`");
        }
    }
}

#[test]
fn databases_and_clouds_are_each_known_to_one_crate() {
    for package in packages().iter().filter(|package| !package.is_a_test()) {
        for &(pattern, only) in KNOWN_TO_ONE {
            let known = package.needs.iter().find(|name| fits(pattern, name));
            assert!(
                package.role == only || known.is_none(),
                "`{}` knows {known:?}; only `{only}` may",
                package.role
            );
        }
    }
}

#[test]
fn the_binary_is_built_without_the_aws_sdk() {
    for built in [built_into("countersign"), built_at_first()] {
        let cloud: Vec<_> = built.into_iter().filter(|name| fits("aws-*", name)).collect();
        assert_eq!(cloud, [""; 0], "a newcomer's first build must stay short");
    }
}

#[test]
fn the_client_is_built_without_the_http_server() {
    let server: Vec<_> =
        built_into("countersign-client").into_iter().filter(|name| fits("axum*", name)).collect();
    assert_eq!(server, [""; 0], "a program that calls the API needs no server");
}

#[test]
fn a_plain_cargo_test_holds_the_ledger_on_dynamodb_to_the_suite() {
    let built = built_into_tests();
    for name in ["countersign-store", "countersign-conformance", "aws-sdk-dynamodb", "dynoxide-rs"] {
        assert!(built.contains(name), "`cargo test` builds no `{name}`");
    }
    let needs = |test| required(("countersign-store", test));
    assert_eq!(
        needs("aws"),
        ["aws"],
        "the store's own tests ask for it: [dev-dependencies] in crates/store/Cargo.toml"
    );
    assert_eq!(needs("stack"), ["stack"], "it needs a server, which `cargo test` does not start");
}

#[test]
fn no_banned_crate_is_built() {
    let deny = file("deny.toml");
    let banned: Vec<_> =
        deny.lines().filter_map(|line| line.trim().strip_prefix("{ crate = \"")?.split('"').next()).collect();
    assert!(!banned.is_empty(), "deny.toml bans nothing, or is written in another way than this test reads");
    for part in parts() {
        assert!(
            !banned.contains(&part.name.as_str()),
            "{} is banned by deny.toml, with the reason",
            part.name
        );
    }
}

fn fits(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == pattern,
    }
}
