//! The reference of the file: every map that it may hold, field by field, for people who write one.
//!
//! What can be taken from the parser is: the choices, the bounds and the defaults are its own. The tests below
//! ask the parser which fields each map has, and which of them must be there.

use std::fmt::Display;

use domain::plan::{Environment, Patience, STEPS_MAX, Validation};
use domain::schedule::{ATTEMPTS_MAX, RetryPolicy, TABLE};
use domain::{Millis, WhenTaken};
use serde::Serialize;

use crate::builtin::{self, ON_TIMEOUT};
use crate::governance::{GROUPS_MAX, ON_REJECT, PATIENCE_MAX, PATIENCE_MIN, PHASES, TIERS, VALIDATIONS};
use crate::parse::ENVIRONMENTS;
use crate::retry::{BACKOFFS, DELAY_MAX, DELAY_MIN};
use crate::step::BLASTS;
use crate::ticket::WHEN_TAKEN;

/// One map of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Table {
    /// What it describes, as errors call it.
    pub of: &'static str,
    /// What it is for.
    pub says: &'static str,
    /// Its fields.
    pub fields: Vec<Field>,
}

/// One field of a map.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// What it takes.
    pub takes: String,
    /// What counts if it is left out; absent, if it must be there.
    pub default: Option<String>,
    /// What it means.
    pub means: &'static str,
}

/// Every map, in the order in which a reader meets them.
pub fn tables() -> Vec<Table> {
    vec![
        workflow(),
        approval(),
        trigger(),
        servicenow(),
        github(),
        webhook(),
        schedule(),
        ticket(),
        step(),
        retry(),
        rollback(),
        wait(),
        gate(),
    ]
}

fn workflow() -> Table {
    Table {
        of: "a workflow",
        says: "The file itself.",
        fields: vec![
            needed("workflow", "a name", "What it is called; its runs and policies know it by this name."),
            needed("version", "a whole number from 1", "Which text of it this is; grows with every change."),
            given("environment", one_of(&ENVIRONMENTS), code(word(Environment::default())), ENVIRONMENT),
            given("author", "a person", "nobody", "Who wrote it, and so does not approve what it does."),
            given("validation", one_of(&VALIDATIONS), validations(), VALIDATION),
            given("approval", "a map", "its defaults", "How long people have to answer."),
            given("auto_approve", "a number from 0 to 1", "nobody is sure enough", AUTO_APPROVE),
            given(
                "trigger",
                "a map with one field",
                "none",
                "What starts runs of it by itself, once applied.",
            ),
            given("ticket", "a text, or a map", "runs are about none", TICKET),
            given("sample", "a map", "none", SAMPLE),
            needed(
                "steps",
                &format!("a list of 1 to {STEPS_MAX} steps"),
                "What is done, one after the other.",
            ),
        ],
    }
}

const ENVIRONMENT: &str = "Where it runs. A forgotten line must not loosen anything.";
const VALIDATION: &str = "Which of the actions that policy allows a person sees all the same: every one, the first of \
                          each phase, those of critical steps, or the last. `final_only` is for steps with a low \
                          blast radius. It can only make policy stricter.";
const TICKET: &str = "What a run is about: at most one that is not over is about the same. Texts may hold expressions over \
                      `trigger`; a text alone is its `of`.";
const SAMPLE: &str =
    "An input to try it with: the console's forms begin with it. Nothing in it is an expression.";
const AUTO_APPROVE: &str = "From which `confidence` on `validation` asks nobody; never in prod, never with a high \
                            blast radius, and never where policy asks.";

fn approval() -> Table {
    let length = length(PATIENCE_MIN, PATIENCE_MAX);
    let prod = Patience::default_in(Environment::Prod);
    let elsewhere = Patience::default_in(Environment::Dev).sla;
    Table {
        of: "`approval`",
        says: "How long people have.",
        fields: vec![
            given("sla", &length, format!("`{}` in prod, `{elsewhere}` elsewhere", prod.sla), SLA),
            given(
                "expires_after",
                &length,
                code(prod.expires_after),
                "Then the question lapses, and the step fails.",
            ),
        ],
    }
}

