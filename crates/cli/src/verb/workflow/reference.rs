//! `countersign workflow reference`: what may stand in a workflow file.

use connectors::reference::{Need, PAGES, Page};
use serde_json::{Map, Value, json};
use workflow::expression::{EXPRESSION_BYTES_MAX, FUNCTIONS, METHODS, RESULT_BYTES_MAX};
use workflow::reference::{Table, tables};
use workflow::{EXPRESSIONS_MAX, SOURCE_BYTES_MAX};

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;

const EXAMPLES: &str = "\
Examples:
  countersign workflow reference | less
  countersign workflow reference --json | jq '.tools[].tool'";

/// Show what may stand in a workflow file, field by field, as Markdown
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args, context: &Context) -> Result<Ending, CliError> {
    let tables = tables();
    let json = json!({ "maps": tables, "tools": PAGES.iter().map(page_json).collect::<Value>() });
    context.answer(&text(&tables), &json)?;
    Ok(Ending::Done)
}

fn text(tables: &[Table]) -> String {
    let maps: String = tables.iter().map(map_text).collect();
    let tools: String = PAGES.iter().map(page_text).collect();
    format!("## The file\n\n{maps}## Expressions\n\n{}\n## Tools\n\n{tools}", expressions())
        .trim_end()
        .to_owned()
}

fn map_text(table: &Table) -> String {
    let row = |field: &workflow::reference::Field| {
        row(field.name, &field.takes, field.default.as_deref().unwrap_or(NEEDED), field.means)
    };
    let rows: String = table.fields.iter().map(row).collect();
    format!("### {}\n\n{}\n\n{HEAD}{rows}\n", heading(table.of), table.says)
}

/// What errors call the thing, as the heading of its table.
fn heading(of: &str) -> String {
    let (first, rest) = of.split_at(1);
    first.to_uppercase() + rest
}

fn page_text(page: &Page) -> String {
    let Page { tool, says, gives, fields, .. } = page;
    let row = |field: &connectors::reference::Field| {
        row(field.name, field.takes, &default(field.need), field.means)
    };
    let rows: String = fields.iter().map(row).collect();
    let call = format!("tool: {tool}\nwith:\n{}", example(page));
    format!("### `{tool}`\n\n{says}\n\n```yaml\n{call}\n```\n\n{HEAD}{rows}\nIt gives {gives}.\n\n")
}

/// The example as a person would write it, field by field.
fn example(page: &Page) -> String {
    let example: Map<String, Value> = serde_json::from_str(page.example).unwrap_or_default();
    let line = |field: &connectors::reference::Field| {
        Some(format!("  {}: {}\n", field.name, flow(example.get(field.name)?)))
    };
    page.fields.iter().filter_map(line).collect::<String>().trim_end().to_owned()
}

/// A value in the flow style of YAML, with quotes only where they are needed.
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

/// Whether YAML takes `text` for a text without quotes: it begins with a letter, and nothing in it means
/// anything else. Words such as `true` and `no` are short.
fn is_plain(text: &str) -> bool {
    let harmless = |c: char| c.is_ascii_alphanumeric() || matches!(c, ' ' | '.' | '/' | '_' | '-');
    let words = text.strip_prefix("https://").unwrap_or(text);
    words.chars().all(harmless) && text.len() > 5 && text.starts_with(|c: char| c.is_ascii_alphabetic())
}

fn default(need: Need) -> String {
    match need {
        Need::Needed => NEEDED.to_owned(),
        Need::OneOf => "one of these is needed".to_owned(),
        Need::Counts(value) => format!("`{}`", value.trim_matches('"')),
        Need::Without(words) => words.to_owned(),
    }
}

const HEAD: &str = "| field | takes | without it | meaning |\n|---|---|---|---|\n";

/// What stands in the place of a default.
const NEEDED: &str = "**needed**";

fn row(name: &str, takes: &str, default: &str, means: &str) -> String {
    format!("| `{name}` | {takes} | {default} | {means} |\n")
}

fn expressions() -> String {
    let words = |words: &[&str]| words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    format!(
        "`${{ … }}` in a text is an expression in [CEL](https://cel.dev); a text that is exactly one keeps its \
         type; `$${{` is a plain `${{`.\n\n\
         | it may use | |\n|---|---|\n\
         | names | `trigger`, `steps.ID` for steps before it, `run.id`, `run.tenant`, `run.workspace`, `run.workflow`, \
         `run.version`, `run.created_at_ms` |\n\
         | functions | `has`, {} |\n\
         | on a value | `all`, `exists`, `exists_one`, `filter`, `map`, {} |\n\n\
         A file has at most {} KiB and {EXPRESSIONS_MAX} expressions; an expression has at most {} KiB, and what it \
         gives {} KiB. A name that is not there is an error of the step, never an empty text.\n",
        words(&FUNCTIONS),
        words(&METHODS),
        SOURCE_BYTES_MAX / 1024,
        EXPRESSION_BYTES_MAX / 1024,
        RESULT_BYTES_MAX / 1024,
    )
}

fn page_json(page: &Page) -> Value {
    let field = |field: &connectors::reference::Field| {
        let needed = field.need == Need::Needed;
        let default = (!needed).then(|| default(field.need));
        json!({ "name": field.name, "takes": field.takes, "default": default, "means": field.means })
    };
    let example: Option<Value> = serde_json::from_str(page.example).ok();
    json!({
        "tool": page.tool,
        "says": page.says,
        "gives": page.gives,
        "example": example,
        "fields": page.fields.iter().map(field).collect::<Value>(),
    })
}
