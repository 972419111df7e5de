//! Every environment variable that a program reads is set where it is deployed.
//!
//! The programs name their variables as literals; `modules/programs` sets them, and the examples hand them on. The
//! table below is what was agreed on, and holds the two together while one of them is not there yet.

use std::collections::BTreeSet;
use std::path::Path;

use hcl_edit::expr::Expression;

use crate::module::{Module, assert_found, entry, fixture, infra, keys, label, root, text, text_of};

/// What every program is told.
const ALL: [&str; 7] = [
    "COUNTERSIGN_TABLE",
    "COUNTERSIGN_QUEUE_INGEST",
    "COUNTERSIGN_QUEUE_DECISIONS",
    "COUNTERSIGN_QUEUE_STEPS",
    "COUNTERSIGN_PAYLOADS",
    "COUNTERSIGN_EVIDENCE",
    "RUST_LOG",
];

/// Where a program finds its secret that reads it itself.
const SECRET: &str = "COUNTERSIGN_SECRET";

/// Where the store says what it must be told.
const TOLD: &str = "crates/store/src/aws/connect.rs";

/// Where a stand-in for AWS is, on a developer's machine.
const STAND_IN: [&str; 2] = ["COUNTERSIGN_AWS", "COUNTERSIGN_DYNAMODB"];

struct Program {
    name: &'static str,
    /// The module that runs it.
    runs_in: &'static str,
    /// What it is told beside the rest.
    more: &'static [&'static str],
    /// Where its sources are: itself, and what it shares with its neighbours.
    sources: &'static [&'static str],
}

const PROGRAMS: [Program; 5] = [
    Program {
        name: "webhook",
        runs_in: "../../modules/function",
        more: &[SECRET, "COUNTERSIGN_SOURCES"],
        sources: &["functions/src/bin/webhook.rs", "functions/src/bin/environment", TOLD],
    },
    Program {
        name: "slack",
        runs_in: "../../modules/function",
        more: &[SECRET, "COUNTERSIGN_SYSTEMS"],
        sources: &["functions/src/bin/slack.rs", "functions/src/bin/environment", TOLD],
    },
    Program {
        name: "sweep",
        runs_in: "../../modules/function",
        more: &[],
        sources: &["functions/src/bin/sweep.rs", "functions/src/bin/environment", TOLD],
    },
    Program {
        name: "worker",
        runs_in: "../../modules/worker",
        more: &[
            SECRET,
            "COUNTERSIGN_SYSTEMS",
            "COUNTERSIGN_EVIDENCE_KEEP_DAYS",
            "COUNTERSIGN_EVIDENCE_LOCK",
            "COUNTERSIGN_HEALTH",
            "COUNTERSIGN_METRICS",
            "COUNTERSIGN_ROOM_INGEST",
            "COUNTERSIGN_ROOM_DECISIONS",
            "COUNTERSIGN_ROOM_STEPS",
        ],
        sources: &["worker/src", TOLD],
    },
    Program {
        name: "server",
        runs_in: "../../modules/server",
        more: &[],
        sources: &["crates/cli/src/verb/serve", "crates/cli/src/front", "crates/cli/src/aws.rs", TOLD],
    },
];

#[test]
fn every_program_is_told_what_was_agreed_on() {
    let modules = infra();
    let programs = modules.iter().find(|module| module.path == "modules/programs").unwrap();
    for program in &PROGRAMS {
        let agreed: BTreeSet<String> = ALL.iter().chain(program.more).map(|&name| name.to_owned()).collect();
        assert_eq!(told(programs, program.name), agreed, "what {} is told", program.name);
    }
}

#[test]
fn every_variable_that_a_program_reads_is_set_and_no_other() {
    let modules = infra();
    let programs = modules.iter().find(|module| module.path == "modules/programs").unwrap();
    for program in &PROGRAMS {
        let told = told(programs, program.name);
        let read: Vec<String> =
            program.sources.iter().flat_map(|path| literals_below(&root().join(path))).collect();
        let in_vain: Vec<_> =
            told.iter().filter(|name| *name != "RUST_LOG" && !read.contains(name)).cloned().collect();
        assert_eq!(in_vain, [""; 0], "modules/programs sets these, and {} does not read them", program.name);
        let missing = missing(&told, read);
        assert_eq!(missing, [""; 0], "{} reads these, and modules/programs does not set them", program.name);
    }
}

