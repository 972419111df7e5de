//! One version of a workflow: its plan, its other versions, and forms to start a run and to evaluate policy.

use std::sync::Arc;

use api::ApiError;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use domain::plan::{PlannedStep, Validation, Work};
use domain::{AppliedWorkflow, Plan, Role, WorkflowName};
use maud::{Markup, html};
use serde_json::Value;
use store::Store;
use views::tool;
use workflow::CompiledPlan;

use super::dry_run::{self, DryRunForm, DryRunResult};
use super::start::{self, QueuedRun, StartForm, StartNotice, StartReply};
use super::trigger;
use crate::extract::{PathParams, SessionUser};
use crate::form::SessionForm;
use crate::layout::{self, MenuItem, Page, Stream, facts};
use crate::page_error::PageError;
use crate::text::{InlineText, MultilineText, optional_duration, relative_time};

/// A version of a workflow, with the list of all versions.
pub(super) struct WorkflowVersion {
    pub(super) applied: AppliedWorkflow,
    pub(super) plan: Arc<CompiledPlan>,
    /// Newest first.
    versions: Vec<AppliedWorkflow>,
    /// The current version.
    newest: u32,
}

impl WorkflowVersion {
    /// The version in the path; the current version if the path has none.
    async fn find<S: Store>(
        user: &SessionUser<S>,
        name: &str,
        version: Option<&str>,
    ) -> Result<Self, PageError> {
        let not_found = || PageError::not_found("workflow");
        let name = WorkflowName::new(name).map_err(|_| not_found())?;
        let handle = &user.handle;
        let (in_use, plan) = handle.applied(&name).await?;
        let (versions, newest) = (handle.versions(&name).await?, in_use.version);
        let (applied, plan) = match version {
            Some(version) => handle.version(&name, version.parse().map_err(|_| not_found())?).await?,
            None => (in_use, plan),
        };
        Ok(Self { applied, plan, versions, newest })
    }

    pub(super) fn address(&self) -> String {
        if self.is_in_use() {
            return format!("/workflows/{}", self.applied.workflow);
        }
        version_address(&self.applied)
    }

    pub(super) fn is_in_use(&self) -> bool {
        self.applied.version == self.newest
    }

    /// The initial input of the forms: the workflow's sample, or an empty object.
    pub(super) fn sample(&self) -> String {
        self.plan.plan().sample.as_ref().map_or_else(|| "{}".to_owned(), pretty)
    }
}

fn version_address(applied: &AppliedWorkflow) -> String {
    format!("/workflows/{}/versions/{}", applied.workflow, applied.version)
}

pub(crate) async fn show<S: Store>(
    user: SessionUser<S>,
    PathParams(name): PathParams<String>,
) -> Result<Response, PageError> {
    let shown = WorkflowVersion::find(&user, &name, None).await?;
    render(&user, &shown, &FormResult::None)
}

pub(crate) async fn show_version<S: Store>(
    user: SessionUser<S>,
    PathParams((name, version)): PathParams<(String, String)>,
) -> Result<Response, PageError> {
    let shown = WorkflowVersion::find(&user, &name, Some(&version)).await?;
    render(&user, &shown, &FormResult::None)
}

/// A dry run of the current version.
pub(crate) async fn dry_run_form<S: Store>(
    PathParams(name): PathParams<String>,
    SessionForm { user, form }: SessionForm<S, DryRunForm>,
) -> Result<Response, PageError> {
    let shown = WorkflowVersion::find(&user, &name, None).await?;
    render_dry_run(&user, &shown, form).await
}

/// A dry run of another version.
pub(crate) async fn dry_run_version<S: Store>(
    PathParams((name, version)): PathParams<(String, String)>,
    SessionForm { user, form }: SessionForm<S, DryRunForm>,
) -> Result<Response, PageError> {
    let shown = WorkflowVersion::find(&user, &name, Some(&version)).await?;
    render_dry_run(&user, &shown, form).await
}

