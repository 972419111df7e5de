//! The workflows in use, and what policy would say about them.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::Problem;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse as _, Response};
use domain::plan::{PlannedStep, Validation, Work};
use domain::{Applied, Blast, Plan, Ruling, WorkflowName};
use engine::{EngineError, Explain, Foreseen, Judged};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;
use store::Store;
use telling::tool;
use telling::verdict::ruling;
use workflow::CompiledPlan;

use crate::at::{Named, Visitor};
use crate::form::Sent;
use crate::layout::{self, Entry, Page, Stream, facts, token};
use crate::no::{No, notice};
use crate::runs::place;
use crate::text::{Lines, Seen, length, when};

/// A sample is typed or pasted; the API takes whole inputs.
const SAMPLE_BYTES_MAX: usize = 64 * 1024;

#[derive(Deserialize)]
pub(crate) struct Sample {
    #[serde(default)]
    input: String,
}

pub(crate) async fn list<S: Store>(visitor: Visitor<S>) -> Result<Html<String>, No> {
    let applied = visitor.desk.workflows().await?;
    let now = visitor.desk.now();
    let live = html! {
        @if applied.is_empty() {
            p.soft { "None is in use yet. " code { "countersign workflow apply FILE" } " puts one to use." }
        } @else {
            table.cards {
                thead { tr {
                    th scope="col" { "Workflow" } th scope="col" { "Version" } th scope="col" { "Started by" }
                    th scope="col" { "In use since" } th scope="col" { "Put to use by" }
                } }
                tbody { @for workflow in &applied { tr {
                    td data-label="Workflow" { a href={ "/workflows/" (workflow.workflow) } { (workflow.workflow) } }
                    td.number data-label="Version" { (workflow.version) }
                    td data-label="Started by" { (started_by(workflow)) }
                    td data-label="In use since" { (when(workflow.at, now)) }
                    td data-label="Put to use by" { (Seen(&workflow.by.id)) }
                } } }
            }
        }
    };
    let head = html! { h1 { "Workflows" } };
    let page = Page {
        title: "Workflows",
        under: Entry::Workflows,
        stream: Stream::None,
        head,
        live,
        foot: html! {},
    };
    Ok(Html(layout::page(&visitor, &page).into_string()))
}

fn started_by(workflow: &Applied) -> String {
    workflow.triggered_by.as_ref().map_or("people and programs".to_owned(), |by| by.source.to_string())
}

pub(crate) async fn show<S: Store>(visitor: Visitor<S>, Named(name): Named<String>) -> Result<Response, No> {
    let name = named(&name)?;
    render(&visitor, &name, "{}", None).await
}

/// A dry run: what would come of each step, with this input. Nothing is run.
pub(crate) async fn try_out<S: Store>(
    Named(name): Named<String>,
    Sent { visitor, form }: Sent<S, Sample>,
) -> Result<Response, No> {
    let name = named(&name)?;
    let foreseen = match sample(&form.input) {
        Ok(input) => match visitor.desk.explain(wish(visitor.desk.workflow(&name).await?, input)).await {
            Ok(explained) => Ok(explained.steps),
            Err(error @ (EngineError::BadInput { .. } | EngineError::Refused(_))) => Err(error.into()),
            Err(error) => return Err(error.into()),
        },
        Err(problem) => Err(problem),
    };
    render(&visitor, &name, &form.input, Some(foreseen)).await
}

fn wish(plan: Arc<CompiledPlan>, input: Value) -> Explain {
    Explain { plan, trigger_kind: "api".to_owned(), input, outputs: BTreeMap::new(), policy: None }
}

fn named(name: &str) -> Result<WorkflowName, No> {
    WorkflowName::new(name).map_err(|_| No::such("workflow"))
}

fn sample(text: &str) -> Result<Value, Problem> {
    if text.len() > SAMPLE_BYTES_MAX {
        return Err(Problem::bad_request(format!("a sample has at most {SAMPLE_BYTES_MAX} bytes")));
    }
    domain::json::parse(text.as_bytes()).map_err(|error| Problem::bad_request(format!("the sample: {error}")))
}

async fn render<S: Store>(
    visitor: &Visitor<S>,
    name: &WorkflowName,
    input: &str,
    foreseen: Option<Result<Vec<Foreseen>, Problem>>,
) -> Result<Response, No> {
    let applied = visitor.desk.workflows().await?.into_iter().find(|applied| applied.workflow == *name);
    let applied = applied.ok_or_else(|| No::such("workflow"))?;
    let compiled = visitor.desk.workflow(name).await?;
    let plan = compiled.plan();
    let (foreseen, problem) = match foreseen {
        Some(Ok(foreseen)) => (Some(foreseen), None),
        Some(Err(problem)) => (None, Some(problem)),
        None => (None, None),
    };
    let head = html! {
        h1 { (name) " " span.soft { "v" (applied.version) } }
        (about(visitor, &applied, plan))
    };
    let live = html! {
        (steps(plan))
        section aria-labelledby="dry-run" {
            h2 #dry-run { "Dry run" }
            p.soft { "What policy would say about each step of a run with this input, as if all before it had been done. Nothing is run, and nothing outside is looked at." }
            @if let Some(problem) = &problem { (notice(problem)) }
            form.stack method="post" action={ "/workflows/" (name) "#dry-run" } {
                (token(visitor))
                label for="input" { "Input, as JSON" }
                textarea #input name="input" rows="5" spellcheck="false" { (input) }
                button.primary type="submit" { "Try it out" }
            }
            @if let Some(foreseen) = &foreseen { (forecast(plan, foreseen)) }
        }
    };
    let page = Page {
        title: name.as_str(),
        under: Entry::Workflows,
        stream: Stream::None,
        head,
        live,
        foot: html! {},
    };
    let status = problem.and_then(|problem| StatusCode::from_u16(problem.status).ok());
    let page = Html(layout::page(visitor, &page).into_string());
    Ok((status.unwrap_or(StatusCode::OK), page).into_response())
}

