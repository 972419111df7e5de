//! Whole files and their error messages.

use domain::plan::{ApprovalTiming, Call, InputRefs, OnReject, OnTimeout, Phase, Undo, Validation, Work};
use domain::retry_policy::{Backoff, RetryPolicy};
use domain::{
    ApprovalRequirement, ApproverCount, BlastRadius, ConcurrencyScope, Millis, OnConflict, Source, StepSeq,
    Tier,
};
use serde_json::json;

use super::*;

fn tools() -> BTreeSet<ToolName> {
    ["transform", "http.request"].map(|tool| tool.parse().unwrap()).into()
}

fn plan(source: &str) -> Plan {
    parse(source, &tools()).unwrap_or_else(|e| panic!("{}", e.render(source)))
}

fn rendered_error(source: &str) -> String {
    parse(source, &tools()).unwrap_err().render(source)
}

/// A file with one step that has the lines `fields` after its id and tool.
fn with_step(tool: &str, fields: &str) -> String {
    format!("workflow: w\nversion: 1\nsteps:\n  - id: a\n    tool: {tool}\n{fields}")
}

fn error_message(source: &str) -> String {
    parse(source, &tools()).unwrap_err().to_string()
}

const FULL: &str = r#"
workflow: incident
version: 3
environment: staging
steps:
  - id: read
    tool: http.request
    with: { method: GET, url: "https://itsm/${ trigger.record.id }" }
    retry: { attempts: 4, backoff: exponential, base: 2s, cap: 1m }
  - id: wait-for-it
    tool: wait.event
    with: { event: change.approved, timeout: 2h, on_timeout: continue }
  - id: ask
    tool: approval.gate
    with: { message: "Restart ${ steps.read.name }?", expires_after: 30m, on_reject: pause }
  - id: restart
    tool: http.request
    with:
      url: ${ steps.read.url }
      body: { event: '${ steps["wait-for-it"] }', run: "${ run.id }" }
    blast_radius: high
    critical: true
    rollback: { tool: http.request, with: { url: "${ steps.restart.undo + steps.read.url }" } }
  - id: done
    tool: transform
    rollback: auto
"#;

#[test]
fn file_becomes_a_plan() {
    let plan = plan(FULL);
    assert_eq!(
        (plan.workflow.as_str(), plan.version, plan.environment),
        ("incident", 3, Environment::Staging)
    );
    let ids: Vec<&str> = plan.steps.iter().map(|step| step.id.as_str()).collect();
    assert_eq!(ids, ["read", "wait-for-it", "ask", "restart", "done"]);
    let retry = RetryPolicy {
        attempts: 4,
        once_if_risky: false,
        backoff: Backoff::Exponential { base: Millis::secs(2) },
        cap: Millis::mins(1),
    };
    assert_eq!(plan.steps[0].retry, retry);
    assert_eq!(plan.steps[0].reads, InputRefs { trigger: true, steps: vec![] });
    assert_eq!(
        plan.steps[1].work,
        Work::Wait {
            event: "change.approved".parse().unwrap(),
            timeout: Millis::hours(2),
            on_timeout: OnTimeout::Continue,
        }
    );
    assert_eq!(
        plan.steps[2].work,
        Work::Gate {
            message: "Restart ${ steps.read.name }?".to_owned(),
            expires_after: Millis::mins(30),
            on_reject: OnReject::Pause,
            requirement: ApprovalRequirement::default(),
        }
    );
    assert_eq!(plan.steps[2].reads, InputRefs { trigger: false, steps: vec![StepSeq(0)] });
}

#[test]
fn step_and_rollback_list_their_inputs() {
    let restart = &plan(FULL).steps[3];
    assert_eq!(restart.reads, InputRefs { trigger: false, steps: vec![StepSeq(0), StepSeq(1)] });
    assert_eq!(restart.rollback_reads, InputRefs { trigger: false, steps: vec![StepSeq(0), StepSeq(3)] });
    assert_eq!((restart.blast_radius, restart.critical), (BlastRadius::High, true));
    let expected = Call {
        connection: None,
        tool: "http.request".parse().unwrap(),
        with: json!({"url": "${ steps.restart.undo + steps.read.url }"}),
    };
    assert_eq!(restart.rollback, Some(Undo::Call(expected)));
}

