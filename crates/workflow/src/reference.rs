//! The reference of the workflow file: every map and its fields.
//!
//! Choices, bounds and defaults come from the parser. The tests below compare the fields of each map, and which of them are
//! required, with the parser.

use std::fmt::Display;

use domain::plan::{ApprovalTiming, Environment, OnReject, OnTimeout, Phase, STEPS_MAX, Validation};
use domain::retry_policy::{ATTEMPTS_MAX, RetryPolicy, TABLE};
use domain::{BlastRadius, ConcurrencyScope, Millis, OnConflict, Tier};
use serde::Serialize;
use strum::VariantNames as _;

use crate::builtin;
use crate::governance::{APPROVAL_TIMEOUT_MAX, APPROVAL_TIMEOUT_MIN, GROUPS_MAX};
use crate::retry::{BackoffName, DELAY_MAX, DELAY_MIN};

/// A map of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReferenceTable {
    /// The name of the map in error messages.
    pub title: &'static str,
    pub description: &'static str,
    pub fields: Vec<ReferenceField>,
}

/// A field of a map.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReferenceField {
    pub name: &'static str,
    /// The type and the bounds.
    #[serde(rename = "type")]
    pub value: String,
    pub required: bool,
    /// Absent if the field is required.
    pub default: Option<String>,
    pub description: &'static str,
}

/// All maps, in the order of the reference.
pub fn tables() -> Vec<ReferenceTable> {
    vec![
        workflow(),
        approval(),
        trigger(),
        servicenow(),
        github(),
        webhook(),
        schedule(),
        concurrency(),
        step(),
        retry(),
        rollback(),
        wait(),
        gate(),
    ]
}

fn workflow() -> ReferenceTable {
    ReferenceTable {
        title: "a workflow",
        description: "The top level of the file.",
        fields: vec![
            required("workflow", "a name", "The name of the workflow. Runs and policies refer to it."),
            required("version", "an integer from 1", "The version. Increase it with every change."),
            optional("environment", one_of(Environment::VARIANTS), code(Environment::default()), ENVIRONMENT),
            optional(
                "workspace",
                "a workspace id",
                "that of each request, or `default`",
                "The workspace of the runs. It selects the connections that they can use.",
            ),
            optional(
                "author",
                "a user",
                "none",
                "The author of the workflow, who may not approve its actions.",
            ),
            optional("validation", one_of(Validation::VARIANTS), validation_default(), VALIDATION),
            optional("approval", "a map", "its defaults", "The deadlines for approvals."),
            optional("auto_approve", "a number from 0 to 1", "no automatic approval", AUTO_APPROVE),
            optional(
                "trigger",
                "a map with one field",
                "none",
                "The events or the schedule that start runs after `workflow apply`.",
            ),
            optional("concurrency", "a string, or a map", "no limit", CONCURRENCY),
            optional("sample", "a map", "none", SAMPLE),
            required("steps", &format!("a list of 1 to {STEPS_MAX} steps"), "The steps, in order."),
        ],
    }
}

const ENVIRONMENT: &str = "The environment. The default is the strictest one.";
const VALIDATION: &str = "The actions that need approval even if policy allows them: every action, the first of each \
                          phase, actions of critical steps, or the last action. With `auto_approve`, `critical_only` \
                          includes every other action that `auto_approve` does not cover. `final_only` requires a low \
                          blast radius in every step. Validation can only make policy stricter.";
const CONCURRENCY: &str = "At most one active run for each key. A string is the `key`.";
const SAMPLE: &str =
    "A sample input. The console fills its forms with it. Expressions in it are not evaluated.";
const AUTO_APPROVE: &str = "The minimum `confidence` at which `validation` requires no approval. It never applies in prod, to \
                            a critical step, to a high blast radius, or if policy requires approval.";

fn approval() -> ReferenceTable {
    let range = duration_range(APPROVAL_TIMEOUT_MIN, APPROVAL_TIMEOUT_MAX);
    let prod = ApprovalTiming::default_in(Environment::Prod);
    let elsewhere = ApprovalTiming::default_in(Environment::Dev).sla;
    ReferenceTable {
        title: "`approval`",
        description: "The deadlines for approvals.",
        fields: vec![
            optional("sla", &range, format!("`{}` in prod, `{elsewhere}` elsewhere", prod.sla), SLA),
            optional(
                "expires_after",
                &range,
                code(prod.expires_after),
                "The time after which the request expires and the step fails.",
            ),
        ],
    }
}

const SLA: &str = "The time after which the request is escalated as overdue. The run keeps waiting.";

