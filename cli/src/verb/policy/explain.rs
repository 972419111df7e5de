//! `countersign policy explain`: what policy would say about a workflow, step by step.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use connectors::{Allow, Credential, HostRule, Settings, Toolbox, github, servicenow, slack};
use domain::command::{Admit, admit};
use domain::id::InvalidId;
use domain::payload::Fingerprint;
use domain::plan::PlannedStep;
use domain::{IdempotencyKey, OpId, Plan, RunRecord, Stamp, StepId, Timestamp, WorkspaceId};
use serde_json::{Value, json};
use store::{Clock as _, SystemClock};
use workflow::CompiledPlan;

use crate::config;
use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use crate::input::{JsonSource, read_workflow};
use telling::table::indented;
use telling::tool;

use super::counting::Counting;
use engine::{Forecast, Foreseen, Judged};
use telling::verdict as words;

const EXAMPLES: &str = "\
Examples:
  countersign policy explain triage.yaml --input '{\"ticket\": \"INC-7\"}'
  countersign policy explain triage.yaml --step assign --output read='{\"group\": \"db\"}'
  countersign policy explain triage.yaml --policy policies/acme     before it is applied
  countersign policy explain triage.yaml --json | jq '.steps[] | {id, ruling, explanation}'

Nothing is run, and nothing outside is looked at: a change is judged as if every field it names
were to change. Where --config does not say which host a system has, its name ends in
`.invalid`. Each step is judged as if all before it had been allowed and done. What a step reads
of an earlier one is not there yet; --output gives a sample of it.";

/// Show what policy would say about each step of a workflow, by which rule, in which file and line
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The workflow
    file: PathBuf,
    /// Only this step
    #[arg(long, value_name = "ID")]
    step: Option<StepId>,
    /// The run's input: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON", default_value = "{}", allow_hyphen_values = true)]
    input: JsonSource,
    /// A sample of what an earlier step gives: JSON or @FILE; may be given several times
    #[arg(long, value_name = "STEP=JSON")]
    output: Vec<Sample>,
    /// Judge by the policy in this directory [default: the one that counts for the tenant]
    #[arg(long, value_name = "DIR")]
    policy: Option<PathBuf>,
    /// The systems outside, as for the worker; no credential is needed
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A host inside your network that `http.request` may call; may be given several times
    #[arg(long, value_name = "HOST[:PORT]")]
    allow_host: Vec<HostRule>,
}

/// A sample of what a step gives.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sample {
    step: StepId,
    output: JsonSource,
}

/// Why a text is no sample.
#[derive(Debug, thiserror::Error)]
enum InvalidSample {
    #[error("write the step, `=` and what it gives: `read={{\"status\": 200}}` or `read=@file.json`")]
    NoValue,
    #[error(transparent)]
    Step(#[from] InvalidId),
}

impl FromStr for Sample {
    type Err = InvalidSample;

