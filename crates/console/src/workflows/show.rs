//! One version of a workflow: its plan, the versions beside it, a run of it, and a dry run.

use std::sync::Arc;

use api::Problem;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use domain::plan::{PlannedStep, Validation, Work};
use domain::{Applied, Blast, Plan, Role, WorkflowName};
use maud::{Markup, html};
use serde_json::Value;
use store::Store;
use views::tool;
use workflow::CompiledPlan;

use super::dry_run::{self, Sample, Tried};
use super::start::{self, Answer, Told, Waits, Wanted};
use super::started_by;
use crate::at::{Named, Visitor};
use crate::form::Sent;
use crate::layout::{self, Entry, Page, Stream, facts};
use crate::no::No;
use crate::text::{Lines, Seen, length, when};

/// A version of a workflow, among all of its versions.
pub(super) struct Shown {
    pub(super) applied: Applied,
    pub(super) plan: Arc<CompiledPlan>,
    /// The newest first.
    versions: Vec<Applied>,
    /// The version in use.
    newest: u32,
}

impl Shown {
    /// The version that an address names; the one in use, if it names none.
    async fn find<S: Store>(visitor: &Visitor<S>, name: &str, version: Option<&str>) -> Result<Self, No> {
        let unknown = || No::such("workflow");
        let name = WorkflowName::new(name).map_err(|_| unknown())?;
        let handle = &visitor.handle;
        let (in_use, plan) = handle.applied(&name).await?;
        let (versions, newest) = (handle.versions(&name).await?, in_use.version);
        let (applied, plan) = match version {
            Some(version) => handle.version(&name, version.parse().map_err(|_| unknown())?).await?,
            None => (in_use, plan),
        };
        Ok(Self { applied, plan, versions, newest })
    }

    /// Where this version is.
    pub(super) fn address(&self) -> String {
        if self.is_in_use() {
            return format!("/workflows/{}", self.applied.workflow);
        }
        version_address(&self.applied)
    }

    pub(super) fn is_in_use(&self) -> bool {
        self.applied.version == self.newest
    }

    /// An input to try it with: the one in the file, or an empty one to fill in.
    pub(super) fn sample(&self) -> String {
        self.plan.plan().sample.as_ref().map_or_else(|| "{}".to_owned(), pretty)
    }
}

fn version_address(applied: &Applied) -> String {
    format!("/workflows/{}/versions/{}", applied.workflow, applied.version)
}

pub(crate) async fn show<S: Store>(visitor: Visitor<S>, Named(name): Named<String>) -> Result<Response, No> {
    let shown = Shown::find(&visitor, &name, None).await?;
    render(&visitor, &shown, &Came::Nothing)
}

pub(crate) async fn show_version<S: Store>(
    visitor: Visitor<S>,
    Named((name, version)): Named<(String, String)>,
) -> Result<Response, No> {
    let shown = Shown::find(&visitor, &name, Some(&version)).await?;
    render(&visitor, &shown, &Came::Nothing)
}

/// A dry run of the version in use.
pub(crate) async fn try_out<S: Store>(
    Named(name): Named<String>,
    Sent { visitor, form }: Sent<S, Sample>,
) -> Result<Response, No> {
    let shown = Shown::find(&visitor, &name, None).await?;
    tried(&visitor, &shown, form).await
}

/// A dry run of another version.
pub(crate) async fn try_out_version<S: Store>(
    Named((name, version)): Named<(String, String)>,
    Sent { visitor, form }: Sent<S, Sample>,
) -> Result<Response, No> {
    let shown = Shown::find(&visitor, &name, Some(&version)).await?;
    tried(&visitor, &shown, form).await
}

async fn tried<S: Store>(visitor: &Visitor<S>, shown: &Shown, sample: Sample) -> Result<Response, No> {
    let tried = dry_run::tried(visitor, shown, &sample).await?;
    render(visitor, shown, &Came::Tried(sample, Box::new(tried)))
}

/// Starts a run of the version in use, and leads to it; to this page, as long as it waits for another run.
pub(crate) async fn start<S: Store>(
    Named(name): Named<String>,
    Sent { mut visitor, form }: Sent<S, Wanted>,
) -> Result<Response, No> {
    visitor.must_be(Role::Operator)?;
    let shown = Shown::find(&visitor, &name, None).await?;
    let came = match start::started(&visitor, &shown, &form).await {
        Ok(Answer::Run(run)) => return Ok(Redirect::to(&format!("/runs/{run}")).into_response()),
        Ok(Answer::Waits(waits)) => Came::Waits(waits),
        Err(problem) if start::leaves_open(&problem) => Came::Refused(form, problem.remedy(start::AGAIN)),
        Err(problem) => Came::Refused(form, problem),
    };
    // Nothing is fetched from where a form was sent to.
    visitor.address = shown.address();
    render(&visitor, &shown, &came)
}

