//! Constructs that are restricted to some files, or forbidden everywhere.

use std::collections::BTreeSet;

use crate::code::has_word;
use crate::workspace::{Source, file, files, sources};

const READS_THE_TIME: [&str; 6] =
    ["SystemTime::now", "UNIX_EPOCH.elapsed", "Utc::now", "Local::now", "Zoned::now", "Timestamp::now"];

const READS_THE_ENVIRONMENT: [&str; 2] = ["env::var", "env::args"];

/// Crates that the simulation runs in virtual time.
const SIMULATED: [&str; 8] = [
    "crates/domain/",
    "crates/workflow/",
    "crates/policy/",
    "crates/evidence/",
    "crates/store/",
    "crates/connectors/",
    "crates/engine/",
    "worker/",
];

/// Debugging leftovers, disabled tests, and lint exceptions without a reason.
const FORBIDDEN: [&str; 6] =
    ["#[ignore", "with_ignored_flag", "todo!", "unimplemented!", "#[allow(", "#![allow("];

#[test]
fn only_main_and_the_one_clock_read_the_time() {
    // The fakes have their own clocks, as external systems do.
    let is_checked = |path: &str| path != "crates/store/src/clock.rs" && !path.starts_with("crates/fakes/");
    let readers = shipped().into_iter().filter(|source| is_checked(&source.path)).collect::<Vec<_>>();
    assert_absent(&readers, &READS_THE_TIME, "pass the time as an argument: take a `Timestamp` or a `Clock`");
}

#[test]
fn only_main_reads_the_environment() {
    assert_absent(
        &shipped(),
        &READS_THE_ENVIRONMENT,
        "pass the configuration as an argument; only `main` reads it",
    );
}

#[test]
fn simulated_crates_use_the_runtime_clock() {
    let measured: Vec<_> = shipped()
        .into_iter()
        .filter(|source| SIMULATED.iter().any(|role| source.path.starts_with(role)))
        .filter(|source| imports_from_std_time(&source.code, "Instant"))
        .map(|source| source.path)
        .collect();
    assert_eq!(
        measured, [""; 0],
        "use `tokio::time::Instant`: it follows virtual time, `std::time::Instant` does not"
    );
}

/// A fault at a call that does not exist never happens, so its test would pass without the fix.
#[test]
fn faults_name_calls_of_the_store() {
    let intercepted = file("crates/store/src/intercept.rs");
    let calls = store_calls(&intercepted);
    let traits: BTreeSet<&str> = calls.iter().filter_map(|call| call.split('.').next()).collect();
    assert!(traits.contains("ledger") && calls.len() > 60, "{calls:?}");
    for path in files(&["rs"]) {
        let text = file(&path);
        for literal in text.split('"').skip(1).step_by(2) {
            let named = literal.split_once('.').filter(|(of, _)| traits.contains(of));
            let is_call = named.is_some_and(|(_, method)| is_method(method));
            assert!(!is_call || calls.contains(literal), "{path}: the store has no call {literal:?}");
        }
    }
}

/// Whether this is a name after a dot that is not the ending of a file.
fn is_method(text: &str) -> bool {
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
    !text.is_empty() && text.bytes().all(is_name) && !["rs", "db"].contains(&text)
}

/// The names of the calls that an interceptor sees.
fn store_calls(source: &str) -> BTreeSet<String> {
    let mut calls = BTreeSet::from(["ledger.commit".to_owned()]);
    let mut of = None;
    for line in source.lines().map(str::trim) {
        if let Some(named) = line.strip_prefix("intercept! { \"") {
            of = named.split('"').next();
        } else if line == "}" {
            of = None;
        } else if let (Some(of), Some((method, _))) = (of, line.split_once('(')) {
            calls.insert(format!("{of}.{method}"));
        }
    }
    calls
}

#[test]
fn no_ignored_tests_todos_or_allow_attributes() {
    assert_absent(
        &sources(),
        &FORBIDDEN,
        "remove it, or make an exception with `#[expect(…, reason = \"…\")]`",
    );
}

#[test]
fn unsafe_code_is_only_in_the_sandbox_crate() {
    let found: Vec<_> = sources()
        .into_iter()
        .filter(|source| !source.path.starts_with("crates/sandbox/") && has_word(&source.code, "unsafe"))
        .map(|source| source.path)
        .collect();
    assert_eq!(found, [""; 0], "`unsafe` is allowed only in crates/sandbox");
}

#[test]
fn std_time_imports_are_detected_in_every_form() {
    for form in
        ["std::time::Instant::now()", "use std::time::Instant;", "use std::time::{Duration,\n Instant};"]
    {
        assert!(imports_from_std_time(form, "Instant"), "{form}");
    }
    for form in ["use std::time::Duration; use tokio::time::Instant;", "use std::time::{Duration};\nInstant"]
    {
        assert!(!imports_from_std_time(form, "Instant"), "{form}");
    }
}

/// Production code: no tests, no xtask, and no entry points, which read the configuration for the rest.
fn shipped() -> Vec<Source> {
    let mut sources = sources();
    sources.retain(|Source { path, .. }| {
        let is_test = path.starts_with("tests/") || path.contains("/tests/");
        // An example or a file in `bin` is a program of its own.
        let is_entry_point = ["/main.rs", "/examples/", "/src/bin/"].iter().any(|entry| path.contains(entry));
        !is_test && !path.starts_with("xtask/") && !is_entry_point
    });
    sources
}

fn assert_absent(sources: &[Source], patterns: &[&str], instead: &str) {
    let found: Vec<String> = patterns
        .iter()
        .flat_map(|pattern| sources.iter().flat_map(|source| source.lines_with(pattern)))
        .collect();
    assert!(found.is_empty(), "{instead}\n{}", found.join("\n"));
}

fn imports_from_std_time(code: &str, name: &str) -> bool {
    code.split("std::time::").skip(1).any(|taken| match taken.strip_prefix('{') {
        Some(group) => has_word(group.split('}').next().unwrap_or_default(), name),
        None => has_word(taken.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default(), name),
    })
}