const SLA: &str = "Then others are told that an answer is overdue; the run goes on waiting.";

fn trigger() -> Table {
    let source = |name, means| given(name, "a map", "none", means);
    Table {
        of: "`trigger`",
        says: "Exactly one of these.",
        fields: vec![
            source("servicenow", "A record that ServiceNow sends."),
            source("github", "An event that GitHub sends."),
            source("webhook", "Anything that is sent to the general door."),
            source("schedule", "The time has come."),
        ],
    }
}

fn servicenow() -> Table {
    let table = given("table", "a word", "any table", "The table of the record.");
    Table { of: "`servicenow`", says: SERVICENOW, fields: vec![table, when()] }
}

fn github() -> Table {
    let event = given("event", "a word", "any event", "The event, as `X-GitHub-Event` names it.");
    Table { of: "`github`", says: GITHUB, fields: vec![event, when()] }
}

fn webhook() -> Table {
    Table { of: "`webhook`", says: WEBHOOK, fields: vec![when()] }
}

const SERVICENOW: &str = "A trigger. `trigger` is the whole body that was sent: `trigger.table`, `trigger.record.FIELD`, and \
                          whatever else it holds.";
const GITHUB: &str = "A trigger. `trigger.event` is the event, `trigger.body` what GitHub sent: \
                      `trigger.body.repository.full_name`, say.";
const WEBHOOK: &str =
    "A trigger. `trigger.body` is what was sent: of `{\"host\": \"db1\"}`, `trigger.body.host` is `db1`.";

fn schedule() -> Table {
    Table {
        of: "`schedule`",
        says: "A trigger. `trigger.slot` is the moment that was meant, `trigger.local` the same in the time of the place.",
        fields: vec![
            needed("cron", "five fields", CRON),
            needed("time_zone", "a name of the IANA database", ZONE),
        ],
    }
}

const CRON: &str = "Minute, hour, day of month, month, day of week: numbers, names, `*`, `a-b`, `*/n` and lists. A slot \
                    starts one run; after an outage only the last one that was missed.";
const ZONE: &str = "Whose clocks count. A minute that is left out when clocks are put forward comes as much later; one that \
                    comes twice counts the first time, unless every hour counts.";

fn ticket() -> Table {
    Table {
        of: "`ticket`",
        says: "One run at a time.",
        fields: vec![
            needed("of", "a text", "What names the ticket. If it cannot be told, no run is started."),
            given("when_taken", one_of(&WHEN_TAKEN), code(word(WhenTaken::default())), WHEN_IT_IS_TAKEN),
        ],
    }
}

const WHEN_IT_IS_TAKEN: &str = "What becomes of a trigger while another run is about the same ticket: it is answered with that \
                                run, it waits until that run is over, or it is refused.";

fn when() -> Field {
    given("when", "one expression", "always", "Over `trigger`; a run is started only if it is true.")
}

fn step() -> Table {
    Table {
        of: "a step",
        says: "`retry`, `rollback`, `on_reject` and `confidence` are for calls, not for `wait.event` and \
               `approval.gate`.",
        fields: vec![
            needed("id", "a name", "What it is called; no two steps share one. Later steps read `steps.ID`."),
            needed("tool", "a tool", "What it calls."),
            given(
                "with",
                "a map",
                "an empty map",
                "What the tool is called with. Texts may hold expressions.",
            ),
            given("retry", "a map", "its defaults", "How often it is tried, and how far apart."),
            given(
                "blast_radius",
                one_of(&BLASTS),
                code("low"),
                "How far a mistake would reach. Policy sees it.",
            ),
            given(
                "critical",
                "`true` or `false`",
                code("false"),
                "Whether `critical_only` shows it to a person.",
            ),
            given(
                "phase",
                one_of(&PHASES),
                code("main"),
                "The part of the run it belongs to, for `per_phase`.",
            ),
            given(
                "on_reject",
                one_of(&ON_REJECT),
                code("fail"),
                "What becomes of the run if a person says no.",
            ),
            given("confidence", "a number from 0 to 1, or an expression", "not said", CONFIDENCE),
            given("rollback", "`auto`, or a map", "it is not taken back", ROLLBACK),
        ],
    }
}

