//! The second part: an effect that cannot be looked up or repeated. The run pauses, and an operator decides.

use domain::{RunKey, RunStatus};
use serde_json::json;

use crate::error::CliError;
use views::{RunSnapshot, run_text};

use super::env::DemoEnv;
use super::narrator::Narrator;
use super::phone_service::Count;
use super::verdict::{Check, check};

const WORKFLOW: &str = include_str!("call.yaml");

/// The endpoint of the interrupted request.
const PHONE: &str = "/phone-calls";

/// Runs the second part and returns its checks.
pub(super) async fn play(env: &DemoEnv, narrator: &mut Narrator) -> Result<Vec<Check>, CliError> {
    narrator.title("An effect that cannot be looked up")?;
    let run = kill(env, narrator).await?;
    let paused = pause(env, narrator, &run).await?;
    let canceled = decide(env, narrator, &run).await?;
    let counts: Vec<Count> = env.phone_service.counts(PHONE).into_iter().map(|(_, count)| count).collect();
    Ok(vec![
        check("the run pauses instead of repeating the call", &paused.view.record.status, &RunStatus::Paused),
        check("the phone got one request and rang once", &counts, &vec![Count { requests: 1, calls: 1 }]),
        check("an operator ends the run", &canceled.view.record.status, &RunStatus::Canceled),
        check("the chain of events is intact", &canceled.view.events.is_ok(), &true),
    ])
}

async fn kill(env: &DemoEnv, narrator: &mut Narrator) -> Result<RunKey, CliError> {
    narrator.section("A worker is killed during a phone call").await?;
    narrator.paragraph(
        "A worker can read the incident in ServiceNow to find out whether a change was made. Some systems have no such \
         lookup. The last step of this workflow rings a phone. Each request rings again, and the API of the phone \
         service cannot report past calls:",
    )?;
    narrator.block(WORKFLOW)?;
    let file = env.write("call-on-call.yaml", WORKFLOW)?;
    let phone_service = format!("http://{}", env.phone_service.address());
    let input = json!({ "ticket": "INC0010001", "phone_service": phone_service });
    let run = env.start(&file, "demo:call", input).await?;
    let reached = env.phone_service.withhold_response(PHONE);
    let worker = env.worker("worker-c")?;
    let pid = worker.pid();
    worker.wait_for_request(reached).await?;
    worker.kill().await?;
    narrator.paragraph(&format!(
        "The phone rings, and worker C (process {pid}) is killed before it gets the response."
    ))?;
    Ok(run)
}

async fn pause(env: &DemoEnv, narrator: &mut Narrator, run: &RunKey) -> Result<RunSnapshot, CliError> {
    let worker = env.worker("worker-d")?;
    env.wait_until(run, &worker, |record| record.status == RunStatus::Paused || record.status.is_terminal())
        .await?;
    worker.drain().await?;
    let snapshot = env.load(run).await?;
    narrator.section("Worker D pauses the run").await?;
    narrator.paragraph(
        "Worker D finds an intent without a result. The outcome is unknown: repeating the request may ring twice, and \
         skipping it may mean that the on-call engineer was not called. So worker D pauses the run for an operator. \
         `countersign run show` prints:",
    )?;
    narrator.block(&run_text(&snapshot))?;
    Ok(snapshot)
}

async fn decide(env: &DemoEnv, narrator: &mut Narrator, run: &RunKey) -> Result<RunSnapshot, CliError> {
    narrator.section("An operator decides").await?;
    narrator.paragraph("The operator checks the call log of the phone service:")?;
    narrator.block(&env.phone_service.table(PHONE))?;
    narrator.paragraph("The phone rang. So the operator cancels the run instead of retrying it:")?;
    let reason = "the phone rang";
    narrator.block(&format!("{} \\\n    --reason '{reason}'", env.context.hints().run("cancel", run)))?;
    env.engine.tenant_handle(&run.tenant, &env.context.by_user()).cancel(&run.run, reason).await?;
    let snapshot = env.load(run).await?;
    narrator.paragraph(&format!(
        "The run is {}. Its chain of events records who decided, when and why.",
        snapshot.view.record.status
    ))?;
    Ok(snapshot)
}
