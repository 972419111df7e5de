//! The reference of the tools: what each is called with, for people who write workflows.
//!
//! The tests ask the tools themselves which fields they know, which must be there, and what counts where one
//! is left out.

use self::Need::{Counts, Needed, OneOf, Without};

/// One tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// Its name.
    pub tool: &'static str,
    /// What it does, what it promises about being asked again, and how it is taken back.
    pub says: &'static str,
    /// What later steps can read.
    pub gives: &'static str,
    /// A call of it, as the JSON that `with` stands for.
    pub example: &'static str,
    /// What it is called with.
    pub fields: &'static [Field],
}

/// One field of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// What it takes.
    pub takes: &'static str,
    /// Whether it must be there.
    pub need: Need,
    /// What it means.
    pub means: &'static str,
}

/// Whether a field must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// It must.
    Needed,
    /// One of the fields that say so must; without it, what it would change stays.
    OneOf,
    /// It need not; this value counts then, as JSON.
    Counts(&'static str),
    /// It need not; this is what that means.
    Without(&'static str),
}

const fn field(name: &'static str, takes: &'static str, need: Need, means: &'static str) -> Field {
    Field { name, takes, need, means }
}

const TABLE: Field = field("table", "a word", Needed, "The record's table.");
const SYS_ID: Field = field("sys_id", "32 lower-case hex digits", Needed, "The record.");
const REPO: Field = field("repo", "`OWNER/NAME`", Needed, "The repository.");
const NUMBER: Field = field("number", "a whole number from 1", Needed, "The issue or pull request.");
const LABELS: Field = field("labels", "a list of 1 to 20 texts", Needed, "The labels.");

/// Every tool of the standard box, by name.
pub const PAGES: &[Page] = &[
    Page {
        tool: "github.comment",
        says: "Comments on an issue or a pull request. Opaque, with a mark that it is found by. Taken back by \
               `github.delete_comment`.",
        gives: "`comment_id`, `url`",
        example: r#"{ "repo": "acme/shop", "number": 7, "text": "Fixed by the restart." }"#,
        fields: &[REPO, NUMBER, field("text", "a text, at most 32 KiB", Needed, "What is said.")],
    },
    Page {
        tool: "github.delete_comment",
        says: "Deletes a comment, unless it was edited since people saw it. Compare-and-set. Irreversible, and \
               destructive to policy.",
        gives: "`repo`, `comment_id`",
        example: r#"{ "repo": "acme/shop", "comment_id": 1001 }"#,
        fields: &[REPO, field("comment_id", "a whole number from 1", Needed, "The comment.")],
    },
    Page {
        tool: "github.get",
        says: "Reads an issue or a pull request.",
        gives: "`number`, `title`, `body`, `state`, `author`, `assignees`, `labels`, `comments`, `is_pull_request`, `url`",
        example: r#"{ "repo": "acme/shop", "number": 7 }"#,
        fields: &[REPO, NUMBER],
    },
    Page {
        tool: "github.label",
        says: "Puts labels on an issue. Compare-and-set. Taken back by `github.unlabel`, for the labels that were \
               not there.",
        gives: "`repo`, `number`, `labels`",
        example: r#"{ "repo": "acme/shop", "number": 7, "labels": ["incident"] }"#,
        fields: &[REPO, NUMBER, LABELS],
    },
    Page {
        tool: "github.unlabel",
        says: "Takes labels off an issue. Compare-and-set. Taken back by `github.label`, for the labels that were \
               there.",
        gives: "`repo`, `number`, `labels`",
        example: r#"{ "repo": "acme/shop", "number": 7, "labels": ["incident"] }"#,
        fields: &[REPO, NUMBER, LABELS],
    },
    Page {
        tool: "http.request",
        says: "Sends one request. What it promises is what `effect` says; every request with an effect carries \
               `Idempotency-Key`. No redirect is followed, no private address reached, no credential sent. It is \
               taken back by a `rollback` of yours alone.",
        gives: "`status`, `headers`, `body`, `truncated`",
        example: r#"{ "method": "POST", "url": "https://ops.example.com/restart", "headers": { "accept": "application/json" },
  "body": { "host": "db1" }, "timeout": "30s", "effect": "native_key", "idempotency_key": "restart-4711" }"#,
        fields: &[
            field(
                "method",
                "`GET`, `HEAD`, `POST`, `PUT`, `PATCH`, `DELETE`",
                Counts("\"GET\""),
                "What is asked for.",
            ),
            field(
                "url",
                "a URL, at most 4 KiB",
                Needed,
                "Where. Its query is shown to people: no place for a secret.",
            ),
            field(
                "headers",
                "a map of texts",
                Counts("{}"),
                "No credentials, and none that the runtime sets itself.",
            ),
            field(
                "body",
                "any value, at most 1 MiB",
                Counts("null"),
                "Sent as JSON; as it is, where `content-type` says so.",
            ),
            field(
                "timeout",
                "a length of time, at most `5m`",
                Counts("\"20s\""),
                "How long a reply is waited for.",
            ),
            field(
                "effect",
                "`read_only`, `native_key`, `compare_and_set`, `opaque`",
                Without("`read_only` for GET and HEAD, else `opaque`"),
                "What the other side does with a second request. `compare_and_set` needs `if-match`, `if-none-match` \
                 or `if-unmodified-since`.",
            ),
            field(
                "idempotency_key",
                "a text",
                Without("this step of this run"),
                "What the effect is called.",
            ),
            field(
                "key_retention",
                "a length of time",
                Without("`24h` with `native_key`"),
                "How long the other side remembers a key.",
            ),
        ],
    },
    Page {
        tool: "model.converse",
        says: "Asks a language model one question. It changes nothing, so it is asked again after a failure, and \
               costs again.",
        gives: "`text`, and `json` with `json: true`",
        example: r#"{ "provider": "bedrock", "model": "example.small-model-v1", "system": "You sort incidents.",
  "prompt": "Which team is this for? Answer as {\"team\": …}.", "data": "${ steps.incident }",
  "max_tokens": 400, "temperature": "0.2", "json": true }"#,
        fields: &[
            field("provider", "a text", Needed, "A provider of the worker's `--config`."),
            field("model", "a text", Needed, "The model's id there."),
            field("system", "a text", Without("none"), "What the model is told about its part."),
            field("prompt", "a text", Needed, "The question. With `data` at most 64 Ki characters."),
            field("data", "any value", Without("none"), "What others wrote: fenced off from the question."),
            field("max_tokens", "1 to 32000", Counts("1024"), "How long the answer may be."),
            field(
                "temperature",
                "a text with a number",
                Without("the provider's"),
                "A text, so that nobody rounds it.",
            ),
            field("json", "`true` or `false`", Counts("false"), "The answer must be JSON, and is read."),
        ],
    },
    Page {
        tool: "servicenow.assign",
        says: "Gives a record to a group or a person, unless somebody has changed it since people saw it. \
               Compare-and-set. Taken back by its inverse.",
        gives: "`table`, `sys_id`, `fields`",
        example: r#"{ "table": "incident", "sys_id": "9d385017c611228701d22104cc95c371",
  "assignment_group": "db-oncall", "assigned_to": "ada" }"#,
        fields: &[
            TABLE,
            SYS_ID,
            field("assignment_group", "a text", OneOf, "The group."),
            field("assigned_to", "a text", OneOf, "The person."),
        ],
    },
    Page {
        tool: "servicenow.get",
        says: "Reads a record.",
        gives: "the columns",
        example: r#"{ "table": "incident", "sys_id": "9d385017c611228701d22104cc95c371", "fields": ["number", "priority"] }"#,
        fields: &[
            TABLE,
            SYS_ID,
            field("fields", "a list of words", Counts("[]"), "The columns; all, if none is named."),
        ],
    },
    Page {
        tool: "servicenow.update",
        says: "Changes columns of a record, unless somebody has changed it since people saw it. Compare-and-set. \
               Taken back by its inverse.",
        gives: "`table`, `sys_id`, `fields`",
        example: r#"{ "table": "incident", "sys_id": "9d385017c611228701d22104cc95c371", "fields": { "priority": "2" } }"#,
        fields: &[
            TABLE,
            SYS_ID,
            field("fields", "a map of 1 to 32 columns", Needed, "Their new values. No `sys_…`, no journal."),
        ],
    },
    Page {
        tool: "servicenow.work_note",
        says: "Writes into the journal of a record. Opaque, with a mark that it is found by. Irreversible.",
        gives: "`table`, `sys_id`",
        example: r#"{ "table": "incident", "sys_id": "9d385017c611228701d22104cc95c371", "text": "Restarted the primary." }"#,
        fields: &[TABLE, SYS_ID, field("text", "a text, at most 16 KiB", Needed, "What is noted.")],
    },
    Page {
        tool: "slack.post",
        says: "Posts a message, as plain text. Opaque, with a mark that it is found by. Irreversible.",
        gives: "`channel`, `ts`",
        example: r#"{ "channel": "C024BE91L", "text": "The primary answers again.", "thread_ts": "1700000000.000100" }"#,
        fields: &[
            field("channel", "the id of a channel", Needed, "Where."),
            field(
                "text",
                "a text, at most 3000 characters",
                Needed,
                "What is said. Nothing in it mentions or links.",
            ),
            field("thread_ts", "the time of a message", Without("the channel itself"), "The thread."),
        ],
    },
    Page {
        tool: "transform",
        says: "Builds a value from what is known. It touches nothing outside.",
        gives: "the value",
        example: r#"{ "value": { "host": "${ trigger.host }" } }"#,
        fields: &[field("value", "any value", Needed, "The value.")],
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use domain::{Action, Failure, RunId, RunKey, StepId, TenantId, ToolName};
    use serde_json::{Map, Value, json};

    use super::*;
    use crate::tool::{Ask, Tool};
    use crate::{Allow, Base, Credential, Settings, Toolbox, github, model, servicenow, slack, standard};

    /// Every tool, configured; nothing is ever sent.
    fn toolbox() -> Toolbox {
        let base = |host: &str| -> Base { format!("https://{host}.example.com").parse().unwrap() };
        let credential = || Credential::Nobody;
        let provider = model::Provider {
            base: base("models"),
            shape: model::Shape::Bedrock,
            credential: credential(),
            prices: BTreeMap::new(),
        };
        let settings = Settings {
            servicenow: Some(servicenow::Settings { base: base("servicenow"), credential: credential() }),
            github: Some(github::Settings { base: base("github"), credential: credential() }),
            slack: Some(slack::Settings { base: base("slack"), credential: credential() }),
            model: Some(model::Settings { providers: BTreeMap::from([("bedrock".to_owned(), provider)]) }),
        };
        standard(Allow::default(), settings)
    }

    fn tool(name: &str) -> Arc<dyn Tool> {
        Arc::clone(toolbox().get(&ToolName::new(name).unwrap()).unwrap())
    }

    fn propose(name: &str, fields: Value) -> Result<Action, Failure> {
        let run = RunKey { tenant: TenantId::new("acme").unwrap(), run: RunId::new("run-1").unwrap() };
        let step = StepId::new("step").unwrap();
        tool(name).propose(Ask { run: &run, step: &step, undo: false, fields, found: None })
    }

    fn example(page: &Page) -> Map<String, Value> {
        serde_json::from_str(page.example).unwrap_or_else(|error| panic!("{}: {error}", page.tool))
    }

    /// As much of the example as must be there, but for `left_out`.
    fn least(page: &Page, left_out: impl Fn(&Field) -> bool) -> Result<Action, Failure> {
        let must = |field: &&Field| matches!(field.need, Needed | OneOf) && !left_out(field);
        let names: Vec<&str> = page.fields.iter().filter(must).map(|field| field.name).collect();
        let mut fields = example(page);
        fields.retain(|name, _| names.contains(&name.as_str()));
        propose(page.tool, Value::Object(fields))
    }

    #[test]
    fn every_tool_has_a_page() {
        let told: Vec<&str> = PAGES.iter().map(|page| page.tool).collect();
        let there: Vec<String> = toolbox().names().map(ToString::to_string).collect();
        assert_eq!(told, there);
    }

    #[test]
    fn every_field_that_a_tool_knows_is_told_and_no_other() {
        for page in PAGES {
            let names: Vec<&str> = page.fields.iter().map(|field| field.name).collect();
            let failure = propose(page.tool, json!({ "no_such_field": 1 })).unwrap_err();
            let known = format!("unknown field `no_such_field`; known are `{}`", names.join("`, `"));
            assert_eq!(failure.message, known, "{}", page.tool);
        }
    }

    #[test]
    fn a_tool_takes_its_example() {
        for page in PAGES {
            propose(page.tool, Value::Object(example(page)))
                .unwrap_or_else(|e| panic!("{}: {e:?}", page.tool));
        }
    }

    #[test]
    fn a_tool_misses_what_it_needs_and_nothing_else() {
        for page in PAGES {
            least(page, |_| false).unwrap_or_else(|failure| panic!("{}: {failure:?}", page.tool));
            for field in page.fields.iter().filter(|field| field.need == Needed) {
                let missed = least(page, |other| other.name == field.name);
                assert!(missed.is_err(), "{} does without `{}`", page.tool, field.name);
            }
            let either = page.fields.iter().filter(|field| field.need == OneOf);
            for field in either.clone() {
                assert!(least(page, |other| other.name == field.name).is_ok(), "`{}`", field.name);
            }
            assert!(
                either.count() == 0 || least(page, |field| field.need == OneOf).is_err(),
                "{}",
                page.tool
            );
        }
    }

    #[test]
    fn a_default_is_what_the_tool_fills_in() {
        for page in PAGES {
            for Field { name, need, .. } in page.fields {
                let Counts(value) = need else { continue };
                let value: Value = serde_json::from_str(value).unwrap();
                let fields = least(page, |_| false).map(|action| action.fields).unwrap();
                assert_eq!(fields[*name], value, "`{name}` of {}", page.tool);
            }
        }
    }
}
