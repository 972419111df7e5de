//! The `input` document of the rules.
//!
//! Ticket text must not influence a policy, so the input contains only names and types of an action's fields, and only
//! names of its changes. It contains a value only if the bundle lists its path in `reads`. It never contains the
//! idempotency key or previous values.

use std::collections::{BTreeMap, BTreeSet};

use domain::connection::ActionConnection;
use domain::plan::{Environment, Phase};
use domain::{Action, ActionOrigin, BlastRadius, EffectClass, Reversibility};
use serde::Serialize;
use serde_json::Value;

use crate::request::{CapUsage, PolicyRequest, RunContext, StepContext};

/// A change with more fields is a document. Rules about its fields are not practical. A read may carry a document, such
/// as the data of a prompt.
pub(crate) const FIELDS_MAX: usize = 1024;

/// A target is a host and a path, or a table and a record: a short readable name.
/// The longest is that of a URL.
pub(crate) const TARGET_CHARS_MAX: usize = 4096;

/// A trigger type is one word.
const TRIGGER_CHARS_MAX: usize = 128;

/// Every path below `input` that a rule may reference. Paths below [`CONTAINERS`] depend on the action.
pub(crate) const PATHS: &[&str] = &[
    "action.changes",
    "action.class",
    "action.connector",
    "action.contract",
    "action.destructive",
    "action.fields",
    "action.operation",
    "action.origin",
    "action.reversibility",
    "action.target",
    "action.tool",
    "action.values",
    "caps.writes_done",
    "caps.writes_max",
    "connection.environment",
    "connection.kind",
    "connection.name",
    "run.environment",
    "run.requester",
    "run.tenant",
    "run.trigger",
    "run.version",
    "run.workflow",
    "run.workspace",
    "step.attempt",
    "step.blast_radius",
    "step.critical",
    "step.id",
    "step.phase",
    "step.rollback",
];

/// The paths that contain more than one value.
pub(crate) const CONTAINERS: &[&str] = &["action.changes", "action.fields", "action.values"];

#[derive(Serialize)]
pub(crate) struct Input<'a> {
    action: ActionInput<'a>,
    step: StepInput<'a>,
    run: RunInput<'a>,
    caps: CapsInput,
    /// Absent without a connection, so every rule about it is undefined.
    #[serde(skip_serializing_if = "Option::is_none")]
    connection: Option<&'a ActionConnection>,
}

#[derive(Serialize)]
struct ActionInput<'a> {
    tool: &'a str,
    connector: &'a str,
    operation: &'a str,
    origin: ActionOrigin,
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
    blast_radius: BlastRadius,
    critical: bool,
    phase: Phase,
    rollback: bool,
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
    /// The input for `request`, with the values at the paths `reads`, or why the action cannot be evaluated.
    pub(crate) fn new(request: &PolicyRequest<'a>, reads: &BTreeSet<String>) -> Result<Self, String> {
        Ok(Self {
            action: action(request.action, request.step.origin, reads)?,
            step: step(request.step),
            run: run(request.run)?,
            caps: caps(request.caps),
            connection: request.action.connection.as_ref(),
        })
    }
}

fn action<'a>(
    action: &'a Action,
    origin: ActionOrigin,
    reads: &BTreeSet<String>,
) -> Result<ActionInput<'a>, String> {
    action.check()?;
    let mut fields = Fields { reads, names: BTreeMap::new(), values: BTreeMap::new() };
    fields.add(String::new(), &action.fields);
    if action.class.has_effect() && fields.names.len() > FIELDS_MAX {
        return Err(format!(
            "the action has {} fields; at most {FIELDS_MAX} are allowed",
            fields.names.len()
        ));
    }
    Ok(ActionInput {
        tool: action.tool.as_str(),
        connector: action.connector(),
        operation: action.operation(),
        origin,
        contract: action.contract,
        class: action.class,
        reversibility: kind_of(&action.reversibility),
        destructive: action.destructive,
        target: target_name(&action.target)?,
        fields: fields.names,
        changes: action.changes.iter().map(|change| change.field.as_str()).collect(),
        values: fields.values,
    })
}

