//! What Rego gets to see of the facts.
//!
//! Ticket text must not sway a policy, so of an action's fields only the names and the types are shown, and
//! of its changes only the names. A value is shown where the bundle names it in `reads`. The idempotency key
//! and what stood in a field before are never shown.

use std::collections::{BTreeMap, BTreeSet};

use domain::plan::{Environment, Phase};
use domain::{Action, Blast, EffectClass, Reversibility};
use serde::Serialize;
use serde_json::Value;

use crate::facts::{CapsState, Facts, RunFacts, StepFacts};

/// An action with more fields than this is a document; nobody writes rules about its fields.
pub(crate) const FIELDS_MAX: usize = 1024;

/// A host and a path, a table and a record: a place has a name that a person can read.
pub(crate) const TARGET_CHARS_MAX: usize = 2048;

/// A kind of trigger is a word.
const TRIGGER_CHARS_MAX: usize = 128;

/// Every path below `input` that a rule may name. What lies below the [`OPEN`] ones is up to the action.
pub(crate) const PATHS: &[&str] = &[
    "action.changes",
    "action.class",
    "action.connector",
    "action.contract",
    "action.destructive",
    "action.fields",
    "action.operation",
    "action.reversibility",
    "action.target",
    "action.tool",
    "action.values",
    "caps.writes_done",
    "caps.writes_max",
    "run.environment",
    "run.requester",
    "run.tenant",
    "run.trigger",
    "run.version",
    "run.workflow",
    "run.workspace",
    "step.attempt",
    "step.blast",
    "step.critical",
    "step.id",
    "step.phase",
    "step.undo",
];

/// The paths that hold more than one value.
pub(crate) const OPEN: &[&str] = &["action.changes", "action.fields", "action.values"];

/// The document that rules know as `input`.
#[derive(Serialize)]
pub(crate) struct Input<'a> {
    action: ActionInput<'a>,
    step: StepInput<'a>,
    run: RunInput<'a>,
    caps: CapsInput,
}

#[derive(Serialize)]
struct ActionInput<'a> {
    tool: &'a str,
    connector: &'a str,
    operation: &'a str,
    contract: u32,
    class: EffectClass,
    reversibility: &'static str,
    destructive: bool,
    target: &'a str,
    fields: BTreeMap<String, &'static str>,
    changes: BTreeSet<&'a str>,
    values: BTreeMap<String, &'a Value>,
}

#[derive(Serialize)]
struct StepInput<'a> {
    id: &'a str,
    blast: Blast,
    critical: bool,
    phase: Phase,
    undo: bool,
    attempt: u32,
}

#[derive(Serialize)]
struct RunInput<'a> {
    tenant: &'a str,
    workspace: &'a str,
    workflow: &'a str,
    version: u32,
    environment: Environment,
    trigger: &'a str,
    requester: Option<&'a str>,
}

#[derive(Serialize)]
struct CapsInput {
    writes_done: u32,
    writes_max: u32,
}

impl<'a> Input<'a> {
    /// What a bundle that reads the values at `reads` gets to see of `facts`, or why nobody could judge them.
    pub(crate) fn of(facts: &Facts<'a>, reads: &BTreeSet<String>) -> Result<Self, String> {
        Ok(Self {
            action: action(facts.action, reads)?,
            step: step(facts.step),
            run: run(facts.run)?,
            caps: caps(facts.caps),
        })
    }
}

fn action<'a>(action: &'a Action, reads: &BTreeSet<String>) -> Result<ActionInput<'a>, String> {
    action.check()?;
    let mut fields = Fields { reads, names: BTreeMap::new(), values: BTreeMap::new() };
    fields.add(String::new(), &action.fields);
    if fields.names.len() > FIELDS_MAX {
        return Err(format!(
            "the action has {} fields; at most {FIELDS_MAX} can be judged",
            fields.names.len()
        ));
    }
    Ok(ActionInput {
        tool: action.tool.as_str(),
        connector: action.connector(),
        operation: action.operation(),
        contract: action.contract,
        class: action.class,
        reversibility: kind_of(&action.reversibility),
        destructive: action.destructive,
        target: place_name(&action.target)?,
        fields: fields.names,
        changes: action.changes.iter().map(|change| change.field.as_str()).collect(),
        values: fields.values,
    })
}

/// The kind alone: why something cannot be taken back is text.
fn kind_of(reversibility: &Reversibility) -> &'static str {
    match reversibility {
        Reversibility::NoEffect => "no_effect",
        Reversibility::Inverse => "inverse",
        Reversibility::Compensable => "compensable",
        Reversibility::Irreversible(_) => "irreversible",
    }
}

