//! What is written where, and what is not written at all.

use crate::code::has_word;
use crate::workspace::{Source, sources};

/// Ways to learn the time from the machine.
const READS_THE_TIME: [&str; 6] =
    ["SystemTime::now", "UNIX_EPOCH.elapsed", "Utc::now", "Local::now", "Zoned::now", "Timestamp::now"];

/// Ways to learn how the process was started.
const READS_THE_ENVIRONMENT: [&str; 2] = ["env::var", "env::args"];

/// What the simulation runs in its own time.
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

/// What is left in by accident, switches a test off, or silences a lint without a reason.
const NOWHERE: [&str; 6] =
    ["#[ignore", "with_ignored_flag", "todo!", "unimplemented!", "#[allow(", "#![allow("];

#[test]
fn only_main_and_the_one_clock_read_the_time() {
    // The simulated world outside has a time of its own, which we must not trust.
    let ours = |path: &str| path != "crates/store/src/clock.rs" && !path.starts_with("crates/fakes/");
    let readers = shipped().into_iter().filter(|source| ours(&source.path)).collect::<Vec<_>>();
    assert_nowhere(&readers, &READS_THE_TIME, "time is an argument: take a `Timestamp`, or a `Clock`");
}

#[test]
fn only_main_reads_the_environment() {
    assert_nowhere(&shipped(), &READS_THE_ENVIRONMENT, "configuration is an argument: `main` reads it");
}

#[test]
fn what_is_simulated_measures_time_by_the_clock_of_the_runtime() {
    let measured: Vec<_> = shipped()
        .into_iter()
        .filter(|source| SIMULATED.iter().any(|role| source.path.starts_with(role)))
        .filter(|source| takes_from_std_time(&source.code, "Instant"))
        .map(|source| source.path)
        .collect();
    assert_eq!(
        measured, [""; 0],
        "`tokio::time::Instant` stands still when the simulation does; std's does not"
    );
}

#[test]
fn nothing_is_switched_off_left_undone_or_silenced_without_a_reason() {
    assert_nowhere(&sources(), &NOWHERE, "`#[expect(…, reason = \"…\")]` is the way to make an exception");
}

#[test]
fn unsafe_code_is_in_the_sandbox_or_nowhere() {
    let found: Vec<_> = sources()
        .into_iter()
        .filter(|source| !source.path.starts_with("crates/sandbox/") && has_word(&source.code, "unsafe"))
        .map(|source| source.path)
        .collect();
    assert_eq!(found, [""; 0], "`unsafe` is for confinement, in a crate of its own");
}

#[test]
fn an_import_from_std_time_is_seen_in_all_its_forms() {
    for form in
        ["std::time::Instant::now()", "use std::time::Instant;", "use std::time::{Duration,\n Instant};"]
    {
        assert!(takes_from_std_time(form, "Instant"), "{form}");
    }
    for form in ["use std::time::Duration; use tokio::time::Instant;", "use std::time::{Duration};\nInstant"]
    {
        assert!(!takes_from_std_time(form, "Instant"), "{form}");
    }
}

/// What runs in production: neither tests, nor the house's own tools, nor the entries that gather what the
/// others are given.
fn shipped() -> Vec<Source> {
    let mut sources = sources();
    sources.retain(|Source { path, .. }| {
        let is_a_test = path.starts_with("tests/") || path.contains("/tests/");
        // An example is a program of its own, as `main` is, and so is each in `bin`.
        let is_an_entry = ["/main.rs", "/examples/", "/src/bin/"].iter().any(|entry| path.contains(entry));
        !is_a_test && !path.starts_with("xtask/") && !is_an_entry
    });
    sources
}

fn assert_nowhere(sources: &[Source], patterns: &[&str], instead: &str) {
    let found: Vec<String> = patterns
        .iter()
        .flat_map(|pattern| sources.iter().flat_map(|source| source.lines_with(pattern)))
        .collect();
    assert!(found.is_empty(), "{instead}\n{}", found.join("\n"));
}

fn takes_from_std_time(code: &str, name: &str) -> bool {
    code.split("std::time::").skip(1).any(|taken| match taken.strip_prefix('{') {
        Some(group) => has_word(group.split('}').next().unwrap_or_default(), name),
        None => has_word(taken.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default(), name),
    })
}