#[test]
fn defaults_are_strict() {
    let plan = plan(&with_step("transform", ""));
    assert_eq!(plan.environment, Environment::Prod);
    let step = &plan.steps[0];
    let call = Call { tool: "transform".parse().unwrap(), connection: None, with: json!({}) };
    assert_eq!(step.work, Work::Call(call));
    assert_eq!((step.blast_radius, step.critical, &step.rollback), (BlastRadius::Low, false, &None));
    assert_eq!(step.retry, RetryPolicy::default());
    assert!(step.reads.is_empty());
}

#[test]
fn waits_and_gates_default_to_a_day() {
    let wait = plan(&with_step("wait.event", "    with: { event: e }\n"));
    assert!(
        matches!(wait.steps[0].work, Work::Wait { timeout, on_timeout: OnTimeout::Fail, .. } if timeout == Millis::hours(24))
    );
    let gate = plan(&with_step("approval.gate", "    with: { message: ok? }\n"));
    assert!(
        matches!(gate.steps[0].work, Work::Gate { expires_after, on_reject: OnReject::Fail, .. } if expires_after == Millis::hours(24))
    );
}

#[test]
fn byte_order_mark_is_ignored() {
    let marked = format!("\u{feff}{}", with_step("transform", ""));
    assert_eq!(plan(&marked), plan(&with_step("transform", "")));
}

#[test]
fn unknown_field_suggests_a_known_one() {
    assert_eq!(
        rendered_error(&with_step("transform", "    retrys: 3\n")),
        "workflow `w`, step `a`, line 6, column 5: unknown field `retrys` in a step; did you mean `retry`?
  |
6 |     retrys: 3
  |     ^
"
    );
}

#[test]
fn unknown_name_has_its_position_in_the_expression() {
    let source = with_step("transform", "    with:\n      value: 'é ${ 1 } then ${ env.HOME }'\n");
    assert_eq!(
        rendered_error(&source),
        "workflow `w`, step `a`, line 7, column 32: unknown name `env`; expressions can read `trigger`, `steps` and `run`
  |
7 |       value: 'é ${ 1 } then ${ env.HOME }'
  |                                ^
"
    );
}

#[test]
fn expression_in_a_block_string_has_its_own_line() {
    let source = with_step(
        "transform",
        "    with:\n      value: |\n        one ${ 1 }\n        two ${ steps.b.x }\n  - id: b\n    tool: transform\n",
    );
    assert_eq!(
        rendered_error(&source),
        "workflow `w`, step `a`, line 9, column 16: step `b` has not run at this point; this expression can read no step
  |
9 |         two ${ steps.b.x }
  |                ^
"
    );
}

#[test]
fn expression_in_an_anchor_has_its_own_position() {
    let source = "workflow: w\nversion: 1\nsteps:\n  - id: a\n    tool: transform\n    with: &w { value: \"${ steps.a }\" }\n";
    assert!(
        error_message(source).contains("step `a`, line 6, column 27: step `a` has not run"),
        "{}",
        error_message(source)
    );
}

#[test]
fn quoted_expression_error_is_at_its_opening() {
    let source = with_step("transform", "    with: { value: '${ ''a'' + nope }' }\n");
    assert!(
        error_message(&source).contains("line 6, column 21: unknown name `nope`"),
        "{}",
        error_message(&source)
    );
}

/// Checks that each source is refused with its message.
fn assert_refused(cases: &[(String, &str)]) {
    for (source, expected) in cases {
        assert_eq!(error_message(source), *expected, "{source}");
    }
}

