//! `countersign demo`: a run from proposal to undo, with a worker killed on the way.
//!
//! In the first part, a model proposes to assign an incident and policy requires an approval. A worker is killed after
//! the change and before it is recorded; another worker takes over, and the change happens once. The evidence is
//! verified and the change is undone. In the second part, the external system offers no lookup; the run pauses, and an
//! operator decides. The demo checks every statement it prints and fails if one does not hold.

mod card;
mod env;
mod http;
mod incident;
mod narrator;
mod phone_call;
mod phone_service;
mod verdict;

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;

use serde_json::json;

use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;
use crate::screen;
use crate::shutdown::ShutdownSignal;

use env::DemoEnv;
use narrator::{NarrationMode, Narrator};

const EXAMPLES: &str = "\
Examples:
  countersign demo
  countersign demo --pause                   wait for Enter between sections
  countersign demo --keep /tmp/demo          keep the store, the evidence and the logs
  countersign demo --json                    print only the checks

With --keep, the evidence is DIR/bundle and its public key is DIR/bundle.pub. To verify it, run
`countersign bundle verify DIR/bundle`.

Exit codes: 0 if every check passes, 1 if one fails.";

const NEXT: &str = "
    countersign demo --keep DIR    run it again and keep the store, the evidence and the logs
    countersign dev                start a local environment and press the buttons yourself";

/// Show a run that is approved, interrupted by a crash, verified and undone
///
/// Takes less than ten seconds and needs no other software. It starts and kills its own worker processes and uses a
/// fake ServiceNow, Slack and model on 127.0.0.1.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Use this directory, which must be new or empty, and keep it
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Wait for Enter between sections
    #[arg(long)]
    pause: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<ExitStatus, CliError> {
    let mode = narration_mode(args.pause, context.json, io::stdin().is_terminal())?;
    let mut signals = ShutdownSignal::listen()?;
    let env = DemoEnv::create(args.keep.as_deref(), context).await?;
    let mut narrator = Narrator::new(mode);
    // Dropping the workers kills them, so a signal stops them too.
    let played = tokio::select! {
        played = Box::pin(play(&env, &mut narrator)) => Some(played),
        _ = signals.recv() => None,
    };
    let directory = env.directory.clone();
    drop(env);
    if args.keep.is_none() && matches!(played, None | Some(Ok(true))) {
        // On failure, a few kilobytes stay among the temporary files.
        let _ = std::fs::remove_dir_all(&directory);
    }
    match played.unwrap_or_else(|| Err(CliError::Demo("received a signal".to_owned()))) {
        Ok(true) if args.keep.is_none() => {
            if !context.json {
                screen::text(NEXT)?;
            }
            Ok(ExitStatus::Success)
        }
        Ok(passed) => {
            if !context.json {
                screen::text(&format!(
                    "The store, the evidence and the logs are in {}.",
                    directory.display()
                ))?;
            }
            Ok(ExitStatus::success_if(passed))
        }
        Err(error) => Err(error),
    }
}

fn narration_mode(pause: bool, json: bool, terminal: bool) -> Result<NarrationMode, CliError> {
    match (pause, json) {
        (false, false) => Ok(NarrationMode::Continuous),
        (false, true) => Ok(NarrationMode::Silent),
        (true, true) => {
            Err(CliError::Usage("--pause cannot be used with --json; remove one of them".to_owned()))
        }
        (true, false) if terminal => Ok(NarrationMode::Paused),
        (true, false) => Err(CliError::Usage(
            "--pause waits for Enter, but standard input is not a terminal; remove --pause".to_owned(),
        )),
    }
}

/// Runs both parts; returns whether every check passes.
async fn play(env: &DemoEnv, narrator: &mut Narrator) -> Result<bool, CliError> {
    introduce(env, narrator)?;
    let mut checks = Box::pin(incident::play(env, narrator)).await?;
    checks.extend(phone_call::play(env, narrator).await?);
    let holds = verdict::all_hold(&checks);
    narrator.title("Checks")?;
    narrator.block(&verdict::text(&checks))?;
    narrator.paragraph(if holds {
        "Two workers were killed in the middle of an effect. No run was lost, no effect happened twice, every change \
         in production was approved, and the evidence verifies."
    } else {
        "A check failed. This is a bug in Countersign; please report it with the output above."
    })?;
    if env.context.json {
        screen::json(
            &json!({ "ok": holds, "checks": verdict::to_json(&checks), "directory": env.directory }),
        )?;
    }
    Ok(holds)
}

fn introduce(env: &DemoEnv, narrator: &mut Narrator) -> Result<(), CliError> {
    narrator.title("Countersign: a change in production, interrupted by a crash")?;
    narrator.paragraph(&format!(
        "An automated change in production raises three questions: Who approved it? Did it happen exactly once? Can it \
         be proved and undone? This demo answers them with real worker processes, two of which are killed in the middle \
         of an effect. All state is in one SQLite file, {}.",
        env.context.store.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pause_requires_a_terminal() {
        assert_eq!(narration_mode(true, false, true).unwrap(), NarrationMode::Paused);
        let error = narration_mode(true, false, false).unwrap_err().to_string();
        assert!(error.contains("not a terminal"), "{error}");
        assert!(narration_mode(true, true, true).is_err());
    }
}
