//! `countersign connection test`.

use std::time::Duration;

use api_types::{Connection, Run};
use domain::{ConnectionName, RunKey, RunStatus};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::api_session::ApiSession;
use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;
use crate::progress::StatusLine;
use crate::random;

use super::show::not_found;

/// Longer than a test takes on a worker that is not busy.
const WAIT_MAX: Duration = Duration::from_mins(1);

const POLL_EVERY: Duration = Duration::from_millis(200);

const EXAMPLES: &str = "\
Examples:
  countersign connection test servicenow-prod
  countersign connection test servicenow-prod --config countersign.yaml    on a store without a server

A worker resolves the connection, fetches its credential and sends one request that changes nothing, in
a run of its own. Policy applies to it as to every read. A model, and PagerDuty, are only reached: each
request that needs their credential would cost something or page a person. Exit codes: 0 if the
connection works, 1 if not, 4 if no worker has tested it within a minute.";

/// Test a connection from a worker, without changing anything
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The name of the connection
    name: ConnectionName,
    /// Also use the connections in this configuration of the workers. Not available with a server
    #[arg(long, value_name = "FILE")]
    config: Option<std::path::PathBuf>,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    let name = &args.name;
    let session = context.connect_or_create_with(args.config.as_deref())?;
    let connection = session.client.connection(name).await.map_err(|error| not_found(error, name))?;
    let key = format!("connection-test:{}", random::hex::<16>()?);
    let started = session.client.test_connection(name, key).await?;
    let run = RunKey { tenant: session.tenant.clone(), run: started.run };
    let tested = wait_until_ended(&session, &run, context).await?;
    let report = Report::new(&connection, &tested);
    let text = format!("{}\n  run: {}\n", report.text(&connection), session.hints.run("show", &run));
    context.print(&text, &json!({ "connection": connection.name, "works": report.works, "run": tested }))?;
    Ok(report.exit_status())
}

/// Waits until the run has ended, needs a person, or a minute has passed.
async fn wait_until_ended(session: &ApiSession, run: &RunKey, context: &Context) -> Result<Run, CliError> {
    let mut status_line = StatusLine::new(context);
    let deadline = Instant::now() + WAIT_MAX;
    loop {
        let document = session.client.run(&run.run).await?;
        let has_stopped = document.status.is_terminal()
            || matches!(document.status, RunStatus::Paused | RunStatus::WaitingApproval);
        if has_stopped || Instant::now() >= deadline {
            return Ok(document);
        }
        status_line.set("waiting for a worker to test the connection");
        sleep(POLL_EVERY).await;
    }
}

struct Report {
    /// `None` if it has not been tested.
    works: Option<bool>,
    lines: Vec<String>,
}

impl Report {
    fn new(connection: &Connection, run: &Run) -> Self {
        let step = run.steps.first();
        match run.status {
            RunStatus::Succeeded => {
                let output = step.map(|step| &step.output);
                let text = |name: &str| output.and_then(|output| output[name].as_str()).unwrap_or("unknown");
                let authentication = match text("authentication") {
                    "accepted" => "ok      credential   fetched, and accepted",
                    "not refused" => "ok      credential   fetched, and not refused",
                    "none" => "ok      credential   none is configured",
                    _ => "ok      credential   fetched; not sent, because a request would cost or page",
                };
                let address = format!("ok      address      {} answered", text("host"));
                Self { works: Some(true), lines: vec![address, authentication.to_owned()] }
            }
            status if status.is_terminal() => {
                let failure = step.and_then(|step| step.failure.as_ref());
                let (code, message) =
                    failure.map_or(("FAILED", "see the run"), |failure| (&failure.code, &failure.message));
                let line = format!("failed  {:<12} {message} [{code}]", part(code));
                Self { works: Some(false), lines: vec![line] }
            }
            RunStatus::WaitingApproval => {
                let line = "waits   policy       requires an approval for this read".to_owned();
                Self { works: None, lines: vec![line] }
            }
            _ => {
                let name = &connection.name;
                let line = format!(
                    "waits   worker       no worker has tested {name} within {} s; start one with `countersign worker`",
                    WAIT_MAX.as_secs()
                );
                Self { works: None, lines: vec![line] }
            }
        }
    }

    fn text(&self, connection: &Connection) -> String {
        let Connection { name, kind, base_url, environment, .. } = connection;
        let connection = format!("connection {name}: {kind} {base_url} {environment}");
        let lines = self.lines.iter().map(|line| format!("  {line}"));
        std::iter::once(connection).chain(lines).collect::<Vec<_>>().join("\n")
    }

    fn exit_status(&self) -> ExitStatus {
        match self.works {
            Some(true) => ExitStatus::Success,
            Some(false) => ExitStatus::Failure,
            None => ExitStatus::Paused,
        }
    }
}

/// The part of the connection that a failure code is about.
fn part(code: &str) -> &'static str {
    match code {
        "CREDENTIAL_UNAVAILABLE" | "NOT_AUTHORIZED" => "credential",
        "HTTP_BLOCKED" | "HTTP_UNREACHABLE" | "HTTP_NO_REPLY" | "HTTP_STATUS" | "NOT_FOUND" => "address",
        "POLICY_DENIED" => "policy",
        _ => "connection",
    }
}