async fn render_dry_run<S: Store>(
    user: &SessionUser<S>,
    shown: &WorkflowVersion,
    form: DryRunForm,
) -> Result<Response, PageError> {
    let dry_run = dry_run::evaluate(user, shown, &form).await?;
    render(user, shown, &FormResult::DryRun(form, Box::new(dry_run)))
}

/// Starts a run of the current version and redirects to it. While the run is queued it has no page, so this page is shown.
pub(crate) async fn start<S: Store>(
    PathParams(name): PathParams<String>,
    SessionForm { mut user, form }: SessionForm<S, StartForm>,
) -> Result<Response, PageError> {
    user.require_role(Role::Operator)?;
    let shown = WorkflowVersion::find(&user, &name, None).await?;
    let result = match start::start(&user, &shown, &form).await {
        Ok(StartReply::Run(run)) => return Ok(Redirect::to(&format!("/runs/{run}")).into_response()),
        Ok(StartReply::Queued(queued)) => FormResult::Queued(queued),
        Err(problem) if start::is_outcome_unknown(&problem) => {
            FormResult::Refused(form, problem.remedy(start::RETRY))
        }
        Err(problem) => FormResult::Refused(form, problem),
    };
    // Live updates fetch the page, not the address of the form.
    user.address = shown.address();
    render(&user, &shown, &result)
}

/// The result of the form that was sent.
enum FormResult {
    /// No form was sent.
    None,
    DryRun(DryRunForm, Box<DryRunResult>),
    /// No run was started.
    Refused(StartForm, ApiError),
    /// The run waits for another one.
    Queued(QueuedRun),
}

impl FormResult {
    fn error(&self) -> Option<&ApiError> {
        match self {
            Self::None | Self::Queued(_) => None,
            Self::DryRun(_, dry_run) => dry_run.as_ref().as_ref().err(),
            Self::Refused(_, problem) => Some(problem),
        }
    }

    fn status(&self) -> StatusCode {
        if matches!(self, Self::Queued(_)) {
            return StatusCode::ACCEPTED;
        }
        let status = self.error().map(|problem| StatusCode::from_u16(problem.status));
        status.and_then(Result::ok).unwrap_or(StatusCode::OK)
    }
}

fn render<S: Store>(
    user: &SessionUser<S>,
    shown: &WorkflowVersion,
    result: &FormResult,
) -> Result<Response, PageError> {
    let AppliedWorkflow { workflow, version, .. } = &shown.applied;
    let plan = shown.plan.plan();
    let head = html! {
        h1 { (workflow) " " span.soft { "v" (version) } }
        @if !shown.is_in_use() {
            p { "An earlier version. " a href={ "/workflows/" (workflow) } { "Version " (shown.newest) } " is the current version." }
        }
        (about(user, shown, plan))
    };
    let (dry_run_form, dry_run) = match result {
        FormResult::DryRun(form, dry_run) => (form, Some(&**dry_run)),
        FormResult::None | FormResult::Refused(..) | FormResult::Queued(_) => {
            (&DryRunForm::initial(shown), None)
        }
    };
    let (start_form, notice) = match result {
        FormResult::Refused(form, problem) => (form, StartNotice::Refused(problem)),
        FormResult::Queued(queued) => (&StartForm::initial(shown), StartNotice::Queued(queued)),
        FormResult::None | FormResult::DryRun(..) => (&StartForm::initial(shown), StartNotice::None),
    };
    let live = html! {
        (start::section(user, shown, start_form, notice)?)
        (steps(plan))
        (versions(user, shown))
        (dry_run::section(user, shown, dry_run_form, dry_run))
    };
    let title = format!("{workflow} v{version}");
    let page = Page {
        title: &title,
        menu_item: MenuItem::Workflows,
        stream: Stream::None,
        head,
        live,
        foot: html! {},
    };
    let page = Html(layout::page(user, &page).into_string());
    Ok((result.status(), page).into_response())
}