fn trigger() -> ReferenceTable {
    let source = |name, description| optional(name, "a map", "none", description);
    ReferenceTable {
        title: "`trigger`",
        description: "Exactly one of these fields.",
        fields: vec![
            source("servicenow", "A record from ServiceNow."),
            source("github", "An event from GitHub."),
            source("webhook", "A request to the generic webhook endpoint."),
            source("schedule", "A time schedule."),
        ],
    }
}

fn servicenow() -> ReferenceTable {
    let table = optional("table", "a name", "any table", "The table of the record.");
    ReferenceTable { title: "`servicenow`", description: SERVICENOW, fields: vec![table, when()] }
}

fn github() -> ReferenceTable {
    let event = optional("event", "a name", "any event", "The event name in the `X-GitHub-Event` header.");
    ReferenceTable { title: "`github`", description: GITHUB, fields: vec![event, when()] }
}

fn webhook() -> ReferenceTable {
    ReferenceTable { title: "`webhook`", description: WEBHOOK, fields: vec![when()] }
}

const SERVICENOW: &str = "A trigger. `trigger` is the request body: `trigger.table`, `trigger.record.FIELD`, and all other fields \
                          of the body.";
const GITHUB: &str = "A trigger. `trigger.event` is the event, `trigger.body` the payload: \
                      `trigger.body.repository.full_name`, for example.";
const WEBHOOK: &str =
    "A trigger. `trigger.body` is the request body: for `{\"host\": \"db1\"}`, `trigger.body.host` is `db1`.";

fn schedule() -> ReferenceTable {
    ReferenceTable {
        title: "`schedule`",
        description: "A trigger. `trigger.scheduled_at` is the scheduled time, `trigger.local_time` the same time in `time_zone`.",
        fields: vec![required("cron", "five fields", CRON), required("time_zone", "an IANA time zone", ZONE)],
    }
}

const CRON: &str = "Minute, hour, day of month, month, day of week: numbers, names, `*`, `a-b`, `*/n` and lists. Each scheduled \
                    time starts one run. After an outage, only the last missed time starts a run.";
const ZONE: &str = "The time zone of the schedule. When clocks go forward, a skipped time runs later by the same amount. When \
                    clocks go back, a repeated time runs the first time only, unless every hour is scheduled.";

fn concurrency() -> ReferenceTable {
    ReferenceTable {
        title: "`concurrency`",
        description: "At most one active run for each key.",
        fields: vec![
            required(
                "key",
                "a string",
                "The key, such as the id of a record. May contain expressions over `trigger`. If it cannot be evaluated, no run starts.",
            ),
            optional(
                "on_conflict",
                one_of(OnConflict::VARIANTS),
                code(OnConflict::default()),
                ON_CONFLICT_TEXT,
            ),
            optional(
                "scope",
                one_of(ConcurrencyScope::VARIANTS),
                code(ConcurrencyScope::default()),
                SCOPE_TEXT,
            ),
        ],
    }
}

const ON_CONFLICT_TEXT: &str = "What happens to a trigger while another run holds the key: it joins that run, waits until that run \
                                ends, or is rejected. A trigger joins only a run of the same workflow, and waits for one of another.";
const SCOPE_TEXT: &str = "Whether all workflows of the tenant share the key, or only runs of this one.";

fn when() -> ReferenceField {
    optional(
        "when",
        "one expression",
        "always",
        "A condition over `trigger`. A run starts only if it is true.",
    )
}

fn step() -> ReferenceTable {
    ReferenceTable {
        title: "a step",
        description: "`connection`, `retry`, `rollback`, `on_reject` and `confidence` do not apply to `wait.event` and \
               `approval.gate`.",
        fields: vec![
            required(
                "id",
                "a name",
                "The id, unique in the workflow. Later steps read the output as `steps.ID`.",
            ),
            required("tool", "a tool", "The tool to call."),
            optional(
                "connection",
                "a name",
                "the only one of the tool's kind",
                "The connection to the external system. The environment of the action is that of the connection.",
            ),
            optional(
                "with",
                "a map",
                "an empty map",
                "The parameters of the tool. Strings may contain expressions.",
            ),
            optional("retry", "a map", "its defaults", "The number of attempts and the delays between them."),
            optional(
                "blast_radius",
                one_of(BlastRadius::VARIANTS),
                code("low"),
                "The impact of a mistake. Policy can read it.",
            ),
            optional(
                "critical",
                "`true` or `false`",
                code("false"),
                "Whether `critical_only` requires approval for it. `auto_approve` never covers it.",
            ),
            optional(
                "phase",
                one_of(Phase::VARIANTS),
                code("main"),
                "The phase of the run, for `per_phase`.",
            ),
            optional(
                "on_reject",
                one_of(OnReject::VARIANTS),
                code("fail"),
                "What happens to the run if the request is rejected.",
            ),
            optional("confidence", "a number from 0 to 1, or an expression", "none", CONFIDENCE),
            optional("rollback", "`auto`, or a map", "no rollback", ROLLBACK),
        ],
    }
}

