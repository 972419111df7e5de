//! `countersign demo`: the promise, shown to somebody who has read nothing else.
//!
//! Two acts. In the first an incident is handed over: a model proposes, policy asks for a person, a worker
//! process is killed after the change happened and before it was recorded, another takes over, and the change
//! has still happened once; evidence is verified, and everything is taken back. In the second the other side
//! gives no promise; nobody guesses, and a person decides. The demo ends well only if all of that was really so.

mod card;
mod desk;
mod http;
mod incident;
mod narrator;
mod second_act;
mod stage;
mod verdict;

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;

use serde_json::json;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use crate::screen;
use crate::stop::Stop;

use narrator::{Narrator, Telling};
use stage::Stage;

pub(crate) use incident::WORKFLOW as TRIAGE;

const EXAMPLES: &str = "\
Examples:
  countersign demo
  countersign demo --pause                   wait for Enter between the scenes
  countersign demo --keep /tmp/demo          keep the store, the evidence and the logs to look at
  countersign demo --json                    only the verdict

With --keep, the evidence is DIR/bundle and its public key DIR/bundle.pub, so that
`countersign bundle verify DIR/bundle` works.

Exit codes: 0 if everything that the demo claims was really so, 1 if not.";

/// What somebody who has seen the demo may want to do.
const NEXT: &str = "
    countersign demo --keep DIR    keeps the store, the evidence and the logs, to look at
    countersign dev                keeps it all running, to press the buttons yourself";

/// See a change in production proposed, approved, interrupted by a crash, proved and taken back
///
/// Takes less than ten seconds and needs nothing but this program: it starts and kills processes of its own, and
/// talks to a ServiceNow, a Slack and a model that it simulates on 127.0.0.1.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Play in this directory, which must be new or empty, and leave everything there
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Wait for Enter between the scenes
    #[arg(long)]
    pause: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<Ending, CliError> {
    let telling = telling(args.pause, context.json, io::stdin().is_terminal())?;
    let mut stop = Stop::listen()?;
    let stage = Stage::set(args.keep.as_deref(), context).await?;
    let mut narrator = Narrator::new(telling);
    // The workers are killed when they are dropped, so whoever stops the demo stops them, too.
    let played = tokio::select! {
        played = Box::pin(play(&stage, &mut narrator)) => Some(played),
        () = stop.asked() => None,
    };
    let directory = stage.directory.clone();
    drop(stage);
    if args.keep.is_none() && matches!(played, None | Some(Ok(true))) {
        // What cannot be removed is a few kilobytes among temporary files.
        let _ = std::fs::remove_dir_all(&directory);
    }
    match played.unwrap_or_else(|| Err(CliError::Demo("it was stopped by a signal".to_owned()))) {
        Ok(true) if args.keep.is_none() => {
            if !context.json {
                screen::text(NEXT)?;
            }
            Ok(Ending::Done)
        }
        Ok(held) => {
            if !context.json {
                screen::text(&format!("Everything is still in {}.", directory.display()))?;
            }
            Ok(Ending::done_if(held))
        }
        Err(error) => Err(error),
    }
}

/// How the story is told, if that can be.
fn telling(pause: bool, json: bool, terminal: bool) -> Result<Telling, CliError> {
    match (pause, json) {
        (false, false) => Ok(Telling::Straight),
        (false, true) => Ok(Telling::Silent),
        (true, true) => Err(CliError::Usage(
            "--pause stops between scenes, and --json tells none; leave one of them away".to_owned(),
        )),
        (true, false) if terminal => Ok(Telling::Paused),
        (true, false) => Err(CliError::Usage(
            "--pause waits for Enter, and standard input is not a terminal; leave --pause away".to_owned(),
        )),
    }
}

/// Plays both acts; says whether everything held.
async fn play(stage: &Stage, narrator: &mut Narrator) -> Result<bool, CliError> {
    prologue(stage, narrator)?;
    let mut checks = Box::pin(incident::play(stage, narrator)).await?;
    checks.extend(second_act::play(stage, narrator).await?);
    let holds = verdict::all_hold(&checks);
    narrator.title("The verdict")?;
    narrator.show(&verdict::text(&checks))?;
    narrator.say(if holds {
        "A model proposed, a person decided, and a worker died at the worst moment, twice. Nothing was lost, nothing \
         outside happened twice without a person having said so, and all of it can be proved. That is the promise."
    } else {
        "Something did not hold; that is a fault in this program. Please report it with the lines above."
    })?;
    if stage.context.json {
        screen::json(
            &json!({ "ok": holds, "checks": verdict::to_json(&checks), "directory": stage.directory }),
        )?;
    }
    Ok(holds)
}

fn prologue(stage: &Stage, narrator: &mut Narrator) -> Result<(), CliError> {
    narrator.title("Countersign: a change in production, and a worker killed in the middle of it")?;
    narrator.say(&format!(
        "Automation changes things in other systems, and more and more of what it does is proposed by a model. Three \
         questions follow: who agreed to this change, did it happen exactly once, and can that be proved and taken \
         back? This demo answers them with real processes, one of which is killed at the worst moment. All state is \
         in one SQLite file, {}.",
        stage.context.store.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_waited_for_who_cannot_press_enter() {
        assert_eq!(telling(true, false, true).unwrap(), Telling::Paused);
        let error = telling(true, false, false).unwrap_err().to_string();
        assert!(error.contains("not a terminal"), "{error}");
        assert!(telling(true, true, true).is_err());
    }
}
