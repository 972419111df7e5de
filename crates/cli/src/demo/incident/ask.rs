//! An incident, a model's proposal, and a question in Slack.

use domain::{Approval, Ruling, RunKey, StepRecord, StepSeq, Subject, TenantId};
use fakes::servicenow::INCIDENT;
use fakes::slack::Message;
use serde_json::{Value, json};
use store::{BlobKind, Blobs as _};
use views::money;

use crate::demo::card;
use crate::demo::narrator::Narrator;
use crate::demo::stage::{Stage, WorkerProcess};
use crate::demo::verdict::{Check, check};
use crate::error::CliError;

use super::{card_of, incident, shown};

/// The workflow. It is shown, so it is written to be read.
pub(crate) const WORKFLOW: &str = include_str!("../workflows/triage.yaml");

/// The step that asks the model.
const TRIAGE: StepSeq = StepSeq(1);

/// What people are asked.
pub(super) struct Asked {
    pub(super) card: Message,
    pub(super) checks: Vec<Check>,
}

pub(super) async fn begin(stage: &Stage, narrator: &mut Narrator) -> Result<RunKey, CliError> {
    narrator.scene("An incident").await?;
    narrator.say(&format!(
        "ServiceNow (simulated, but reached over HTTP and with a password, on {}) has an incident that nobody looks \
         after:",
        stage.world.servicenow.url()
    ))?;
    narrator.show(&shown(&incident(stage)))?;
    narrator.say("This workflow is to hand it to the right people:")?;
    narrator.show(WORKFLOW)?;
    let file = stage.write("triage.yaml", WORKFLOW)?;
    let run = stage.start(&file, "demo:incident", json!({ "incident": INCIDENT })).await?;
    narrator.say(&format!("ada starts a run of it: {}.", run.run))?;
    Ok(run)
}

/// The first worker goes as far as it may without a person.
pub(super) async fn propose(
    stage: &Stage,
    narrator: &mut Narrator,
    run: &RunKey,
    worker: &WorkerProcess,
) -> Result<Asked, CliError> {
    let message = card_of(stage, run, worker).await?;
    let seen = stage.look(run).await?;
    narrator.scene("A model proposes").await?;
    narrator.say(&format!(
        "Worker A, process {}, takes the run. It reads the incident and asks the model, which answers:",
        worker.process()
    ))?;
    let triage = seen.view.steps.iter().find(|step| step.seq == TRIAGE);
    let triage = triage.ok_or_else(|| worker.stuck("did not ask the model"))?;
    narrator.show(&said(stage, &seen.view.record.key.tenant, triage).await?)?;
    narrator.scene("Policy asks for a person").await?;
    let approval = seen.asked().ok_or_else(|| worker.stuck("asked nobody"))?;
    narrator.say("The next step would change production, so policy is asked before anything happens:")?;
    narrator.show(&ruling(approval))?;
    narrator.say("So the run waits, and worker A is free for others. In Slack, people see this card:")?;
    narrator.show(&card::text(&message))?;
    let rules: Vec<&str> = reasons(approval).iter().map(|reason| reason.rule.as_str()).collect();
    let writes = stage.world.servicenow.writes(INCIDENT);
    let checks = vec![
        check("a rule of the policy handed the change to a person", &rules, &vec!["prod-write"]),
        check("before anybody had said yes, nothing was changed", &writes, &0),
    ];
    Ok(Asked { card: message, checks })
}

/// What the model said, and what that cost.
async fn said(stage: &Stage, tenant: &TenantId, step: &StepRecord) -> Result<String, CliError> {
    let output = match &step.output {
        Some(domain::Payload::Inline(value)) => value.clone(),
        Some(domain::Payload::Blob(blob)) => {
            let bytes =
                stage.engine.store().blob(BlobKind::Payloads, tenant, blob).await?.unwrap_or_default();
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
        Subject::Action { verdict, .. } => &verdict.because,
        Subject::Question { .. } => &[],
    }
}

/// The verdict with the rules that led to it.
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
            _ => " (the runtime's own)".to_owned(),
        };
        format!("  {}: {}{place}\n", reason.rule, reason.says)
    };
    let because: String = verdict.because.iter().map(line).collect();
    format!("verdict  {word}, under policy {}\nbecause\n{because}", verdict.policy.short())
}