#[test]
fn errors_in_the_file_have_position_and_fix() {
    assert_refused(&[
        (
            String::new(),
            "line 1, column 1: the file is empty; a workflow needs at least `workflow`, `version` and `steps`",
        ),
        ("- a".to_owned(), "line 1, column 1: a workflow must be a map, found a list"),
        (
            "workflow: w\nsteps: [{id: a, tool: transform}]".to_owned(),
            "workflow `w`, line 1, column 1: missing field `version` in a workflow",
        ),
        (
            "workflow: w\nversion: 0\nsteps: [{id: a, tool: transform}]".to_owned(),
            "workflow `w`, line 2, column 10: `version` is 0; it must be 1 to 4294967295",
        ),
        (
            "workflow: w\nversion: '1'\nsteps: [{id: a, tool: transform}]".to_owned(),
            "workflow `w`, line 2, column 10: `version` must be an integer, found a string",
        ),
        (
            "workflow: a b\nversion: 1\nsteps: [{id: a, tool: transform}]".to_owned(),
            "line 1, column 11: workflow name contains ' ' at position 1; allowed are letters, digits, `.`, `_` and `-`",
        ),
        (
            "workflow: w\nversion: 1\nenvironment: live\nsteps: [{id: a, tool: transform}]".to_owned(),
            "workflow `w`, line 3, column 14: `environment` is `live`; expected one of `dev`, `staging`, `prod`",
        ),
        (
            "workflow: w\nversion: 1\nsteps: []".to_owned(),
            "workflow `w`, line 3, column 1: `steps` is empty; add at least one step",
        ),
        (
            "workflow: w\nversion: 1\nsteps: {a: b}".to_owned(),
            "workflow `w`, line 3, column 8: `steps` must be a list, found a map",
        ),
        (
            "workflow: w\nversion: 1\nneeds: x\nsteps: []".to_owned(),
            "workflow `w`, line 3, column 1: `needs` is not supported by this version; remove it",
        ),
    ]);
}

#[test]
fn errors_in_a_step_have_position_and_fix() {
    let step = |fields: &str| with_step("transform", fields);
    assert_refused(&[
        (
            step("    needs: {}\n"),
            "workflow `w`, step `a`, line 6, column 5: `needs` is not supported by this version; remove it",
        ),
        (
            step("  - id: a\n    tool: transform\n"),
            "workflow `w`, step 2, line 6, column 5: duplicate step id `a`, first used on line 4; rename one of the steps",
        ),
        (
            with_step("htp.request", ""),
            "workflow `w`, step `a`, line 5, column 11: unknown tool `htp.request`; did you mean `http.request`?",
        ),
        (
            step("    with: [1]\n"),
            "workflow `w`, step `a`, line 6, column 11: `with` must be a map, found a list",
        ),
        (step("    with:\n"), "workflow `w`, step `a`, line 6, column 9: `with` must be a map, found null"),
        (
            step("    with: { 1: 2 }\n"),
            "workflow `w`, step `a`, line 6, column 13: a key must be a string, found a number; quote it",
        ),
        (
            step("    with: { a: 9007199254740993 }\n"),
            "workflow `w`, step `a`, line 6, column 16: the integer 9007199254740993 is beyond 2^53 and would be rounded; send it as a string",
        ),
    ]);
}

#[test]
fn misspelled_name_suggests_the_nearest_one() {
    assert_refused(&[
        (
            with_step("transfrom", ""),
            "workflow `w`, step `a`, line 5, column 11: unknown tool `transfrom`; did you mean `transform`?",
        ),
        (
            with_step("mail.send", ""),
            "workflow `w`, step `a`, line 5, column 11: unknown tool `mail.send`; expected one of `approval.gate`, \
             `http.request`, `transform`, `wait.event`",
        ),
        (
            with_step("transform", "    blast_radius: mediun\n"),
            "workflow `w`, step `a`, line 6, column 19: `blast_radius` is `mediun`; did you mean `medium`?",
        ),
        (
            with_step("transform", "  - { id: read, tool: transform, with: { value: '${ steps.aa.x }' } }\n"),
            "workflow `w`, step `read`, line 6, column 53: unknown step `aa`; did you mean `a`?",
        ),
    ]);
}

