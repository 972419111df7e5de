//! `workflow reference`: the tables in `docs/workflows.md` are what the program says.

use std::path::Path;

use crate::shell::Shell;

const BEGIN: &str = "<!-- from here on: `countersign workflow reference` -->\n";

/// Set to write the page anew; then read the diff.
const BLESS: &str = "COUNTERSIGN_BLESS";

#[test]
fn the_page_of_the_workflow_file_is_what_the_program_says() {
    let told = Shell::new().run("workflow reference").expect(0).out;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/workflows.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, tables) = page.split_once(BEGIN).expect("the page says where the tables begin");
    if std::env::var_os(BLESS).is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}\n{told}")).unwrap();
        return;
    }
    assert_eq!(tables, format!("\n{told}"), "write the page anew with {BLESS}=1");
}

#[test]
fn the_reference_can_be_read_by_a_program() {
    let json = Shell::new().run("workflow reference --json").expect(0).json();
    let steps = &json["maps"].as_array().unwrap().iter().find(|map| map["of"] == "a step").unwrap()["fields"];
    assert_eq!((&steps[0]["name"], &steps[0]["default"]), (&"id".into(), &serde_json::Value::Null));
    let tools = json["tools"].as_array().unwrap();
    let transform = tools.iter().find(|tool| tool["tool"] == "transform").unwrap();
    assert_eq!(transform["example"]["value"]["host"], "${ trigger.host }");
}

#[test]
fn the_examples_of_all_tools_are_steps_of_a_workflow() {
    let shell = Shell::new();
    let told = shell.run("workflow reference").expect(0).out;
    let examples: Vec<&str> =
        told.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(!examples.is_empty());
    let steps = examples.iter().enumerate().map(|(n, example)| {
        let step = format!("id: step-{n}\n{example}").replace('\n', "\n    ");
        format!("  - {step}\n")
    });
    let first = "  - { id: incident, tool: transform, with: { value: 1 } }\n";
    let file = format!("workflow: w\nversion: 1\nsteps:\n{first}{}", steps.collect::<String>());
    shell.write("all.yaml", file);
    shell.run("workflow check all.yaml").expect(0).says("native_key");
}