/// What came of the form that somebody sent.
enum Came {
    /// Nobody sent one.
    Nothing,
    /// A dry run.
    Tried(Sample, Box<Tried>),
    /// No run was started.
    Refused(Wanted, Problem),
    /// The run waits for another one.
    Waits(Waits),
}

impl Came {
    /// Why nothing came of it.
    fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Nothing | Self::Waits(_) => None,
            Self::Tried(_, tried) => tried.as_ref().as_ref().err(),
            Self::Refused(_, problem) => Some(problem),
        }
    }

    fn status(&self) -> StatusCode {
        if matches!(self, Self::Waits(_)) {
            return StatusCode::ACCEPTED;
        }
        let status = self.problem().map(|problem| StatusCode::from_u16(problem.status));
        status.and_then(Result::ok).unwrap_or(StatusCode::OK)
    }
}

fn render<S: Store>(visitor: &Visitor<S>, shown: &Shown, came: &Came) -> Result<Response, No> {
    let Applied { workflow, version, .. } = &shown.applied;
    let plan = shown.plan.plan();
    let head = html! {
        h1 { (workflow) " " span.soft { "v" (version) } }
        @if !shown.is_in_use() {
            p { "An earlier version. " a href={ "/workflows/" (workflow) } { "Version " (shown.newest) } " is in use." }
        }
        (about(visitor, shown, plan))
    };
    let (sample, tried) = match came {
        Came::Tried(sample, tried) => (sample, Some(&**tried)),
        Came::Nothing | Came::Refused(..) | Came::Waits(_) => (&Sample::first(shown), None),
    };
    let (wanted, told) = match came {
        Came::Refused(wanted, problem) => (wanted, Told::Refused(problem)),
        Came::Waits(waits) => (&Wanted::first(shown), Told::Waits(waits)),
        Came::Nothing | Came::Tried(..) => (&Wanted::first(shown), Told::Nothing),
    };
    let live = html! {
        (start::section(visitor, shown, wanted, told)?)
        (steps(plan))
        (versions(visitor, shown))
        (dry_run::section(visitor, shown, sample, tried))
    };
    let title = format!("{workflow} v{version}");
    let page =
        Page { title: &title, under: Entry::Workflows, stream: Stream::None, head, live, foot: html! {} };
    let page = Html(layout::page(visitor, &page).into_string());
    Ok((came.status(), page).into_response())
}

fn versions<S: Store>(visitor: &Visitor<S>, shown: &Shown) -> Markup {
    html! {
        section aria-labelledby="versions" {
            h2 #versions { "Versions" }
            p.soft { "Every version that was put to use, the newest first. A run keeps the version it began with." }
            table.cards {
                thead { tr {
                    th scope="col" { "Version" } th scope="col" { "Put to use" } th scope="col" { "By" } th scope="col" { "Plan" }
                } }
                tbody { @for applied in &shown.versions { tr {
                    td data-label="Version" {
                        a href=(version_address(applied)) aria-current=[is_shown(applied, shown)] { (applied.version) }
                        @if applied.version == shown.newest { " " span.soft { "in use" } }
                    }
                    td data-label="Put to use" { (when(applied.at, visitor.handle.now())) }
                    td data-label="By" { (Seen(&applied.by.id)) }
                    td data-label="Plan" { code title=(applied.plan) { (applied.plan.short()) } }
                } } }
            }
        }
    }
}

/// Marks the version that the page is about.
fn is_shown(applied: &Applied, shown: &Shown) -> Option<&'static str> {
    (applied.version == shown.applied.version).then_some("page")
}

fn about<S: Store>(visitor: &Visitor<S>, shown: &Shown, plan: &Plan) -> Markup {
    let applied = &shown.applied;
    let validation = match plan.validation {
        Validation::PerStep => "every step with an effect",
        Validation::PerPhase => "once for each phase",
        Validation::CriticalOnly => "critical steps only",
        Validation::FinalOnly => "the last step with an effect only",
    };
    let author = plan.author.as_ref().map_or("not said".to_owned(), ToString::to_string);
    facts(&[
        (
            if shown.is_in_use() { "Version in use" } else { "Version" },
            html! { (applied.version) ", put to use " (when(applied.at, visitor.handle.now())) ", by " (Seen(&applied.by.id)) },
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
