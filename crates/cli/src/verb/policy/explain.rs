//! `countersign policy explain`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use api_types::{ExplainPolicy, ExplainResult, ExplainedStep, PolicyOrigin};
use client::ClientError;
use connectors::{HostAllowList, HostRule};
use domain::connection::ConnectionOptions;
use domain::id::InvalidId;
use domain::plan::Environment;
use domain::{Connection, ConnectionKind, ConnectionName, Ruling, StepId, Verdict, WorkflowName};
use serde_json::{Value, json};

use crate::context::{CommandTools, Context};
use crate::error::CliError;
use crate::input::read_config;
use crate::input::{JsonSource, read_source};
use crate::process::ExitStatus;
use crate::verb::workflow::apply::file_error;
use views::table::indented;
use views::verdict as words;

use super::files::read_policy;
use super::origin;

const EXAMPLES: &str = "\
Examples:
  countersign policy explain triage.yaml --input '{\"ticket\": \"INC-7\"}'
  countersign policy explain triage.yaml --step assign --output read='{\"group\": \"db\"}'
  countersign policy explain triage.yaml --policy policies/acme     use a policy before applying it
  countersign policy explain triage --profile work                  an applied workflow on a server
  countersign policy explain triage.yaml --json | jq '.steps[] | {id, ruling, explanation}'

The command executes nothing and reads no external system: it evaluates each change as if every
named field changed. For a system that --config does not describe, it uses a host name that ends
in `.invalid`; a server uses its own configuration. It evaluates each step as if all earlier steps
had succeeded. Use --output to supply a sample of an earlier step's output.";

/// Show the policy verdict for each step of a workflow, with rule, file and line
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A workflow file, or the name of an applied workflow
    #[arg(value_name = "FILE|NAME")]
    file: PathBuf,
    /// Only this step
    #[arg(long, value_name = "ID")]
    step: Option<StepId>,
    /// The input of the run: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON", default_value = "{}", allow_hyphen_values = true)]
    input: JsonSource,
    /// A sample of an earlier step's output: JSON or @FILE; repeatable
    #[arg(long, value_name = "STEP=JSON")]
    output: Vec<Sample>,
    /// Evaluate the policy in this directory [default: the tenant's policy]
    #[arg(long, value_name = "DIR")]
    policy: Option<PathBuf>,
    /// The configuration of external systems, as for the worker; credentials are not needed. Not available with a server
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Allow `http.request` to call this host in your network; repeatable. Not available with a server
    #[arg(long, value_name = "HOST[:PORT]")]
    allow_host: Vec<HostRule>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Sample {
    step: StepId,
    output: JsonSource,
}

#[derive(Debug, thiserror::Error)]
enum InvalidSample {
    #[error("expected STEP=JSON or STEP=@FILE, such as `read={{\"status\": 200}}` or `read=@file.json`")]
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

pub(super) async fn run(args: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    let workflow = WorkflowArgument::read(&args.file)?;
    let policy = args.policy.as_deref().map(read_policy).transpose()?;
    let request = ExplainPolicy {
        workflow: workflow.name.clone(),
        source: workflow.source.clone(),
        step: args.step.clone(),
        input: args.input.read("the run's input")?,
        outputs: outputs(&args.output)?,
        policy: policy.map(|bundle| bundle.files().clone()),
        ..ExplainPolicy::default()
    };
    let session = context.connect_read_only(tools(args, context)?)?;
    let explained = session.client.explain(&request).await;
    let explained = explained.map_err(|error| workflow.explain_error(error, &args.file))?;
    let dir = args.policy.as_deref();
    context.print(&text(&explained, dir), &to_json(&explained, dir))?;
    Ok(ExitStatus::Success)
}

/// The argument FILE|NAME.
struct WorkflowArgument {
    /// The text of the file.
    source: Option<String>,
    /// The name of an applied workflow.
    name: Option<WorkflowName>,
}

impl WorkflowArgument {
    /// An argument without a dot that is not a file is a name.
    fn read(argument: &Path) -> Result<Self, CliError> {
        let word = argument.to_str().filter(|text| !text.contains('.') && !argument.exists());
        if let Some(name) = word.and_then(|text| text.parse().ok()) {
            return Ok(Self { source: None, name: Some(name) });
        }
        Ok(Self { source: Some(read_source(argument)?), name: None })
    }