const CONFIDENCE: &str = "How sure whoever proposed the action is; see `auto_approve`.";
const ROLLBACK: &str = "How it is taken back: by the inverse that its receipt holds, or by this call.";

fn retry() -> Table {
    let length = length(DELAY_MIN, DELAY_MAX);
    let default = RetryPolicy::default();
    Table {
        of: "`retry`",
        says: "Where the other side asks for a longer delay (`Retry-After`), that counts, up to an hour.",
        fields: vec![
            given(
                "attempts",
                format!("1 to {ATTEMPTS_MAX}"),
                code(default.attempts),
                "How many there are in all.",
            ),
            given(
                "backoff",
                one_of(&BACKOFFS),
                code("table"),
                "How delays grow: 5s, 30s, 2m, 10m; or doubling.",
            ),
            given("base", &length, code(TABLE[0]), "The first delay; for `exponential` alone."),
            given("cap", &length, code(default.cap), "No delay is longer."),
        ],
    }
}

fn rollback() -> Table {
    Table {
        of: "`rollback`",
        says: "A call that makes up for the step. It may read the step's own output.",
        fields: vec![
            needed("tool", "a tool", "What it calls; neither `wait.event` nor `approval.gate`."),
            given("with", "a map", "an empty map", "What the tool is called with."),
        ],
    }
}

fn wait() -> Table {
    Table {
        of: "the `with` of `wait.event`",
        says: "Waits for an event from outside. Its output is what came with the event.",
        fields: vec![
            needed("event", "a name", "Which event: `run signal RUN EVENT`. No expression."),
            given("timeout", patience(), code(builtin::PATIENCE_DEFAULT), "For how long."),
            given(
                "on_timeout",
                one_of(&ON_TIMEOUT),
                code("fail"),
                "Then the run fails, or goes on with `{timed_out: true}`.",
            ),
        ],
    }
}

fn gate() -> Table {
    let groups = format!("a list of at most {GROUPS_MAX} groups");
    Table {
        of: "the `with` of `approval.gate`",
        says: "Asks people a question of your own.",
        fields: vec![
            needed("message", "a text", "What they are asked. It may hold expressions."),
            given(
                "expires_after",
                patience(),
                code(builtin::PATIENCE_DEFAULT),
                "Then the question lapses, and the step fails.",
            ),
            given(
                "on_reject",
                one_of(&ON_REJECT),
                code("fail"),
                "What becomes of the run if a person says no.",
            ),
            given("tier", one_of(&TIERS), code("medium"), "How weighty the question is; the card shows it."),
            given("people", "1 or 2", code(1), "How many different people must say yes."),
            given("groups", groups, "whoever may approve", "Who is asked: members of one of these groups."),
        ],
    }
}

fn patience() -> String {
    length(builtin::PATIENCE_MIN, builtin::PATIENCE_MAX)
}

fn needed(name: &'static str, takes: &str, means: &'static str) -> Field {
    Field { name, takes: takes.to_owned(), default: None, means }
}

fn given(name: &'static str, takes: impl AsRef<str>, default: impl AsRef<str>, means: &'static str) -> Field {
    Field { name, takes: takes.as_ref().to_owned(), default: Some(default.as_ref().to_owned()), means }
}

fn one_of(words: &[&str]) -> String {
    words.iter().map(code).collect::<Vec<_>>().join(", ")
}

