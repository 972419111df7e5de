//! Every environment variable that a program reads is set where the program is deployed.
//!
//! The programs name their variables as literals; `modules/programs` sets them, and the examples pass them on. The table
//! below is the agreed list, and is compared with both.

use std::collections::BTreeSet;
use std::path::Path;

use hcl_edit::expr::Expression;

use crate::module::{Module, assert_reported, entry, fixture, infra, keys, label, root, text, text_of};

/// The variables of every program.
const ALL: [&str; 7] = [
    "COUNTERSIGN_TABLE",
    "COUNTERSIGN_QUEUE_INGEST",
    "COUNTERSIGN_QUEUE_DECISIONS",
    "COUNTERSIGN_QUEUE_STEPS",
    "COUNTERSIGN_PAYLOADS",
    "COUNTERSIGN_EVIDENCE",
    "RUST_LOG",
];

/// The name of the secret, for programs that read it themselves.
const SECRET: &str = "COUNTERSIGN_SECRET";

/// The variables that the store reads.
const STORE_CONFIG: &str = "crates/store/src/aws/connect.rs";

/// The addresses of a local AWS, for development only.
const LOCAL_ONLY: [&str; 2] = ["COUNTERSIGN_AWS", "COUNTERSIGN_DYNAMODB"];

struct Program {
    name: &'static str,
    /// The module that runs it.
    runs_in: &'static str,
    /// Additional variables.
    more: &'static [&'static str],
    /// Its source files, including shared ones.
    sources: &'static [&'static str],
}

const PROGRAMS: [Program; 5] = [
    Program {
        name: "webhook",
        runs_in: "../../modules/function",
        more: &[SECRET, "COUNTERSIGN_SOURCES"],
        sources: &["functions/src/bin/webhook.rs", "functions/src/bin/environment", STORE_CONFIG],
    },
    Program {
        name: "slack",
        runs_in: "../../modules/function",
        more: &[SECRET, "COUNTERSIGN_CONFIG"],
        sources: &["functions/src/bin/slack.rs", "functions/src/bin/environment", STORE_CONFIG],
    },
    Program {
        name: "sweep",
        runs_in: "../../modules/function",
        more: &[],
        sources: &["functions/src/bin/sweep.rs", "functions/src/bin/environment", STORE_CONFIG],
    },
    Program {
        name: "worker",
        runs_in: "../../modules/worker",
        more: &[
            SECRET,
            "COUNTERSIGN_CONFIG",
            "COUNTERSIGN_EVIDENCE_RETENTION_DAYS",
            "COUNTERSIGN_EVIDENCE_RETENTION_MODE",
            "COUNTERSIGN_HEALTH",
            "COUNTERSIGN_METRICS",
            "COUNTERSIGN_CONCURRENCY_INGEST",
            "COUNTERSIGN_CONCURRENCY_DECISIONS",
            "COUNTERSIGN_CONCURRENCY_STEPS",
            "COUNTERSIGN_LEASE",
            "COUNTERSIGN_RENEW_EVERY",
            "COUNTERSIGN_SWEEP_EVERY",
            "COUNTERSIGN_POLL",
        ],
        sources: &["worker/src", STORE_CONFIG],
    },
    Program {
        name: "server",
        runs_in: "../../modules/server",
        more: &[],
        sources: &[
            "crates/cli/src/verb/serve",
            "crates/cli/src/http_server",
            "crates/cli/src/any_store/aws.rs",
            STORE_CONFIG,
        ],
    },
];

#[test]
fn every_program_has_its_agreed_variables() {
    let modules = infra();
    let programs = modules.iter().find(|module| module.path == "modules/programs").unwrap();
    for program in &PROGRAMS {
        let agreed: BTreeSet<String> = ALL.iter().chain(program.more).map(|&name| name.to_owned()).collect();
        assert_eq!(variables_of(programs, program.name), agreed, "the variables of {}", program.name);
    }
}

#[test]
fn exactly_the_variables_that_a_program_reads_are_set() {
    let modules = infra();
    let programs = modules.iter().find(|module| module.path == "modules/programs").unwrap();
    for program in &PROGRAMS {
        let set = variables_of(programs, program.name);
        let read: Vec<String> =
            program.sources.iter().flat_map(|path| literals_below(&root().join(path))).collect();
        let unread: Vec<_> =
            set.iter().filter(|name| *name != "RUST_LOG" && !read.contains(name)).cloned().collect();
        assert_eq!(
            unread, [""; 0],
            "modules/programs sets these variables, but {} does not read them",
            program.name
        );
        let missing = missing(&set, read);
        assert_eq!(
            missing, [""; 0],
            "{} reads these variables, but modules/programs does not set them",
            program.name
        );
    }
}

