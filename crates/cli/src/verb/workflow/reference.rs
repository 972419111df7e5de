//! `countersign workflow reference`.

use connectors::reference::{PAGES, Requirement, ToolField, ToolPage};
use serde_json::{Map, Value, json};
use workflow::expression::{EXPRESSION_BYTES_MAX, FUNCTIONS, METHODS, RESULT_BYTES_MAX};
use workflow::reference::{ReferenceTable, tables};
use workflow::{EXPRESSIONS_MAX, SOURCE_BYTES_MAX};

use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;

const EXAMPLES: &str = "\
Examples:
  countersign workflow reference | less
  countersign workflow reference --json | jq '.tools[].name'";

/// Print the reference of workflow files as Markdown
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    let tables = tables();
    let json = json!({ "objects": tables, "tools": PAGES.iter().map(page_json).collect::<Value>() });
    context.print(&text(&tables), &json)?;
    Ok(ExitStatus::Success)
}

fn text(tables: &[ReferenceTable]) -> String {
    let maps: String = tables.iter().map(map_text).collect();
    let tools: String = PAGES.iter().map(page_text).collect();
    format!("## File\n\n{maps}## Expressions\n\n{}\n## Tools\n\n{tools}", expressions()).trim_end().to_owned()
}

fn map_text(table: &ReferenceTable) -> String {
    let row = |field: &workflow::reference::ReferenceField| {
        row(field.name, &field.value, field.default.as_deref().unwrap_or(REQUIRED), field.description)
    };
    let rows: String = table.fields.iter().map(row).collect();
    format!("### {}\n\n{}\n\n{HEAD}{rows}\n", heading(table.title), table.description)
}

fn heading(title: &str) -> String {
    let (first, rest) = title.split_at(1);
    first.to_uppercase() + rest
}

fn page_text(page: &ToolPage) -> String {
    let ToolPage { tool, description, output, fields, .. } = page;
    let row =
        |field: &ToolField| row(field.name, field.value, &default(field.requirement), field.description);
    let rows: String = fields.iter().map(row).collect();
    let call = match page.fields {
        // A tool without parameters works on the connection that the step names.
        [] => format!("tool: {tool}\nconnection: servicenow-prod"),
        _ => format!("tool: {tool}\nwith:\n{}", example(page)),
    };
    let table = if rows.is_empty() { rows } else { format!("{HEAD}{rows}\n") };
    format!("### `{tool}`\n\n{description}\n\n```yaml\n{call}\n```\n\n{table}Output: {output}.\n\n")
}

/// The example in the order of the fields.
fn example(page: &ToolPage) -> String {
    let example: Map<String, Value> = serde_json::from_str(page.example).unwrap_or_default();
    let line = |field: &ToolField| Some(format!("  {}: {}\n", field.name, flow(example.get(field.name)?)));
    page.fields.iter().filter_map(line).collect::<String>().trim_end().to_owned()
}

/// A value in YAML flow style, quoted only where necessary.
fn flow(value: &Value) -> String {
    let joined = |parts: Vec<String>| parts.join(", ");
    match value {
        Value::String(text) if is_plain(text) => text.clone(),
        Value::Array(items) => format!("[{}]", joined(items.iter().map(flow).collect())),
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| format!("{name}: {}", flow(value));
            format!("{{ {} }}", joined(fields.iter().map(field).collect()))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

/// Whether YAML reads `text` as a string without quotes. Short words are excluded because of `true`, `no` and others.
fn is_plain(text: &str) -> bool {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, ' ' | '.' | '/' | '_' | '-');
    let words = text.strip_prefix("https://").unwrap_or(text);
    words.chars().all(is_safe) && text.len() > 5 && text.starts_with(|c: char| c.is_ascii_alphabetic())
}

fn default(requirement: Requirement) -> String {
    match requirement {
        Requirement::Required => REQUIRED.to_owned(),
        Requirement::OneOf => "one of these is required".to_owned(),
        Requirement::WithDefault(value) => format!("`{}`", value.trim_matches('"')),
        Requirement::WhenAbsent(words) => words.to_owned(),
    }
}

const HEAD: &str = "| Field | Value | Default | Description |\n|---|---|---|---|\n";

const REQUIRED: &str = "**required**";

fn row(name: &str, value: &str, default: &str, description: &str) -> String {
    format!("| `{name}` | {value} | {default} | {description} |\n")
}

fn expressions() -> String {
    let words = |words: &[&str]| words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    format!(
        "`${{ … }}` in a string is an expression in [CEL](https://cel.dev). A string that consists of one expression \
         keeps the type of its result. Write `$${{` for a literal `${{`.\n\n\
         | Available | |\n|---|---|\n\
         | names | `trigger`, `steps.ID` of earlier steps, `run.id`, `run.tenant`, `run.workspace`, `run.workflow`, \
         `run.version`, `run.created_at_ms` |\n\
         | functions | `has`, {} |\n\
         | methods | `all`, `exists`, `exists_one`, `filter`, `map`, {} |\n\n\
         Limits: {} KiB and {EXPRESSIONS_MAX} expressions per file, {} KiB per expression, {} KiB per result. A missing \
         name is an error of the step, never an empty string.\n",
        words(&FUNCTIONS),
        words(&METHODS),
        SOURCE_BYTES_MAX / 1024,
        EXPRESSION_BYTES_MAX / 1024,
        RESULT_BYTES_MAX / 1024,
    )
}

fn page_json(page: &ToolPage) -> Value {
    let field = |field: &ToolField| {
        let required = field.requirement == Requirement::Required;
        json!({
            "name": field.name,
            "type": field.value,
            "required": required,
            "default": (!required).then(|| default(field.requirement)),
            "description": field.description,
        })
    };
    let example: Option<Value> = serde_json::from_str(page.example).ok();
    json!({
        "name": page.tool,
        "description": page.description,
        "output": page.output,
        "example": example,
        "fields": page.fields.iter().map(field).collect::<Value>(),
    })
}