fn length(least: Millis, most: Millis) -> String {
    format!("`{least}` to `{most}`")
}

fn validations() -> String {
    let prod = word(Validation::default_in(Environment::Prod));
    format!("`{prod}` in prod, `{}` elsewhere", word(Validation::default_in(Environment::Dev)))
}

fn code(word: impl Display) -> String {
    format!("`{word}`")
}

/// A choice as the file writes it.
fn word(choice: impl Serialize) -> String {
    serde_json::to_value(choice).ok().and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use domain::plan::{OnReject, OnTimeout, Phase};
    use domain::{Blast, Demand, ToolName};

    use super::*;
    use crate::{Fault, parse};

    /// A file whose map `of` holds `inner`, as flow YAML, and nothing else.
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
            "`ticket`" => top(&format!("ticket: {{ {inner} }}")),
            "a step" => format!("{{ workflow: w, version: 1, steps: [{{ {inner} }}] }}"),
            "`retry`" => step(&format!("tool: t, retry: {{ {inner} }}")),
            "`rollback`" => step(&format!("tool: t, rollback: {{ {inner} }}")),
            "the `with` of `wait.event`" => step(&format!("tool: wait.event, with: {{ {inner} }}")),
            "the `with` of `approval.gate`" => step(&format!("tool: approval.gate, with: {{ {inner} }}")),
            other => panic!("say here how a file with {other} looks"),
        }
    }

    fn fault(source: &str) -> Option<Fault> {
        parse(source, &BTreeSet::from([ToolName::new("t").unwrap()])).err().map(|error| error.fault)
    }

    #[test]
    fn every_field_that_the_parser_takes_is_told_and_no_other() {
        for Table { of, fields, .. } in tables() {
            let told: Vec<&str> = fields.iter().map(|field| field.name).collect();
            let Some(Fault::UnknownField { expected, .. }) = fault(&file(of, "no_such_field: 1")) else {
                panic!("{of} takes any field")
            };
            assert_eq!(told, expected, "{of}");
        }
    }

    #[test]
    fn a_field_without_a_default_must_be_there() {
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
            ("of", "x"),
        ];
        for Table { of, fields, .. } in tables() {
            let needed: Vec<&str> =
                fields.iter().filter(|field| field.default.is_none()).map(|field| field.name).collect();
            // A trigger is one of several; each may be absent, and not all.
            let needed = if of == "`trigger`" { vec!["servicenow"] } else { needed };
            let with = |names: &[&str]| {
                let given = VALUES.iter().filter(|(name, _)| names.contains(name));
                file(
                    of,
                    &given.map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>().join(", "),
                )
            };
            assert_eq!(fault(&with(&needed)), None, "{of}");
            for missing in &needed {
                let others: Vec<&str> = needed.iter().copied().filter(|name| name != missing).collect();
                assert!(fault(&with(&others)).is_some(), "{of} does without `{missing}`");
            }
        }
    }

    #[test]
    fn a_default_that_is_a_word_is_the_one_that_counts() {
        let tables = tables();
        let told = |of: &str, name: &str| {
            let fields = &tables.iter().find(|table| table.of == of).unwrap().fields;
            fields.iter().find(|field| field.name == name).unwrap().default.clone().unwrap()
        };
        let gate = "the `with` of `approval.gate`";
        for (of, name, counts) in [
            ("a step", "blast_radius", word(Blast::default())),
            ("a step", "phase", word(Phase::default())),
            ("a step", "on_reject", word(OnReject::default())),
            (gate, "on_reject", word(OnReject::default())),
            (gate, "tier", word(Demand::default().tier)),
            (gate, "people", Demand::default().people.count().to_string()),
            ("the `with` of `wait.event`", "on_timeout", word(OnTimeout::default())),
        ] {
            assert_eq!(told(of, name), format!("`{counts}`"), "{name} of {of}");
        }
    }
}