fn versions<S: Store>(user: &SessionUser<S>, shown: &WorkflowVersion) -> Markup {
    html! {
        section aria-labelledby="versions" {
            h2 #versions { "Versions" }
            p.soft { "All applied versions, newest first. A run keeps the version it started with." }
            table.cards {
                thead { tr {
                    th scope="col" { "Version" } th scope="col" { "Applied" } th scope="col" { "By" } th scope="col" { "Plan" }
                } }
                tbody { @for applied in &shown.versions { tr {
                    td data-label="Version" {
                        a href=(version_address(applied)) aria-current=[is_current_page(applied, shown)] { (applied.version) }
                        @if applied.version == shown.newest { " " span.soft { "current" } }
                    }
                    td data-label="Applied" { (relative_time(applied.at, user.handle.now())) }
                    td data-label="By" { (InlineText(&applied.by.id)) }
                    td data-label="Plan" { code title=(applied.plan) { (applied.plan.short()) } }
                } } }
            }
        }
    }
}

/// The value of `aria-current` for the version of this page.
fn is_current_page(applied: &AppliedWorkflow, shown: &WorkflowVersion) -> Option<&'static str> {
    (applied.version == shown.applied.version).then_some("page")
}

fn about<S: Store>(user: &SessionUser<S>, shown: &WorkflowVersion, plan: &Plan) -> Markup {
    let applied = &shown.applied;
    let validation = match plan.validation {
        Validation::PerStep => "every step with an effect",
        Validation::PerPhase => "once per phase",
        Validation::CriticalOnly => "critical steps only",
        Validation::FinalOnly => "the last step with an effect",
    };
    let author = plan.author.as_ref().map_or("unknown".to_owned(), ToString::to_string);
    facts(&[
        (
            if shown.is_in_use() { "Current version" } else { "Version" },
            html! { (applied.version) ", applied " (relative_time(applied.at, user.handle.now())) " by " (InlineText(&applied.by.id)) },
        ),
        ("Plan", html! { code title=(applied.plan) { (applied.plan.short()) } }),
        ("Environment", html! { (format!("{:?}", plan.environment).to_lowercase()) }),
        ("Author", html! { (author) }),
        ("Approval required for", html! { (validation) }),
        ("Trigger", html! { (trigger(applied)) }),
        ("Runs", html! { a href={ "/runs?workflow=" (applied.workflow) } { "View runs" } }),
    ])
}

fn steps(plan: &Plan) -> Markup {
    html! {
        section aria-labelledby="steps" {
            h2 #steps { "Steps" }
            table.cards {
                thead { tr {
                    th scope="col" { "Step" } th scope="col" { "Tool" } th scope="col" { "Definition" }
                    th scope="col" { "Blast radius" } th scope="col" { "Rollback" }
                } }
                tbody { @for (n, step) in plan.steps.iter().enumerate() { tr {
                    td data-label="Step" { span.soft.number { (n + 1) } " " (step.id) }
                    td data-label="Tool" { code { (tool(&step.work)) } }
                    td.long data-label="Definition" { (definition(step)) }
                    td data-label="Blast radius" { (step.blast_radius) @if step.critical { ", critical" } }
                    td data-label="Rollback" { @if step.rollback.is_some() { "defined" } @else { span.soft { "–" } } }
                } } }
            }
        }
    }
}

fn definition(step: &PlannedStep) -> Markup {
    html! {
        @match &step.work {
            Work::Call(call) => details { summary { "tool call" } pre tabindex="0" { code { (MultilineText(&pretty(&call.with))) } } },
            Work::Wait { event, timeout, .. } => { "waits for " code { (event) } ", at most " (optional_duration(Some(*timeout))) }
            Work::Gate { message, .. } => { "requests approval: " (InlineText(message)) }
        }
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}