fn about<S: Store>(visitor: &Visitor<S>, applied: &Applied, plan: &Plan) -> Markup {
    let validation = match plan.validation {
        Validation::PerStep => "every step with an effect",
        Validation::PerPhase => "once for each phase",
        Validation::CriticalOnly => "critical steps only",
        Validation::FinalOnly => "the last step with an effect only",
    };
    let author = plan.author.as_ref().map_or("not said".to_owned(), ToString::to_string);
    facts(&[
        (
            "Version in use",
            html! { (applied.version) ", since " (when(applied.at, visitor.desk.now())) ", by " (Seen(&applied.by.id)) },
        ),
        ("Plan", html! { code title=(applied.plan) { (applied.plan.short()) } }),
        ("Environment", html! { (format!("{:?}", plan.environment).to_lowercase()) }),
        ("Written by", html! { (author) }),
        ("People validate", html! { (validation) }),
        ("Started by", html! { (started_by(applied)) }),
        ("Runs", html! { a href={ "/runs?workflow=" (applied.workflow) } { "Runs of it" } }),
    ])
}

fn steps(plan: &Plan) -> Markup {
    html! {
        section aria-labelledby="steps" {
            h2 #steps { "Steps" }
            table.cards {
                thead { tr {
                    th scope="col" { "Step" } th scope="col" { "Tool" } th scope="col" { "What it is" }
                    th scope="col" { "Reach" } th scope="col" { "Taken back" }
                } }
                tbody { @for (n, step) in plan.steps.iter().enumerate() { tr {
                    td data-label="Step" { span.soft.number { (n + 1) } " " (step.id) }
                    td data-label="Tool" { code { (tool(&step.work)) } }
                    td.long data-label="What it is" { (described(step)) }
                    td data-label="Reach" { (reach(step.blast)) @if step.critical { ", critical" } }
                    td data-label="Taken back" { @if step.rollback.is_some() { "the workflow says how" } @else { span.soft { "–" } } }
                } } }
            }
        }
    }
}

fn reach(blast: Blast) -> &'static str {
    match blast {
        Blast::Low => "low",
        Blast::Medium => "medium",
        Blast::High => "high",
    }
}

fn described(step: &PlannedStep) -> Markup {
    html! {
        @match &step.work {
            Work::Call(call) => details { summary { "a call" } pre tabindex="0" { code { (Lines(&pretty(&call.with))) } } },
            Work::Wait { event, timeout, .. } => { "waits for " code { (event) } ", at most " (length(Some(*timeout))) }
            Work::Gate { message, .. } => { "asks people: " (Seen(message)) }
        }
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

fn forecast(plan: &Plan, foreseen: &[Foreseen]) -> Markup {
    html! {
        h3 { "What would come of it" }
        table.cards {
            thead { tr {
                th scope="col" { "Step" } th scope="col" { "What would come of it" } th scope="col" { "Rule" } th scope="col" { "Where it stands" }
            } }
            tbody { @for (step, foreseen) in plan.steps.iter().zip(foreseen) { tr {
                td data-label="Step" { (step.id) }
                td.long data-label="What would come of it" { (told(foreseen)) }
                td.long data-label="Rule" { @for reason in because(foreseen) { div { code { (Seen(&reason.rule)) } ": " (Seen(&reason.says)) } } }
                td data-label="Where it stands" { @for reason in because(foreseen) { div { (place(reason)) } } }
            } } }
        }
    }
}

fn because(foreseen: &Foreseen) -> &[domain::Reason] {
    match foreseen {
        Foreseen::Judged(judged) => &judged.verdict.because,
        _ => &[],
    }
}

fn told(foreseen: &Foreseen) -> Markup {
    html! {
        @match foreseen {
            Foreseen::NoEffect => "Changes nothing outside; policy is not asked.",
            Foreseen::Waits => "Waits for an event; policy is not asked.",
            Foreseen::Asks(demand) => { (ruling(&Ruling::NeedsApproval(demand.clone()))) ": the workflow itself asks." }
            Foreseen::Reads(missing) => {
                "Not known yet: it reads what "
                (missing.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")) " gives."
            }
            Foreseen::Unbound(why) => { "Not known: " (Seen(why)) }
            Foreseen::Refused(why) => { "Would fail before policy is asked: " (Seen(why)) }
            Foreseen::OutOfTime => "Not known: the steps before it took all the time there is.",
            Foreseen::Judged(judged) => (judged_told(judged)),
        }
    }
}

fn judged_told(Judged { action, verdict, .. }: &Judged) -> Markup {
    html! { strong { (ruling(&verdict.ruling)) } " on " (Seen(&action.target)) }
}
