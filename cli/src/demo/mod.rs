//! `countersign demo`: the promise, shown to somebody who has read nothing else.
//!
//! Two acts. In the first a real worker process is killed after a change outside happened and before it was
//! recorded; another process takes over, and the change has still happened once. In the second the other side
//! gives no such promise; nobody guesses, and a person decides. The demo ends well only if all of that was
//! really so.

mod desk;
mod first_act;
mod http;
mod narrator;
mod second_act;
mod stage;
mod verdict;

use std::path::PathBuf;

use serde_json::json;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use crate::screen;

use narrator::Narrator;
use stage::Stage;

const EXAMPLES: &str = "\
Examples:
  countersign demo
  countersign demo --keep /tmp/demo          keep the store, the workflows and the logs to look at
  countersign demo --json                    only the verdict

Exit codes: 0 if everything that the demo claims was really so, 1 if not.";

/// See a worker killed in the middle of a change, and the change happen once all the same
///
/// Takes about ten seconds and needs nothing but this program: it starts and kills processes of its own, and
/// talks to a small service of its own on 127.0.0.1.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Play in this directory, which must be new or empty, and leave everything there
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<Ending, CliError> {
    let stage = Stage::set(args.keep.as_deref(), context).await?;
    let mut narrator = Narrator::new(context.json);
    let played = play(&stage, &mut narrator).await;
    let directory = stage.directory.clone();
    drop(stage);
    match played {
        Ok(true) if args.keep.is_none() => {
            // What cannot be removed is a few kilobytes among temporary files.
            let _ = std::fs::remove_dir_all(&directory);
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

/// Plays both acts; says whether everything held.
async fn play(stage: &Stage, narrator: &mut Narrator) -> Result<bool, CliError> {
    prologue(stage, narrator)?;
    let mut checks = first_act::play(stage, narrator).await?;
    checks.extend(second_act::play(stage, narrator).await?);
    let holds = verdict::all_hold(&checks);
    narrator.title("The verdict")?;
    narrator.show(&verdict::text(&checks))?;
    narrator.say(if holds {
        "A worker died at the worst moment, twice. Nothing was lost, and nothing outside happened twice \
         without a person having said so. That is the promise."
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
    narrator.title("Countersign: a worker is killed in the middle of a change")?;
    narrator.say(
        "Automation changes things in other systems: it assigns a ticket, calls a person, restarts a database. \
         If the program doing so dies at the wrong moment, the change is either forgotten or made twice. This demo \
         kills a real process at exactly that moment, and looks at what is left.",
    )?;
    narrator.scene("The stage")?;
    narrator.say(&format!(
        "All state is in one SQLite file, {}. The outside world is a small service desk on {}: it counts what it is \
         asked to do, and what it really does.",
        stage.context.store.display(),
        stage.desk.address(),
    ))
}
