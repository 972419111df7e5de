//! Whole files, and the messages their authors read.

use domain::plan::{Call, OnReject, OnTimeout, Patience, Phase, Reads, Undo, Validation, Work};
use domain::schedule::{Backoff, RetryPolicy};
use domain::{Blast, Demand, Millis, People, Source, StepSeq, Tier, WhenTaken};
use serde_json::json;

use super::*;

fn tools() -> BTreeSet<ToolName> {
    ["transform", "http.request"].map(|tool| tool.parse().unwrap()).into()
}

fn plan(source: &str) -> Plan {
    parse(source, &tools()).unwrap_or_else(|e| panic!("{}", e.render(source)))
}

fn rendered(source: &str) -> String {
    parse(source, &tools()).unwrap_err().render(source)
}

/// A file with one step, which has the lines of `fields` beside its id and tool.
fn with_step(tool: &str, fields: &str) -> String {
    format!("workflow: w\nversion: 1\nsteps:\n  - id: a\n    tool: {tool}\n{fields}")
}

fn message(source: &str) -> String {
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
fn a_whole_file_becomes_a_plan() {
    let plan = plan(FULL);
    assert_eq!(
        (plan.workflow.as_str(), plan.version, plan.environment),
        ("incident", 3, Environment::Staging)
    );
    let ids: Vec<&str> = plan.steps.iter().map(|step| step.id.as_str()).collect();
    assert_eq!(ids, ["read", "wait-for-it", "ask", "restart", "done"]);
    let retry = RetryPolicy {
        attempts: 4,
        backoff: Backoff::Exponential { base: Millis::secs(2) },
        cap: Millis::mins(1),
    };
    assert_eq!(plan.steps[0].retry, retry);
    assert_eq!(plan.steps[0].reads, Reads { trigger: true, steps: vec![] });
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
            demand: Demand::default(),
        }
    );
    assert_eq!(plan.steps[2].reads, Reads { trigger: false, steps: vec![StepSeq(0)] });
}

#[test]
fn a_step_knows_what_it_and_its_undoing_read() {
    let restart = &plan(FULL).steps[3];
    assert_eq!(restart.reads, Reads { trigger: false, steps: vec![StepSeq(0), StepSeq(1)] });
    assert_eq!(restart.rollback_reads, Reads { trigger: false, steps: vec![StepSeq(0), StepSeq(3)] });
    assert_eq!((restart.blast, restart.critical), (Blast::High, true));
    let expected = Call {
        tool: "http.request".parse().unwrap(),
        with: json!({"url": "${ steps.restart.undo + steps.read.url }"}),
    };
    assert_eq!(restart.rollback, Some(Undo::Call(expected)));
}

#[test]
fn what_is_left_out_is_careful() {
    let plan = plan(&with_step("transform", ""));
    assert_eq!(plan.environment, Environment::Prod);
    let step = &plan.steps[0];
    assert_eq!(step.work, Work::Call(Call { tool: "transform".parse().unwrap(), with: json!({}) }));
    assert_eq!((step.blast, step.critical, &step.rollback), (Blast::Low, false, &None));
    assert_eq!(step.retry, RetryPolicy::default());
    assert!(step.reads.is_empty());
}

