//! The reference of the built-in tools, for workflow authors. `countersign workflow reference` prints it.
//!
//! The tests compare each page with its tool: the known fields, the required ones and the defaults.

use self::Requirement::{OneOf, Required, WhenAbsent, WithDefault};

/// The reference page of one tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolPage {
    pub tool: &'static str,
    /// What the tool does, its effect class, and how it is undone.
    pub description: &'static str,
    /// The fields that later steps can read.
    pub output: &'static str,
    /// A value of `with`, as JSON.
    pub example: &'static str,
    pub fields: &'static [ToolField],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolField {
    pub name: &'static str,
    pub value: &'static str,
    pub requirement: Requirement,
    pub description: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requirement {
    Required,
    /// At least one of the tool's fields with this requirement must be set.
    OneOf,
    /// Optional, with this default, as JSON.
    WithDefault(&'static str),
    /// Optional; the text describes the behavior without the field.
    WhenAbsent(&'static str),
}

const fn field(
    name: &'static str,
    value: &'static str,
    requirement: Requirement,
    description: &'static str,
) -> ToolField {
    ToolField { name, value, requirement, description }
}

const TABLE: ToolField = field("table", "a table name", Required, "The table of the record.");
const SYS_ID: ToolField =
    field("sys_id", "32 lower-case hex digits", Required, "The `sys_id` of the record.");
const REPO: ToolField = field("repo", "`OWNER/NAME`", Required, "The repository.");
const NUMBER: ToolField =
    field("number", "an integer from 1", Required, "The number of the issue or pull request.");
const LABELS: ToolField = field("labels", "a list of 1 to 20 strings", Required, "The labels.");

/// All built-in tools, sorted by name.
pub const PAGES: &[ToolPage] = &[
    ToolPage {
        tool: "connection.test",
        description: "Tests the connection that the step names: address, credential and, where the API allows it, \
                      authentication. Effect class: read-only.",
        output: "`host`, `status`, `authentication` (`accepted`, `not refused`, `not tested`, `none`)",
        example: "{}",
        fields: &[],
    },
    ToolPage {
        tool: "github.comment",
        description: "Posts a comment on an issue or a pull request. Effect class: opaque; after a lost reply, the tool \
                      searches for a hidden marker in the comment. Undone by `github.delete_comment`.",
        output: "`comment_id`, `url`",
        example: r#"{ "repo": "acme/shop", "number": 7, "text": "Fixed by the restart." }"#,
        fields: &[REPO, NUMBER, field("text", "a string, at most 32 KiB", Required, "The comment.")],
    },
    ToolPage {
        tool: "github.delete_comment",
        description: "Deletes a comment, unless it was edited since the action was proposed. Effect class: \
                      compare-and-set. Irreversible; policy sees the action as destructive.",
        output: "`repo`, `comment_id`",
        example: r#"{ "repo": "acme/shop", "comment_id": 1001 }"#,
        fields: &[REPO, field("comment_id", "an integer from 1", Required, "The id of the comment.")],
    },
    ToolPage {
        tool: "github.get",
        description: "Reads an issue or a pull request. Effect class: read-only.",
        output: "`number`, `title`, `body`, `state`, `author`, `assignees`, `labels`, `comments`, `is_pull_request`, `url`",
        example: r#"{ "repo": "acme/shop", "number": 7 }"#,
        fields: &[REPO, NUMBER],
    },
    ToolPage {
        tool: "github.label",
        description: "Adds labels to an issue. Effect class: compare-and-set. Undone by `github.unlabel`, for the \
                      labels that were absent before.",
        output: "`repo`, `number`, `labels`",
        example: r#"{ "repo": "acme/shop", "number": 7, "labels": ["incident"] }"#,
        fields: &[REPO, NUMBER, LABELS],
    },
    ToolPage {
        tool: "github.unlabel",
        description: "Removes labels from an issue. Effect class: compare-and-set. Undone by `github.label`, for the \
                      labels that were present before.",
        output: "`repo`, `number`, `labels`",
        example: r#"{ "repo": "acme/shop", "number": 7, "labels": ["incident"] }"#,
        fields: &[REPO, NUMBER, LABELS],
    },
    ToolPage {
        tool: "http.request",
        description: "Sends one HTTP request. `effect` declares its effect class. Every request with an effect carries \
                      the header `Idempotency-Key`. Redirects are not followed, private addresses are not reached \
                      unless the operator allows the host, and ports of other protocols (22, 25, 6379 …) unless the \
                      operator allows host and port. A credential is sent only on a connection. Undone only by a `rollback` in \
                      the workflow; a POST or PATCH without one is irreversible, and so is one that is itself a \
                      rollback.",
        output: "`status`, `headers`, `body`, `truncated`",
        example: r#"{ "method": "POST", "url": "https://ops.example.com/restart", "headers": { "accept": "application/json" },
  "body": { "host": "db1" }, "timeout": "30s", "effect": "native_key", "idempotency_key": "restart-4711" }"#,
        fields: &[
            field(
                "method",
                "`GET`, `HEAD`, `POST`, `PUT`, `PATCH`, `DELETE`",
                WithDefault("\"GET\""),
                "The HTTP method.",
            ),
            field(
                "url",
                "a URL, at most 4 KiB",
                Required,
                "The URL. With a connection, a path below its base URL. Approvers see its query: do not put a secret there. A parameter that replaces the method, such as \
                 `_method`, is rejected.",
            ),
            field(
                "headers",
                "a map of strings",
                WithDefault("{}"),
                "Request headers. Credentials and headers that the runtime sets are rejected.",
            ),
            field(
                "body",
                "any value; with URL and headers at most 128 KiB",
                WithDefault("null"),
                "Sent as JSON; a string is sent as it is if `content-type` is not JSON.",
            ),
            field(
                "timeout",
                "a duration, at most `5m`",
                WithDefault("\"20s\""),
                "The time to wait for the reply.",
            ),
            field(
                "idempotency_key",
                "a string",
                WhenAbsent("a key for this step of this run"),
                "The idempotency key.",
            ),
            field(
                "effect",
                "`read_only`, `native_key`, `compare_and_set`, `opaque`",
                WhenAbsent("`read_only` for GET and HEAD, else `opaque`"),
                "The effect class: what the endpoint does with a second request. `compare_and_set` requires the \
                 header `if-match`, `if-none-match` or `if-unmodified-since`.",
            ),
            field(
                "key_retention",
                "a duration",
                WhenAbsent("`24h` with `native_key`"),
                "How long the endpoint remembers a key; more than 15 minutes.",
            ),
        ],
    },
    ToolPage {
        tool: "model.converse",
        description: "Sends one prompt to a language model. Effect class: read-only; a retry is safe and costs again.",
        output: "`text`; with `json: true` also `json`",
        example: r#"{ "model": "example.small-model-v1", "system": "You sort incidents.",
  "prompt": "Which team is this for? Answer as {\"team\": …}.", "data": "${ steps.incident }",
  "max_tokens": 400, "temperature": "0.2", "json": true }"#,
        fields: &[
            field("model", "a string", Required, "The provider's id of the model."),
            field("system", "a string", WhenAbsent("none"), "The system prompt."),
            field("prompt", "a string", Required, "The prompt. At most 64 Ki characters, including `data`."),
            field("data", "any value", WhenAbsent("none"), "Untrusted data, delimited from the prompt."),
            field("max_tokens", "1 to 32000", WithDefault("1024"), "The maximum length of the answer."),
            field(
                "temperature",
                "a string with a number from 0 to 2",
                WhenAbsent("the provider's default"),
                "The sampling temperature. A string, so that no parser rounds it.",
            ),
            field(
                "json",
                "`true` or `false`",
                WithDefault("false"),
                "Whether the answer must be JSON, which is then parsed.",
            ),
        ],
    },
    ToolPage {
        tool: "servicenow.assign",
        description: "Assigns a record to a group or a user, unless the record changed since the action was proposed. \
                      Effect class: compare-and-set. Undone by restoring the previous values, unless the columns were changed again.",
        output: "`table`, `sys_id`, `fields`",
        example: r#"{ "table": "incident", "sys_id": "9d385017c611228701d22104cc95c371",
  "assignment_group": "db-oncall", "assigned_to": "ada" }"#,
        fields: &[
            TABLE,
            SYS_ID,
            field("assignment_group", "a string", OneOf, "The group."),
            field("assigned_to", "a string", OneOf, "The user."),
        ],
    },
    ToolPage {
        tool: "servicenow.get",
        description: "Reads a record. Effect class: read-only.",
        output: "the columns",
        example: r#"{ "table": "incident", "sys_id": "9d385017c611228701d22104cc95c371", "fields": ["number", "priority"] }"#,
        fields: &[
            TABLE,
            SYS_ID,
            field(
                "fields",
                "a list of column names",
                WithDefault("[]"),
                "The columns to read; empty reads all.",
            ),
        ],
    },
    ToolPage {
        tool: "servicenow.update",
        description: "Sets columns of a record, unless the record changed since the action was proposed. Effect class: \
                      compare-and-set. Undone by restoring the previous values.",
        output: "`table`, `sys_id`, `fields`",
        example: r#"{ "table": "incident", "sys_id": "9d385017c611228701d22104cc95c371", "fields": { "priority": "2" } }"#,
        fields: &[
            TABLE,
            SYS_ID,
            field(
                "fields",
                "a map of 1 to 32 columns",
                Required,
                "The new values. `sys_…` columns and journal columns are rejected.",
            ),
            field(
                "expected",
                "a map of columns",
                WhenAbsent("any current values are replaced"),
                "The values that these columns must have now. If one has another value, nothing is written. A rollback \
                 uses it to keep later changes of other users.",
            ),
        ],
    },
    ToolPage {
        tool: "servicenow.work_note",
        description: "Adds a work note to a record. Effect class: opaque; after a lost reply, the tool searches for \
                      a hidden marker in the note. Irreversible.",
        output: "`table`, `sys_id`",
        example: r#"{ "table": "incident", "sys_id": "9d385017c611228701d22104cc95c371", "text": "Restarted the primary." }"#,
        fields: &[TABLE, SYS_ID, field("text", "a string, at most 16 KiB", Required, "The note.")],
    },
    ToolPage {
        tool: "slack.post",
        description: "Posts a message as plain text. Effect class: opaque; after a lost reply, the tool searches for \
                      a marker in the message's metadata. Irreversible.",
        output: "`channel`, `ts`",
        example: r#"{ "channel": "C024BE91L", "text": "The primary answers again.", "thread_ts": "1700000000.000100" }"#,
        fields: &[
            field("channel", "a channel id", Required, "The channel."),
            field(
                "text",
                "a string, at most 3000 characters",
                Required,
                "The message. Mentions and links in it are not active.",
            ),
            field(
                "thread_ts",
                "a message timestamp",
                WhenAbsent("posts to the channel"),
                "The thread to reply in.",
            ),
        ],
    },
    ToolPage {
        tool: "transform",
        description: "Builds a value from the trigger and earlier steps. Effect class: pure; it calls no external \
                      system.",
        output: "the value",
        example: r#"{ "value": { "host": "${ trigger.host }" } }"#,
        fields: &[field("value", "any value", Required, "The value.")],
    },
];

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use domain::connection::ConnectionOptions;
    use domain::{Action, ConnectionKind, Failure, RunId, RunKey, StepId, TenantId, ToolName};
    use serde_json::{Map, Value, json};

    use super::*;
    use crate::tool::{ProposalRequest, Tool};
    use crate::{Credential, HostAllowList, ToolConnection, ToolRegistry, standard_tools};

    /// Every tool, connected. No request is sent.
    fn registry() -> ToolRegistry {
        let kinds = [
            ConnectionKind::ServiceNow,
            ConnectionKind::GitHub,
            ConnectionKind::Slack,
            ConnectionKind::Model,
        ];
        kinds.into_iter().fold(standard_tools(HostAllowList::default()), |registry, kind| {
            registry.connected(&ToolConnection {
                name: kind.to_string().parse().unwrap(),
                kind,
                base: format!("https://{kind}.example.com").parse().unwrap(),
                credential: Credential::Anonymous,
                allow: HostAllowList::default(),
                ca: None,
                tls: http_client::config(),
                options: ConnectionOptions::default(),
            })
        })
    }

    fn tool(name: &str) -> Arc<dyn Tool> {
        Arc::clone(registry().get(&ToolName::new(name).unwrap()).unwrap())
    }

    fn propose(name: &str, fields: Value) -> Result<Action, Failure> {
        let run = RunKey { tenant: TenantId::new("acme").unwrap(), run: RunId::new("run-1").unwrap() };
        let step = StepId::new("step").unwrap();
        tool(name).propose(ProposalRequest {
            run: &run,
            step: &step,
            reverts: false,
            has_rollback: false,
            fields,
            observed: None,
        })
    }

    fn example(page: &ToolPage) -> Map<String, Value> {
        serde_json::from_str(page.example).unwrap_or_else(|error| panic!("{}: {error}", page.tool))
    }

    /// Proposes the required fields of the example, without those that `left_out` selects.
    fn minimal(page: &ToolPage, left_out: impl Fn(&ToolField) -> bool) -> Result<Action, Failure> {
        let required = |field: &&ToolField| matches!(field.requirement, Required | OneOf) && !left_out(field);
        let names: Vec<&str> = page.fields.iter().filter(required).map(|field| field.name).collect();
        let mut fields = example(page);
        fields.retain(|name, _| names.contains(&name.as_str()));
        propose(page.tool, Value::Object(fields))
    }

    #[test]
    fn every_tool_has_a_page() {
        let documented: Vec<&str> = PAGES.iter().map(|page| page.tool).collect();
        let registered: Vec<String> = registry().names().map(ToString::to_string).collect();
        assert_eq!(documented, registered);
    }

    #[test]
    fn page_lists_exactly_the_known_fields() {
        for page in PAGES {
            let names: Vec<&str> = page.fields.iter().map(|field| field.name).collect();
            let failure = propose(page.tool, json!({ "no_such_field": 1 })).unwrap_err();
            let known = format!("unknown field `no_such_field`; known fields are `{}`", names.join("`, `"));
            assert_eq!(failure.message, known, "{}", page.tool);
        }
    }

    #[test]
    fn tool_accepts_its_example() {
        for page in PAGES {
            propose(page.tool, Value::Object(example(page)))
                .unwrap_or_else(|e| panic!("{}: {e:?}", page.tool));
        }
    }

    #[test]
    fn tool_fails_without_a_required_field() {
        for page in PAGES {
            minimal(page, |_| false).unwrap_or_else(|failure| panic!("{}: {failure:?}", page.tool));
            for field in page.fields.iter().filter(|field| field.requirement == Required) {
                let missed = minimal(page, |other| other.name == field.name);
                assert!(missed.is_err(), "{} accepts a call without `{}`", page.tool, field.name);
            }
            let either = page.fields.iter().filter(|field| field.requirement == OneOf);
            for field in either.clone() {
                assert!(minimal(page, |other| other.name == field.name).is_ok(), "`{}`", field.name);
            }
            assert!(
                either.count() == 0 || minimal(page, |field| field.requirement == OneOf).is_err(),
                "{}",
                page.tool
            );
        }
    }

    #[test]
    fn documented_default_is_the_tools_default() {
        for page in PAGES {
            for ToolField { name, requirement, .. } in page.fields {
                let WithDefault(value) = requirement else { continue };
                let value: Value = serde_json::from_str(value).unwrap();
                let fields = minimal(page, |_| false).map(|action| action.fields).unwrap();
                assert_eq!(fields[*name], value, "`{name}` of {}", page.tool);
            }
        }
    }
}