#[test]
fn step_without_a_valid_id_is_named_by_its_number() {
    assert_refused(&[
        (
            with_step("transform", "  - tool: transform\n"),
            "workflow `w`, step 2, line 6, column 5: missing field `id` in a step",
        ),
        (
            with_step("transform", "  - { id: 'a b', tool: transform }\n"),
            "workflow `w`, step 2, line 6, column 11: step id contains ' ' at position 1; allowed are letters, digits, \
             `.`, `_` and `-`",
        ),
    ]);
}

#[test]
fn errors_in_step_settings_have_position_and_fix() {
    let step = |fields: &str| with_step("transform", fields);
    assert_refused(&[
        (
            step("    critical: yes\n"),
            "workflow `w`, step `a`, line 6, column 15: `critical` must be `true` or `false`, found a string",
        ),
        (
            step("    blast_radius: huge\n"),
            "workflow `w`, step `a`, line 6, column 19: `blast_radius` is `huge`; expected one of `low`, `medium`, `high`",
        ),
        (
            step("    retry: { attempts: 21 }\n"),
            "workflow `w`, step `a`, line 6, column 24: `attempts` is 21; it must be 1 to 20",
        ),
        (
            step("    retry: { attempts: 1.5 }\n"),
            "workflow `w`, step `a`, line 6, column 24: `attempts` is 1.5; it must be 1 to 20",
        ),
        (
            step("    retry: { attempts: 20, backoff: exponential, base: 1h, cap: 24h }\n"),
            "workflow `w`, step `a`, line 6, column 12: the delays of `retry` take 367h together; the maximum is 24h; \
             reduce `attempts` or `cap`",
        ),
        (
            step("    retry: { base: 1s }\n"),
            "workflow `w`, step `a`, line 6, column 14: `base` requires `backoff: exponential`; add it or remove `base`",
        ),
        (
            step("    retry: { cap: 30 }\n"),
            "workflow `w`, step `a`, line 6, column 19: `cap` must be a duration such as `30s`, `10m` or `2h`, found a number",
        ),
        (
            step("    retry: { cap: 3w }\n"),
            "workflow `w`, step `a`, line 6, column 19: \"3w\" is not a duration; write a whole number and a unit: `500ms`, `30s`, `10m`, `2h` or `3d`",
        ),
        (
            step("    rollback: manual\n"),
            "workflow `w`, step `a`, line 6, column 15: `rollback` must be `auto`, or a map with `tool` and `with`, found a string",
        ),
        (
            step("    rollback: { tool: wait.event }\n"),
            "workflow `w`, step `a`, line 6, column 23: `wait.event` cannot be a rollback; use a tool that performs a call",
        ),
        (
            step("    with: { value: '${ steps.z }' }\n"),
            "workflow `w`, step `a`, line 6, column 24: unknown step `z`; this expression can read no step",
        ),
        (
            step("    with: { value: '${ 1' }\n"),
            "workflow `w`, step `a`, line 6, column 21: `${` is not closed; add `}`, or write `$${` for a literal `${`",
        ),
    ]);
}

#[test]
fn errors_in_waits_and_gates_have_position_and_fix() {
    assert_refused(&[
        (
            with_step("wait.event", ""),
            "workflow `w`, step `a`, line 4, column 5: missing field `with` in a step",
        ),
        (
            with_step("wait.event", "    with: { event: '${ trigger.e }' }\n"),
            "workflow `w`, step `a`, line 6, column 20: `event` must be a literal; expressions are not allowed here",
        ),
        (
            with_step("wait.event", "    with: { event: e, timeout: 0s }\n"),
            "workflow `w`, step `a`, line 6, column 32: `timeout` is 0s; it must be 1s to 2160h",
        ),
        (
            with_step("wait.event", "    retry: {}\n    with: { event: e }\n"),
            "workflow `w`, step `a`, line 6, column 5: `wait.event` does not support `retry`, because it has no effect and is not retried; remove it",
        ),
        (
            with_step("approval.gate", "    with: { message: m }\n    rollback: auto\n"),
            "workflow `w`, step `a`, line 7, column 5: `approval.gate` does not support `rollback`, because it has no effect and is not retried; remove it",
        ),
        (
            with_step("approval.gate", "    with: { message: 5 }\n"),
            "workflow `w`, step `a`, line 6, column 22: `message` must be a string, found a number",
        ),
    ]);
}