#[test]
fn waits_and_questions_stand_for_a_day() {
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
fn a_byte_order_mark_is_no_part_of_the_file() {
    let marked = format!("\u{feff}{}", with_step("transform", ""));
    assert_eq!(plan(&marked), plan(&with_step("transform", "")));
}

#[test]
fn an_unknown_field_is_shown_with_what_is_known() {
    assert_eq!(
        rendered(&with_step("transform", "    retrys: 3\n")),
        "line 6, column 5: unknown field `retrys` in a step; expected one of `id`, `tool`, `with`, `retry`, \
         `blast_radius`, `critical`, `phase`, `on_reject`, `confidence`, `rollback`
  |
6 |     retrys: 3
  |     ^
"
    );
}

#[test]
fn an_unknown_name_is_shown_inside_its_expression() {
    let source = with_step("transform", "    with:\n      value: 'é ${ 1 } then ${ env.HOME }'\n");
    assert_eq!(
        rendered(&source),
        "line 7, column 32: unknown name `env`; an expression reads `trigger`, `steps` and `run`
  |
7 |       value: 'é ${ 1 } then ${ env.HOME }'
  |                                ^
"
    );
}

#[test]
fn an_expression_in_a_block_of_text_has_its_own_line() {
    let source = with_step(
        "transform",
        "    with:\n      value: |\n        one ${ 1 }\n        two ${ steps.b.x }\n  - id: b\n    tool: transform\n",
    );
    assert_eq!(
        rendered(&source),
        "line 9, column 16: step `b` has not run yet at this point; this can read no step
  |
9 |         two ${ steps.b.x }
  |                ^
"
    );
}

#[test]
fn an_expression_behind_an_anchor_is_shown_where_it_is_written() {
    let source = "workflow: w\nversion: 1\nsteps:\n  - id: a\n    tool: transform\n    with: &w { value: \"${ steps.a }\" }\n";
    assert!(
        message(source).starts_with("line 6, column 27: step `a` has not run yet"),
        "{}",
        message(source)
    );
}

#[test]
fn an_expression_that_yaml_spells_differently_is_shown_at_its_opening() {
    let source = with_step("transform", "    with: { value: '${ ''a'' + nope }' }\n");
    assert!(message(&source).starts_with("line 6, column 21: unknown name `nope`"), "{}", message(&source));
}

/// Each source is refused with the message beside it.
fn all_refused(mistakes: &[(String, &str)]) {
    for (source, expected) in mistakes {
        assert_eq!(message(source), *expected, "{source}");
    }
}

#[test]
fn a_mistake_in_the_file_has_a_place_and_a_way_out() {
    all_refused(&[
        (
            String::new(),
            "line 1, column 1: the file is empty; a workflow has at least `workflow`, `version` and `steps`",
        ),
        ("- a".to_owned(), "line 1, column 1: a workflow must be a map, found a list"),
        (
            "workflow: w\nsteps: [{id: a, tool: transform}]".to_owned(),
            "line 1, column 1: a workflow needs the field `version`",
        ),
        (
            "workflow: w\nversion: 0\nsteps: [{id: a, tool: transform}]".to_owned(),
            "line 2, column 10: `version` is 0; allowed is 1 to 4294967295",
        ),
        (
            "workflow: w\nversion: '1'\nsteps: [{id: a, tool: transform}]".to_owned(),
            "line 2, column 10: `version` must be a whole number, found a text",
        ),
        (
            "workflow: a b\nversion: 1\nsteps: [{id: a, tool: transform}]".to_owned(),
            "line 1, column 11: workflow name holds ' ' at position 1; allowed are letters, digits, `.`, `_` and `-`",
        ),
        (
            "workflow: w\nversion: 1\nenvironment: live\nsteps: [{id: a, tool: transform}]".to_owned(),
            "line 3, column 14: `environment` is `live`; expected one of `dev`, `staging`, `prod`",
        ),
        (
            "workflow: w\nversion: 1\nsteps: []".to_owned(),
            "line 3, column 1: there are no steps; a workflow has at least one",
        ),
        (
            "workflow: w\nversion: 1\nsteps: {a: b}".to_owned(),
            "line 3, column 8: `steps` must be a list, found a map",
        ),
        (
            "workflow: w\nversion: 1\nneeds: x\nsteps: []".to_owned(),
            "line 3, column 1: `needs` is not supported by this version; leave it out",
        ),
    ]);
}

#[test]
fn a_mistake_in_a_step_has_a_place_and_a_way_out() {
    let step = |fields: &str| with_step("transform", fields);
    all_refused(&[
        (step("    needs: {}\n"), "line 6, column 5: `needs` is not supported by this version; leave it out"),
        (
            step("  - id: a\n    tool: transform\n"),
            "line 6, column 5: the step `a` stands twice, first on line 4; give one of them another id",
        ),
        (
            with_step("htp.request", ""),
            "line 5, column 11: unknown tool `htp.request`; there are `approval.gate`, `http.request`, `transform`, `wait.event`",
        ),
        (step("    with: [1]\n"), "line 6, column 11: `with` must be a map, found a list"),
        (step("    with:\n"), "line 6, column 9: `with` must be a map, found nothing"),
        (
            step("    with: { 1: 2 }\n"),
            "line 6, column 13: a key must be a text, found a number; put it in quotes",
        ),
        (
            step("    with: { a: 9007199254740993 }\n"),
            "line 6, column 16: the integer 9007199254740993 is beyond 2^53 and would be rounded; send it as a string",
        ),
    ]);
}

#[test]
fn a_mistake_in_how_a_step_is_run_has_a_place_and_a_way_out() {
    let step = |fields: &str| with_step("transform", fields);
    all_refused(&[
        (
            step("    critical: yes\n"),
            "line 6, column 15: `critical` must be `true` or `false`, found a text",
        ),
        (
            step("    blast_radius: huge\n"),
            "line 6, column 19: `blast_radius` is `huge`; expected one of `low`, `medium`, `high`",
        ),
        (step("    retry: { attempts: 21 }\n"), "line 6, column 24: `attempts` is 21; allowed is 1 to 20"),
        (step("    retry: { attempts: 1.5 }\n"), "line 6, column 24: `attempts` is 1.5; allowed is 1 to 20"),
        (
            step("    retry: { base: 1s }\n"),
            "line 6, column 14: `base` is only used by `backoff: exponential`; add that, or leave `base` out",
        ),
        (
            step("    retry: { cap: 30 }\n"),
            "line 6, column 19: `cap` must be a length of time such as `30s`, `10m` or `2h`, found a number",
        ),
        (
            step("    retry: { cap: 3w }\n"),
            "line 6, column 19: \"3w\" is not a length of time; write a whole number and a unit: `500ms`, `30s`, `10m`, `2h` or `3d`",
        ),
        (
            step("    rollback: manual\n"),
            "line 6, column 15: `rollback` must be `auto`, or a map with `tool` and `with`, found a text",
        ),
        (
            step("    rollback: { tool: wait.event }\n"),
            "line 6, column 23: `wait.event` cannot undo a step; name a tool that is called",
        ),
        (
            step("    with: { value: '${ steps.z }' }\n"),
            "line 6, column 24: there is no step `z`; this can read no step",
        ),
        (
            step("    with: { value: '${ 1' }\n"),
            "line 6, column 21: this `${` is not closed; add `}`, or write `$${` for a plain `${`",
        ),
    ]);
}

#[test]
fn a_mistake_in_a_wait_or_a_question_has_a_place_and_a_way_out() {
    all_refused(&[
        (with_step("wait.event", ""), "line 4, column 5: a step needs the field `with`"),
        (
            with_step("wait.event", "    with: { event: '${ trigger.e }' }\n"),
            "line 6, column 20: `event` must be written out; an expression is not allowed here",
        ),
        (
            with_step("wait.event", "    with: { event: e, timeout: 0s }\n"),
            "line 6, column 32: `timeout` is 0s; allowed is 1s to 2160h",
        ),
        (
            with_step("wait.event", "    retry: {}\n    with: { event: e }\n"),
            "line 6, column 5: `wait.event` takes no `retry`: it changes nothing and is not tried again; leave it out",
        ),
        (
            with_step("approval.gate", "    with: { message: m }\n    rollback: auto\n"),
            "line 7, column 5: `approval.gate` takes no `rollback`: it changes nothing and is not tried again; leave it out",
        ),
        (
            with_step("approval.gate", "    with: { message: 5 }\n"),
            "line 6, column 22: `message` must be a text, found a number",
        ),
    ]);
}

#[test]
fn a_step_reads_itself_only_in_its_undoing() {
    let undo = "    rollback: { tool: transform, with: { value: '${ steps.a.id }' } }\n";
    assert_eq!(plan(&with_step("transform", undo)).steps[0].rollback_reads.steps, [StepSeq(0)]);
    let own = with_step("transform", "    with: { value: '${ steps.a.id }' }\n");
    assert!(message(&own).contains("step `a` has not run yet at this point"));
}

#[test]
fn expressions_are_counted_over_the_whole_file() {
    let list = |n: usize| format!("    with: {{ value: [{}] }}\n", vec!["'${ 1 }'"; n].join(", "));
    assert!(parse(&with_step("transform", &list(EXPRESSIONS_MAX)), &tools()).is_ok());
    assert!(
        message(&with_step("transform", &list(EXPRESSIONS_MAX + 1))).contains("more than 256 expressions")
    );
}

#[test]
fn sixty_four_steps_are_allowed_and_one_more_is_not() {
    let step = |i: usize| format!("- {{id: s{i}, tool: transform}}\n");
    let steps = |n: usize| (0..n).map(step).collect::<Vec<_>>().concat();
    let source = |n: usize| format!("workflow: w\nversion: 1\nsteps:\n{}", steps(n));
    assert_eq!(plan(&source(STEPS_MAX)).steps.len(), STEPS_MAX);
    assert!(message(&source(STEPS_MAX + 1)).contains("there are 65 steps; at most 64 are allowed"));
}

const GOVERNED: &str = r#"
workflow: w
version: 1
environment: dev
author: ada
validation: per_phase
approval: { sla: 5m, expires_after: 2h }
auto_approve: 0.9
steps:
  - { id: look, tool: transform, with: { value: 1 }, phase: prechecks }
  - { id: act, tool: transform, with: { value: 1 }, on_reject: pause, confidence: "${ steps.look.sure }" }
  - id: ask
    tool: approval.gate
    with: { message: Go?, tier: high, people: 2, groups: [dba, sre] }
"#;

#[test]
fn a_file_says_who_decides() {
    let plan = plan(GOVERNED);
    assert_eq!(plan.author.unwrap().as_str(), "ada");
    assert_eq!((plan.validation, plan.auto_approve), (Validation::PerPhase, Some(900)));
    assert_eq!(plan.patience, Patience { sla: Millis::mins(5), expires_after: Millis::hours(2) });
    assert_eq!((plan.steps[0].phase, plan.steps[1].phase), (Phase::Prechecks, Phase::Main));
    assert_eq!(plan.steps[1].on_reject, OnReject::Pause);
    assert_eq!(plan.steps[1].reads.steps, [StepSeq(0)]);
    let Work::Gate { demand, .. } = &plan.steps[2].work else { panic!("the last step is a gate") };
    assert_eq!((demand.tier, demand.people, demand.groups.len()), (Tier::High, People::Two, 2));
}

#[test]
fn an_input_to_try_a_workflow_with_is_kept_as_it_stands() {
    let sampled = |sample: &str| {
        let source =
            format!("workflow: w\nversion: 1\nsample: {sample}\nsteps: [{{ id: a, tool: transform }}]\n");
        parse(&source, &tools())
    };
    let kept = sampled("{ host: db1, count: 2, text: '${ trigger.host }' }").unwrap().sample;
    assert_eq!(kept, Some(json!({ "host": "db1", "count": 2, "text": "${ trigger.host }" })));
    assert_eq!(plan(GOVERNED).sample, None);
    let refused = sampled("[db1]").unwrap_err().to_string();
    assert!(refused.contains("`sample`") && refused.contains("a map"), "{refused}");
}

#[test]
fn what_a_file_does_not_say_is_strict_in_production() {
    let prod = plan("workflow: w\nversion: 1\nsteps:\n  - { id: a, tool: transform }\n");
    assert_eq!((prod.validation, prod.auto_approve), (Validation::PerStep, None));
    assert_eq!(prod.patience, Patience { sla: Millis::mins(10), expires_after: Millis::hours(24) });
}

#[test]
fn rules_about_who_decides_are_held_to_their_bounds() {
    for (from, to, says) in [
        ("validation: per_phase", "validation: never", "`validation`"),
        ("auto_approve: 0.9", "auto_approve: 1.5", "1.5"),
        ("people: 2", "people: 3", "`people`"),
        ("sla: 5m", "sla: 0s", "`sla`"),
        ("phase: prechecks", "phase: first", "`phase`"),
        ("confidence: \"${ steps.look.sure }\"", "confidence: 2", "`confidence`"),
        ("validation: per_phase", "on_timeout: approve", "on_timeout"),
    ] {
        let error = parse(&GOVERNED.replace(from, to), &tools()).unwrap_err().to_string();
        assert!(error.contains(says), "{to}: {error}");
    }
    let far = GOVERNED.replace("per_phase", "final_only").replace("phase: prechecks", "blast_radius: medium");
    assert!(parse(&far, &tools()).unwrap_err().to_string().contains("low blast radius"));
}

fn triggered(trigger: &str) -> Result<Plan, WorkflowError> {
    let tools = ["transform".parse().unwrap()].into();
    let steps = "steps:\n  - { id: a, tool: transform, with: { value: 1 } }\n";
    parse(&format!("workflow: w\nversion: 1\ntrigger: {trigger}\n{steps}"), &tools)
}

#[test]
fn a_trigger_says_where_it_comes_from_what_it_is_about_and_when_it_counts() {
    let plan =
        triggered("{ servicenow: { table: incident, when: '${ trigger.record.priority == \"1\" }' } }");
    let by = plan.unwrap().triggered_by.unwrap();
    assert_eq!((by.source, by.about.as_deref()), (Source::ServiceNow, Some("incident")));
    assert_eq!(by.when.as_deref(), Some("${ trigger.record.priority == \"1\" }"));
    assert_eq!(triggered("{ webhook: {} }").unwrap().triggered_by.unwrap().when, None);
}

#[test]
fn a_trigger_that_cannot_be_used_is_refused_where_it_stands() {
    for (trigger, says) in [
        ("{}", "exactly one"),
        ("{ servicenow: {}, github: {} }", "exactly one"),
        ("{ jira: {} }", "unknown field `jira`"),
        ("{ github: { table: incident } }", "unknown field `table`"),
        ("{ servicenow: { table: 'a b' } }", "is no name of a table"),
        ("{ servicenow: { when: 'priority is 1' } }", "is one expression"),
        ("{ servicenow: { when: '${ steps.a.x }' } }", "can read no step"),
        ("{ servicenow: { when: '${ nope }' } }", "unknown name"),
        ("{ schedule: { cron: '0 9 * * *' } }", "needs the field `time_zone`"),
        ("{ schedule: { cron: '0 9 * *', time_zone: UTC } }", "line 3, column 30: a cron has five fields"),
        ("{ schedule: { cron: '0 9 31 2 *', time_zone: UTC } }", "never comes"),
        (
            "{ schedule: { cron: '0 9 * * *', time_zone: Europe/Atlantis } }",
            "line 3, column 54: there is no time zone",
        ),
    ] {
        let error = triggered(trigger).unwrap_err().to_string();
        assert!(error.starts_with("line 3") && error.contains(says), "{trigger}: {error}");
    }
}

#[test]
fn a_condition_is_true_or_it_does_not_hold() {
    let wants = |when: &str, came: Value| {
        let plan = triggered(&format!("{{ servicenow: {{ when: '{when}' }} }}")).unwrap();
        crate::CompiledPlan::compile(plan).unwrap().wants(&std::sync::Arc::new(came))
    };
    let when = "${ trigger.record.priority == \"1\" }";
    assert_eq!(wants(when, json!({ "record": { "priority": "1" } })), Ok(true));
    assert_eq!(wants(when, json!({ "record": { "priority": "2" } })), Ok(false));
    assert!(wants(when, json!({ "record": {} })).is_err(), "what is missing is no answer");
    assert_eq!(wants("${ trigger.record }", json!({ "record": "true" })), Ok(false));
}

fn ticketed(ticket: &str) -> Result<Plan, WorkflowError> {
    let steps = "steps:\n  - { id: a, tool: transform, with: { value: 1 } }\n";
    parse(&format!("workflow: w\nversion: 1\nticket: {ticket}\n{steps}"), &tools())
}

#[test]
fn a_ticket_is_named_by_a_text_or_with_what_becomes_of_a_second_run() {
    for (ticket, when_taken) in [
        ("'INC ${ trigger.record.number }'", WhenTaken::Join),
        ("{ of: 'INC ${ trigger.record.number }' }", WhenTaken::Join),
        ("{ of: 'INC ${ trigger.record.number }', when_taken: queue }", WhenTaken::Queue),
        ("{ of: 'INC ${ trigger.record.number }', when_taken: refuse }", WhenTaken::Refuse),
    ] {
        let plan = ticketed(ticket).unwrap();
        assert_eq!(plan.ticket.as_ref().map(|rule| rule.when_taken), Some(when_taken), "{ticket}");
        let compiled = crate::CompiledPlan::compile(plan).unwrap();
        let of = |came| compiled.ticket(&std::sync::Arc::new(came)).unwrap();
        assert_eq!(of(json!({ "record": { "number": 7 } })), Ok("INC 7".to_owned()));
        assert!(of(json!({ "record": {} })).is_err(), "what is missing is no ticket");
    }
}

#[test]
fn a_ticket_that_cannot_be_used_is_refused_where_it_stands() {
    for (ticket, says) in [
        ("[a]", "line 3, column 9: `ticket` must be a text or a map, found a list"),
        ("''", "line 3, column 9: `ticket` is empty"),
        ("{ when_taken: join }", "line 3, column 9: `ticket` needs the field `of`"),
        ("{ of: x, then: join }", "line 3, column 18: unknown field `then`"),
        ("{ of: x, when_taken: wait }", "line 3, column 30: `when_taken` is `wait`; expected one of `join`"),
        ("'${ steps.a.x }'", "can read no step"),
        ("'${ nope }'", "unknown name"),
        ("'x ${ run.id }'", "line 3, column 9: `ticket` reads `run`"),
    ] {
        let error = ticketed(ticket).unwrap_err().to_string();
        assert!(error.starts_with("line 3") && error.contains(says), "{ticket}: {error}");
    }
}

#[test]
fn a_schedule_is_a_cron_and_the_place_whose_clocks_count() {
    let plan = triggered("{ schedule: { cron: '30 2 * * mon-fri', time_zone: europe/berlin } }").unwrap();
    let by = plan.triggered_by.unwrap();
    let schedule = by.schedule.unwrap();
    assert_eq!((by.source, schedule.cron.as_str()), (Source::Schedule, "30 2 * * mon-fri"));
    assert_eq!(schedule.zone, "Europe/Berlin");
}