const CONFIDENCE: &str = "The confidence in the proposed action; see `auto_approve`.";
const ROLLBACK: &str = "How to undo the step: with the inverse in its receipt (`auto`), or with this call.";

fn retry() -> ReferenceTable {
    let range = duration_range(DELAY_MIN, DELAY_MAX);
    let default = RetryPolicy::default();
    ReferenceTable {
        title: "`retry`",
        description: "A longer delay that the external system requests (`Retry-After`) takes precedence, up to an hour. \
                      The delays together take at most 24 hours.",
        fields: vec![
            optional(
                "attempts",
                format!("1 to {ATTEMPTS_MAX}"),
                format!("{}; 1 for an opaque or destructive action", code(default.attempts)),
                "The total number of attempts.",
            ),
            optional(
                "backoff",
                one_of(BackoffName::VARIANTS),
                code("table"),
                "The delays: `table` is 5s, 30s, 2m, 10m; `exponential` doubles.",
            ),
            optional("base", &range, code(TABLE[0]), "The first delay, for `exponential` only."),
            optional("cap", &range, code(default.cap), "The maximum delay."),
        ],
    }
}

fn rollback() -> ReferenceTable {
    ReferenceTable {
        title: "`rollback`",
        description: "The call that undoes the step. It may read the step's own output.",
        fields: vec![
            required("tool", "a tool", "The tool to call, except `wait.event` and `approval.gate`."),
            optional(
                "connection",
                "a name",
                "the only one of the tool's kind",
                "The connection of this call.",
            ),
            optional("with", "a map", "an empty map", "The parameters of the tool."),
        ],
    }
}

fn wait() -> ReferenceTable {
    ReferenceTable {
        title: "the `with` of `wait.event`",
        description: "Waits for an external event. The output is the payload of the event.",
        fields: vec![
            required("event", "a name", "The event, as in `run signal RUN EVENT`. No expressions."),
            optional(
                "timeout",
                timeout_bounds(),
                code(builtin::TIMEOUT_DEFAULT),
                "The maximum time to wait.",
            ),
            optional(
                "on_timeout",
                one_of(OnTimeout::VARIANTS),
                code("fail"),
                "Whether the run then fails or continues with `{timed_out: true}`.",
            ),
        ],
    }
}

fn gate() -> ReferenceTable {
    let groups = format!("a list of at most {GROUPS_MAX} groups");
    ReferenceTable {
        title: "the `with` of `approval.gate`",
        description: "Requests approval with your own message.",
        fields: vec![
            required("message", "a string", "The message to the approvers. May contain expressions."),
            optional(
                "expires_after",
                timeout_bounds(),
                code(builtin::TIMEOUT_DEFAULT),
                "The time after which the request expires and the step fails.",
            ),
            optional(
                "on_reject",
                one_of(OnReject::VARIANTS),
                code("fail"),
                "What happens to the run if the request is rejected.",
            ),
            optional(
                "tier",
                one_of(Tier::VARIANTS),
                code("medium"),
                "The importance of the request, shown on the approval card.",
            ),
            optional("people", "1 or 2", code(1), "The number of approvers."),
            optional("groups", groups, "every user who may approve", "The groups whose members may approve."),
        ],
    }
}

fn timeout_bounds() -> String {
    duration_range(builtin::TIMEOUT_MIN, builtin::TIMEOUT_MAX)
}

fn required(name: &'static str, value: &str, description: &'static str) -> ReferenceField {
    ReferenceField { name, value: value.to_owned(), required: true, default: None, description }
}

fn optional(
    name: &'static str,
    value: impl AsRef<str>,
    default: impl AsRef<str>,
    description: &'static str,
) -> ReferenceField {
    let default = Some(default.as_ref().to_owned());
    ReferenceField { name, value: value.as_ref().to_owned(), required: false, default, description }
}

fn one_of(words: &[&str]) -> String {
    words.iter().map(code).collect::<Vec<_>>().join(", ")
}

fn duration_range(least: Millis, most: Millis) -> String {
    format!("`{least}` to `{most}`")
}

fn validation_default() -> String {
    let prod = Validation::default_in(Environment::Prod);
    format!("`{prod}` in prod, `{}` elsewhere", Validation::default_in(Environment::Dev))
}