#[test]
fn step_reads_itself_only_in_its_rollback() {
    let undo = "    rollback: { tool: transform, with: { value: '${ steps.a.id }' } }\n";
    assert_eq!(plan(&with_step("transform", undo)).steps[0].rollback_reads.steps, [StepSeq(0)]);
    let own = with_step("transform", "    with: { value: '${ steps.a.id }' }\n");
    assert!(error_message(&own).contains("step `a` has not run at this point"));
}

#[test]
fn expressions_are_counted_per_file() {
    let list = |n: usize| format!("    with: {{ value: [{}] }}\n", vec!["'${ 1 }'"; n].join(", "));
    assert!(parse(&with_step("transform", &list(EXPRESSIONS_MAX)), &tools()).is_ok());
    assert!(
        error_message(&with_step("transform", &list(EXPRESSIONS_MAX + 1)))
            .contains("more than 256 expressions")
    );
}

#[test]
fn number_of_steps_is_limited() {
    let step = |i: usize| format!("- {{id: s{i}, tool: transform}}\n");
    let steps = |n: usize| (0..n).map(step).collect::<Vec<_>>().concat();
    let source = |n: usize| format!("workflow: w\nversion: 1\nsteps:\n{}", steps(n));
    assert_eq!(plan(&source(STEPS_MAX)).steps.len(), STEPS_MAX);
    assert!(
        error_message(&source(STEPS_MAX + 1)).contains("the workflow has 65 steps; at most 64 are allowed")
    );
}

const WITH_APPROVALS: &str = r#"
workflow: w
version: 1
environment: dev
author: ada
validation: per_phase
approval: { sla: 5m, expires_after: 2h }
auto_approve: 0.9
steps:
  - { id: look, tool: transform, with: { value: 1 }, phase: prechecks }
  - { id: act, tool: transform, with: { value: 1 }, on_reject: pause, confidence: "${ steps.look.confidence }" }
  - id: ask
    tool: approval.gate
    with: { message: Go?, tier: high, people: 2, groups: [dba, sre] }
"#;

#[test]
fn approval_settings_are_parsed() {
    let plan = plan(WITH_APPROVALS);
    assert_eq!(plan.author.unwrap().as_str(), "ada");
    assert_eq!((plan.validation, plan.auto_approve), (Validation::PerPhase, Some(900)));
    assert_eq!(
        plan.approval_timing,
        ApprovalTiming { sla: Millis::mins(5), expires_after: Millis::hours(2) }
    );
    assert_eq!((plan.steps[0].phase, plan.steps[1].phase), (Phase::Prechecks, Phase::Main));
    assert_eq!(plan.steps[1].on_reject, OnReject::Pause);
    assert_eq!(plan.steps[1].reads.steps, [StepSeq(0)]);
    let Work::Gate { requirement, .. } = &plan.steps[2].work else { panic!("the last step is a gate") };
    assert_eq!(
        (requirement.tier, requirement.people, requirement.groups.len()),
        (Tier::High, ApproverCount::Two, 2)
    );
}

#[test]
fn sample_is_stored_unchanged() {
    let sampled = |sample: &str| {
        let source =
            format!("workflow: w\nversion: 1\nsample: {sample}\nsteps: [{{ id: a, tool: transform }}]\n");
        parse(&source, &tools())
    };
    let stored = sampled("{ host: db1, count: 2, text: '${ trigger.host }' }").unwrap().sample;
    assert_eq!(stored, Some(json!({ "host": "db1", "count": 2, "text": "${ trigger.host }" })));
    assert_eq!(plan(WITH_APPROVALS).sample, None);
    let refused = sampled("[db1]").unwrap_err().to_string();
    assert!(refused.contains("`sample`") && refused.contains("a map"), "{refused}");
}

