//! The incident, the model's proposal and the approval request in Slack.

use domain::money::money;
use domain::{Approval, Ruling, RunKey, StepRecord, StepSeq, Subject, TenantId};
use fakes::servicenow::INCIDENT;
use fakes::slack::FakeMessage;
use serde_json::{Value, json};
use store::{BlobKind, Blobs as _};

use crate::demo::card;
use crate::demo::env::{DemoEnv, WorkerProcess};
use crate::demo::narrator::Narrator;
use crate::demo::verdict::{Check, check};
use crate::dev::TRIAGE as WORKFLOW;
use crate::error::CliError;

use super::{incident, render, wait_for_card};

/// The step that calls the model.
const TRIAGE: StepSeq = StepSeq(1);

pub(super) struct ApprovalRequest {
    pub(super) card: FakeMessage,
    pub(super) checks: Vec<Check>,
}

pub(super) async fn start(env: &DemoEnv, narrator: &mut Narrator) -> Result<RunKey, CliError> {
    narrator.section("An incident is open").await?;
    narrator.paragraph(&format!(
        "ServiceNow has an unassigned incident. This ServiceNow is a fake at {}, but workers use it over HTTP with a \
         password, like the real one:",
        env.systems.servicenow.url()
    ))?;
    narrator.block(&render(&incident(env)))?;
    narrator.paragraph("This workflow assigns it to the right team:")?;
    narrator.block(WORKFLOW)?;
    let file = env.write("triage.yaml", WORKFLOW)?;
    let run = env.start(&file, "demo:incident", json!({ "incident": INCIDENT })).await?;
    narrator.paragraph(&format!("ada starts a run: {}.", run.run))?;
    Ok(run)
}

/// The first worker advances the run until it needs an approval.
pub(super) async fn propose(
    env: &DemoEnv,
    narrator: &mut Narrator,
    run: &RunKey,
    worker: &WorkerProcess,
) -> Result<ApprovalRequest, CliError> {
    let message = wait_for_card(env, run, worker).await?;
    let snapshot = env.load(run).await?;
    narrator.section("A model proposes a change").await?;
    narrator.paragraph(&format!(
        "Worker A (process {}) executes the first two steps: it reads the incident and calls the model. The model \
         replies:",
        worker.pid()
    ))?;
    let triage = snapshot.view.steps.iter().find(|step| step.seq == TRIAGE);
    let triage = triage.ok_or_else(|| worker.failed("did not call the model"))?;
    narrator.block(&model_reply(env, &snapshot.view.record.key.tenant, triage).await?)?;
    narrator.section("Policy requires an approval").await?;
    let approval = snapshot.approval().ok_or_else(|| worker.failed("requested no approval"))?;
    narrator.paragraph("The next step changes production. Policy is evaluated before the step executes:")?;
    narrator.block(&ruling(approval))?;
    narrator.paragraph("The run waits and uses no worker. Slack shows this card to the approvers:")?;
    narrator.block(&card::text(&message))?;
    let rules: Vec<&str> = reasons(approval).iter().map(|reason| reason.rule.as_str()).collect();
    let writes = env.systems.servicenow.writes(INCIDENT);
    let checks = vec![
        check("a policy rule requires an approval", &rules, &vec!["prod-write"]),
        check("nothing changes before the approval", &writes, &0),
    ];
    Ok(ApprovalRequest { card: message, checks })
}

/// The reply of the model and its cost.
async fn model_reply(env: &DemoEnv, tenant: &TenantId, step: &StepRecord) -> Result<String, CliError> {
    let output = match &step.output {
        Some(domain::Payload::Inline(value)) => value.clone(),
        Some(domain::Payload::Blob(blob)) => {
            let bytes = env.engine.store().blob(BlobKind::Payloads, tenant, blob).await?.unwrap_or_default();
            serde_json::from_slice(&bytes).unwrap_or_default()
        }
        None => Value::Null,
    };
    let answer = &output["json"];
    let text = |name: &str| answer[name].as_str().unwrap_or("?").to_owned();
    let usage = step.usage.as_ref();
    let tokens = usage.map_or((0, 0), |usage| (usage.input_tokens, usage.output_tokens));
    Ok(format!(
        "group       {}\nurgency     {}\nconfidence  {}\nbecause     {}\ncost        {} tokens in, {} out, {}",
        text("group"),
        text("urgency"),
        answer["confidence"],
        text("because"),
        tokens.0,
        tokens.1,
        money(step.cost_microusd),
    ))
}

fn reasons(approval: &Approval) -> &[domain::Reason] {
    match &approval.subject {
        Subject::Action { verdict, .. } => &verdict.reasons,
        Subject::Question { .. } => &[],
    }
}

/// The verdict and the rules behind it.
fn ruling(approval: &Approval) -> String {
    let Subject::Action { verdict, .. } = &approval.subject else { return String::new() };
    let word = match &verdict.ruling {
        Ruling::Deny => "denied",
        Ruling::NeedsApproval(_) => "needs approval",
        Ruling::Allow => "allowed",
    };
    let line = |reason: &domain::Reason| {
        let place = match (&reason.file, reason.line) {
            (Some(file), Some(line)) => format!(" ({file}:{line})"),
            _ => " (built in)".to_owned(),
        };
        format!("  {}: {}{place}\n", reason.rule, reason.message)
    };
    let because: String = verdict.reasons.iter().map(line).collect();
    format!("verdict  {word}, policy {}\nrules\n{because}", verdict.policy.short())
}