/// A target is a name. One that is cut short could be taken for another place, so a long one is refused.
fn place_name(target: &str) -> Result<&str, String> {
    if target.chars().count() > TARGET_CHARS_MAX {
        return Err(format!("the target has more than {TARGET_CHARS_MAX} characters"));
    }
    match target.chars().find(|c| c.is_control()) {
        Some(c) => Err(format!("the target holds the control character U+{:04X}", u32::from(c))),
        None => Ok(target),
    }
}

/// The fields of an action, flattened.
struct Fields<'a, 'r> {
    reads: &'r BTreeSet<String>,
    names: BTreeMap<String, &'static str>,
    values: BTreeMap<String, &'a Value>,
}

impl<'a> Fields<'a, '_> {
    /// Adds what stands at `path`. Lists are not looked into: their length and order are values.
    fn add(&mut self, path: String, value: &'a Value) {
        if self.reads.contains(&path) {
            self.values.insert(path.clone(), value);
        }
        match value {
            Value::Object(fields) if !fields.is_empty() => {
                for (name, field) in fields {
                    self.add(below(&path, name), field);
                }
            }
            // No fields at all.
            Value::Object(_) if path.is_empty() => {}
            _ => {
                self.names.insert(path, type_of(value));
            }
        }
    }
}

/// The dotted path of the field `name` of `path`. A name that could be taken for a path is put in quotes,
/// so that `{"a": {"b": 1}}` and `{"a.b": 1}` are not the same to a rule.
fn below(path: &str, name: &str) -> String {
    let plain = !name.is_empty() && !name.contains(['.', '"']);
    let name = if plain { name.to_owned() } else { Value::from(name).to_string() };
    if path.is_empty() { name } else { format!("{path}.{name}") }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn step(step: StepFacts<'_>) -> StepInput<'_> {
    let StepFacts { id, blast, critical, phase, undo, attempt } = step;
    StepInput { id: id.as_str(), blast, critical, phase, undo, attempt }
}

fn run(run: RunFacts<'_>) -> Result<RunInput<'_>, String> {
    if run.trigger.chars().count() > TRIGGER_CHARS_MAX {
        return Err(format!("the kind of trigger has more than {TRIGGER_CHARS_MAX} characters"));
    }
    Ok(RunInput {
        tenant: run.tenant.as_str(),
        workspace: run.workspace.as_str(),
        workflow: run.workflow.as_str(),
        version: run.version,
        environment: run.environment,
        trigger: run.trigger,
        requester: run.requester.map(domain::PersonId::as_str),
    })
}

fn caps(caps: CapsState) -> CapsInput {
    CapsInput { writes_done: caps.writes_done, writes_max: caps.writes_max }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn flattened(fields: &Value, reads: &[&str]) -> (Value, Value) {
        let reads = reads.iter().map(|path| (*path).to_owned()).collect();
        let mut flat = Fields { reads: &reads, names: BTreeMap::new(), values: BTreeMap::new() };
        flat.add(String::new(), fields);
        (json!(flat.names), json!(flat.values))
    }

    #[test]
    fn only_names_and_types_are_shown() {
        let (names, values) =
            flattened(&json!({"table": "incident", "fields": {"urgency": 1, "tags": ["a"]}}), &[]);
        assert_eq!(names, json!({"table": "string", "fields.urgency": "number", "fields.tags": "array"}));
        assert_eq!(values, json!({}));
    }

    #[test]
    fn a_value_is_shown_where_the_bundle_reads_it() {
        let fields = json!({"fields": {"urgency": 1, "note": "hello"}});
        assert_eq!(flattened(&fields, &["fields.urgency"]).1, json!({"fields.urgency": 1}));
        assert_eq!(flattened(&fields, &["fields"]).1, json!({"fields": {"urgency": 1, "note": "hello"}}));
        assert_eq!(flattened(&fields, &["fields.absent"]).1, json!({}));
    }

    #[test]
    fn a_name_with_a_dot_is_not_a_path() {
        assert_eq!(
            flattened(&json!({"a.b": 1, "": {}}), &[]).0,
            json!({"\"a.b\"": "number", "\"\"": "object"})
        );
        assert_eq!(flattened(&json!({"a.b": 1}), &["a.b"]).1, json!({}));
    }

    #[test]
    fn a_target_is_a_bounded_name() {
        assert!(place_name("api.example.com/orders").is_ok());
        assert!(place_name(&"x".repeat(TARGET_CHARS_MAX + 1)).is_err());
        assert!(place_name("a\nb").is_err());
    }
}