fn code(word: impl Display) -> String {
    format!("`{word}`")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use domain::{ApprovalRequirement, ToolName};

    use super::*;
    use crate::{ParseErrorKind, parse};

    /// A file whose map `of` contains only `inner`, in YAML flow style.
    fn file(of: &str, inner: &str) -> String {
        let step = |rest: &str| format!("{{ workflow: w, version: 1, steps: [{{ id: a, {rest} }}] }}");
        let top =
            |rest: &str| format!("{{ workflow: w, version: 1, {rest}, steps: [{{ id: a, tool: t }}] }}");
        match of {
            "a workflow" => format!("{{ {inner} }}"),
            "`approval`" => top(&format!("approval: {{ {inner} }}")),
            "`trigger`" => top(&format!("trigger: {{ {inner} }}")),
            "`servicenow`" => top(&format!("trigger: {{ servicenow: {{ {inner} }} }}")),
            "`github`" => top(&format!("trigger: {{ github: {{ {inner} }} }}")),
            "`webhook`" => top(&format!("trigger: {{ webhook: {{ {inner} }} }}")),
            "`schedule`" => top(&format!("trigger: {{ schedule: {{ {inner} }} }}")),
            "`concurrency`" => top(&format!("concurrency: {{ {inner} }}")),
            "a step" => format!("{{ workflow: w, version: 1, steps: [{{ {inner} }}] }}"),
            "`retry`" => step(&format!("tool: t, retry: {{ {inner} }}")),
            "`rollback`" => step(&format!("tool: t, rollback: {{ {inner} }}")),
            "the `with` of `wait.event`" => step(&format!("tool: wait.event, with: {{ {inner} }}")),
            "the `with` of `approval.gate`" => step(&format!("tool: approval.gate, with: {{ {inner} }}")),
            other => panic!("add a file with {other} here"),
        }
    }

    fn error_kind(source: &str) -> Option<ParseErrorKind> {
        parse(source, &BTreeSet::from([ToolName::new("t").unwrap()])).err().map(|error| error.kind)
    }

    #[test]
    fn reference_lists_exactly_the_parser_fields() {
        for ReferenceTable { title: of, fields, .. } in tables() {
            let listed: Vec<&str> = fields.iter().map(|field| field.name).collect();
            let Some(ParseErrorKind::UnknownField { expected, .. }) =
                error_kind(&file(of, "no_such_field: 1"))
            else {
                panic!("{of} accepts any field")
            };
            assert_eq!(listed, expected, "{of}");
        }
    }

    #[test]
    fn field_without_default_is_required() {
        const VALUES: [(&str, &str); 11] = [
            ("workflow", "w"),
            ("version", "1"),
            ("steps", "[{ id: a, tool: t }]"),
            ("id", "a"),
            ("tool", "t"),
            ("event", "e"),
            ("message", "m"),
            ("servicenow", "{ table: incident }"),
            ("cron", "'0 9 * * *'"),
            ("time_zone", "UTC"),
            ("key", "x"),
        ];
        for ReferenceTable { title: of, fields, .. } in tables() {
            let required: Vec<&str> =
                fields.iter().filter(|field| field.required).map(|field| field.name).collect();
            // A trigger needs exactly one of several optional fields.
            let required = if of == "`trigger`" { vec!["servicenow"] } else { required };
            let file_with = |names: &[&str]| {
                let fields = VALUES.iter().filter(|(name, _)| names.contains(name));
                file(
                    of,
                    &fields.map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>().join(", "),
                )
            };
            assert_eq!(error_kind(&file_with(&required)), None, "{of}");
            for missing in &required {
                let others: Vec<&str> = required.iter().copied().filter(|name| name != missing).collect();
                assert!(error_kind(&file_with(&others)).is_some(), "{of} does not require `{missing}`");
            }
        }
    }

    #[test]
    fn reference_defaults_equal_the_parser_defaults() {
        let tables = tables();
        let default_of = |of: &str, name: &str| {
            let fields = &tables.iter().find(|table| table.title == of).unwrap().fields;
            fields.iter().find(|field| field.name == name).unwrap().default.clone().unwrap()
        };
        let gate = "the `with` of `approval.gate`";
        for (of, name, expected) in [
            ("a step", "blast_radius", BlastRadius::default().to_string()),
            ("a step", "phase", Phase::default().to_string()),
            ("a step", "on_reject", OnReject::default().to_string()),
            (gate, "on_reject", OnReject::default().to_string()),
            (gate, "tier", ApprovalRequirement::default().tier.to_string()),
            (gate, "people", ApprovalRequirement::default().people.count().to_string()),
            ("the `with` of `wait.event`", "on_timeout", OnTimeout::default().to_string()),
        ] {
            assert_eq!(default_of(of, name), format!("`{expected}`"), "{name} of {of}");
        }
    }
}