    fn from_str(text: &str) -> Result<Self, InvalidSample> {
        let (step, output) = text.split_once('=').ok_or(InvalidSample::NoValue)?;
        let Ok(output) = output.parse();
        Ok(Self { step: step.parse()?, output })
    }
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<Ending, CliError> {
    let tools = tools(args)?;
    let plan = read_workflow(&args.file, &tools)?;
    if let Some(step) = &args.step {
        must_be_in(&plan, step)?;
    }
    let input = args.input.read("the run's input")?;
    let outputs = outputs(&plan, &args.output)?;
    let counting = Counting::find(args.policy.as_deref(), context).await?;
    let record = first_record(&plan, &input, context)?;
    let compiled = CompiledPlan::compile(plan.clone()).map_err(|error| CliError::Usage(error.to_string()))?;
    let forecast = Forecast {
        plan: &compiled,
        tools: &tools,
        tenant: &counting.tenant,
        bundle: &counting.bundle,
        record,
        trigger: Arc::new(input),
        outputs,
    };
    let foreseen = forecast.steps();
    let wanted = |step: &PlannedStep| args.step.as_ref().is_none_or(|id| *id == step.id);
    let steps: Vec<_> = plan.steps.iter().zip(&foreseen).filter(|(step, _)| wanted(step)).collect();
    context.answer(&text(&plan, &counting, &steps), &to_json(&plan, &counting, &steps))?;
    Ok(Ending::Done)
}

/// The tools a worker has. None of them is told a secret, because none of them acts.
fn tools(args: &Args) -> Result<Toolbox, CliError> {
    let config = config::read(args.config.as_deref())?;
    let said = config.settings(&|_| Some("not-needed-to-explain".to_owned()))?;
    let base = |text: &str| text.parse().ok();
    let credential = Credential::Nobody;
    let made_up = Settings {
        servicenow: base("https://servicenow.invalid")
            .map(|base| servicenow::Settings { base, credential: credential.clone() }),
        github: base("https://github.invalid")
            .map(|base| github::Settings { base, credential: credential.clone() }),
        slack: base("https://slack.invalid").map(|base| slack::Settings { base, credential }),
        model: None,
    };
    let settings = Settings {
        servicenow: said.servicenow.or(made_up.servicenow),
        github: said.github.or(made_up.github),
        slack: said.slack.or(made_up.slack),
        model: said.model,
    };
    Ok(connectors::standard(Allow { hosts: args.allow_host.clone() }, settings))
}

fn must_be_in(plan: &Plan, step: &StepId) -> Result<(), CliError> {
    if plan.seq_of(step).is_some() {
        return Ok(());
    }
    let steps: Vec<_> = plan.steps.iter().map(|step| step.id.as_str()).collect();
    Err(CliError::Usage(format!("the workflow has no step `{step}`; there are {}", steps.join(", "))))
}

fn outputs(plan: &Plan, samples: &[Sample]) -> Result<BTreeMap<StepId, Arc<Value>>, CliError> {
    let mut outputs = BTreeMap::new();
    for Sample { step, output } in samples {
        must_be_in(plan, step)?;
        let output = output.read(&format!("the output of step `{step}`"))?;
        outputs.insert(step.clone(), Arc::new(output));
    }
    Ok(outputs)
}

/// The run as it would be admitted, if it were started now by whoever asks.
fn first_record(plan: &Plan, input: &Value, context: &Context) -> Result<RunRecord, CliError> {
    let key = IdempotencyKey::new("explain").map_err(|error| CliError::Usage(error.to_string()))?;
    let wish = Admit {
        tenant: context.tenant.clone(),
        workspace: WorkspaceId::new("default")?,
        trigger_kind: "cli".to_owned(),
        record: None,
        key,
        input: Fingerprint::of(input),
    };
    let now: Timestamp = SystemClock.now();
    let stamp = Stamp { op: OpId::new("explain")?, now, by: context.by_user() };
    Ok(admit(wish, plan, stamp).record)
}

type Step<'a> = (&'a PlannedStep, &'a Foreseen);

fn text(plan: &Plan, counting: &Counting, steps: &[Step<'_>]) -> String {
    let heading = format!(
        "workflow {}, version {}, {}\npolicy   {}, {}\n",
        plan.workflow,
        plan.version,
        format!("{:?}", plan.environment).to_lowercase(),
        counting.hash(),
        counting.origin(),
    );
    let steps: String = steps.iter().map(|(step, foreseen)| step_text(step, foreseen)).collect();
    format!("{heading}{steps}")
}

fn step_text(step: &PlannedStep, foreseen: &Foreseen) -> String {
    format!("\n{} ({})\n{}", step.id, tool(&step.work), indented(&told(foreseen), 2))
}

fn told(foreseen: &Foreseen) -> String {
    match foreseen {
        Foreseen::NoEffect => "changes nothing outside; policy is not asked".to_owned(),
        Foreseen::Waits => "waits for an event; policy is not asked".to_owned(),
        Foreseen::Asks(demand) => {
            let asks = words::ruling(&domain::Ruling::NeedsApproval(demand.clone()));
            format!("{asks}: the workflow itself asks; policy is not asked")
        }
        Foreseen::Reads(missing) => {
            let sample = |step: &StepId| format!("--output {step}=JSON");
            let names: Vec<_> = missing.iter().map(ToString::to_string).collect();
            let samples: Vec<_> = missing.iter().map(sample).collect();
            format!(
                "not known yet: it reads what {} gives, and that has not run\ngive a sample with {}",
                names.join(" and "),
                samples.join(" ")
            )
        }
        Foreseen::Unbound(why) => format!("not known: {why}\n--input and --output give what it reads"),
        Foreseen::Refused(why) => format!("would fail before policy is asked: {why}"),
        Foreseen::Judged(judged) => judged_text(judged),
    }
}

fn judged_text(Judged { action, verdict, explanation }: &Judged) -> String {
    let because = verdict.because.iter().map(|reason| format!("because  {}", words::reason(reason)));
    let fault = explanation.as_ref().and_then(|explanation| explanation.fault.as_ref());
    let fault = fault.map(|fault| format!("fault    {fault}"));
    let head = [words::ruling(&verdict.ruling), format!("on       {}", action.target)];
    head.into_iter().chain(because).chain(fault).collect::<Vec<_>>().join("\n")
}

fn to_json(plan: &Plan, counting: &Counting, steps: &[Step<'_>]) -> Value {
    json!({
        "workflow": plan.workflow,
        "version": plan.version,
        "environment": plan.environment,
        "plan": plan.hash(),
        "tenant": counting.tenant.tenant,
        "policy": counting.to_json(),
        "steps": steps.iter().map(|(step, foreseen)| step_json(step, foreseen)).collect::<Value>(),
    })
}

fn step_json(step: &PlannedStep, foreseen: &Foreseen) -> Value {
    let mut said = match foreseen {
        Foreseen::NoEffect => json!({ "outcome": "no_effect" }),
        Foreseen::Waits => json!({ "outcome": "waits" }),
        Foreseen::Asks(demand) => json!({ "outcome": "asks", "demand": demand }),
        Foreseen::Reads(missing) => json!({ "outcome": "reads_outputs", "missing": missing }),
        Foreseen::Unbound(why) => json!({ "outcome": "unbound", "why": why }),
        Foreseen::Refused(why) => json!({ "outcome": "refused", "why": why }),
        Foreseen::Judged(judged) => json!({
            "outcome": "judged",
            "ruling": judged.verdict.ruling,
            "verdict": judged.verdict,
            "action": judged.action,
            "action_hash": judged.action.hash(),
            "explanation": judged.explanation,
        }),
    };
    said["id"] = step.id.to_string().into();
    said["tool"] = tool(&step.work).into();
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_names_its_step_and_may_hold_equal_signs() {
        let sample: Sample = "read={\"a\": \"b=c\"}".parse().unwrap();
        assert_eq!(sample.step.as_str(), "read");
        assert_eq!(sample.output, JsonSource::Literal("{\"a\": \"b=c\"}".to_owned()));
        assert!("read".parse::<Sample>().unwrap_err().to_string().contains("read=@file.json"));
        assert!("a b={}".parse::<Sample>().is_err());
    }
}