#[test]
fn approval_defaults_are_strict_in_prod() {
    let prod = plan("workflow: w\nversion: 1\nsteps:\n  - { id: a, tool: transform }\n");
    assert_eq!((prod.validation, prod.auto_approve), (Validation::PerStep, None));
    assert_eq!(
        prod.approval_timing,
        ApprovalTiming { sla: Millis::mins(10), expires_after: Millis::hours(24) }
    );
}

#[test]
fn approval_settings_are_bounded() {
    for (from, to, message) in [
        ("validation: per_phase", "validation: never", "`validation`"),
        ("auto_approve: 0.9", "auto_approve: 1.5", "1.5"),
        ("people: 2", "people: 3", "`people`"),
        ("sla: 5m", "sla: 0s", "`sla`"),
        ("phase: prechecks", "phase: first", "`phase`"),
        ("confidence: \"${ steps.look.confidence }\"", "confidence: 2", "`confidence`"),
        ("validation: per_phase", "on_timeout: approve", "on_timeout"),
    ] {
        let error = parse(&WITH_APPROVALS.replace(from, to), &tools()).unwrap_err().to_string();
        assert!(error.contains(message), "{to}: {error}");
    }
    let medium =
        WITH_APPROVALS.replace("per_phase", "final_only").replace("phase: prechecks", "blast_radius: medium");
    assert!(parse(&medium, &tools()).unwrap_err().to_string().contains("requires `blast_radius: low`"));
}

fn triggered(trigger: &str) -> Result<Plan, WorkflowError> {
    let tools = ["transform".parse().unwrap()].into();
    let steps = "steps:\n  - { id: a, tool: transform, with: { value: 1 } }\n";
    parse(&format!("workflow: w\nversion: 1\ntrigger: {trigger}\n{steps}"), &tools)
}

#[test]
fn trigger_has_source_topic_and_condition() {
    let plan =
        triggered("{ servicenow: { table: incident, when: '${ trigger.record.priority == \"1\" }' } }");
    let by = plan.unwrap().triggered_by.unwrap();
    assert_eq!((by.source, by.topic.as_deref()), (Source::ServiceNow, Some("incident")));
    assert_eq!(by.when.as_deref(), Some("${ trigger.record.priority == \"1\" }"));
    assert_eq!(triggered("{ webhook: {} }").unwrap().triggered_by.unwrap().when, None);
}

#[test]
fn invalid_trigger_is_refused_with_its_position() {
    for (trigger, message) in [
        ("{}", "exactly one"),
        ("{ servicenow: {}, github: {} }", "exactly one"),
        ("{ jira: {} }", "unknown field `jira`"),
        ("{ github: { table: incident } }", "unknown field `table`"),
        ("{ servicenow: { table: 'a b' } }", "invalid table or event name"),
        ("{ servicenow: { when: 'priority is 1' } }", "must be one expression"),
        ("{ servicenow: { when: '${ steps.a.x }' } }", "can read no step"),
        ("{ servicenow: { when: '${ nope }' } }", "unknown name"),
        ("{ schedule: { cron: '0 9 * * *' } }", "missing field `time_zone`"),
        (
            "{ schedule: { cron: '0 9 * *', time_zone: UTC } }",
            "line 3, column 30: a cron expression has five fields",
        ),
        ("{ schedule: { cron: '0 9 31 2 *', time_zone: UTC } }", "never matches"),
        (
            "{ schedule: { cron: '0 9 * * *', time_zone: Europe/Atlantis } }",
            "line 3, column 54: unknown time zone",
        ),
    ] {
        let error = triggered(trigger).unwrap_err().to_string();
        assert!(error.starts_with("workflow `w`, line 3") && error.contains(message), "{trigger}: {error}");
    }
}