/// The kind only. The reason why an action is irreversible is free text.
fn kind_of(reversibility: &Reversibility) -> &'static str {
    match reversibility {
        Reversibility::NoEffect => "no_effect",
        Reversibility::Inverse => "inverse",
        Reversibility::Compensable => "compensable",
        Reversibility::Irreversible(_) => "irreversible",
    }
}

/// Refuses a long target instead of cutting it: a cut target could equal another target.
fn target_name(target: &str) -> Result<&str, String> {
    if target.chars().count() > TARGET_CHARS_MAX {
        return Err(format!("the target has more than {TARGET_CHARS_MAX} characters"));
    }
    match target.chars().find(|c| c.is_control()) {
        Some(c) => Err(format!("the target contains the control character U+{:04X}", u32::from(c))),
        None => Ok(target),
    }
}

/// The fields of an action by dotted path.
struct Fields<'a, 'r> {
    reads: &'r BTreeSet<String>,
    names: BTreeMap<String, &'static str>,
    values: BTreeMap<String, &'a Value>,
}

impl<'a> Fields<'a, '_> {
    /// Adds `value` at `path`. List items are not added: the length and order of a list are values.
    fn add(&mut self, path: String, value: &'a Value) {
        if self.reads.contains(&path) {
            self.values.insert(path.clone(), value);
        }
        match value {
            Value::Object(fields) if !fields.is_empty() => {
                for (name, field) in fields {
                    self.add(field_path(&path, name), field);
                }
            }
            // The action has no fields.
            Value::Object(_) if path.is_empty() => {}
            _ => {
                self.names.insert(path, type_of(value));
            }
        }
    }
}

/// The dotted path of the field `name` of `path`. A name that contains a dot or a quote is quoted, so that
/// `{"a": {"b": 1}}` and `{"a.b": 1}` have different paths.
fn field_path(path: &str, name: &str) -> String {
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

fn step(step: StepContext<'_>) -> StepInput<'_> {
    let StepContext { id, blast_radius, critical, phase, rollback, attempt, origin: _ } = step;
    StepInput { id: id.as_str(), blast_radius, critical, phase, rollback, attempt }
}

fn run(run: RunContext<'_>) -> Result<RunInput<'_>, String> {
    if run.trigger.chars().count() > TRIGGER_CHARS_MAX {
        return Err(format!("the trigger type has more than {TRIGGER_CHARS_MAX} characters"));
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

fn caps(caps: CapUsage) -> CapsInput {
    CapsInput { writes_done: caps.writes_done, writes_max: caps.writes_max }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn flatten(fields: &Value, reads: &[&str]) -> (Value, Value) {
        let reads = reads.iter().map(|path| (*path).to_owned()).collect();
        let mut flat = Fields { reads: &reads, names: BTreeMap::new(), values: BTreeMap::new() };
        flat.add(String::new(), fields);
        (json!(flat.names), json!(flat.values))
    }

    #[test]
    fn input_has_names_and_types_of_fields() {
        let (names, values) =
            flatten(&json!({"table": "incident", "fields": {"urgency": 1, "tags": ["a"]}}), &[]);
        assert_eq!(names, json!({"table": "string", "fields.urgency": "number", "fields.tags": "array"}));
        assert_eq!(values, json!({}));
    }

    #[test]
    fn input_has_the_values_that_the_bundle_reads() {
        let fields = json!({"fields": {"urgency": 1, "note": "hello"}});
        assert_eq!(flatten(&fields, &["fields.urgency"]).1, json!({"fields.urgency": 1}));
        assert_eq!(flatten(&fields, &["fields"]).1, json!({"fields": {"urgency": 1, "note": "hello"}}));
        assert_eq!(flatten(&fields, &["fields.absent"]).1, json!({}));
    }

    #[test]
    fn name_with_a_dot_is_quoted() {
        assert_eq!(
            flatten(&json!({"a.b": 1, "": {}}), &[]).0,
            json!({"\"a.b\"": "number", "\"\"": "object"})
        );
        assert_eq!(flatten(&json!({"a.b": 1}), &["a.b"]).1, json!({}));
    }

    #[test]
    fn target_is_bounded_and_printable() {
        assert!(target_name("api.example.com/orders").is_ok());
        assert!(target_name(&"x".repeat(TARGET_CHARS_MAX + 1)).is_err());
        assert!(target_name("a\nb").is_err());
    }
}
