//! A dry run: evaluates policy for one step or all steps without running anything.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::ApiError;
use domain::{Plan, Reason, Ruling, StepId, StepSeq};
use engine::{DryRun, DryRunRequest, EngineError, EvaluatedAction, StepForecast, TenantPolicy};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;
use store::Store;
use views::verdict::ruling;

use super::json;
use super::show::WorkflowVersion;
use crate::extract::SessionUser;
use crate::layout::token;
use crate::page_error::{PageError, notice};
use crate::runs::rule_source;
use crate::text::{InlineText, relative_time};

#[derive(Debug, Deserialize)]
pub(crate) struct DryRunForm {
    #[serde(default)]
    step: String,
    #[serde(default)]
    input: String,
    #[serde(default)]
    outputs: String,
}

impl DryRunForm {
    pub(super) fn initial(workflow: &WorkflowVersion) -> Self {
        Self { step: String::new(), input: workflow.sample(), outputs: "{}".to_owned() }
    }
}

pub(super) type DryRunResult = Result<DryRun, ApiError>;

/// Evaluates policy with the form's input. Nothing is run.
pub(super) async fn evaluate<S: Store>(
    user: &SessionUser<S>,
    workflow: &WorkflowVersion,
    form: &DryRunForm,
) -> Result<DryRunResult, PageError> {
    let request = match request(workflow, form) {
        Ok(request) => request,
        Err(problem) => return Ok(Err(problem)),
    };
    match user.handle.explain(request).await {
        Ok(explained) => Ok(Ok(explained)),
        Err(error @ (EngineError::BadInput { .. } | EngineError::Refused(_))) => Ok(Err(error.into())),
        Err(error) => Err(error.into()),
    }
}

fn request(workflow: &WorkflowVersion, form: &DryRunForm) -> Result<DryRunRequest, ApiError> {
    let plan = workflow.plan.plan();
    if !form.step.is_empty() {
        step_id(plan, &form.step)?;
    }
    Ok(DryRunRequest {
        plan: Arc::clone(&workflow.plan),
        trigger_kind: "api".to_owned(),
        input: json("the input", &form.input)?,
        outputs: outputs(plan, &form.outputs)?,
        policy: None,
    })
}

/// The outputs of earlier steps.
fn outputs(plan: &Plan, text: &str) -> Result<BTreeMap<StepId, Value>, ApiError> {
    let Value::Object(outputs) = json("the outputs", text)? else {
        return Err(ApiError::bad_request("the outputs must be an object with one field per step"));
    };
    outputs.into_iter().map(|(step, output)| Ok((step_id(plan, &step)?, output))).collect()
}

fn step_id(plan: &Plan, step: &str) -> Result<StepId, ApiError> {
    let found = plan.steps.iter().find(|known| known.id.as_str() == step);
    found
        .map(|found| found.id.clone())
        .ok_or_else(|| ApiError::bad_request("the workflow has no step of this name"))
}

/// The form and its result.
pub(super) fn section<S: Store>(
    user: &SessionUser<S>,
    workflow: &WorkflowVersion,
    form: &DryRunForm,
    dry_run: Option<&DryRunResult>,
) -> Markup {
    let plan = workflow.plan.plan();
    html! {
        section aria-labelledby="dry-run" {
            h2 #dry-run { "Dry run" }
            p.soft { "Evaluates policy for a run with this input, as if all earlier steps had succeeded. No step runs and no external system is called." }
            @if let Some(Err(problem)) = dry_run { (notice(problem)) }
            form.stack method="post" action={ (workflow.address()) "#dry-run" } {
                (token(user))
                label for="step" { "Step" }
                select #step name="step" {
                    option value="" { "all steps" }
                    @for step in &plan.steps {
                        option value=(step.id) selected[step.id.as_str() == form.step] { (step.id) }
                    }
                }
                label for="input" { "Input (JSON)" }
                textarea #input name="input" rows="5" spellcheck="false" { (form.input) }
                label for="outputs" { "Outputs of earlier steps (JSON object with one field per step)" }
                textarea #outputs name="outputs" rows="3" spellcheck="false" { (form.outputs) }
                button.primary type="submit" { "Evaluate" }
            }
            @if let Some(Ok(explained)) = dry_run { (outcome(user, plan, form, explained)) }
        }
    }
}

