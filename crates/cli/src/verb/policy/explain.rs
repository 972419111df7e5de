//! `countersign policy explain`: what policy would say about a workflow, step by step.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use api_types::{ExplainPolicy, Explained, ExplainedStep, PolicyFrom};
use client::ClientError;
use connectors::{Allow, Credential, HostRule, Settings, Toolbox, github, servicenow, slack};
use domain::id::InvalidId;
use domain::{Ruling, StepId, Verdict, WorkflowName};
use serde_json::{Value, json};

use crate::config;
use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use crate::input::{JsonSource, read_source};
use crate::verb::workflow::apply::in_file;
use views::table::indented;
use views::verdict as words;

use super::files::read_policy;
use super::origin::origin;

const EXAMPLES: &str = "\
Examples:
  countersign policy explain triage.yaml --input '{\"ticket\": \"INC-7\"}'
  countersign policy explain triage.yaml --step assign --output read='{\"group\": \"db\"}'
  countersign policy explain triage.yaml --policy policies/acme     before it is applied
  countersign policy explain triage --profile work                  the one in use there
  countersign policy explain triage.yaml --json | jq '.steps[] | {id, ruling, explanation}'

Nothing is run, and nothing outside is looked at: a change is judged as if every field it names
were to change. Where --config does not say which host a system has, its name ends in
`.invalid`; a server judges by the systems it has. Each step is judged as if all before it had been
allowed and done. What a step reads of an earlier one is not there yet; --output gives a sample of it.";

/// Show what policy would say about each step of a workflow, by which rule, in which file and line
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The workflow: a file, or the name of one that is in use
    #[arg(value_name = "FILE|NAME")]
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
    /// The systems outside, as for the worker; no credential is needed. A server knows its own
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
    let asked = Asked::read(&args.file)?;
    let policy = args.policy.as_deref().map(read_policy).transpose()?;
    let wish = ExplainPolicy {
        workflow: asked.name.clone(),
        source: asked.source.clone(),
        step: args.step.clone(),
        input: args.input.read("the run's input")?,
        outputs: outputs(&args.output)?,
        policy: policy.map(|bundle| bundle.files().clone()),
        ..ExplainPolicy::default()
    };
    let link = context.link_to_look(tools(args, context)?)?;
    let explained = link.client.explain(&wish).await.map_err(|error| asked.wrong(error, &args.file))?;
    context
        .answer(&text(&explained, args.policy.as_deref()), &to_json(&explained, args.policy.as_deref()))?;
    Ok(Ending::Done)
}

/// The workflow that is asked about.
struct Asked {
    /// The text of its file.
    source: Option<String>,
    /// Its name, if it is one in use.
    name: Option<WorkflowName>,
}

impl Asked {
    /// What was typed. A word without a dot that is no file is a name.
    fn read(typed: &Path) -> Result<Self, CliError> {
        let word = typed.to_str().filter(|text| !text.contains('.') && !typed.exists());
        if let Some(name) = word.and_then(|text| text.parse().ok()) {
            return Ok(Self { source: None, name: Some(name) });
        }
        Ok(Self { source: Some(read_source(typed)?), name: None })
    }

    /// Why there is no explanation.
    fn wrong(&self, error: ClientError, typed: &Path) -> CliError {
        match &self.source {
            // A policy that was sent has been read here before, so a place is one in the workflow.
            Some(source) if error.is("WORKFLOW_INVALID") => in_file(error, typed, source),
            None if error.is("NO_WORKFLOW") => CliError::Usage(format!(
                "{error}, and there is no such file; `workflow list` shows those in use"
            )),
            _ => error.into(),
        }
    }
}

/// The tools a worker has. None of them is told a secret, because none of them acts.
fn tools(args: &Args, context: &Context) -> Result<Toolbox, CliError> {
    if context.server()?.is_some() && (args.config.is_some() || !args.allow_host.is_empty()) {
        return Err(CliError::Usage(
            "a server judges by the systems it has; leave --config and --allow-host out".to_owned(),
        ));
    }
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

fn outputs(samples: &[Sample]) -> Result<BTreeMap<StepId, Value>, CliError> {
    let read = |Sample { step, output }: &Sample| {
        Ok((step.clone(), output.read(&format!("the output of step `{step}`"))?))
    };
    samples.iter().map(read).collect()
}

fn text(explained: &Explained, dir: Option<&Path>) -> String {
    let Explained { tenant, workflow, version, environment, policy, steps, .. } = explained;
    let from = match (&policy.from, dir) {
        (PolicyFrom::Sent, Some(dir)) => format!("in {}", dir.display()),
        (from, _) => origin(from, tenant),
    };
    let heading =
        format!("workflow {workflow}, version {version}, {environment}\npolicy   {}, {from}\n", policy.hash);
    let steps: String = steps.iter().map(step_text).collect();
    format!("{heading}{steps}")
}

fn step_text(step: &ExplainedStep) -> String {
    format!("\n{} ({})\n{}", step.id, step.tool, indented(&told(step), 2))
}

fn told(step: &ExplainedStep) -> String {
    let why = step.why.as_deref().unwrap_or_default();
    match (step.outcome.as_str(), &step.verdict) {
        ("judged", Some(verdict)) => judged(step, verdict),
        ("no_effect", _) => "changes nothing outside; policy is not asked".to_owned(),
        ("waits", _) => "waits for an event; policy is not asked".to_owned(),
        ("asks", _) => {
            let asks = words::ruling(&Ruling::NeedsApproval(step.demand.clone().unwrap_or_default()));
            format!("{asks}: the workflow itself asks; policy is not asked")
        }
        ("reads_outputs", _) => missing(step.missing.as_deref().unwrap_or_default()),
        ("unbound", _) => format!("not known: {why}\n--input and --output give what it reads"),
        ("refused", _) => format!("would fail before policy is asked: {why}"),
        ("out_of_time", _) => "not known: the steps before it took all the time there is".to_owned(),
        // A newer server tells of more.
        (other, _) => format!("{other} {why}"),
    }
}

fn missing(missing: &[StepId]) -> String {
    let names: Vec<_> = missing.iter().map(ToString::to_string).collect();
    let samples: Vec<_> = missing.iter().map(|step| format!("--output {step}=JSON")).collect();
    format!(
        "not known yet: it reads what {} gives, and that has not run\ngive a sample with {}",
        names.join(" and "),
        samples.join(" ")
    )
}

fn judged(step: &ExplainedStep, verdict: &Verdict) -> String {
    let target = step.action.as_ref().map_or("", |action| action.target.as_str());
    let head = [words::ruling(&verdict.ruling), format!("on       {target}")];
    let because = verdict.because.iter().map(|reason| format!("because  {}", words::reason(reason)));
    head.into_iter().chain(because).collect::<Vec<_>>().join("\n")
}

fn to_json(explained: &Explained, dir: Option<&Path>) -> Value {
    let mut json = json!(explained);
    if let Some(dir) = dir {
        json["policy"]["from"] = json!({ "directory": dir.display().to_string() });
    }
    json
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
