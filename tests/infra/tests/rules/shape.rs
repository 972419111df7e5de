//! A module has four files, documents its variables and outputs, and tests its important resources.

use crate::module::{Module, assert_reported, fixture, infra, label, text_of, value};

const MODULE_FILES: [&str; 4] = ["main.tf", "outputs.tf", "variables.tf", "versions.tf"];

/// Resources whose settings a terraform test of their module asserts: encryption, retention, alarms and access.
const TESTED: [&str; 12] = [
    "aws_cloudwatch_log_group",
    "aws_dynamodb_table",
    "aws_ecs_service",
    "aws_lambda_function",
    "aws_lb",
    "aws_lb_listener",
    "aws_lb_target_group",
    "aws_s3_bucket",
    "aws_security_group",
    "aws_sqs_queue",
    "aws_vpc_security_group_egress_rule",
    "aws_vpc_security_group_ingress_rule",
];

#[test]
fn every_important_resource_is_tested() {
    assert_eq!(untested(&infra()), [""; 0]);
    assert_reported(
        &untested(&fixture(r#"resource "aws_sqs_queue" "a" {}"#)),
        "no terraform test names aws_sqs_queue.a",
    );
}

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

fn untested(modules: &[Module]) -> Vec<String> {
    let per_module = |module: &Module| {
        let resources = TESTED.iter().flat_map(|kind| module.resources(kind));
        let names = resources.map(|resource| format!("{}.{}", label(resource, 0), label(resource, 1)));
        let untested = names.filter(|name| !names_resource(&module.tests, name));
        untested.map(|name| format!("{}: no terraform test names {name}", module.path)).collect::<Vec<_>>()
    };
    modules.iter().flat_map(per_module).collect()
}

/// Whether the assertions of a test contain the whole name of the resource.
fn names_resource(tests: &str, name: &str) -> bool {
    let assertions = tests.lines().filter(|line| line.trim_start().starts_with("condition"));
    assertions
        .flat_map(|line| line.split(name).skip(1))
        .any(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-'))
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