#[test]
fn every_example_passes_environment_and_statements() {
    for example in infra().iter().filter(|module| module.path.starts_with("examples/")) {
        assert_eq!(not_passed(example), [""; 0]);
    }
    let forgetful = r#"
        module "webhook" {
          source      = "../../modules/function"
          environment = module.programs.environment.slack
        }
    "#;
    let faults = not_passed(&fixture(forgetful)[0]);
    assert_reported(&faults, "webhook is not passed module.programs.environment.webhook");
    assert_reported(&faults, "webhook is not passed module.programs.statements.webhook");
    assert_reported(&faults, "worker is not deployed");
}

#[test]
fn environment_is_merged_from_all_parts() {
    let parts = r"
        locals {
          common      = { A = 1 }
          environment = { one = merge(local.common, { B = 2 }), two = { C = 3 } }
        }
    ";
    let modules = fixture(parts);
    assert_eq!(variables_of(&modules[0], "one"), ["A", "B"].map(str::to_owned).into());
    assert_eq!(variables_of(&modules[0], "two"), ["C"].map(str::to_owned).into());
    assert_eq!(variables_of(&modules[0], "three"), BTreeSet::new());
}

#[test]
fn unset_variable_is_reported() {
    let source =
        r#"env::var("COUNTERSIGN_TABLE"), concat!("COUNTERSIGN_", x), "COUNTERSIGN_a", COUNTERSIGN_BIN"#;
    assert_eq!(literals(source), ["COUNTERSIGN_TABLE"]);
    assert_eq!(missing(&BTreeSet::new(), literals(source)), ["COUNTERSIGN_TABLE"]);
    assert_eq!(missing(&["COUNTERSIGN_TABLE".to_owned()].into(), literals(source)), [""; 0]);
    assert_eq!(missing(&BTreeSet::new(), LOCAL_ONLY.map(str::to_owned).into()), [""; 0]);
}

/// Variables that are read but not set, except those for development.
fn missing(set: &BTreeSet<String>, read: Vec<String>) -> Vec<String> {
    read.into_iter().filter(|name| !set.contains(name) && !LOCAL_ONLY.contains(&name.as_str())).collect()
}

/// The names in a program's environment.
fn variables_of(module: &Module, program: &str) -> BTreeSet<String> {
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

fn not_passed(example: &Module) -> Vec<String> {
    let mut faults = Vec::new();
    for Program { name, runs_in, .. } in &PROGRAMS {
        let call = example.blocks("module").find(|call| label(call, 0) == *name);
        let Some(call) = call.filter(|call| text_of(&call.body, "source") == *runs_in) else {
            faults.push(format!("{}: {name} is not deployed", example.path));
            continue;
        };
        for key in ["environment", "statements"] {
            let wanted = format!("module.programs.{key}.{name}");
            if text_of(&call.body, key) != wanted {
                faults.push(format!("{}: {name} is not passed {wanted}", example.path));
            }
        }
    }
    faults
}

/// The variables named in a source file, or in all source files of a directory.
fn literals_below(path: &Path) -> Vec<String> {
    assert!(path.exists(), "{} does not exist; update the `sources` of the program", path.display());
    if path.is_dir() {
        let entries = std::fs::read_dir(path).unwrap();
        return entries.flat_map(|entry| literals_below(&entry.unwrap().path())).collect();
    }
    let is_rust = path.extension().is_some_and(|extension| extension == "rs");
    if is_rust && path.is_file() { literals(&std::fs::read_to_string(path).unwrap()) } else { Vec::new() }
}

/// The literals `"COUNTERSIGN_…"` of a source that are complete names.
fn literals(source: &str) -> Vec<String> {
    let quoted = source.split('"').filter(|text| text.strip_prefix("COUNTERSIGN_").is_some_and(is_a_name));
    quoted.map(str::to_owned).collect()
}

fn is_a_name(rest: &str) -> bool {
    !rest.is_empty() && rest.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}
