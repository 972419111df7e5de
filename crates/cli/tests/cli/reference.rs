//! `workflow reference`: the tables in `docs/workflows.md` match the output of the program.

use std::path::Path;

use serde_json::json;

use crate::env::CliEnv;

const BEGIN: &str = "<!-- from here on: `countersign workflow reference` -->\n";

/// Set this variable to update the page; then review the diff.
const BLESS: &str = "COUNTERSIGN_BLESS";

#[test]
fn workflow_docs_match_the_reference() {
    let printed = CliEnv::new().run("workflow reference").expect(0).out;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/workflows.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, tables) = page.split_once(BEGIN).expect("the page marks where the tables start");
    if std::env::var_os(BLESS).is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}\n{printed}")).unwrap();
        return;
    }
    assert_eq!(tables, format!("\n{printed}"), "update the page with {BLESS}=1");
}

#[test]
fn reference_has_json_output() {
    let reference = CliEnv::new().run("workflow reference --json").expect(0).json();
    let objects = reference["objects"].as_array().unwrap();
    let step = objects.iter().find(|object| object["title"] == "a step").unwrap();
    let id = json!({
        "name": "id",
        "type": "a name",
        "required": true,
        "default": null,
        "description": "The id, unique in the workflow. Later steps read the output as `steps.ID`.",
    });
    assert_eq!(step["fields"][0], id);
    let transform =
        reference["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "transform").unwrap();
    let mut keys: Vec<&String> = transform.as_object().unwrap().keys().collect();
    keys.sort();
    assert_eq!(keys, ["description", "example", "fields", "name", "output"]);
    assert_eq!(transform["example"]["value"]["host"], "${ trigger.host }");
}

#[test]
fn reference_examples_are_valid_steps() {
    let env = CliEnv::new();
    let printed = env.run("workflow reference").expect(0).out;
    let examples: Vec<&str> =
        printed.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(!examples.is_empty());
    let steps = examples.iter().enumerate().map(|(n, example)| {
        let step = format!("id: step-{n}\n{example}").replace('\n', "\n    ");
        format!("  - {step}\n")
    });
    let first = "  - { id: incident, tool: transform, with: { value: 1 } }\n";
    let file = format!("workflow: w\nversion: 1\nsteps:\n{first}{}", steps.collect::<String>());
    env.write("all.yaml", file);
    env.run("workflow check all.yaml").expect(0).prints("native_key");
}
