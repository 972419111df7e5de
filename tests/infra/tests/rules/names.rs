//! Every reference resolves, and module calls match the variables of the module: the part of `terraform validate` that
//! needs no provider.

use std::collections::BTreeSet;

use hcl_edit::structure::Block;

use crate::module::{Module, assert_reported, fixture, infra, label, references, text_of, value};

/// Arguments of a module call that are not variables of the module.
const META_ARGUMENTS: [&str; 5] = ["source", "for_each", "count", "depends_on", "providers"];

#[test]
fn every_reference_resolves() {
    assert_eq!(unresolved_names(&infra()), [""; 0]);
    let broken = r#"
        locals { a = var.missing }
        output "b" { value = "${local.b}/${aws_sqs_queue.gone[0].arn}" }
        output "c" { value = module.nowhere.arn }
        output "d" { value = data.aws_region.gone.name }
    "#;
    let faults = unresolved_names(&fixture(broken));
    for name in ["var.missing", "local.b", "aws_sqs_queue.gone", "module.nowhere", "data.aws_region.gone"] {
        assert_reported(&faults, name);
    }
}

#[test]
fn module_calls_match_module_variables() {
    assert_eq!(calls(&infra()), [""; 0]);
    let mut modules = fixture(r#"variable "needed" { type = string }"#);
    modules.extend(fixture(
        r#"
        module "one" {
          source = "../fixture"
          other  = 1
        }
        module "two" { source = "../gone" }
        output "three" { value = module.one.four }
        "#,
    ));
    let faults = calls(&modules);
    assert_reported(&faults, "module.one sets `other`");
    assert_reported(&faults, "module.one does not set `needed`");
    assert_reported(&faults, "module.two has the source ../gone");
    assert_reported(&faults, "module.one has no output `four`");
}

fn unresolved_names(modules: &[Module]) -> Vec<String> {
    let mut faults = Vec::new();
    for module in modules {
        let declared = declared_names(module);
        for names in references(module.body()) {
            let Some(name) = name(&names) else { continue };
            if !declared.contains(&name) {
                faults.push(format!("{}: {name} is not declared", module.path));
            }
        }
    }
    faults
}

/// The declared part of a reference; `None` for names that a loop introduces.
fn name(names: &[String]) -> Option<String> {
    let parts = match names.first()?.as_str() {
        "var" | "local" | "module" => 2,
        "data" => 3,
        root if root.starts_with("aws_") => 2,
        _ => return None,
    };
    names.get(..parts).map(|names| names.join("."))
}

fn declared_names(module: &Module) -> BTreeSet<String> {
    let mut known = BTreeSet::new();
    known.extend(module.blocks("variable").map(|block| format!("var.{}", label(block, 0))));
    known.extend(module.blocks("module").map(|block| format!("module.{}", label(block, 0))));
    known.extend(module.blocks("resource").map(|block| format!("{}.{}", label(block, 0), label(block, 1))));
    known.extend(module.blocks("data").map(|block| format!("data.{}.{}", label(block, 0), label(block, 1))));
    let locals = module.blocks("locals").flat_map(|block| block.body.attributes());
    known.extend(locals.map(|attribute| format!("local.{}", attribute.key.as_str())));
    known
}

fn calls(modules: &[Module]) -> Vec<String> {
    let mut faults = Vec::new();
    for module in modules {
        for call in module.blocks("module") {
            let made_from = text_of(&call.body, "source");
            match called_module(modules, module, &made_from) {
                Some(used) => faults.extend(arguments(call, used).chain(outputs(module, call, used))),
                None => faults.push(format!(
                    "module.{} has the source {made_from}, which does not exist",
                    label(call, 0)
                )),
            }
        }
    }
    faults
}

/// The module at `source`, relative to another module.
fn called_module<'m>(modules: &'m [Module], from: &Module, source: &str) -> Option<&'m Module> {
    let mut path: Vec<&str> = from.path.split('/').collect();
    for part in source.split('/') {
        match part {
            ".." => drop(path.pop()),
            part => path.push(part),
        }
    }
    let path = path.join("/");
    modules.iter().find(|module| module.path == path)
}

fn arguments(call: &Block, used: &Module) -> impl Iterator<Item = String> {
    let name = label(call, 0);
    let given: BTreeSet<&str> = call.body.attributes().map(|attribute| attribute.key.as_str()).collect();
    let taken: BTreeSet<&str> = used.blocks("variable").map(|block| label(block, 0)).collect();
    let needed = used.blocks("variable").filter(|block| value(&block.body, "default").is_none());
    let missing = needed.map(|block| label(block, 0)).filter(|needed| !given.contains(needed));
    let unused = given.iter().filter(|given| !taken.contains(*given) && !META_ARGUMENTS.contains(given));
    let missing = missing.map(|missing| format!("module.{name} does not set `{missing}`"));
    let unused = unused.map(|unused| format!("module.{name} sets `{unused}`, which is not a variable"));
    missing.chain(unused).collect::<Vec<_>>().into_iter()
}

fn outputs(module: &Module, call: &Block, used: &Module) -> impl Iterator<Item = String> {
    let name = label(call, 0);
    let there: BTreeSet<&str> = used.blocks("output").map(|block| label(block, 0)).collect();
    let asked = references(module.body()).into_iter().filter_map(|names| match &names[..] {
        [root, of, output, ..] if root == "module" && of == name => Some(output.clone()),
        _ => None,
    });
    let missing = asked.filter(|output| !there.contains(output.as_str()));
    missing.map(|output| format!("module.{name} has no output `{output}`")).collect::<Vec<_>>().into_iter()
}