#[test]
fn condition_must_be_true() {
    let matches = |when: &str, event: Value| {
        let plan = triggered(&format!("{{ servicenow: {{ when: '{when}' }} }}")).unwrap();
        crate::CompiledPlan::compile(plan).unwrap().matches(&std::sync::Arc::new(event))
    };
    let when = "${ trigger.record.priority == \"1\" }";
    assert_eq!(matches(when, json!({ "record": { "priority": "1" } })), Ok(true));
    assert_eq!(matches(when, json!({ "record": { "priority": "2" } })), Ok(false));
    assert!(matches(when, json!({ "record": {} })).is_err(), "a missing key is an error");
    assert_eq!(matches("${ trigger.record }", json!({ "record": "true" })), Ok(false));
}

fn with_concurrency(concurrency: &str) -> Result<Plan, WorkflowError> {
    let steps = "steps:\n  - { id: a, tool: transform, with: { value: 1 } }\n";
    parse(&format!("workflow: w\nversion: 1\nconcurrency: {concurrency}\n{steps}"), &tools())
}

#[test]
fn concurrency_is_a_key_or_a_map() {
    let key = "'INC ${ trigger.record.number }'";
    let (tenant, workflow) = (ConcurrencyScope::Tenant, ConcurrencyScope::Workflow);
    for (concurrency, on_conflict, scope) in [
        (key.to_owned(), OnConflict::Join, tenant),
        (format!("{{ key: {key} }}"), OnConflict::Join, tenant),
        (format!("{{ key: {key}, on_conflict: queue }}"), OnConflict::Queue, tenant),
        (format!("{{ key: {key}, on_conflict: reject, scope: workflow }}"), OnConflict::Reject, workflow),
    ] {
        let plan = with_concurrency(&concurrency).unwrap();
        let rule = plan.concurrency.clone().unwrap();
        assert_eq!((rule.on_conflict, rule.scope), (on_conflict, scope), "{concurrency}");
        let compiled = crate::CompiledPlan::compile(plan).unwrap();
        let key = |event| compiled.concurrency_key(&std::sync::Arc::new(event)).unwrap();
        assert_eq!(key(json!({ "record": { "number": 7 } })), Ok("INC 7".to_owned()));
        assert!(key(json!({ "record": {} })).is_err(), "a missing value is no key");
    }
}

#[test]
fn invalid_concurrency_is_refused_with_its_position() {
    for (concurrency, message) in [
        ("[a]", "line 3, column 14: `concurrency` must be a string or a map, found a list"),
        ("''", "line 3, column 14: the concurrency key is empty"),
        ("{ on_conflict: join }", "line 3, column 14: missing field `key` in `concurrency`"),
        ("{ key: x, then: join }", "line 3, column 24: unknown field `then`"),
        (
            "{ key: x, on_conflict: wait }",
            "line 3, column 37: `on_conflict` is `wait`; expected one of `join`",
        ),
        ("{ key: x, scope: all }", "line 3, column 31: `scope` is `all`; expected one of `tenant`"),
        ("'${ steps.a.x }'", "can read no step"),
        ("'${ nope }'", "unknown name"),
        ("'x ${ run.id }'", "line 3, column 14: the concurrency key reads `run`"),
    ] {
        let error = with_concurrency(concurrency).unwrap_err().to_string();
        assert!(
            error.starts_with("workflow `w`, line 3") && error.contains(message),
            "{concurrency}: {error}"
        );
    }
}

#[test]
fn schedule_has_cron_and_time_zone() {
    let plan = triggered("{ schedule: { cron: '30 2 * * mon-fri', time_zone: europe/berlin } }").unwrap();
    let by = plan.triggered_by.unwrap();
    let schedule = by.schedule.unwrap();
    assert_eq!((by.source, schedule.cron.as_str()), (Source::Schedule, "30 2 * * mon-fri"));
    assert_eq!(schedule.zone, "Europe/Berlin");
}

#[test]
fn literal_larger_than_an_action_is_refused() {
    let body =
        |bytes: usize| with_step("transform", &format!("    with: {{ value: '{}' }}\n", "x".repeat(bytes)));
    plan(&body(119 * 1024));
    let error = parse(&body(121 * 1024), &tools()).unwrap_err();
    assert!(error.to_string().contains("`with` has"), "{error}");
    assert!(error.position.line > 3, "{error:?}");
}
