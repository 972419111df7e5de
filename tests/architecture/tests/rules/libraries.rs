//! Which external crates may be used, and by which crate.

use crate::workspace::{
    built_by_default, built_into, built_into_tests, dependencies, file, packages, required_features,
};

/// Crates that `domain` and `workflow` must not use, directly or indirectly. A `*` matches any suffix.
const FORBIDDEN_IN_PURE_CRATES: &[&str] = &[
    // Async runtimes.
    "tokio",
    "tokio-*",
    "async-std",
    "async-io",
    "smol",
    "mio",
    "polling",
    "futures-executor",
    // I/O.
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
    // Clocks.
    "chrono",
    "time",
    "jiff",
    // Randomness.
    "rand",
    "getrandom",
    "fastrand",
    "oorandom",
];

/// External crates that only one crate may use. Tests may use them too.
const USED_BY_ONE: &[(&str, &str)] = &[
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
fn domain_and_workflow_have_no_io_clock_or_randomness() {
    for package in ["countersign-domain", "countersign-workflow"] {
        for name in built_into(package) {
            let rule = FORBIDDEN_IN_PURE_CRATES.iter().find(|pattern| matches(pattern, &name));
            assert_eq!(
                rule, None,
                "`{package}` depends on `{name}`; see `cargo tree -p {package} -i {name}`"
            );
        }
    }
}

#[test]
fn each_database_and_cloud_sdk_is_used_by_one_crate() {
    for package in packages().iter().filter(|package| !package.is_test()) {
        for &(pattern, only) in USED_BY_ONE {
            let used = package.needs.iter().find(|name| matches(pattern, name));
            assert!(
                package.role == only || used.is_none(),
                "`{}` depends on {used:?}; only `{only}` may",
                package.role
            );
        }
    }
}

#[test]
fn binary_is_built_without_the_aws_sdk() {
    for built in [built_into("countersign"), built_by_default()] {
        let cloud: Vec<_> = built.into_iter().filter(|name| matches("aws-*", name)).collect();
        assert_eq!(cloud, [""; 0], "the default build must stay free of the AWS SDK, so that it stays short");
    }
}

#[test]
fn client_is_built_without_the_http_server() {
    let server: Vec<_> =
        built_into("countersign-client").into_iter().filter(|name| matches("axum*", name)).collect();
    assert_eq!(server, [""; 0], "the client must not depend on the HTTP server");
}

#[test]
fn cargo_test_runs_the_conformance_suite_on_dynamodb() {
    let built = built_into_tests();
    for name in ["countersign-store", "countersign-conformance", "aws-sdk-dynamodb", "countersign-dynamodb"] {
        assert!(built.contains(name), "`cargo test` does not build `{name}`");
    }
    let needs = |test| required_features(("countersign-store", test));
    assert_eq!(needs("aws"), ["aws"], "[dev-dependencies] in crates/store/Cargo.toml enables the feature");
    assert_eq!(needs("stack"), ["stack"], "the test needs a server, which `cargo test` does not start");
}

#[test]
fn no_banned_crate_is_built() {
    let deny = file("deny.toml");
    let banned: Vec<_> =
        deny.lines().filter_map(|line| line.trim().strip_prefix("{ crate = \"")?.split('"').next()).collect();
    assert!(!banned.is_empty(), "found no banned crate in deny.toml");
    for dependency in dependencies() {
        assert!(
            !banned.contains(&dependency.name.as_str()),
            "{} is banned; deny.toml has the reason",
            dependency.name
        );
    }
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == pattern,
    }
}
