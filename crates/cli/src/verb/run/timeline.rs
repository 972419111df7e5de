//! `countersign run timeline`: a run as bars over time.

use api_types::Run;
use domain::Event;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use crate::link::Link;
use crate::run_name::RunName;
use crate::screen;
use views::time;
use views::timeline::{Now, Row, Strokes, Timeline, chart, timeline_json};

/// Where there is no terminal to ask, a line that most of them can show.
const WIDTH_DEFAULT: u16 = 100;

const EXAMPLES: &str = "\
Examples:
  countersign run timeline RUN
  countersign run timeline RUN --plain             ASCII alone, for a ticket or a mail
  countersign run timeline RUN --json | jq '.steps[] | {id, bars}'

The chart is as wide as the terminal. If the chain of events is broken nothing is drawn, and the exit
code is 1.";

/// Draw a run over time: its steps, what they waited for, where they were tried again or taken over
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The run
    run: RunName,
    /// Draw with ASCII alone [default: where the terminal shows nothing else]
    #[arg(long)]
    plain: bool,
    /// Draw in this many columns [default: as many as the terminal has]
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(40..=1000))]
    width: Option<u16>,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<Ending, CliError> {
    let (link, run) = context.link_to(&args.run)?;
    // The run first: the chain is at least as new, and what it tells beyond that is told by it alone.
    let seen = link.client.run(&run.run).await.map_err(Link::about(&run))?;
    if !seen.chain.verified {
        let show = link.hints.run("show", &run);
        let why = format!("the chain of run {run} is broken, and nothing proves what it tells; see `{show}`");
        return Err(CliError::Refused(why));
    }
    let chain = link.chain(&run.run).await?;
    let events: Vec<Event> = chain.into_iter().map(|entry| entry.event).collect();
    let timeline = Timeline::told(rows(&seen), &events, &now(&seen));
    context.answer(&drawn(&timeline, args, context), &timeline_json(&timeline))?;
    Ok(Ending::Done)
}

fn rows(seen: &Run) -> Vec<Row> {
    seen.steps.iter().map(|step| Row::new(step.seq, step.id.as_str(), step.tool.as_str())).collect()
}

fn now(seen: &Run) -> Now {
    let lease = seen.steps.iter().find_map(|step| step.lease.as_ref());
    let held = lease.and_then(|lease| Some((lease.owner.to_string(), time::read(&lease.since)?)));
    Now { at: Link::now(), seq: seen.at, held }
}

fn drawn(timeline: &Timeline, args: &Args, context: &Context) -> String {
    let plain = args.plain || !context.surroundings.utf8;
    let strokes = if plain { Strokes::Plain } else { Strokes::Shaded };
    let width = args.width.or_else(screen::width).unwrap_or(WIDTH_DEFAULT);
    chart(timeline, width.into(), strokes)
}