#[test]
fn every_example_runs_every_program_with_what_it_is_told_and_may_do() {
    for example in infra().iter().filter(|module| module.path.starts_with("examples/")) {
        assert_eq!(not_handed_on(example), [""; 0]);
    }
    let forgetful = r#"
        module "webhook" {
          source      = "../../modules/function"
          environment = module.programs.environment.slack
        }
    "#;
    let faults = not_handed_on(&fixture(forgetful)[0]);
    assert_found(&faults, "webhook is not given module.programs.environment.webhook");
    assert_found(&faults, "webhook is not given module.programs.statements.webhook");
    assert_found(&faults, "worker is not run");
}

#[test]
fn what_is_told_is_gathered_from_all_its_parts() {
    let parts = r"
        locals {
          common      = { A = 1 }
          environment = { one = merge(local.common, { B = 2 }), two = { C = 3 } }
        }
    ";
    let modules = fixture(parts);
    assert_eq!(told(&modules[0], "one"), ["A", "B"].map(str::to_owned).into());
    assert_eq!(told(&modules[0], "two"), ["C"].map(str::to_owned).into());
    assert_eq!(told(&modules[0], "three"), BTreeSet::new());
}

#[test]
fn a_variable_that_is_read_and_not_set_is_found() {
    let source =
        r#"env::var("COUNTERSIGN_TABLE"), concat!("COUNTERSIGN_", x), "COUNTERSIGN_a", COUNTERSIGN_BIN"#;
    assert_eq!(literals(source), ["COUNTERSIGN_TABLE"]);
    assert_eq!(missing(&BTreeSet::new(), literals(source)), ["COUNTERSIGN_TABLE"]);
    assert_eq!(missing(&["COUNTERSIGN_TABLE".to_owned()].into(), literals(source)), [""; 0]);
    assert_eq!(missing(&BTreeSet::new(), STAND_IN.map(str::to_owned).into()), [""; 0]);
}

/// What is read and not told, but for what nobody tells a program in an account.
fn missing(told: &BTreeSet<String>, read: Vec<String>) -> Vec<String> {
    read.into_iter().filter(|name| !told.contains(name) && !STAND_IN.contains(&name.as_str())).collect()
}

/// The names that a program's environment holds.
fn told(module: &Module, program: &str) -> BTreeSet<String> {
    let environment = module.local("environment").and_then(Expression::as_object);
    let its_own = environment.and_then(|environment| entry(environment, program));
    its_own.map(|its_own| names(module, its_own)).unwrap_or_default()
}

fn names(module: &Module, expression: &Expression) -> BTreeSet<String> {
    if let Some(object) = expression.as_object() {
        return keys(object).into_iter().collect();
    }
    if let Some(merged) = expression.as_func_call() {
        return merged.args.iter().flat_map(|part| names(module, part)).collect();
    }
    let written = text(expression);
    let local = written.strip_prefix("local.").and_then(|name| module.local(name));
    local.map(|local| names(module, local)).unwrap_or_default()
}

fn not_handed_on(example: &Module) -> Vec<String> {
    let mut faults = Vec::new();
    for Program { name, runs_in, .. } in &PROGRAMS {
        let call = example.blocks("module").find(|call| label(call, 0) == *name);
        let Some(call) = call.filter(|call| text_of(&call.body, "source") == *runs_in) else {
            faults.push(format!("{}: {name} is not run", example.path));
            continue;
        };
        for key in ["environment", "statements"] {
            let wanted = format!("module.programs.{key}.{name}");
            if text_of(&call.body, key) != wanted {
                faults.push(format!("{}: {name} is not given {wanted}", example.path));
            }
        }
    }
    faults
}

/// The variables named in a source, or in all sources of a directory.
fn literals_below(path: &Path) -> Vec<String> {
    assert!(path.exists(), "{} is gone: what it read is read elsewhere now", path.display());
    if path.is_dir() {
        let entries = std::fs::read_dir(path).unwrap();
        return entries.flat_map(|entry| literals_below(&entry.unwrap().path())).collect();
    }
    let is_rust = path.extension().is_some_and(|extension| extension == "rs");
    if is_rust && path.is_file() { literals(&std::fs::read_to_string(path).unwrap()) } else { Vec::new() }
}

/// The literals `"COUNTERSIGN_…"` of a source that are a whole name.
fn literals(source: &str) -> Vec<String> {
    let quoted = source.split('"').filter(|text| text.strip_prefix("COUNTERSIGN_").is_some_and(is_a_name));
    quoted.map(str::to_owned).collect()
}

fn is_a_name(rest: &str) -> bool {
    !rest.is_empty() && rest.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}
