//! A module has four files, and documents its variables and outputs.

use crate::module::{Module, assert_reported, fixture, infra, label, text_of, value};

const MODULE_FILES: [&str; 4] = ["main.tf", "outputs.tf", "variables.tf", "versions.tf"];

#[test]
fn module_is_four_files() {
    assert_eq!(files(&infra()), [""; 0]);
    assert_reported(&files(&fixture("")), "the files are main.tf");
}

#[test]
fn every_variable_has_a_type_and_a_description() {
    assert_eq!(interfaces(&infra()), [""; 0]);
    assert_reported(&interfaces(&fixture(r#"variable "a" { description = "An a." }"#)), "`a` has no type");
    assert_reported(&interfaces(&fixture(r#"variable "a" { type = string }"#)), "`a` has no description");
    assert_reported(&interfaces(&fixture(r#"output "b" { value = 1 }"#)), "`b` has no description");
}

#[test]
fn every_module_requires_a_terraform_version() {
    assert_eq!(versions(&infra()), [""; 0]);
    assert_reported(&versions(&fixture("terraform {}")), "no required_version");
}

fn files(modules: &[Module]) -> Vec<String> {
    let wrong = modules.iter().filter(|module| module.files != MODULE_FILES);
    wrong.map(|module| format!("{}: the files are {}", module.path, module.files.join(", "))).collect()
}

fn interfaces(modules: &[Module]) -> Vec<String> {
    let mut faults = Vec::new();
    for module in modules {
        for (word, wanted) in [("variable", &["type", "description"][..]), ("output", &["description"])] {
            for block in module.blocks(word) {
                let missing = wanted.iter().filter(|key| text_of(&block.body, key).is_empty());
                let fault =
                    |key: &&str| format!("{}: the {word} `{}` has no {key}", module.path, label(block, 0));
                faults.extend(missing.map(fault));
            }
        }
    }
    faults
}

fn versions(modules: &[Module]) -> Vec<String> {
    let has_version = |module: &Module| {
        module.blocks("terraform").any(|block| value(&block.body, "required_version").is_some())
    };
    let missing = modules.iter().filter(|module| !has_version(module));
    missing.map(|module| format!("{}: no required_version", module.path)).collect()
}