fn outcome<S: Store>(
    user: &SessionUser<S>,
    plan: &Plan,
    form: &DryRunForm,
    DryRun { tenant_policy, steps, rollbacks }: &DryRun,
) -> Markup {
    let selected = |step: &StepId| form.step.is_empty() || step.as_str() == form.step;
    html! {
        h3 { "Result" }
        (policy(user, tenant_policy))
        table.cards {
            thead { tr {
                th scope="col" { "Step" } th scope="col" { "Result" } th scope="col" { "Rule" } th scope="col" { "Source" }
            } }
            tbody { @for (seq, (step, step_forecast)) in (0_u16..).map(StepSeq).zip(plan.steps.iter().zip(steps)) {
                @if selected(&step.id) {
                    (row(step.id.as_str(), step_forecast))
                    @if let Some(rollback) = rollbacks.get(&seq) {
                        (row(&format!("{}, rollback", step.id), rollback))
                    }
                }
            } }
        }
    }
}

fn row(step: &str, step_forecast: &StepForecast) -> Markup {
    html! { tr {
        td data-label="Step" { (step) }
        td.long data-label="Result" { (forecast(step_forecast)) }
        td.long data-label="Rule" { (rules(step_forecast)) }
        td data-label="Source" { @for reason in reasons(step_forecast) { div { (rule_source(reason)) } } }
    } }
}

/// The policy that was evaluated.
fn policy<S: Store>(user: &SessionUser<S>, tenant_policy: &TenantPolicy) -> Markup {
    let hash = tenant_policy.hash();
    html! {
        p.soft {
            "Policy " code title=(hash) { (hash.short()) }
            @match (&tenant_policy.tenant.policy, &tenant_policy.tenant.policy_changed) {
                (None, _) => ", the built-in policy.",
                (Some(_), Some(changed)) => {
                    ", applied by " (InlineText(&changed.by.id)) " " (relative_time(changed.at, user.handle.now())) "."
                }
                (Some(_), None) => ", applied by the tenant.",
            }
        }
    }
}

fn reasons(step_forecast: &StepForecast) -> &[Reason] {
    match step_forecast {
        StepForecast::Evaluated(evaluated) => &evaluated.verdict.reasons,
        _ => &[],
    }
}

/// The rules that decided the verdict, and the other rules that matched.
fn rules(step_forecast: &StepForecast) -> Markup {
    let reasons = reasons(step_forecast);
    html! {
        @for reason in reasons { div { code { (InlineText(&reason.rule)) } ": " (InlineText(&reason.message)) } }
        @for (rule, set) in matched_rules(step_forecast) {
            @if reasons.iter().all(|reason| reason.rule != rule) {
                div.soft { code { (InlineText(rule)) } " also matched (" (set) ")" }
            }
        }
    }
}

/// Every rule of the policy that matched, with its set.
fn matched_rules(step_forecast: &StepForecast) -> Vec<(&str, &'static str)> {
    let StepForecast::Evaluated(evaluated) = step_forecast else { return Vec::new() };
    let rules = evaluated.explanation.iter().flat_map(|explanation| &explanation.rules);
    rules.filter(|rule| rule.matched()).map(|rule| (rule.rule.as_str(), rule.set.name())).collect()
}

fn forecast(step_forecast: &StepForecast) -> Markup {
    html! {
        @match step_forecast {
            StepForecast::NoEffect => "Contacts no external system; policy is not evaluated.",
            StepForecast::WaitsForEvent => "Waits for an event; policy is not evaluated.",
            StepForecast::RequiresApproval(requirement) => { (ruling(&Ruling::NeedsApproval(requirement.clone()))) ": the workflow requests approval." }
            StepForecast::MissingOutputs(missing) => {
                "Unknown: it reads the output of "
                (missing.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")) "."
            }
            StepForecast::InvalidExpression(why) => { "Unknown: " (InlineText(why)) }
            StepForecast::Refused(why) => { "Fails before policy is evaluated: " (InlineText(why)) }
            StepForecast::TimedOut => "Unknown: the time limit of the dry run was reached.",
            StepForecast::Evaluated(evaluated) => (evaluated_action(evaluated)),
        }
    }
}

fn evaluated_action(EvaluatedAction { action, verdict, .. }: &EvaluatedAction) -> Markup {
    html! { strong { (ruling(&verdict.ruling)) } " on " (InlineText(&action.target)) }
}