    fn explain_error(&self, error: ClientError, argument: &Path) -> CliError {
        match &self.source {
            // The policy was already checked here, so the location is in the workflow.
            Some(source) if error.is("WORKFLOW_INVALID") => file_error(error, argument, source),
            None if error.is("NO_WORKFLOW") => CliError::Usage(format!(
                "{error}, and no such file exists; list applied workflows with `workflow list`"
            )),
            _ => error.into(),
        }
    }
}

/// The tools of a worker, on the connections of its configuration and without credentials, because no tool is executed.
/// A kind without a connection gets one that exists for the explanation only, so that the environment of the workflow
/// decides.
fn tools(args: &Args, context: &Context) -> Result<CommandTools, CliError> {
    if context.server()?.is_some() && (args.config.is_some() || !args.allow_host.is_empty()) {
        return Err(CliError::Usage(
            "--config and --allow-host work on a store only: a server uses its own configuration; remove them"
                .to_owned(),
        ));
    }
    let mut parts = read_config(args.config.as_deref())?.connections_without_secrets()?;
    let operator = Arc::make_mut(&mut parts.operator);
    for kind in [ConnectionKind::ServiceNow, ConnectionKind::GitHub, ConnectionKind::Slack] {
        let of_tenant = operator.of(&context.tenant);
        if of_tenant.values().all(|connection| connection.kind != kind) {
            let connection = Connection {
                kind,
                base_url: format!("https://{kind}.invalid"),
                environment: Environment::Dev,
                credential: None,
                workspace: None,
                options: ConnectionOptions::default(),
                version: 0,
            };
            operator.shared.insert(ConnectionName::new(&kind.to_string())?, connection);
        }
    }
    let tools = connectors::standard_tools(HostAllowList { hosts: args.allow_host.clone() });
    Ok(CommandTools { tools, connections: parts })
}

fn outputs(samples: &[Sample]) -> Result<BTreeMap<StepId, Value>, CliError> {
    let read = |Sample { step, output }: &Sample| {
        Ok((step.clone(), output.read(&format!("the output of step `{step}`"))?))
    };
    samples.iter().map(read).collect()
}

fn text(explained: &ExplainResult, dir: Option<&Path>) -> String {
    let ExplainResult { tenant, workflow, version, environment, policy, steps, .. } = explained;
    let from = match (&policy.origin, dir) {
        (PolicyOrigin::Request, Some(dir)) => format!("in {}", dir.display()),
        (from, _) => origin(from, tenant),
    };
    let heading =
        format!("workflow {workflow}, version {version}, {environment}\npolicy   {}, {from}\n", policy.hash);
    let steps: String = steps.iter().map(step_text).collect();
    format!("{heading}{steps}")
}

fn step_text(step: &ExplainedStep) -> String {
    let rollback = if step.rollback { ", rollback" } else { "" };
    format!("\n{}{rollback} ({})\n{}", step.id, step.tool, indented(&outcome_text(step), 2))
}

fn outcome_text(step: &ExplainedStep) -> String {
    let why = step.reason.as_deref().unwrap_or_default();
    match (step.outcome.as_str(), &step.verdict) {
        ("evaluated", Some(verdict)) => verdict_text(step, verdict),
        ("no_effect", _) => "contacts no external system; policy is not evaluated".to_owned(),
        ("wait", _) => "waits for an event; policy is not evaluated".to_owned(),
        ("approval_gate", _) => {
            let requirement =
                words::ruling(&Ruling::NeedsApproval(step.requirement.clone().unwrap_or_default()));
            format!("{requirement}: required by the workflow; policy is not evaluated")
        }
        ("missing_outputs", _) => missing_text(step.missing.as_deref().unwrap_or_default()),
        ("missing_values", _) => {
            format!("unknown: {why}\nsupply the missing values with --input and --output")
        }
        ("refused", _) => format!("fails before policy is evaluated: {why}"),
        ("timed_out", _) => "unknown: the time limit was reached before this step".to_owned(),
        // A newer server may return more outcomes.
        (other, _) => format!("{other} {why}"),
    }
}

fn missing_text(missing: &[StepId]) -> String {
    let names: Vec<_> = missing.iter().map(ToString::to_string).collect();
    let samples: Vec<_> = missing.iter().map(|step| format!("--output {step}=JSON")).collect();
    format!(
        "unknown: it reads the output of {}; supply a sample with {}",
        names.join(" and "),
        samples.join(" ")
    )
}

fn verdict_text(step: &ExplainedStep, verdict: &Verdict) -> String {
    let target = step.action.as_ref().map_or("", |action| action.target.as_str());
    let head = [words::ruling(&verdict.ruling), format!("target   {target}")];
    let because = verdict.reasons.iter().map(|reason| format!("reason   {}", words::reason(reason)));
    head.into_iter().chain(because).collect::<Vec<_>>().join("\n")
}

fn to_json(explained: &ExplainResult, dir: Option<&Path>) -> Value {
    let mut json = json!(explained);
    if let Some(dir) = dir {
        json["policy"]["origin"] = json!({ "directory": dir.display().to_string() });
    }
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_is_split_at_the_first_equal_sign() {
        let sample: Sample = "read={\"a\": \"b=c\"}".parse().unwrap();
        assert_eq!(sample.step.as_str(), "read");
        assert_eq!(sample.output, JsonSource::Literal("{\"a\": \"b=c\"}".to_owned()));
        assert!("read".parse::<Sample>().unwrap_err().to_string().contains("read=@file.json"));
        assert!("a b={}".parse::<Sample>().is_err());
    }
}
